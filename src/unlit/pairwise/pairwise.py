"""Which pixels of a sequence should agree, and how strongly: all that the energy needs to know of the images.

Shapes: m frames, h x w pixels, n valid pixels. It depends on the frames and their masks alone, so it is built once for
a sequence (and crop) and is constant in training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unlit.pairwise.bistochastic import TOLERANCE, Bistochastic
from unlit.pairwise.features import pixel_features
from unlit.pairwise.filtering import has_kernels
from unlit.pairwise.lattice import PermutohedralLattice
from unlit.pairwise.neighbors import (
    OFFSETS,
    NeighborPairs,
    at_scale,
    color_affinity,
    neighbor_pairs,
    shading_weight,
)
from unlit.pairwise.settings import FeatureScales, PairwiseSettings


class SortedPoints(NamedTuple):
    """The valid pixels sorted by simplex, as the kernels of a CUDA device take them; each (n,)."""

    places: Tensor
    """In (m, h, w); int32 where that will do, by which divisions are many times as quick."""
    scale: Tensor
    row_sums: Tensor


@dataclass(frozen=True)
class DensePairs:
    """Every valid pixel of every frame with every other, weighted by the bistochastic Ŵ = N W N."""

    lattice: PermutohedralLattice
    scaled: Bistochastic
    """N, and the row sums of Ŵ: 1, up to the tolerance of N."""
    pixels: Tensor | None
    """(n,) places of the valid pixels in (m, h, w); None where all are valid."""
    in_order: SortedPoints | None = None
    """The same again, sorted; None where no kernel asks for it."""


@dataclass(frozen=True)
class Pairwise:
    """All pairs of a sequence."""

    dense: DensePairs | None
    """For the reflectance; None where it has local pairs, or none at all."""
    local: list[NeighborPairs] | None
    """For the reflectance; None where it has dense pairs, or none at all."""
    shading: list[list[NeighborPairs]]
    """By scale, finest first, then by offset; empty where no smoothness is asked for."""


def build_pairwise(
    frames: Tensor, mask: Tensor, settings: PairwiseSettings | None = None, *, tolerance: float = TOLERANCE
) -> Pairwise:
    """Return the pairs of one sequence: linear `frames` (m, 3, h, w) with `mask` (m, 1, h, w), True = valid.

    The row sums of the dense ones are 1 up to twice the `tolerance`.
    """
    settings = settings or PairwiseSettings()
    if tuple(mask.shape) != (len(frames), 1, *frames.shape[2:]):
        raise ValueError(f"mask must be (m, 1, h, w) for frames of {tuple(frames.shape)}, not {tuple(mask.shape)}")
    mask = mask.bool()
    frames = torch.where(mask, frames.detach(), 0)  # what is masked may hold anything, NaN too
    near = neighbors_alone(frames, mask, settings, math.hypot(*frames.shape[-2:]))
    if settings.reflectance == "local":
        return near
    return Pairwise(dense_pairs(frames, mask, settings.scales, tolerance=tolerance), None, near.shading)


def neighbors_alone(frames: Tensor, mask: Tensor, settings: PairwiseSettings, diagonal: float) -> Pairwise:
    """Return the pairs of neighbors, without the dense ones.

    Masked pixels must be finite. `diagonal` is the picture's, in pixels: several may be laid out in one.
    """
    shading = _shading_pairs(frames, mask, settings, diagonal)
    local = _local_pairs(frames, mask, settings.scales) if settings.reflectance == "local" else None
    return Pairwise(None, local, shading)


def dense_pairs(
    frames: Tensor,
    mask: Tensor,
    scales: FeatureScales | None = None,
    sequence: Tensor | None = None,
    *,
    tolerance: float = TOLERANCE,
) -> DensePairs:
    """Return the pairs among all valid pixels of `frames` (m, 3, h, w).

    Frames of several sequences of one size may go together, in one lattice: `sequence` (m,) numbers them, and pixels
    pair with those of their own only.
    """
    m, _, h, w = frames.shape
    group = None if sequence is None else sequence.repeat_interleave(h * w)
    pixels = None
    if not bool(mask.all()):
        pixels = mask.reshape(-1).nonzero().squeeze(1)
        if not pixels.shape[0]:
            raise ValueError("every pixel of the sequence is masked; there is nothing to compare")
        group = None if group is None else group[pixels]
    features = _point_features(frames, pixels, scales or FeatureScales())
    lattice = PermutohedralLattice(features, group)
    del features  # twice the memory of the frames, and not needed for the scale
    scaled = lattice.bistochastic(tolerance=tolerance)
    return DensePairs(lattice, scaled, pixels, _sorted(scaled, pixels, m * h * w))


def _point_features(frames: Tensor, pixels: Tensor | None, scales: FeatureScales) -> Tensor:
    """Return the features (n, 5) of the valid pixels."""
    if frames.is_cuda and has_kernels():
        from unlit.pairwise import feature_kernels as kernels

        if kernels.fits(frames):
            return kernels.point_features(frames, pixels, scales)
    features = pixel_features(frames, scales).permute(0, 2, 3, 1).flatten(0, 2)
    return features if pixels is None else features[pixels]


def _sorted(scaled: Bistochastic, pixels: Tensor | None, places: int) -> SortedPoints | None:
    """Return the points in the order in which they were scaled, where that is not their own."""
    if scaled.order is None:
        return None
    dtype = torch.int32 if places < 2**31 else torch.int64
    order = scaled.order.to(dtype) if pixels is None else pixels.to(dtype)[scaled.order]
    return SortedPoints(order, scaled.ordered_scale, scaled.ordered_row_sums)


def _local_pairs(frames: Tensor, mask: Tensor, scales: FeatureScales) -> list[NeighborPairs]:
    return [neighbor_pairs(mask, offset, color_affinity(frames, offset, scales)) for offset in OFFSETS]


def _shading_pairs(
    frames: Tensor, mask: Tensor, settings: PairwiseSettings, diagonal: float
) -> list[list[NeighborPairs]]:
    if frames.is_cuda and has_kernels():
        from unlit.pairwise import neighbor_kernels as kernels

        if kernels.fits(frames):
            return kernels.shading_pairs(frames, mask, settings, diagonal)
    return [_pairs_at_scale(frames, mask, level, settings, diagonal) for level in range(settings.shading_scales)]


def _pairs_at_scale(
    frames: Tensor, mask: Tensor, level: int, settings: PairwiseSettings, diagonal: float
) -> list[NeighborPairs]:
    pixel = 2**level / diagonal
    frames, mask = at_scale(frames, level), at_scale(mask, level)
    return [
        neighbor_pairs(
            mask,
            offset,
            shading_weight(
                frames,
                mask,
                offset,
                settings.scales,
                normalized_median=settings.normalized_median,
                factor=settings.shading_factor,
                pixel=pixel,
            ),
        )
        for offset in OFFSETS
    ]
