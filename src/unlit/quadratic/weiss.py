"""The reflectance of a sequence by Weiss' medians, with Zhao's groups of like texture.

Shapes: m frames, h x w pixels, n of them valid. The median over the frames of a step in log light is the reflectance's
own (`baselines/weiss.py`), but errors of medians add up along the way. With d the medians of gray light,

    Σ over neighbors (Δr − d)²  +  λ Σ over groups Σ in the group (r − the group's mean)²

is minimised: places of one texture, by the mean of all frames, hold each other.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn, idctn

from unlit.baselines.poisson import Steps, conjugate_gradients, each, inverse_eigenvalues, steps_of, transposed_steps
from unlit.baselines.splitting import DARK_FLOOR
from unlit.baselines.zhao import TOLERANCE, texture_groups
from unlit.quadratic.pairs import Floats, Mask

TEXTURE = 0.3
"""λ."""
CELL, PATCH = 0.015, 5
"""Width of the cells of textures, and side of the squares that are compared."""


def median_log_reflectance(lights: Floats, seen: Mask, valid: Mask) -> Floats:
    """Return log r (h, w), zero outside the valid pixels, of frames (m, h, w, 3) of mean .2 or so.

    `seen` (m, h, w) says where a frame counts, `valid` (h, w) which pixels are wanted.
    """
    light = np.maximum(lights, DARK_FLOOR)
    shown = (light * seen[..., None]).sum(0) / np.maximum(seen.sum(0), 1)[..., None]
    mean = np.maximum(shown, DARK_FLOOR).transpose(2, 0, 1)
    groups = texture_groups(mean / np.sqrt(np.sum(mean**2, axis=0)), valid, CELL, PATCH)
    medians, both = _medians(np.log(light.mean(3)), seen, valid)
    count = np.bincount(groups)

    def operator(r: Floats) -> Floats:
        result = transposed_steps(each(np.multiply, steps_of(r), both))
        result[valid] += TEXTURE * (r[valid] - (np.bincount(groups, r[valid]) / count)[groups])
        return result

    def preconditioner(r: Floats) -> Floats:
        found: Floats = np.where(valid, idctn(dctn(r) * inverse), 0.0)
        return found

    inverse = inverse_eigenvalues(valid.shape, 1.0, TEXTURE / 2)
    return conjugate_gradients(operator, transposed_steps(medians), preconditioner, TOLERANCE)


def _medians(log_gray: Floats, seen: Mask, valid: Mask) -> tuple[Steps, Steps]:
    """Return the medians of the steps of frames (m, h, w), 0 where there are none, and 1 where there are."""
    steps = steps_of(np.where(seen & valid, log_gray, np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of pairs that no frame shows
        medians = each(_median, steps)
    both = each(_is_there, medians)
    return each(np.nan_to_num, medians), both


def _median(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    median: NDArray[np.float64] = np.nanmedian(steps, axis=0)
    return median


def _is_there(medians: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.isfinite(medians).astype(np.float64)
