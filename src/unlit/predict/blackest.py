"""How dark a surface can be: something is always reflected, and what seems to reflect less has less light.

Notation: I_k a channel of a pixel, R_k its reflectance, c_k the light's color and g its gray shading
(`colored_light.py`); ρ = mean over k of I_k / c_k, over g, the level of the surface; β the least level.

Even black things reflect some hundredths of the light. Where a photograph is nearly black, the
quotient of two small numbers gives any level and any color. So levels are kept above β by a smooth maximum:

    ρ' = (ρ⁸ + β⁸)^(1/8),    R'_k = f R_k + ρ' − f ρ,    f = min(ρ' / ρ, 2),    and the shading becomes I_k / R'_k.

A dark leaf keeps its color, and the light on it is gray; but of what would have to be more than doubled, which is
noise, the rest is gray. From ρ = 2 β on ρ' is ρ but for a two thousandth, and nothing is done. The product stays the
photograph: where that is black, the light is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLACKEST = 0.03
"""β. Of the surfaces of 24 rendered scenes 4 % are darker, and next to none is darker than 0.02; chosen on scenes for
validation, with the power 8 (docs/trials-predict.md)."""
_MOST = 2.0
"""f at most, by eye. If all were gray, leaves that lack red would have light that lacks it, in patches; if none were,
the colors of noise on a black helmet would be stronger than before."""

Floats = NDArray[np.float32]


def too_dark(level: Floats, gray_shading: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return which pixels (n,) of a flattened strip are too dark, and ρ (n,) of each.

    `level` (r, w) is the sum over k of I_k / c_k, channels below zero counting as zero; `gray_shading` (r, w) is g,
    above zero.
    """
    where = np.flatnonzero(level < np.float32(6 * BLACKEST) * gray_shading)
    return where, level.reshape(-1).take(where) / (3 * gray_shading.reshape(-1).take(where))


def raised(reflectance: Floats, shading: Floats, level: Floats) -> tuple[Floats, Floats]:
    """Return reflectance and shading (n, 3), both of levels ρ (n,), the one raised, the other lowered by as much.

    Channels below zero, as some cameras' files have them, stay what they are.
    """
    power = np.square(np.square(np.square(level / np.float32(BLACKEST))))
    wanted = np.float32(BLACKEST) * np.sqrt(np.sqrt(np.sqrt(1 + power)))
    factor = np.minimum(wanted / np.maximum(level, np.finfo(np.float32).tiny), np.float32(_MOST))
    rest = np.where(factor < _MOST, 0, wanted - factor * level)[:, None]
    colored = factor[:, None] * reflectance
    found = colored + rest
    # A black channel has light as before, unless gray makes it reflect something.
    share = np.where(rest > 0, colored / np.where(rest > 0, found, 1), 1) / factor[:, None]
    negative = reflectance < 0
    return np.where(negative, reflectance, found), np.where(negative, shading, share * shading)
