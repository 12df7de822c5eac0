"""Neighbors and their shading's weights on a CUDA device, in Triton: all scales and offsets in one launch.

Shapes: m frames, h x w pixels. tests/pairwise/test_neighbor_kernels.py holds the weights to those of `neighbors.py`.

A program takes some pairs of one offset at one scale, a row for each with the frames along it. Medians over the frames
come of sorting the rows, which stay in registers: in plain torch every scale and offset costs dozens of launches.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from unlit.color import CHROMATICITY_FLOOR, LOG_FLOOR
from unlit.pairwise.neighbors import (
    LAMBDA_MEDIAN,
    LAMBDA_NORMALIZED_MEDIAN,
    NORMALIZED_MEDIAN_FLOOR,
    OFFSETS,
    RELEASE_FACTOR,
    PackedPairs,
    sizes_at_scales,
)
from unlit.pairwise.settings import PairwiseSettings

MOST_FRAMES = 128
"""Sorting longer rows takes more registers than there are; longer sequences go the way of plain torch."""

MOST_PIXELS = 2**31 - 1
"""Pixels of a frame are numbered by 32 bits, three channels together; those of a whole sequence by 64."""

TILE, WARPS = 256, 1
"""Pairs times frames of a program, and its warps. Within one warp rows are sorted without waiting for others."""

_LOG_FLOOR = tl.constexpr(LOG_FLOOR)
_CHROMATICITY_FLOOR = tl.constexpr(CHROMATICITY_FLOOR)
_LAMBDA_MEDIAN = tl.constexpr(LAMBDA_MEDIAN)
_LAMBDA_NORMALIZED_MEDIAN = tl.constexpr(LAMBDA_NORMALIZED_MEDIAN)
_NORMALIZED_MEDIAN_FLOOR = tl.constexpr(NORMALIZED_MEDIAN_FLOOR)


@triton.jit
def neighbor(number):
    """(down, right) of the offset of that number in `neighbors.OFFSETS`."""
    return tl.where(number == 0, 0, 1), tl.where(number == 1, 0, tl.where(number == 3, -1, 1))


@triton.jit
def length_at(length, level):
    """How many of so many rows or columns are left where every 2^level-th is taken."""
    return (length + (1 << level) - 1) >> level


@triton.jit
def pixel_color(frames, place, plane, inside):
    """Floored log-intensity, intensity, red and green chromaticity, as `color` has them, at some places."""
    red = tl.load(frames + place, inside, 0.0)
    green = tl.load(frames + place + plane, inside, 0.0)
    blue = tl.load(frames + place + 2 * plane, inside, 0.0)
    intensity = (red + green + blue) / 3
    red, green, blue = tl.maximum(red, 0.0), tl.maximum(green, 0.0), tl.maximum(blue, 0.0)
    total = tl.maximum(red + green + blue, _CHROMATICITY_FLOOR)
    return tl.log(tl.maximum(intensity, _LOG_FLOOR)), intensity, red / total, green / total


@triton.jit
def _middle_two(values, valid, count, frame):
    """The one or two in the middle of the valid values of each row; infinite in rows without any."""
    ordered = tl.sort(tl.where(valid, values, float("inf")), 1)  # the invalid go last
    lower, upper = tl.maximum(count - 1, 0) // 2, count // 2
    first = tl.sum(tl.where(frame[None, :] == lower[:, None], ordered, 0.0), 1)
    second = tl.sum(tl.where(frame[None, :] == upper[:, None], ordered, 0.0), 1)
    return first, second


@triton.jit
def _place(h, w, m, levels: tl.constexpr, block: tl.constexpr):
    """Which scale program_id(0) works at, its block of pixels there, and where the weights of that scale start."""
    index, level, start = tl.program_id(0), 0, 0
    for finer in tl.static_range(levels - 1):
        pixels = length_at(h, finer) * length_at(w, finer)
        past = (index >= tl.cdiv(pixels, block)) & (level == finer)
        index -= tl.where(past, tl.cdiv(pixels, block), 0)
        level += tl.where(past, 1, 0)
        start += tl.where(past, 4 * m * pixels.to(tl.int64), 0)
    return index, level, start


@triton.jit(do_not_specialize=["m", "h", "w"])
def _weigh(
    frames, mask, weights, counts, m, h, w, per_chromaticity, per_intensity, per_distance, base, slope,
    levels: tl.constexpr, normalized: tl.constexpr, padded: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """`neighbors.shading_weight` of some pairs of offset program_id(1).

    Their affinity is `exp(−per_chromaticity Δchromaticity² − per_intensity Δintensity² − per_distance pixels²)`, and
    their weight max(v_med, v̄_med) times `base + slope (1 − median affinity)`.
    """
    index, level, start = _place(h, w, m, levels, block)
    rows, columns = length_at(h, level), length_at(w, level)
    pixel = index * block + tl.arange(0, block)
    row, column = pixel // columns, pixel % columns
    number = tl.program_id(1)
    down, right = neighbor(number)
    there = (row + down < rows) & (column + right >= 0) & (column + right < columns)
    frame = tl.arange(0, padded)
    own = (pixel < rows * columns)[:, None] & (frame < m)[None, :]
    inside = own & there[:, None]
    before = frame.to(tl.int64)[None, :] * (h * w)
    at_p = (((row << level) * w) + (column << level))[:, None]
    at_q = at_p + (((down << level) * w) + (right << level))
    valid = tl.load(mask + before + at_p, inside, 0) != 0
    valid = valid & (tl.load(mask + before + at_q, inside, 0) != 0)
    log_p, intensity_p, red_p, green_p = pixel_color(frames, 3 * before + at_p, h * w, inside)
    log_q, intensity_q, red_q, green_q = pixel_color(frames, 3 * before + at_q, h * w, inside)
    difference = log_p - log_q
    red, green, brightness = red_p - red_q, green_p - green_q, intensity_p - intensity_q
    unlikeness = per_chromaticity * (red * red + green * green) + per_intensity * brightness * brightness

    count = tl.sum(valid.to(tl.int32), 1)
    lower, upper = _middle_two(difference, valid, count, frame)
    median = tl.where(count > 0, 0.5 * (lower + upper), 0.0)[:, None]
    # The larger the unlikeness, the smaller the affinity: the middle ones of either belong to the same frames.
    near, far = _middle_two(unlikeness, valid, count, frame)
    distance = per_distance * (((down * down + right * right) << level) << level).to(tl.float32)
    alike = 0.5 * (tl.exp(-near) + tl.exp(-far)) * tl.exp(-distance)

    change = difference - median
    weight = tl.exp(-_LAMBDA_MEDIAN * change * change)
    if normalized:
        change = change / (tl.abs(median) + _NORMALIZED_MEDIAN_FLOOR)
        weight = tl.maximum(weight, tl.exp(-_LAMBDA_NORMALIZED_MEDIAN * change * change))
    weight = tl.where(valid, weight * (base + slope * (1 - alike))[:, None], 0.0)
    plane = (rows * columns).to(tl.int64)
    tl.store(weights + start + (number * m + frame)[None, :] * plane + pixel[:, None], weight, own)
    # Whole numbers: any order will do, and nobody reads them before the end.
    tl.atomic_add(counts + level * 4 + number, tl.sum(count, 0).to(tl.int64), sem="relaxed")


def fits(frames: Tensor) -> bool:
    """Return whether the kernel takes these frames (m, 3, h, w)."""
    m, _, h, w = frames.shape
    return frames.dtype == torch.float32 and 0 < m <= MOST_FRAMES and 0 < 3 * h * w <= MOST_PIXELS


def shading_pairs(frames: Tensor, mask: Tensor, settings: PairwiseSettings, diagonal: float) -> PackedPairs:
    """Return the pairs of frames (m, 3, h, w), float32, with mask (m, 1, h, w), bool, at all scales."""
    m, _, h, w = frames.shape
    levels, scales = settings.shading_scales, settings.scales
    planes = [rows * columns for rows, columns in sizes_at_scales(h, w, levels)]
    weights = frames.new_empty(len(OFFSETS) * m * sum(planes))
    counts = torch.zeros(levels, len(OFFSETS), dtype=torch.int64, device=frames.device)
    padded = triton.next_power_of_2(max(m, 2))  # a row of one cannot be sorted
    block = max(TILE // padded, 1)
    if settings.shading_factor == "release":
        half, per_distance, base, slope = 1.0, 0.0, 1.0, RELEASE_FACTOR
    else:  # the dense term's affinity: with the ½, and with the distance in units of the diagonal
        half, per_distance, base, slope = 0.5, 0.5 / (diagonal * scales.position) ** 2, 0.0, 1.0
    _weigh[(sum(triton.cdiv(plane, block) for plane in planes), len(OFFSETS))](
        frames.contiguous(), mask.contiguous().view(torch.uint8), weights, counts, m, h, w,
        half / scales.chromaticity**2, half / scales.intensity**2, per_distance, base, slope,
        levels=levels, normalized=settings.normalized_median, padded=padded, block=block, num_warps=WARPS,
    )  # fmt: skip
    return PackedPairs(weights, counts, (m, h, w))
