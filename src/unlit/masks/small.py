"""Frames made small for statistics, as logs of light; masks brought up again.

Shapes: m frames, h x w pixels, y x x of the small ones. One small pixel is a block of k x k; blocks at the right and
lower edge may be cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unlit.color import srgb_to_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOFT_FLOOR = 0.004
"""Linear light, added before logs: a byte or so of noise in the dark then moves the log little."""

_LINEAR = srgb_to_linear(np.arange(256) / 255).astype(np.float32)
"""Linear light of each sRGB-encoded byte."""


@dataclass(frozen=True)
class SmallFrames:
    """Frames of a sequence at working size."""

    log_intensity: NDArray[np.float32]
    """(m, y, x): log of the mean of the channels."""
    log_chromaticity: NDArray[np.float32]
    """(m, y, x, 2): log of red over green and of blue over green."""
    trusted: NDArray[np.bool_]
    """(m, y, x): neither cut off at white nor lost in black."""
    block: int
    """Pixels of a full-size frame along one side of a small pixel."""


def block_size(h: int, w: int, pixels: int) -> int:
    """Return the whole k for which blocks of k x k make about `pixels` of h x w: from half to twice as many."""
    return max(1, round(float(np.sqrt(h * w / pixels))))


def small_frames(frames_u8: NDArray[np.uint8], unknown: NDArray[np.bool_], pixels: int) -> SmallFrames:
    """Return (m, h, w, 3) frames at working size; `unknown` (m, h, w) says where they are saturated or dark."""
    m, h, w, _ = frames_u8.shape
    k = block_size(h, w, pixels)
    size = (m, -(-h // k), -(-w // k))
    log_intensity = np.empty(size, np.float32)
    log_chromaticity = np.empty((*size, 2), np.float32)
    trusted = np.empty(size, bool)
    for i in range(m):  # one at a time: full-size floats of all frames would not fit
        light = block_mean(_LINEAR[frames_u8[i]], k) + np.float32(SOFT_FLOOR)
        logs = np.log(light)
        log_intensity[i] = np.log(light.mean(axis=-1))
        log_chromaticity[i] = logs[..., ::2] - logs[..., 1:2]
        trusted[i] = block_mean(unknown[i, ..., None].astype(np.float32), k)[..., 0] < 0.5
    return SmallFrames(log_intensity, log_chromaticity, trusted, k)


def block_mean(values: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """Return the means of (h, w, c) over blocks of k x k; cut blocks at the far edges are filled up with the edge."""
    if k == 1:
        return values
    h, w, _ = values.shape
    if h % k or w % k:
        values = np.pad(values, ((0, -h % k), (0, -w % k), (0, 0)), mode="edge")
    sums = values[::k, ::k].copy()  # one strided sum after the other: many times as fast as a mean over two axes
    for j in range(1, k * k):
        sums += values[j // k :: k, j % k :: k]
    sums /= k * k
    return sums


def enlarged(mask: NDArray[np.bool_], k: int, h: int, w: int) -> NDArray[np.bool_]:
    """Return a small mask (..., y, x) at full size (..., h, w), each small pixel as its block."""
    return np.asarray(mask.repeat(k, axis=-2).repeat(k, axis=-1)[..., :h, :w])
