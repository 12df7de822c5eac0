"""What a sequence with one light at a time says of its reflectance, without ground truth: the mean of three ways.

Shapes: m frames, h x w pixels. In logs of gray reflectance, a quarter is that of least energy (`sequence/solve.py`), a
quarter that of medians and textures (`weiss.py`), a half that of photometric stereo (`stereo.py`), which the mean of
the first two leads. Each errs in its own way, and their mean errs least.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unlit.quadratic.decompose import MEAN
from unlit.quadratic.pairs import Floats, Mask
from unlit.quadratic.stereo import stereo_log_reflectance
from unlit.quadratic.weiss import median_log_reflectance

LEAST_LIGHTS = 4
"""Three say nothing of shadows."""
DARKEST = 5e-3
"""No solved reflectance is less than this."""


def pseudo_reflectance(frames: NDArray[np.float32], mask: Mask, solved: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return gray reflectance (h, w), linear up to a factor, and 0 where fewer than four frames are valid.

    `frames` (m, 3, h, w) linear, each of one light; `mask` (m, h, w); `solved` (3, h, w) has the reflectance of least
    energy. ValueError where too few lights are left.
    """
    valid = mask.sum(0) >= LEAST_LIGHTS
    levels = np.array(
        [
            np.where(m & valid, f.mean(0), 0.0).sum() / max(1, (m & valid).sum())
            for f, m in zip(frames, mask, strict=True)
        ]
    )
    lit = levels > 0
    if lit.sum() < LEAST_LIGHTS or not valid.any():
        raise ValueError(f"has {lit.sum()} lights that show something where {LEAST_LIGHTS} are needed; add others")
    lights = frames[lit].transpose(0, 2, 3, 1).astype(np.float64) / levels[lit, None, None, None]
    seen = mask[lit]
    medians = median_log_reflectance(MEAN * lights, seen, valid)
    first = (_centered(np.log(np.maximum(solved.mean(0), DARKEST)), valid) + _centered(medians, valid)) / 2
    stereo = stereo_log_reflectance(lights.mean(3), seen, valid, first)
    log_r = (first + _centered(stereo, valid)) / 2
    found: NDArray[np.float32] = np.where(valid, np.exp(log_r), 0.0).astype(np.float32)
    return found


def _centered(values: Floats, valid: Mask) -> Floats:
    """Return values (h, w) less their mean over the valid pixels, zero elsewhere."""
    return np.where(valid, values - values[valid].mean(), 0.0)
