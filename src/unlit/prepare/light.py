"""The light of a frame in a few hundred numbers, and how far two lights are apart.

The descriptor is a coarse grid of logs: brightness with the frame's mean taken out (where the light falls), the ratios
of red and blue to green (its color), and, weakly, the mean (how much of it; exposure alone is hardly another light). Of
a fixed view the surfaces are the same in every frame, so what differs is light, and a little of what moves.

Shapes: h x w pixels, m frames, d numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unlit.color import srgb_to_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

GRID = (9, 12)
_FLOOR = 0.01
"""Added before logs are taken: noise in the dark is no light."""
_EXPOSURE_WEIGHT = 0.3
_LIT = 25
"""0 to 255: a pixel with a channel above this shows something."""
_CUT_OFF = 250
"""0 to 255: a pixel with a channel from this on may be cut off at white."""
_MIN_SHOWN = 0.2
"""The share of pixels that must be neither."""
_BLOCK = 8192
_LINEAR = srgb_to_linear(np.arange(256, dtype=np.float32) / 255)


def descriptor(pixels_u8: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the light (d,) of an 8-bit sRGB picture (h, w, 3), at least as large as the grid."""
    cells = _cell_means(_LINEAR[pixels_u8])
    logs = np.log(cells + _FLOOR)
    brightness = logs.mean(-1)
    level = brightness.mean()
    color = logs[..., ::2] - logs[..., 1:2]
    # Divided so that the squared distance of two descriptors is a mean over cells.
    numbers = np.concatenate([(brightness - level).ravel(), color.ravel()]) / np.sqrt(brightness.size)
    return np.append(numbers, _EXPOSURE_WEIGHT * level).astype(np.float32)


def _cell_means(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the means (9, 12, 3) over the cells of the grid."""
    starts = [np.arange(n) * size // n for n, size in zip(GRID, pixels.shape, strict=False)]
    sums = np.add.reduceat(np.add.reduceat(pixels, starts[0], 0), starts[1], 1)
    counts = [np.diff(np.append(start, size)) for start, size in zip(starts, pixels.shape, strict=False)]
    return np.asarray(sums / np.outer(counts[0], counts[1])[..., None], np.float32)


def distances(lights: NDArray[np.float32], light: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return how far each of `lights` (m, d) is from `light` (d,): about the relative change of a cell, as a log."""
    found = np.empty(len(lights), np.float32)
    for k in range(0, len(lights), _BLOCK):  # an hour of video has 90,000 lights: no second copy of them all
        apart = lights[k : k + _BLOCK] - light
        found[k : k + _BLOCK] = np.sqrt(np.einsum("md,md->m", apart, apart))
    return found


def why_useless(pixels_u8: NDArray[np.uint8]) -> str | None:
    """Return why nothing can be learned from a picture: nearly all of it is black, or white; None where it is not."""
    brightest = pixels_u8[::2, ::2].max(-1)  # a quarter of the pixels says as much
    if (brightest > _LIT).mean() < _MIN_SHOWN:
        return "near-black"
    return "near-white" if (brightest < _CUT_OFF).mean() < _MIN_SHOWN else None


def principal_plane(lights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the two coordinates (m, 2) in which the lights (m, d) differ most, to draw them."""
    centred = lights - lights.mean(0)
    if len(lights) < 2:
        return np.zeros((len(lights), 2), np.float32)
    covariance = centred.T @ centred
    _, axes = np.linalg.eigh(covariance.astype(np.float64))
    return np.asarray(centred @ axes[:, :-3:-1], np.float32)
