"""Groupings: pixels that should share their reflectance, in eight ways of being alike.

Shapes: h x w pixels, n of them valid; d numbers for each. Six groupings are Zhao's, by the chromaticities in the square
around a pixel, with squares and cells of several sizes; two are by a first guess of the reflectance and the color, for
things have few paints.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unlit.baselines.zhao import row_keys, texture_groups
from unlit.quadratic.pairs import Floats, Mask

Groups = NDArray[np.intp]
"""(n,): the number of each valid pixel's group, from 0."""


class Grouping(NamedTuple):
    """A grouping by texture."""

    side: int
    """Of the square, in pixels."""
    width: float
    """Of the cells of principal components."""
    blur: int
    """Of the chromaticities."""
    begin: float
    """Where the grid of cells begins, in cells: pixels that one grid parts, another holds together."""


TEXTURES = (
    Grouping(5, 0.015, 0, 0.0),
    Grouping(5, 0.015, 0, 0.5),
    Grouping(3, 0.015, 0, 0.25),
    Grouping(5, 0.03, 0, 0.25),
    Grouping(1, 0.01, 2, 0.25),
    Grouping(1, 0.03, 1, 0.6),
)
SHADES = ((0.08, 0.02), (0.2, 0.04))
"""Widths of cells in log reflectance and in chromaticity."""
GROUPINGS = len(TEXTURES) + len(SHADES)
_SHADE_BEGIN = 0.25
_SHADE_BLUR = 1


def by_texture(chroma: dict[int, Floats], valid: Mask) -> list[Groups]:
    """Return the groups by texture of chromaticities (3, h, w), which are given for each blur."""
    return [texture_groups(chroma[g.blur], valid, g.width, g.side, g.begin) for g in TEXTURES]


def by_shade(log_reflectance: Floats, chroma: dict[int, Floats], valid: Mask) -> list[Groups]:
    """Return the groups by a first guess of log reflectance (n,) and by color."""
    colors = chroma[_SHADE_BLUR][:, valid].T
    return [_cells(np.column_stack([log_reflectance / r, colors / c])) for r, c in SHADES]


def _cells(values: Floats) -> Groups:
    """Return in which cell of width 1 each row of values (n, d), less their mean, falls."""
    return row_keys(np.floor(values - values.mean(0) + _SHADE_BEGIN).astype(np.int64))
