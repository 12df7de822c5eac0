"""How dark a surface can be: something is always reflected, and what seems to reflect less has less light.

Notation: R_k a channel of a pixel's reflectance, ρ the mean over k of max(R_k, 0), its level, β the least level.

Charcoal, soot and black cloth reflect three or four hundredths of the light. Where a photograph is nearly black, the
quotient of two small numbers gives any level and any color. So levels are kept above β by a smooth maximum, and what is
added is gray, so that colors of noise fade:

    R'_k = R_k + δ,    δ = (ρ⁸ + β⁸)^(1/8) − ρ,    and the shading becomes I_k / R'_k.

From 2 β on δ is less than a two thousandth of ρ, and is left out. The product stays the photograph: where that is
black, the light is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLACKEST = 0.03
"""β. Of the surfaces of rendered scenes 4 % are darker, none is darker than 0.02; chosen on scenes for validation, with
the power 8 (docs/trials-predict.md)."""
_FAR = 2 * BLACKEST

Floats = NDArray[np.float32]


def raised(image: Floats, shading: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return which pixels (n,) of a flattened strip are too dark, and the reflectance (n, 3) that they get.

    `image` and `shading` are (r, w, 3), linear, shading above zero. Channels below zero, as some cameras' files have
    them, stay what they are.
    """
    # A level below 2 β has no channel above 6 β: one comparison for most pixels, and not a mean of three quotients.
    where = np.flatnonzero(image[..., 1] < np.float32(3 * _FAR) * shading[..., 1])
    reflectance = image.reshape(-1, 3)[where] / shading.reshape(-1, 3)[where]
    level = np.maximum(reflectance, 0).mean(1)
    is_dark = level < _FAR
    where, reflectance, level = where[is_dark], reflectance[is_dark], level[is_dark]
    power = np.square(np.square(np.square(level / np.float32(BLACKEST))))
    added = np.float32(BLACKEST) * np.sqrt(np.sqrt(np.sqrt(1 + power))) - level
    reflectance += np.where(reflectance >= 0, added[:, None], 0)
    return where, reflectance
