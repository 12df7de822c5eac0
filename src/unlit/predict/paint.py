"""A scene has few paints: pixels whose reflectance is nearly the same are taken for one surface and drawn together.

Notation: ρ (3, h, w) is a log-reflectance, ℓ (h, w) its lightness, the log of the mean of its channels; f, three
numbers for each pixel, are ℓ / σ and two chromaticities c over σ'. A pixel's lightness becomes the mean over all pixels
of the picture, wherever they lie, weighted by how alike they are,

    ℓ'_p = Σ_q k(f_p − f_q) ℓ_q / Σ_q k(f_p − f_q),

one step of mean shift (Comaniciu & Meer 2002). k is nearly a Gaussian of variance 1⅓: both sums are made on a grid of
unit cells in the space of f, to which pixels are added linearly, which is blurred, and from which they read linearly
(the bilateral grid of Chen et al. 2007, without its places). Light varies over a surface and paint does not, so what
is left of light in ρ is averaged out over all of the surface; chromaticities tell surfaces apart, since shadows change
them little. The stronger a color, the less likely that another surface has it too, and the more lightness may differ:

    σ = min(σ₀ + s |c|, σ₁),   ℓ being counted from that of the brightest twentieth, so that the scale does not matter.

The chromaticities are those of log (exp(ρ − ℓ) + φ) along two orthonormal axes: where colors are strong one channel is
dark, and its own log mostly noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

GRAY, SLOPE, WIDEST = 0.12, 0.6, 0.45
"""σ₀, s and σ₁, of natural logs."""
BRIGHT = 0.95
CHROMATICITY = 0.025
"""σ', of the same. All chosen on rendered scenes for validation (docs/trials-predict.md)."""
FLOOR = 0.4
"""φ: strong colors are told apart less finely."""
SHARE = 0.8
"""Of the way to ℓ' that pixels are drawn. All of it measures no better, and a surface that lies half in shadow breaks
into two even parts then, and the border between them shows."""

LIGHTNESS_RANGE = (-8.0, 2.0)
"""What lies beyond counts as the end of the range: so the grid stays small."""

MANY = 1 << 15
"""Pixels."""

BLUR = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
"""Along each axis of the grid: a variance of one cell."""
REACH = len(BLUR) // 2
_CORNERS = tuple(product((0, 1), repeat=3))


def lightness_correction(log_reflectance: Tensor) -> Tensor:
    """Return what is to be added to all channels of `log_reflectance` (3, h, w), (1, h, w)."""
    return SHARE * paint_correction(log_reflectance)


def paint_correction(log_reflectance: Tensor) -> Tensor:
    """Return ℓ' − ℓ (1, h, w), to be added to all channels of `log_reflectance` (3, h, w), in float32 or float64.

    Of a picture of more than `MANY` pixels every other one in both directions is asked, which changes little.
    """
    lightness = _lightness(log_reflectance)
    step = 2 if lightness.numel() > MANY else 1
    places = _features(log_reflectance, lightness, _bright(lightness[::step, ::step]))
    size = [int(n) + 2 + REACH for n in places.amax((1, 2)).floor()]
    asked, values = places[:, ::step, ::step].flatten(1), lightness[::step, ::step].flatten()
    # Summed in float64: a million equal shares of one cell, rounded as they are added, would be wrong by hundredths.
    counts, sums = (values.new_zeros(math.prod(size), dtype=torch.float64) for _ in range(2))
    for cells, weights in _corners(asked, size):
        counts += torch.bincount(cells, weights.double(), len(counts))
        sums += torch.bincount(cells, (weights * values).double(), len(sums))
    grids = torch.stack([_blurred(grid.reshape(size)) for grid in (counts, sums)])
    count, total = _read(grids.to(places.dtype), places)
    # A pixel that was not asked may be alone in its color.
    mean = torch.where(count > 1e-6, total / count.clamp_min(1e-6), lightness)
    return (mean - lightness)[None]


def _read(grids: Tensor, places: Tensor) -> Tensor:
    """Return what grids (c, *size) hold at places (3, h, w), linearly between their cells: (c, h, w)."""
    last = torch.tensor(grids.shape[1:], dtype=places.dtype)[:, None, None] - 1
    # torch counts from -1 to 1, and names the last axis first.
    where = (2 * places / last - 1).flip(0).permute(1, 2, 0)[None, None]
    return grid_sample(grids[None], where, mode="bilinear", align_corners=True)[0, :, 0]


def _lightness(log_reflectance: Tensor) -> Tensor:
    """Return ℓ (h, w) within its range."""
    low, high = LIGHTNESS_RANGE
    return log_reflectance.clamp_max(high).exp().mean(0).clamp_min(math.exp(low)).log()


def _features(log_reflectance: Tensor, lightness: Tensor, bright: Tensor) -> Tensor:
    """Return f (3, h, w), moved so that the smallest of each is the blur's reach."""
    r, g, b = ((log_reflectance.clamp_max(LIGHTNESS_RANGE[1]) - lightness).exp() + FLOOR).log()
    chromaticity = torch.stack([(r - b) / math.sqrt(2), (r + b - 2 * g) / math.sqrt(6)])
    width = (GRAY + SLOPE * chromaticity.square().sum(0).sqrt()).clamp_max(WIDEST)
    places = torch.cat([((lightness - bright) / width)[None], chromaticity / CHROMATICITY])
    return places - places.amin((1, 2), keepdim=True) + REACH


def _bright(lightness: Tensor) -> Tensor:
    """Return the lightness that all but the brightest twentieth of pixels have at most."""
    return lightness.flatten().kthvalue(math.ceil(BRIGHT * lightness.numel())).values


def _corners(places: Tensor, size: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield which of the cells of a grid of `size` is each of the eight around `places` (3, n), (n,), and its share.

    One by one: all eight of a large picture would take gigabytes.
    """
    low = places.floor()
    share, low = places - low, low.long()
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
