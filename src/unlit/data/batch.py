"""From items to what a step sees: some sequences of one size, each changed as one, on the training device.

Shapes: b sequences, m frames each, h x w pixels. Frames are linear; what is masked may hold anything finite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from unlit.data.augment import SATURATED, exposed, painted, shaded
from unlit.data.camera import photographed
from unlit.data.dataset import Item
from unlit.data.exchange import drawn_partners, exchanged
from unlit.data.placing import placed
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.data.truth import LUMINOUS, Truth
from unlit.data.visit import Look, drawn_visit

UNCHANGED = AugmentSettings(flip=False, rotation=0.0, crop=0)
"""No augmentation."""

LEAST_METERED = 0.1
"""Surfaces are metered alone where they are more than this share of what is seen."""


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
    visits = [drawn_visit(*each, m, data, augment) for each in zip(items, draws, places, strict=True)]
    views = placed(items, visits, (data.window, data.window) if data.window is not None else None, device)
    looks = [visit.look for visit in visits]
    frames = torch.stack([view.frames for view in views])
    mask = torch.stack([view.mask for view in views])
    shining = _shining([view.truth for view in views], mask)
    patterns, lights = _patterns(looks, frames), _lights(looks, frames)
    frames = _colored(frames, looks, augment)
    frames = frames if patterns is None else frames * patterns
    truths = _followed([view.truth for view in views], looks, patterns, lights)
    if augment.exchange:
        frames, mask, truths = exchanged(frames, mask, truths, drawn_partners(draws, augment.exchange))
        shining = torch.zeros_like(shining)  # whose it was, is not told
    # Lamps have no common exposure; frames of a day have, and it stays.
    lamps = torch.tensor([item.one_light for item in items], device=device).reshape(-1, 1, 1, 1, 1)
    if any(item.one_light for item in items):
        lit = torch.where(lamps, exposed(frames, _metered(mask, shining, looks)), frames)
        truths = _exposed_truths(truths, frames, lit)
        frames = lit
    frames = frames if lights is None else frames * lights
    frames = frames * mask if data.masked_input else frames
    # As a camera keeps it: what is too bright is clipped and does not count, but is seen.
    clipped = frames.amax(2, keepdim=True) >= SATURATED
    if any(look.camera is not None for look in looks):
        frames = photographed(frames, [look.camera for look in looks])
        clipped = clipped | (frames.amax(2, keepdim=True) >= SATURATED)
    names = tuple(item.sequence.name for item in items)
    return Batch(frames.clamp(0, 1), mask & (~clipped | shining), names, _as_bright_as_seen(truths, shining))


def _shining(truths: list[Truth | None], mask: Tensor) -> Tensor:
    """Return where the truth is light itself (b, 1, 1, h, w): a clipped sky is a sky, and its reflectance is known."""
    unknown = mask.new_zeros(1, *mask.shape[-2:], dtype=torch.float32)
    parts = [unknown if truth is None or truth.reflectance is None else truth.reflectance for truth in truths]
    if all(part is unknown for part in parts):
        return torch.zeros_like(mask[:, :1])
    # In one stack: a step has dozens of sequences, and each operation is a launch.
    known = torch.stack([part.expand(3, -1, -1) for part in parts])
    return (known >= LUMINOUS).all(1, keepdim=True)[:, None]


def _as_bright_as_seen(truths: tuple[Truth | None, ...], shining: Tensor) -> tuple[Truth | None, ...]:
    """Return truths whose light is, where it shines itself (b, 1, 1, h, w), no more than can be seen of it.

    A clipped sky counts; but how much brighter than white it was nobody can tell, and squares of it would outweigh all
    that is lit.
    """
    both = [k for k, t in enumerate(truths) if t and t.reflectance is not None and t.shading is not None]
    if not both:
        return truths
    surface = torch.stack([cast(Tensor, cast(Truth, truths[k]).reflectance) for k in both])[:, None]
    light = _shadings(truths, both)
    return _with_shadings(
        truths, both, torch.where(_rows(shining, both), torch.minimum(light, SATURATED / surface.clamp_min(1)), light)
    )


def _rows(values: Tensor, of: list[int]) -> Tensor:
    """Return some rows. All are returned as they are: to say which, a GPU would have to be waited for."""
    return values if len(of) == len(values) else values[of]


def _shadings(truths: tuple[Truth | None, ...], of: list[int]) -> Tensor:
    """Return the shadings (n, m, 3, h, w) of some truths as one: each operation on one alone would be a launch."""
    return torch.stack([cast(Tensor, cast(Truth, truths[k]).shading) for k in of])


def _with_shadings(truths: tuple[Truth | None, ...], of: list[int], shadings: Tensor) -> tuple[Truth | None, ...]:
    """Return the truths, some of them with other shadings (n, m, 3, h, w)."""
    changed = dict(zip(of, shadings, strict=True))
    return tuple(replace(t, shading=changed[k]) if t and k in changed else t for k, t in enumerate(truths))


def _metered(mask: Tensor, shining: Tensor, looks: list[Look]) -> Tensor:
    """Return the pixels (b, m, 1, h, w) whose mean light is the exposure: all but the sky's where looks say so.

    Few of them beside a sky would make it as bright as anything.
    """
    if not any(look.metered for look in looks):
        return mask
    wanted = torch.tensor([look.metered for look in looks], device=mask.device).reshape(-1, 1, 1, 1, 1)
    surfaces = mask & ~shining
    share = surfaces.sum((2, 3, 4), keepdim=True) / mask.sum((2, 3, 4), keepdim=True)
    return torch.where(wanted & (share > LEAST_METERED), surfaces, mask)


def _exposed_truths(truths: tuple[Truth | None, ...], before: Tensor, after: Tensor) -> tuple[Truth | None, ...]:
    """Return the truths of frames (b, m, 3, h, w) that were only made brighter or darker, each by its own factor."""
    known = [k for k, t in enumerate(truths) if t and t.shading is not None]
    if not known:
        return truths
    factor = after.sum((2, 3, 4), keepdim=True) / before.sum((2, 3, 4), keepdim=True).clamp_min(1e-12)
    return _with_shadings(truths, known, _shadings(truths, known) * _rows(factor, known))


def _colored(frames: Tensor, looks: list[Look], settings: AugmentSettings) -> Tensor:
    """Return frames (b, m, 3, h, w) with other contrasts and colors."""
    if settings.contrast:
        gamma = torch.tensor([look.gamma for look in looks], device=frames.device).reshape(-1, 1, 1, 1, 1)
        frames = frames.clamp_min(0) ** gamma
    if settings.permute_channels or settings.hue or settings.white_balance:
        matrices = torch.from_numpy(np.stack([look.colors for look in looks])).to(frames.device)
        frames = (matrices[:, None] @ frames.flatten(-2)).reshape(frames.shape)
    return frames


def _patterns(looks: list[Look], frames: Tensor) -> Tensor | None:
    """Return the paint of all sequences (b, 1, 3, h, w), or None where none is painted."""
    if all(look.paint is None for look in looks):
        return None
    patterns = frames.new_ones(len(looks), 1, *frames.shape[2:])
    for k, look in enumerate(looks):
        if look.paint is not None:
            patterns[k, 0] = painted(look.paint, (frames.shape[3], frames.shape[4]), frames.device)
    return patterns


def _lights(looks: list[Look], frames: Tensor) -> Tensor | None:
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


def _followed(
    truths: list[Truth | None], looks: list[Look], patterns: Tensor | None, lights: Tensor | None
) -> tuple[Truth | None, ...]:
    """Return the truths after the same changes, those of several sequences as one."""
    known = {k: truth for k, truth in enumerate(truths) if truth is not None}
    surfaces = {k: t.reflectance for k, t in known.items() if t.reflectance is not None}
    if surfaces:
        gamma, colors = _look_tensors(looks, list(surfaces), next(iter(surfaces.values())).device)
        changed = torch.stack(list(surfaces.values())).clamp_min(0) ** gamma
        changed = (colors @ changed.flatten(2)).reshape(changed.shape)
        changed = changed if patterns is None else changed * patterns[list(surfaces), 0]
        for k, reflectance in zip(surfaces, changed, strict=True):
            known[k] = replace(known[k], reflectance=reflectance)
    shadings = {k: t.shading for k, t in known.items() if t.shading is not None}
    if shadings:
        gamma, colors = _look_tensors(looks, list(shadings), next(iter(shadings.values())).device)
        # Channels change places in the light too; white balance is the surface's, and gray light has no hue to mix.
        places = (colors / colors.sum(2, keepdim=True))[:, None]
        changed = torch.stack(list(shadings.values())).clamp_min(0) ** gamma[:, None]
        changed = (places @ changed.flatten(3)).reshape(changed.shape)
        changed = changed if lights is None else changed * lights[list(shadings)]
        for k, shading in zip(shadings, changed, strict=True):
            known[k] = replace(known[k], shading=shading)
    for k, truth in known.items():
        if looks[k].paint is not None:  # what people said of a surface does not hold of its paint
            known[k] = replace(truth, judgements=None)
    return tuple(known.get(k) for k in range(len(truths)))


def _look_tensors(looks: list[Look], chosen: list[int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the contrasts (n, 1, 1, 1) and color matrices (n, 3, 3) of the chosen looks."""
    gamma = torch.tensor([looks[k].gamma for k in chosen], device=device).reshape(-1, 1, 1, 1)
    return gamma, torch.from_numpy(np.stack([looks[k].colors for k in chosen])).to(device)
