"""A scene has few paints: pixels whose reflectance is nearly the same are taken for one surface and drawn together.

Notation: ρ (3, h, w) is a log-reflectance, ℓ (h, w) its lightness, the log of the mean of its channels; f, three
numbers for each pixel, are ℓ / σ and two chromaticities over σ'. A pixel's lightness becomes the mean over all pixels
of the picture, wherever they lie, weighted by how alike they are,

    ℓ'_p = Σ_q k(f_p − f_q) ℓ_q / Σ_q k(f_p − f_q),

one step of mean shift (Comaniciu & Meer 2002). k is nearly a Gaussian of variance 1⅓: both sums are made on a grid of
unit cells in the space of f, to which pixels are added linearly, which is blurred, and from which they read linearly
(the bilateral grid of Chen et al. 2007, without its places). Light varies over a surface and paint does not, so what
is left of light in ρ is averaged out over all of the surface; chromaticities tell surfaces apart, since shadows change
them little.

The chromaticities are those of log (exp(ρ − ℓ) + φ) along two orthonormal axes: where colors are strong one channel is
dark, and its own log mostly noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

LIGHTNESS = 0.2
"""σ, of natural logs."""
CHROMATICITY = 0.03
"""σ', of the same. Both chosen on rendered scenes for validation (docs/trials-predict.md)."""
FLOOR = 0.4
"""φ: strong colors are told apart less finely."""
SHARE = 0.8
"""Of the way to ℓ' that pixels are drawn. All of it measures the same, but a surface that lies half in shadow breaks
into two even parts then, and the border between them shows."""

LIGHTNESS_RANGE = (-8.0, 2.0)
"""What lies beyond counts as the end of the range: so the grid stays small."""

BLUR = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
"""Along each axis of the grid: a variance of one cell."""
REACH = len(BLUR) // 2
_CORNERS = tuple(product((0, 1), repeat=3))


def paint_correction(log_reflectance: Tensor) -> Tensor:
    """Return ℓ' − ℓ (1, h, w), to be added to all channels of `log_reflectance` (3, h, w), in float32 or float64."""
    lightness = _lightness(log_reflectance)
    places, values = _features(log_reflectance, lightness).flatten(1), lightness.flatten()
    low = places.floor()
    size = [int(n) + 2 + REACH for n in low.amax(1)]
    first, share = low.long(), places - low
    # Summed in float64: a million equal shares of one cell, rounded as they are added, would be wrong by hundredths.
    counts, sums = (values.new_zeros(math.prod(size), dtype=torch.float64) for _ in range(2))
    for cells, weights in _corners(first, share, size):
        counts += torch.bincount(cells, weights.double(), len(counts))
        sums += torch.bincount(cells, (weights * values).double(), len(sums))
    counts, sums = (_blurred(grid.reshape(size)).flatten() for grid in (counts, sums))
    total, count = torch.zeros_like(values, dtype=torch.float64), torch.zeros_like(values, dtype=torch.float64)
    for cells, weights in _corners(first, share, size):
        total += sums[cells] * weights
        count += counts[cells] * weights
    return (total / count - values).to(log_reflectance.dtype).reshape(1, *log_reflectance.shape[1:])


def _lightness(log_reflectance: Tensor) -> Tensor:
    """Return ℓ (h, w) within its range."""
    low, high = LIGHTNESS_RANGE
    return log_reflectance.clamp_max(high).exp().mean(0).clamp_min(math.exp(low)).log()


def _features(log_reflectance: Tensor, lightness: Tensor) -> Tensor:
    """Return f (3, h, w), moved so that the smallest of each is the blur's reach."""
    r, g, b = ((log_reflectance.clamp_max(LIGHTNESS_RANGE[1]) - lightness).exp() + FLOOR).log()
    chromaticity = torch.stack([(r - b) / math.sqrt(2), (r + b - 2 * g) / math.sqrt(6)])
    places = torch.cat([lightness[None] / LIGHTNESS, chromaticity / CHROMATICITY])
    return places - places.amin((1, 2), keepdim=True) + REACH


def _corners(low: Tensor, share: Tensor, size: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield where in a grid of `size` each of the eight corners of the pixels' cells is, (n,), and its share of them.

    `low` (3, n) is the first of them, `share` (3, n) how far the pixel is on the way to the last. One by one: all eight
    of a large picture would take gigabytes.
    """
    strides = (size[1] * size[2], size[2], 1)
    first = low[0] * strides[0] + low[1] * strides[1] + low[2]
    near_far = torch.stack([1 - share, share])
    for i, j, k in _CORNERS:
        yield first + (i * strides[0] + j * strides[1] + k), near_far[i, 0] * near_far[j, 1] * near_far[k, 2]


def _blurred(grid: Tensor) -> Tensor:
    """Return a grid, blurred along each axis; it must be empty at its edges."""
    for axis in range(grid.ndim):
        n = grid.shape[axis]
        blurred = BLUR[REACH] * grid
        for k in range(1, REACH + 1):
            blurred.narrow(axis, 0, n - k).add_(grid.narrow(axis, k, n - k), alpha=BLUR[REACH + k])
            blurred.narrow(axis, k, n - k).add_(grid.narrow(axis, 0, n - k), alpha=BLUR[REACH - k])
        grid = blurred
    return grid
