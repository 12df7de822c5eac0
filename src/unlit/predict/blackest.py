"""How dark a surface can be: something is always reflected, and what seems to reflect less has less light.

Notation: I_k a channel of a pixel, R_k its reflectance, c_k the light's color and g its gray shading
(`colored_light.py`); ρ = mean over k of I_k / c_k, over g, the level of the surface; β the least level.

Charcoal, soot and black cloth reflect three or four hundredths of the light. Where a photograph is nearly black, the
quotient of two small numbers gives any level and any color. So levels are kept above β by a smooth maximum, and what is
added is gray, so that colors of noise fade:

    R'_k = R_k + δ,    δ = (ρ⁸ + β⁸)^(1/8) − ρ,    and the shading becomes I_k / R'_k.

From ρ = 2 β on δ is less than a two thousandth of ρ, and is left out. The product stays the photograph: where that is
black, the light is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLACKEST = 0.03
"""β. Of the surfaces of rendered scenes 4 % are darker, none is darker than 0.02; chosen on scenes for validation, with
the power 8 (docs/trials-predict.md)."""

Floats = NDArray[np.float32]


def too_dark(level: Floats, gray_shading: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return which pixels (n,) of a flattened strip are too dark, and δ (n,) of each.

    `level` (r, w) is the sum over k of I_k / c_k, channels below zero counting as zero; `gray_shading` (r, w) is g,
    above zero.
    """
    where = np.flatnonzero(level < np.float32(6 * BLACKEST) * gray_shading)
    found = level.reshape(-1).take(where) / (3 * gray_shading.reshape(-1).take(where))
    power = np.square(np.square(np.square(found / np.float32(BLACKEST))))
    return where, np.float32(BLACKEST) * np.sqrt(np.sqrt(np.sqrt(1 + power))) - found


def raised(reflectance: Floats, added: Floats) -> Floats:
    """Return reflectances (n, 3) that are more by δ (n,), but for channels below zero, as some cameras' files have."""
    return reflectance + np.where(reflectance >= 0, added[:, None], np.float32(0))
