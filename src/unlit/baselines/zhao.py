"""Zhao: Retinex as one quadratic, in which pixels of like texture share their reflectance however far apart they are.

Zhao et al. 2012 (A closed-form solution to Retinex with nonlocal texture constraints). Shapes: h x w pixels, n of them
valid; `image` (h, w, 3) is linear light, nominally in [0, 1]. With i the log of the channels' mean and r that of the
reflectance, so that i − r is the log-shading, the sum to minimise is

    Σ over neighbors  (Δi − Δr)² + ω (Δr)²    the shading is smooth; where the color does not change (ω > 0), so is r
  + λ Σ over groups  Σ in the group (r − the group's mean of r)².

The paper compares the texture around all pairs of pixels; here pixels fall in one group when the principal components
of the chromaticities around them fall in one cell of a grid, which costs one sort. The paper's last term, which pins
the brightest pixel's shading, tells only the scale and is left out: no scale is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import dctn, idctn

from unlit.baselines.poisson import Steps, conjugate_gradients, each, inverse_eigenvalues, steps_of, transposed_steps
from unlit.baselines.splitting import View, split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unlit.baselines.splitting import Mask, Split, Values

    Floats = NDArray[np.float64]

SMOOTH_COLOR = 100.0
"""ω where the color does not change, 0 elsewhere. Held to be the paper's, but not checked in print."""

COMPONENTS = 6
"""Principal components that tell textures apart: the rest of the 27 is noise."""

TOLERANCE = 1e-5
"""The solver ends when its measure of the error is this share of what it was: some 80 rounds on real objects."""


def zhao(
    image: Values,
    mask: Mask,
    threshold_color: float = 0.02,
    threshold_texture: float = 0.015,
    texture: float = 1.0,
    patch: int = 3,
) -> Split:
    """Return reflectance (h, w, 3) and gray shading (h, w).

    The color changes between neighbors whose chromaticities, the RGB vectors at length 1, differ by `threshold_color`
    or more. Textures are alike within cells of width `threshold_texture` for squares of `patch` pixels (odd). `texture`
    is λ.

    Both are linear float32 and zero outside the mask; inside, their product is the image. The largest reflectance is 1.
    ValueError where the image or the mask cannot be used, or where `patch` is even.
    """
    if patch < 1 or patch % 2 == 0:
        raise ValueError(f"the patch is {patch} pixels wide; give an odd number, such as 3, so that it has a center")

    def log_shading(view: View) -> Floats:
        chromaticity = view.light / np.sqrt(np.sum(view.light**2, axis=0))
        groups = texture_groups(chromaticity, view.valid, threshold_texture, patch)
        smooth = _smooth_color(chromaticity, view.valid, threshold_color)
        return view.log_gray - minimum(view.log_gray, view.valid, smooth, groups, texture)

    return split(image, mask, log_shading)


def minimum(log_gray: Floats, valid: Mask, smooth: Steps, groups: NDArray[np.intp], texture: float) -> Floats:
    """Return the log-reflectance (h, w), zero outside the valid pixels, that minimises the sum.

    `smooth` has ω between neighbors, `groups` (n,) the group of each valid pixel. Conjugate gradients, preconditioned
    by cosine transforms with one weight for all neighbors, the geometric mean.
    """
    both = _both(valid)
    weights = each(np.add, smooth, both)
    count = np.bincount(groups)

    def operator(r: Floats) -> Floats:
        result = transposed_steps(each(np.multiply, steps_of(r), weights))
        result[valid] += texture * (r[valid] - (np.bincount(groups, r[valid]) / count)[groups])
        return result

    present = np.concatenate([w[b > 0] for w, b in zip(weights, both, strict=True)])
    typical = float(np.exp(np.log(present).mean())) if present.size else 1.0
    # A group's mean is free, its pixels are held: half of λ is between the two.
    inverse = inverse_eigenvalues(valid.shape, typical, texture / 2)
    right_side = transposed_steps(each(np.multiply, steps_of(log_gray), both))
    return conjugate_gradients(
        operator, right_side, lambda r: np.where(valid, idctn(dctn(r) * inverse), 0.0), TOLERANCE
    )


def texture_groups(
    chromaticity: Floats, valid: Mask, threshold: float, patch: int, begin: float = 0.0
) -> NDArray[np.intp]:
    """Return the group (n,), 0 and up, of each valid pixel by the chromaticities (3, h, w) in the square around it.

    A neighbor that is not valid, or lies beyond the edge, counts as the pixel itself. The grid of cells begins at
    `begin` of a cell: another beginning parts other pixels.
    """
    radius = patch // 2
    h, w = valid.shape
    framed = np.pad(chromaticity, [(0, 0), (radius, radius), (radius, radius)])
    framed_valid = np.pad(valid, radius)
    windows = [(slice(y, y + h), slice(x, x + w)) for y in range(patch) for x in range(patch)]
    looks = [np.where(framed_valid[win], framed[:, *win], chromaticity)[:, valid] for win in windows]
    texture = np.concatenate(looks).T
    texture -= texture.mean(axis=0)
    _, directions = np.linalg.eigh(texture.T @ texture)  # in ascending order
    cells = np.floor(texture @ directions[:, : -COMPONENTS - 1 : -1] / threshold + 0.5 + begin).astype(np.int64)
    return row_keys(cells)


def row_keys(cells: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return one number (n,), 0 and up, for each different row of cells (n, d)."""
    keys = np.zeros(len(cells), np.intp)
    for column in cells.T:
        # Numbered anew at each column, so that the product never leaves 64 bits.
        _, keys = np.unique(keys * (np.ptp(column) + 1) + (column - column.min()), return_inverse=True)
    return keys


def _smooth_color(chromaticity: Floats, valid: Mask, threshold: float) -> Steps:
    """Return ω between neighbors."""

    def weight(steps: NDArray[Any], both: NDArray[Any]) -> NDArray[Any]:
        return np.where(np.sum(steps**2, axis=0) < threshold**2, SMOOTH_COLOR * both, 0.0)

    return each(weight, steps_of(chromaticity), _both(valid))


def _both(valid: Mask) -> Steps:
    """Return 1 between neighbors that are both valid, else 0."""
    return Steps((valid[1:] & valid[:-1]).astype(np.float64), (valid[:, 1:] & valid[:, :-1]).astype(np.float64))
