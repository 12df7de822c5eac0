"""Neighboring pixels: how alike their color is, and how strongly their shading should agree (the paper, Sec. 4.4).

Shapes: m frames, h x w pixels; for one offset, the pairs of a pixel p and its neighbor q fill (m, 1, h', w').

Where the light stands still, the difference of two neighbors, `J_i = log L_i(p) − log L_i(q)` for the intensity L of
frame i, stays at its median over the frames: then it is the surface's doing, and the shading should be smooth there.
Frames in which J leaves the median show an edge of light, which the shading must be free to have:

    v_med = exp(−λ_med (J_i − med J)²),    v̄_med = exp(−λ̄_med ((J_i − med J) / med J)²)
    v = max(v_med, v̄_med) · F(median W)

W is how alike p and q are in color; where they always are, even a steady difference is the light's, so F is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unlit.color import chromaticity, floored_log, intensity
from unlit.pairwise.settings import Factor, FeatureScales

OFFSETS = ((0, 1), (1, 0), (1, 1), (1, -1))
"""(down, right) from p to q. The other four of the eight neighbors give the same pairs with p and q exchanged."""

LAMBDA_MEDIAN = 20.0
LAMBDA_NORMALIZED_MEDIAN = 4.0
NORMALIZED_MEDIAN_FLOOR = 1e-6
"""Added to |med J| before dividing by it. These three are from the authors' release; the paper leaves them out."""

RELEASE_FACTOR = 12.0
"""The release has 1 + 12 (1 − median W) where the paper prints 1 − median W."""


@dataclass(frozen=True)
class NeighborPairs:
    """The pairs of one offset at one scale, with a weight each."""

    offset: tuple[int, int]
    weight: Tensor
    """(m, 1, h', w'), zero where either pixel is masked."""
    count: Tensor
    """The number of valid pairs, a scalar."""


class PackedPairs(list[list[NeighborPairs]]):
    """Pairs by scale and offset whose weights lie in one piece of memory, so that one kernel can read them all.

    `weights` holds, for each scale of a sequence of `size` (m, h, w), a block (offsets, m, rows, columns): each pair at
    the place of its p, and zero where p has no neighbor. `counts` is (scales, offsets).
    """

    def __init__(self, weights: Tensor, counts: Tensor, size: tuple[int, int, int]) -> None:
        self.weights, self.counts, self.size = weights, counts, size
        m, h, w = size
        start = 0
        for (rows, columns), at_scale_counts in zip(sizes_at_scales(h, w, len(counts)), counts.unbind(), strict=True):
            plane, pairs = rows * columns, []
            for (down, right), count in zip(OFFSETS, at_scale_counts.unbind(), strict=True):
                shape = (m, 1, rows - down, columns - abs(right))
                view = weights.as_strided(shape, (plane, plane, columns, 1), start + max(-right, 0))
                pairs.append(NeighborPairs((down, right), view, count))
                start += m * plane
            self.append(pairs)


def sizes_at_scales(h: int, w: int, levels: int) -> list[tuple[int, int]]:
    """Return the rows and columns of h x w pixels at each of so many scales."""
    return [(-(-h // 2**level), -(-w // 2**level)) for level in range(levels)]


def paired(values: Tensor, offset: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return values (..., h, w) at p and at q for all pairs of an offset inside the image: two views (..., h', w')."""
    down, right = offset
    h, w = values.shape[-2:]
    left = max(-right, 0)
    width = w - abs(right)
    p = values[..., : h - down, left : left + width]
    q = values[..., down:, left + right : left + right + width]
    return p, q


def at_scale(values: Tensor, level: int) -> Tensor:
    """Return every 2^level-th pixel of values (..., h, w)."""
    return values[..., :: 2**level, :: 2**level]


def color_affinity(frames: Tensor, offset: tuple[int, int], scales: FeatureScales) -> Tensor:
    """Return W (m, 1, h', w') of the pairs: `exp(−Δchromaticity²/σ² − Δintensity²/σ²)`, as in the release.

    There it has neither the ½ nor the positions of the dense term's affinity.
    """
    tint = torch.sub(*paired(chromaticity(frames, axis=1)[:, :2], offset)).square().sum(1, keepdim=True)
    brightness = torch.sub(*paired(intensity(frames, axis=1), offset)).square()
    return torch.exp(-tint / scales.chromaticity**2 - brightness / scales.intensity**2)


def dense_affinity(frames: Tensor, offset: tuple[int, int], scales: FeatureScales, distance: float) -> Tensor:
    """Return W (m, 1, h', w') of the pairs as the dense term has it, `exp(−½‖f_p − f_q‖²)`.

    `distance` is that of the two positions in units of the image's diagonal.
    """
    position = math.exp(-0.5 * (distance / scales.position) ** 2)
    return color_affinity(frames, offset, scales).sqrt() * position


def shading_weight(
    frames: Tensor,
    mask: Tensor,
    offset: tuple[int, int],
    scales: FeatureScales,
    *,
    normalized_median: bool = True,
    factor: Factor = "release",
    pixel: float = 0.0,
) -> Tensor:
    """Return v (m, 1, h', w') for the pairs of one offset; `pixel` is a pixel's size over the image's diagonal."""
    valid = torch.logical_and(*paired(mask, offset))
    difference = torch.sub(*paired(floored_log(intensity(frames, axis=1)), offset))
    median = median_over_frames(difference, valid)
    change = difference - median
    weight = torch.exp(-LAMBDA_MEDIAN * change.square())
    if normalized_median:
        # The median's size, not its signed value as in the release, so that p and q may change places.
        relative = change / (median.abs() + NORMALIZED_MEDIAN_FLOOR)
        weight = torch.maximum(weight, torch.exp(-LAMBDA_NORMALIZED_MEDIAN * relative.square()))
    if factor == "release":
        alike = median_over_frames(color_affinity(frames, offset, scales), valid)
        return weight * (1 + RELEASE_FACTOR * (1 - alike))
    alike = median_over_frames(dense_affinity(frames, offset, scales, pixel * math.hypot(*offset)), valid)
    return weight * (1 - alike)


def neighbor_pairs(mask: Tensor, offset: tuple[int, int], weight: Tensor) -> NeighborPairs:
    """Return the pairs of `offset` with their weights, those with a masked pixel weighing nothing."""
    valid = torch.logical_and(*paired(mask, offset))
    return NeighborPairs(offset, weight * valid, valid.sum())


def median_over_frames(values: Tensor, valid: Tensor) -> Tensor:
    """Return the median (1, ...) over axis 0 of values (m, ...) where `valid`; zero where no frame is.

    Of an even number it is the mean of the middle two.
    """
    ordered = torch.where(valid, values, torch.inf).sort(0).values  # the invalid go last
    count = valid.sum(0, keepdim=True)
    lower, upper = (count - 1).clamp_min(0) // 2, (count // 2).clamp_max(len(values) - 1)
    middle = 0.5 * (ordered.gather(0, lower) + ordered.gather(0, upper))
    return torch.where(count > 0, middle, 0)
