"""Features of valid pixels on a CUDA device, in Triton: from the frames to the points of the lattice in one launch.

Shapes: m frames, h x w pixels, n valid pixels. tests/pairwise/test_kernels.py holds them to `features.pixel_features`,
which passes over all frames a dozen times, and over the points once more to leave out the masked ones.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from unlit.pairwise.neighbor_kernels import pixel_color
from unlit.pairwise.settings import FeatureScales

BLOCK = 256
"""Points of a program."""

MOST_PIXELS = 2**31 - BLOCK
"""Pixels of all frames are numbered by 32 bits."""


@triton.jit(do_not_specialize=["n"])
def _features(
    frames, pixels, features, n, plane, w, intensity_scale, chromaticity_scale, position_scale,
    is_whole: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The five features of some points; `is_whole` where every pixel is one, else `pixels` says which are."""
    point = tl.program_id(0) * block + tl.arange(0, block)
    inside = point < n
    place = point if is_whole else tl.load(pixels + point, inside, 0).to(tl.int32)
    frame, rest = place // plane, place % plane
    at = frame.to(tl.int64) * 3 * plane + rest
    _, intensity, red, green = pixel_color(frames, at, plane, inside)
    own = features + point.to(tl.int64) * 5
    tl.store(own, intensity / intensity_scale, inside)
    tl.store(own + 1, red / chromaticity_scale, inside)
    tl.store(own + 2, green / chromaticity_scale, inside)
    tl.store(own + 3, (rest % w).to(tl.float32) / position_scale, inside)
    tl.store(own + 4, (rest // w).to(tl.float32) / position_scale, inside)


def fits(frames: Tensor) -> bool:
    """Return whether the kernel takes these frames (m, 3, h, w)."""
    return frames.dtype == torch.float32 and frames.shape[1] == 3 and 0 < frames.numel() // 3 <= MOST_PIXELS


def point_features(frames: Tensor, pixels: Tensor | None, scales: FeatureScales) -> Tensor:
    """Return features (n, 5) of frames (m, 3, h, w) at the places `pixels` (n,) in (m, h, w); None: at all."""
    m, _, h, w = frames.shape
    n = m * h * w if pixels is None else pixels.shape[0]
    features = frames.new_empty(n, 5)
    _features[(triton.cdiv(n, BLOCK),)](
        frames.contiguous(), frames if pixels is None else pixels, features, n, h * w, w,
        scales.intensity, scales.chromaticity, scales.position * math.hypot(h, w),
        is_whole=pixels is None, block=BLOCK,
    )  # fmt: skip
    return features
