"""The parts of sequences that visits see, in the light that they draw: sequences of one shape are worked on together.

Shapes: b sequences, k frames or lights each, of which m are seen, h x w pixels. On a GPU a batch costs by the number of
its operations, hardly by their size. So everything of a sequence that is a picture lies in the channels of one tensor
(frames, masks, truth), and sequences whose tensors have one shape go through each operation as one.

A sampled pixel is a mean of several. So that it stays reflectance times shading, the light R · S that leaves the
surface is what is mixed and sampled; divided by the sampled reflectance it is the shading.
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
    is_sampled = visits[0].theta is not None
    given = _given(items, device)
    # Before they are sampled: there are more lights than frames.
    lit = _lit(given, visits)
    m = lit.frames.shape[1]
    light, surface = lit.light, given.surface
    if is_sampled and surface.shape[1] and light.shape[1]:
        light = light * surface[:, None, :3]
    parts = [lit.frames, lit.mask.to(light.dtype), light, lit.known.to(light.dtype), surface]
    if is_sampled:
        flat = [part.flatten(1, -3) for part in parts]
        seen = _warped(torch.cat(flat, 1), visits, size or _size(surface))
        split = seen.split([part.shape[1] for part in flat], 1)
        parts = [values.reshape(*part.shape[:-2], *_size(seen)) for values, part in zip(split, parts, strict=True)]
    frames, mask, light, known, surface = parts
    # Of a mask rounding is forgiven, no more: a masked pixel among 10^5 would count.
    valid = (mask > 1 - 1e-5).expand(-1, m, -1, -1, -1)
    reflectance = surface[:, :3] * (surface[:, 3:] > WHOLLY_KNOWN) if surface.shape[1] else None
    shading = light * (known > WHOLLY_KNOWN) if light.shape[1] else None
    if is_sampled and reflectance is not None and shading is not None:
        base = reflectance[:, None]
        shading = torch.where(base > 0, shading / base.clamp_min(torch.finfo(base.dtype).tiny), 0)
    views = []
    for i, (item, visit) in enumerate(zip(items, visits, strict=True)):
        truth = None
        if item.truth is not None:
            part = None if shading is None or lit.shading_valid is None else (shading[i], lit.shading_valid[i])
            surface_seen = None if reflectance is None else reflectance[i]
            truth = _truth(item.truth, visit, size or _size(item.sequence.frames), surface_seen, part, device)
        views.append(View(frames[i], valid[i], truth))
    return views


@dataclass(frozen=True)
class _Pictures:
    """What there is of b sequences; of what is not known k is 0, or the surface has no channels."""

    frames: Tensor
    """(b, k, 3, h, w)."""
    mask: Tensor
    """(b, k, 1, h, w), or one for all frames."""
    light: Tensor
    """(b, k, 3, h, w): shadings."""
    known: Tensor
    """(b, k, 1, h, w) bool: where they are known."""
    shading_valid: Tensor | None
    """(b, k) bool: which frames have one."""
    surface: Tensor
    """(b, 4, h, w): reflectance, and one where it is known."""


def _given(items: list[Item], device: torch.device) -> _Pictures:
    """Return all of some sequences."""
    frames = _stacked([item.sequence.frames for item in items], device)
    mask = _stacked([item.sequence.mask for item in items], device)
    truths = [item.truth for item in items if item.truth is not None]
    surface, light = (frames.new_zeros(len(items), *shape, *_size(frames)) for shape in ((0,), (0, 3)))
    known, shading_valid = light[:, :, :1].bool(), None
    if truths and truths[0].reflectance is not None:
        reflectance = _stacked([t.reflectance for t in truths], device)
        surface = torch.cat([reflectance, _is_known(reflectance).to(reflectance.dtype)], 1)
    if truths and truths[0].shading is not None:
        light = _stacked([t.shading for t in truths], device)
        shading_valid = _stacked([t.shading_valid for t in truths], device)
        known = _is_known(light)
        if surface.shape[1]:
            # A surface that sends nothing is in the dark: no light there is known, and no gap in the truth.
            known = known | (~frames.any(-3, keepdim=True) & (surface[:, None, 3:] > 0))
    return _Pictures(frames, mask, light, known, shading_valid, surface)


def _stacked(tensors: list[Tensor | None] | list[Tensor], device: torch.device) -> Tensor:
    stacked = torch.stack([cast(Tensor, tensor).to(device, non_blocking=True) for tensor in tensors])
    return stacked.float() if stacked.dtype == torch.float16 else stacked


def _is_known(pictures: Tensor) -> Tensor:
    """Return where pictures (..., 3, h, w) are not black, so known: (..., 1, h, w)."""
    return pictures.amax(-3, keepdim=True) > 0


def _warped(pictures: Tensor, visits: list[Visit], size: tuple[int, int]) -> Tensor:
    """Return pictures (b, c, h, w) seen through the visits' thetas, as many times halved first as all of them need."""
    thetas = torch.stack([cast(Tensor, visit.theta) for visit in visits])
    for _ in range(halvings(thetas[0], _size(pictures), size)):
        pictures = halved(pictures)
    grid = affine_grid(thetas.to(pictures.device, pictures.dtype), [len(visits), 1, *size], align_corners=False)
    return grid_sample(pictures, grid, align_corners=False, padding_mode="zeros")


def _lit(given: _Pictures, visits: list[Visit]) -> _Pictures:
    """Return m frames of the k: chosen, or mixtures."""
    valid = given.shading_valid
    if visits[0].weights is not None:
        weights = torch.from_numpy(np.stack([cast(np.ndarray, v.weights) for v in visits])).to(given.frames.device)
        mask, light, known = given.mask.all(1, keepdim=True), given.light, given.known
        if valid is not None:
            # A mixture's shading is known, in a frame and at a pixel, if that of every light in it is.
            shines = (weights > 0).any(-1)
            valid = ~(shines & ~valid[:, None]).any(-1)
            unknown = _mixed(shines[..., None].to(light.dtype), (~known).to(light.dtype))
            light, known = _mixed(weights, light), unknown == 0
        return _Pictures(_mixed(weights, given.frames), mask, light, known, valid, given.surface)
    if visits[0].chosen is not None:
        chosen = torch.from_numpy(np.stack([cast(np.ndarray, v.chosen) for v in visits])).to(given.frames.device)
        rows = torch.arange(len(visits), device=given.frames.device)[:, None]
        frames, mask, light, known = given.frames[rows, chosen], given.mask[rows, chosen], given.light, given.known
        if valid is not None:
            light, known, valid = light[rows, chosen], known[rows, chosen], valid[rows, chosen]
        return _Pictures(frames, mask, light, known, valid, given.surface)
    return given


def _mixed(weights: Tensor, lights: Tensor) -> Tensor:
    """Return sums (b, m, c, h, w) of lights (b, k, c, h, w), weights (b, m, k, c), or (b, m, k, 1) for white ones."""
    shape = (*weights.shape[:2], *lights.shape[2:])
    if weights.shape[-1] == 1:
        return (weights[..., 0] @ lights.flatten(2)).reshape(shape)
    # Channel by channel: to bring them together first would copy all lights.
    sums = [weights[..., c] @ lights[:, :, c].flatten(2) for c in range(lights.shape[2])]
    return torch.stack(sums, 2).reshape(shape)


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
