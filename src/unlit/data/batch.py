"""From items to what a step sees: some sequences of one size, each changed as one, on the training device.

Shapes: b sequences, m frames each, h x w pixels. Frames are linear; what is masked may hold anything finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from unlit.data.augment import (
    SATURATED,
    Cells,
    drawn_colors,
    drawn_mixtures,
    drawn_paint,
    drawn_shade,
    drawn_stops,
    drawn_view,
    drawn_window,
    exposed,
    painted,
    shaded,
    warped,
    warped_mask,
)
from unlit.data.camera import CameraLook, drawn_look, photographed
from unlit.data.dataset import Item
from unlit.data.exchange import drawn_partners, exchanged
from unlit.data.illuminant import drawn_colored
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.data.truth import Truth

UNCHANGED = AugmentSettings(flip=False, rotation=0.0, crop=0)
"""No augmentation."""


@dataclass(frozen=True)
class Batch:
    """b sequences of m frames, ready for the network."""

    frames: Tensor
    """(b, m, 3, h, w) linear."""
    mask: Tensor
    """(b, m, 1, h, w) True = valid."""
    names: tuple[str, ...]
    truths: tuple[Truth | None, ...] = ()

    @property
    def count(self) -> int:
        """The number of frames."""
        return self.frames.shape[0] * self.frames.shape[1]


@dataclass(frozen=True)
class _View:
    """The part of one sequence that a visit sees, in m frames."""

    frames: Tensor
    mask: Tensor
    truth: Truth | None


@dataclass(frozen=True)
class _Look:
    """How a visit changes colors and light."""

    gamma: float
    colors: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    """(3, 3)."""
    paint: tuple[Cells, ...] | None
    shade: np.ndarray[tuple[int, ...], np.dtype[np.float32]] | None
    stops: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    """(m,)."""
    camera: CameraLook | None = None


def frame_count(items: list[Item], data: DataSettings, augment: AugmentSettings) -> int:
    """Return how many frames each sequence of a batch has: as many as allowed, but as all of them can give.

    Mixtures never run out.
    """
    endless = augment.mixtures > 0
    counts = [data.frames if item.one_light and endless else len(item.sequence.frames) for item in items]
    return min(data.frames, *counts)


def batch_of(
    items: list[Item],
    draws: list[Generator],
    places: list[Tensor],
    data: DataSettings,
    augment: AugmentSettings,
    device: torch.device,
) -> Batch:
    """Return the items as one batch on `device`, each changed by draws of its own.

    `places` (n, 2) are the rows and columns where each is valid, on the CPU, so that choosing a window needs no word
    from the device.
    """
    m = frame_count(items, data, augment)
    views, looks = [], []
    for item, draw, where in zip(items, draws, places, strict=True):
        view = _placed(item, draw, where, data, augment, device)
        views.append(_lit(view, item.one_light, m, draw, augment))
        looks.append(_drawn_look(draw, m, augment))
    frames = torch.stack([view.frames for view in views])
    mask = torch.stack([view.mask for view in views])
    patterns, lights = _patterns(looks, frames), _lights(looks, frames)
    frames = _colored(frames, looks, augment)
    frames = frames if patterns is None else frames * patterns
    truths = tuple(_followed(view.truth, k, looks[k], patterns, lights) for k, view in enumerate(views))
    if augment.exchange:
        frames, mask, truths = exchanged(frames, mask, truths, drawn_partners(draws, augment.exchange))
    # Lamps have no common exposure; frames of a day have, and it stays.
    lamps = torch.tensor([item.one_light for item in items], device=device).reshape(-1, 1, 1, 1, 1)
    if any(item.one_light for item in items):
        lit = torch.where(lamps, exposed(frames, mask), frames)
        truths = tuple(_exposed_truth(truth, *pair) for truth, *pair in zip(truths, frames, lit, strict=True))
        frames = lit
    frames = frames if lights is None else frames * lights
    frames = frames * mask if data.masked_input else frames
    # As a camera keeps it: what is too bright is clipped and does not count, but is seen.
    clipped = frames.amax(2, keepdim=True) >= SATURATED
    if any(look.camera is not None for look in looks):
        frames = photographed(frames, [look.camera for look in looks])
        clipped = clipped | (frames.amax(2, keepdim=True) >= SATURATED)
    names = tuple(item.sequence.name for item in items)
    return Batch(frames.clamp(0, 1), mask & ~clipped, names, truths)


def _placed(
    item: Item, draw: Generator, places: Tensor, data: DataSettings, settings: AugmentSettings, device: torch.device
) -> _View:
    """Return the part of the picture that this visit sees."""
    frames = item.sequence.frames.to(device, non_blocking=True)
    mask = item.sequence.mask.to(device, non_blocking=True)
    truth = None if item.truth is None else item.truth.to(device)
    size = (frames.shape[2], frames.shape[3])
    if data.window is not None:
        theta = drawn_window(draw, size, data.window, places, settings)
        size = (data.window, data.window)
    elif settings.flip or settings.rotation or settings.crop:
        theta = drawn_view(draw, size, settings)
    else:
        return _View(frames, mask, truth)
    if truth is not None:
        truth = truth.warped(theta, size)
    return _View(warped(frames, theta, size), warped_mask(mask, theta, size), truth)


def _lit(view: _View, one_light: bool, m: int, draw: Generator, settings: AugmentSettings) -> _View:
    """Return m frames: of the sequence's own, or mixtures of its lights."""
    k = len(view.frames)
    if one_light and settings.mixtures:
        drawn = drawn_mixtures(draw, k, m, settings)
        colored = drawn_colored(draw, drawn, settings.light_color) if settings.light_color else drawn[:, :, None]
        weights = torch.from_numpy(colored).to(view.frames.device)
        mask = view.mask.all(0, keepdim=True).expand(m, -1, -1, -1)
        return _View(_mixed(weights, view.frames), mask, _mixed_truth(weights, view.truth))
    if k == m:
        return view
    chosen = torch.from_numpy(np.sort(draw.permutation(k)[:m]))
    truth = None if view.truth is None else view.truth.frames(chosen.to(view.frames.device))
    index = chosen.to(view.frames.device)
    return _View(view.frames[index], view.mask[index], truth)


def _mixed(weights: Tensor, lights: Tensor) -> Tensor:
    """Return m pictures, sums of k (k, 3, h, w) with weights (m, k, 3), or (m, k, 1) for white lights."""
    m, k, channels = weights.shape
    if channels == 1:
        return (weights[:, :, 0] @ lights.reshape(k, -1)).reshape(m, *lights.shape[1:])
    mixed = weights.permute(2, 0, 1) @ lights.transpose(0, 1).flatten(2)
    return mixed.reshape(3, m, *lights.shape[2:]).transpose(0, 1)


def _mixed_truth(weights: Tensor, truth: Truth | None) -> Truth | None:
    """Return what is known of mixtures: their shading too, where that of every lamp is."""
    if truth is None or truth.shading is None or truth.shading_valid is None or not bool(truth.shading_valid.all()):
        return None if truth is None else truth.without_shading()
    shading = _mixed(weights, truth.shading)
    return replace(truth.without_shading(), shading=shading, shading_valid=truth.shading_valid.new_ones(len(shading)))


def _exposed_truth(truth: Truth | None, before: Tensor, after: Tensor) -> Truth | None:
    """Return the truth of frames (m, 3, h, w) that were only made brighter or darker, each by its own factor."""
    if truth is None or truth.shading is None:
        return truth
    factor = after.sum((1, 2, 3), keepdim=True) / before.sum((1, 2, 3), keepdim=True).clamp_min(1e-12)
    return replace(truth, shading=truth.shading * factor)


def _drawn_look(draw: Generator, m: int, settings: AugmentSettings) -> _Look:
    return _Look(
        math.exp(draw.uniform(-settings.contrast, settings.contrast)),
        drawn_colors(draw, settings),
        drawn_paint(draw) if draw.random() < settings.paint else None,
        drawn_shade(draw, m) if draw.random() < settings.shade else None,
        drawn_stops(draw, m, settings.exposure),
        drawn_look(draw) if settings.camera and draw.random() < settings.camera else None,
    )


def _colored(frames: Tensor, looks: list[_Look], settings: AugmentSettings) -> Tensor:
    """Return frames (b, m, 3, h, w) with other contrasts and colors."""
    if settings.contrast:
        gamma = torch.tensor([look.gamma for look in looks], device=frames.device).reshape(-1, 1, 1, 1, 1)
        frames = frames.clamp_min(0) ** gamma
    if settings.permute_channels or settings.hue or settings.white_balance:
        matrices = torch.from_numpy(np.stack([look.colors for look in looks])).to(frames.device)
        frames = (matrices[:, None] @ frames.flatten(-2)).reshape(frames.shape)
    return frames


def _patterns(looks: list[_Look], frames: Tensor) -> Tensor | None:
    """Return the paint of all sequences (b, 1, 3, h, w), or None where none is painted."""
    if all(look.paint is None for look in looks):
        return None
    patterns = frames.new_ones(len(looks), 1, *frames.shape[2:])
    for k, look in enumerate(looks):
        if look.paint is not None:
            patterns[k, 0] = painted(look.paint, (frames.shape[3], frames.shape[4]), frames.device)
    return patterns


def _lights(looks: list[_Look], frames: Tensor) -> Tensor | None:
    """Return what the lights are multiplied by, (b, m, 1, h, w) or (b, m, 1, 1, 1); None where by nothing."""
    stops = np.stack([look.stops for look in looks])
    lights = None if (stops == 1).all() else torch.from_numpy(stops).to(frames.device)[:, :, None, None, None]
    if all(look.shade is None for look in looks):
        return lights
    size = (frames.shape[3], frames.shape[4])
    fields = frames.new_ones(*frames.shape[:2], 1, *size)
    for k, look in enumerate(looks):
        if look.shade is not None:
            fields[k] = shaded(look.shade, size, frames.device)
    return fields if lights is None else fields * lights


def _followed(truth: Truth | None, k: int, look: _Look, patterns: Tensor | None, lights: Tensor | None) -> Truth | None:
    """Return the truth of sequence k after the same changes."""
    if truth is None:
        return None
    reflectance, shading = truth.reflectance, truth.shading
    if reflectance is not None:
        colors = torch.from_numpy(look.colors).to(reflectance.device)
        reflectance = torch.einsum("dc,chw->dhw", colors, reflectance.clamp_min(0) ** look.gamma)
        reflectance = reflectance if patterns is None else reflectance * patterns[k, 0]
    if shading is not None:
        # Channels change places in the light too; white balance is the surface's, and gray light has no hue to mix.
        places = torch.from_numpy(look.colors / look.colors.sum(1, keepdims=True)).to(shading.device)
        shading = torch.einsum("dc,mchw->mdhw", places, shading.clamp_min(0) ** look.gamma)
        shading = shading if lights is None else shading * lights[k]
    return replace(truth, reflectance=reflectance, shading=shading)
