"""The parts of sequences that visits see, in the light that they draw: sequences of one shape are worked on together.

Shapes: b sequences, k frames or lights each, of which m are seen, h x w pixels. On a GPU a batch costs by the number of
its operations, hardly by their size. So everything of a sequence that is a picture lies in the channels of one tensor
(frames, masks, truth), and sequences whose tensors have one shape go through each operation as one.

A sampled pixel is a mean of several. So that it stays reflectance times shading, the light R · S that leaves the
surface is what is sampled; divided by the sampled reflectance it is the shading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from unlit.data.augment import halved, halvings
from unlit.data.dataset import Item
from unlit.data.truth import WHOLLY_KNOWN, Truth
from unlit.data.visit import Visit


@dataclass(frozen=True)
class View:
    """What a visit sees, before colors are changed."""

    frames: Tensor
    """(m, 3, h, w)."""
    mask: Tensor
    """(m, 1, h, w)."""
    truth: Truth | None


def placed(items: list[Item], visits: list[Visit], size: tuple[int, int] | None, device: torch.device) -> list[View]:
    """Return what each visit sees, as pictures of `size` (h, w), or of the item's own."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for k, (item, visit) in enumerate(zip(items, visits, strict=True)):
        groups.setdefault(_kind(item, visit, size), []).append(k)
    views: list[View | None] = [None] * len(items)
    for members in groups.values():
        found = _together([items[k] for k in members], [visits[k] for k in members], size, device)
        for k, view in zip(members, found, strict=True):
            views[k] = view
    return cast(list[View], views)


def _kind(item: Item, visit: Visit, size: tuple[int, int] | None) -> tuple[object, ...]:
    """Return what sequences that are worked on together have in common."""
    frames, truth = item.sequence.frames, item.truth
    known = (None, None) if truth is None else (truth.reflectance is None, truth.shading is None)
    shrinking = None if visit.theta is None else halvings(visit.theta, _size(frames), size or _size(frames))
    lights = None if visit.weights is None else visit.weights.shape
    return (*frames.shape, *known, shrinking, lights, None if visit.chosen is None else len(visit.chosen))


def _size(frames: Tensor) -> tuple[int, int]:
    return frames.shape[-2], frames.shape[-1]


def _together(items: list[Item], visits: list[Visit], size: tuple[int, int] | None, device: torch.device) -> list[View]:
    """Return what visits of one kind see."""
    k = len(items[0].sequence.frames)
    is_sampled = visits[0].theta is not None
    pictures = _packed(items, device, leaving=is_sampled)
    if is_sampled:
        pictures = _warped(pictures, visits, size or _size(pictures))
    first = items[0].truth
    has_reflectance = first is not None and first.reflectance is not None
    has_shading = first is not None and first.shading is not None
    counts = [3 * k, k, 4 * has_reflectance, 4 * k * has_shading]
    frames, mask, surface, light = pictures.split(counts, 1)
    frames, light = frames.unflatten(1, (k, 3)), light.unflatten(1, (-1, 4))
    # Of a mask rounding is forgiven, no more: a masked pixel among 10^5 would count.
    valid = mask.unflatten(1, (k, 1)) > 1 - 1e-5
    reflectance = _known(surface) if has_reflectance else None
    shading_valid = None
    if has_shading:
        shading_valid = _stacked([item.truth.shading_valid for item in items if item.truth is not None], device)
    frames, valid, light, shading_valid = _lit(frames, valid, light, shading_valid, visits)
    shading = None
    if has_shading:
        shading = _known(light)
        if is_sampled and reflectance is not None:
            base = reflectance[:, None]
            shading = torch.where(base > 0, shading / base.clamp_min(torch.finfo(base.dtype).tiny), 0)
    views = []
    for i, (item, visit) in enumerate(zip(items, visits, strict=True)):
        truth = None
        if item.truth is not None:
            part = None if shading is None or shading_valid is None else (shading[i], shading_valid[i])
            surface_seen = None if reflectance is None else reflectance[i]
            truth = _truth(item.truth, visit, size or _size(item.sequence.frames), surface_seen, part, device)
        views.append(View(frames[i], valid[i], truth))
    return views


def _packed(items: list[Item], device: torch.device, *, leaving: bool) -> Tensor:
    """Return frames, masks, reflectance and shadings as channels (b, c, h, w), each truth with where it is known.

    With `leaving`, shadings are multiplied by the reflectance, where there is one.
    """
    frames = _stacked([item.sequence.frames for item in items], device)
    mask = _stacked([item.sequence.mask for item in items], device)
    parts = [frames.flatten(1, 2), mask.flatten(1, 2).to(frames.dtype)]
    truths = [item.truth for item in items if item.truth is not None]
    surface = None
    if truths and truths[0].reflectance is not None:
        surface = _stacked([t.reflectance for t in truths], device)
        parts.append(torch.cat([surface, _is_known(surface)], -3))
    if truths and truths[0].shading is not None:
        light = _stacked([t.shading for t in truths], device)
        known = _is_known(light)
        if surface is not None:
            # A surface that sends nothing is in the dark: no light there is known, and no gap in the truth.
            dark = (frames == 0).all(-3, keepdim=True) & (surface > 0).any(-3, keepdim=True)[:, None]
            known = known.maximum(dark.to(known.dtype))
            light = light * surface[:, None] if leaving else light
        parts.append(torch.cat([light, known], -3).flatten(1, 2))
    return torch.cat(parts, 1)


def _stacked(tensors: list[Tensor | None] | list[Tensor], device: torch.device) -> Tensor:
    stacked = torch.stack([cast(Tensor, tensor).to(device, non_blocking=True) for tensor in tensors])
    return stacked.float() if stacked.dtype == torch.float16 else stacked


def _is_known(pictures: Tensor) -> Tensor:
    """Return a channel (..., 1, h, w) that is one where pictures (..., 3, h, w) are not black, so known."""
    return (pictures > 0).any(-3, keepdim=True).to(pictures.dtype)


def _warped(pictures: Tensor, visits: list[Visit], size: tuple[int, int]) -> Tensor:
    """Return pictures (b, c, h, w) seen through the visits' thetas, as many times halved first as all of them need."""
    thetas = torch.stack([cast(Tensor, visit.theta) for visit in visits])
    for _ in range(halvings(thetas[0], _size(pictures), size)):
        pictures = halved(pictures)
    grid = affine_grid(thetas.to(pictures.device, pictures.dtype), [len(visits), 1, *size], align_corners=False)
    return grid_sample(pictures, grid, align_corners=False, padding_mode="zeros")


def _known(values: Tensor) -> Tensor:
    """Return pictures (..., 3, h, w) of (..., 4, h, w), black where the last channel says that part is not known."""
    return values[..., :3, :, :] * (values[..., 3:, :, :] > WHOLLY_KNOWN)


def _lit(
    frames: Tensor, mask: Tensor, light: Tensor, shading_valid: Tensor | None, visits: list[Visit]
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return m of k frames (b, k, 3, h, w), masks, lights and which frames have one: chosen, or mixtures.

    Lights are (b, k, 4, h, w), the last channel tells where they are known; without truth k is 0.
    """
    if visits[0].weights is not None:
        m = len(visits[0].weights)
        weights = torch.from_numpy(np.stack([cast(np.ndarray, v.weights) for v in visits])).to(frames.device)
        mask = mask.all(1, keepdim=True).expand(-1, m, -1, -1, -1)
        if shading_valid is not None:
            # A mixture's shading is known, in a frame and at a pixel, if that of every light in it is.
            shines = (weights > 0).any(-1)
            shading_valid = ~(shines & ~shading_valid[:, None]).any(-1)
            unknown = (light[:, :, 3] <= WHOLLY_KNOWN).to(light.dtype).flatten(2)
            known = (shines.to(light.dtype) @ unknown).reshape(len(light), m, 1, *light.shape[-2:]) == 0
            light = torch.cat([_mixed(weights, light[:, :, :3]), known.to(light.dtype)], 2)
        return _mixed(weights, frames), mask, light, shading_valid
    if visits[0].chosen is not None:
        chosen = torch.from_numpy(np.stack([cast(np.ndarray, v.chosen) for v in visits])).to(frames.device)
        rows = torch.arange(len(visits), device=frames.device)[:, None]
        frames, mask = frames[rows, chosen], mask[rows, chosen]
        if shading_valid is not None:
            light, shading_valid = light[rows, chosen], shading_valid[rows, chosen]
    return frames, mask, light, shading_valid


def _mixed(weights: Tensor, lights: Tensor) -> Tensor:
    """Return sums (b, m, 3, h, w) of lights (b, k, 3, h, w), weights (b, m, k, 3), or (b, m, k, 1) for white ones."""
    h, w = lights.shape[-2:]
    if weights.shape[-1] == 1:
        return (weights[..., 0] @ lights.flatten(2)).reshape(*weights.shape[:2], 3, h, w)
    mixed = weights.permute(0, 3, 1, 2) @ lights.transpose(1, 2).flatten(3)
    return mixed.transpose(1, 2).reshape(*weights.shape[:2], 3, h, w)


def _truth(
    truth: Truth,
    visit: Visit,
    size: tuple[int, int],
    reflectance: Tensor | None,
    shading: tuple[Tensor, Tensor] | None,
    device: torch.device,
) -> Truth:
    """Return what is known of a visit: its pictures as given, and the rest of the truth as seen through theta."""
    # Labels of shading are of the light that was, not of mixtures.
    classes = truth.shading_classes if visit.weights is None else None
    rest = Truth(judgements=truth.judgements, shading_classes=classes)
    if truth.judgements is not None or classes is not None:
        rest = rest.to(device)
        rest = rest if visit.theta is None else rest.warped(visit.theta, size)
    values, valid = (None, None) if shading is None else shading
    return replace(rest, reflectance=reflectance, shading=values, shading_valid=valid)
