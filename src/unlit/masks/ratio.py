"""What light cannot explain of how a frame differs from the usual, pixel by pixel.

Notation: d is the log intensity and log-chromaticity of a pixel (a vector of three) less what is usual there: the log
of a ratio image. Light multiplies, and so takes away nothing of the texture: where there is only light, d is the same
over a whole lit or shaded part, and runs along the line between both where they meet. Where a thing stands, d has the
thing's texture and, upside down, that of the ground behind it. Around each pixel, a is the mean of d over what is
darker than the local mean, b over what is brighter, things left out. What light cannot explain is

    r = min over t of |d − a − t (b − a)|² / σ²,   t from −1/4 to 5/4,

with σ² the noise that is usual at the pixel. Unlike a window of structure, r knows where a thing ends. Shapes: m
frames of y x x small pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from unlit.masks.small import block_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

UNEVEN = np.array([0.08, 0.035, 0.035], np.float32)
"""Log units: light is not taken to be more even than this, in intensity and in chromaticity."""

READING_NOISE = 0.004
"""Linear light: how much a byte's rounding, compression and the sensor shift a channel."""

NOISE_FACTOR = 2.0
"""σ² has so many times the noise that was measured: edges that are not quite in place are no noise of a sensor."""

BEYOND = 0.25
"""How far t may be outside of 0 to 1: a and b are means, and light is also a little brighter and darker."""

FARTHEST = 50.0
"""r counts as no more than this."""

_BLOCK = 4
"""Small pixels along one side of the blocks in which means over windows are made: light is smooth."""

_FRAMES = 8
"""Noise is measured on so many frames, or up to twice as many."""


def usual_roughness(apart: Floats) -> Floats:
    """Return the noise (y, x, 3) that is usual at each pixel of d, `apart` (m, y, x, 3), squared.

    A sensor's noise, leaves and edges that are not quite in place differ from pixel to pixel; light does not, but at
    the rims of shadows, and they are elsewhere in most frames.
    """
    chosen = apart[:: max(1, len(apart) // _FRAMES)]
    rough = np.stack([(d - ndimage.uniform_filter(d, (3, 3, 0))) ** 2 for d in chosen])
    half = len(rough) // 2
    middle = np.partition(rough, half, axis=0)[half]
    # The median of a squared normal variable is 0.455 of its mean; the mean of nine holds a ninth of the pixel itself.
    return np.asarray(ndimage.uniform_filter(middle, (5, 5, 0)) * np.float32(9 / 8 / 0.455))


def noise(roughness: Floats, log_intensity: Floats) -> Floats:
    """Return σ² (y, x, 3) of a frame: what is usual, and more where it is dark."""
    reading = (np.float32(READING_NOISE) * np.exp(-log_intensity)) ** 2
    return np.asarray(UNEVEN**2 + np.float32(NOISE_FACTOR) * roughness + reading[..., None])


def unexplained(apart: Floats, ground: NDArray[np.bool_], variance: Floats, window: int) -> Floats:
    """Return r (y, x) of d, `apart` (y, x, 3), with `variance` σ²; only `ground` (y, x) tells what light there is.

    Where a window has no ground, as in the middle of a large thing, the middle light of the frame, d = 0, stands in.
    """
    whole = _sums(apart, ground.astype(np.float32), window)
    bright = ground & (apart[..., 0] > _means(whole, apart.shape)[..., 0])
    brighter = _sums(apart, bright.astype(np.float32), window)
    a, b = _means(whole - brighter, apart.shape), _means(brighter, apart.shape)
    deviation = np.sqrt(variance)
    line, rest = np.asarray((b - a) / deviation, np.float32), np.asarray((apart - a) / deviation, np.float32)
    t = _product(line, rest) / (_product(line, line) + np.float32(1e-6))
    rest -= np.clip(t, -BEYOND, 1 + BEYOND)[..., None] * line
    return np.minimum(_product(rest, rest), np.float32(FARTHEST))


def _product(a: Floats, b: Floats) -> Floats:
    """Return the products of vectors (y, x, 3): (y, x). Much faster than a sum over an axis that is three long."""
    products: Floats = np.einsum("yxc,yxc->yx", a, b)
    return products


def _sums(values: Floats, weight: Floats, window: int) -> Floats:
    """Return the weighted sums around each block of (y, x, 3), and fourth those of the weights."""
    weighted = np.empty((*weight.shape, 4), np.float32)
    np.multiply(values, weight[..., None], out=weighted[..., :3])
    weighted[..., 3] = weight
    size = window // _BLOCK | 1
    return np.asarray(ndimage.uniform_filter(block_mean(weighted, _BLOCK), (size, size, 0)))


def _means(sums: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the weighted means at each pixel of a picture of `shape`, (y, x, 3), the same for each block."""
    means = sums[..., :3] / (np.maximum(sums[..., 3:], 0) + np.float32(1e-4))
    return np.asarray(means.repeat(_BLOCK, axis=0).repeat(_BLOCK, axis=1)[: shape[0], : shape[1]])
