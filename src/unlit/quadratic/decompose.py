"""Reflectance and gray shading of one picture by the minimum of its sum.

Shapes: h x w pixels; `image` (h, w, 3) is linear light, `mask` (h, w) has True = valid.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from unlit.baselines.splitting import View, check, split
from unlit.quadratic.groups import TEXTURES, by_shade
from unlit.quadratic.pairs import Floats
from unlit.quadratic.solving import System
from unlit.quadratic.weights import Scene, Weights, plain_scene_of

if TYPE_CHECKING:
    from unlit.baselines.splitting import Mask, Split, Values

MEAN = 0.2
"""Pictures are made so bright that this is their mean over the mask: floors and features count on it."""
ROUGH = 1e-3
"""Tolerance of the first guess that shades are told by."""


def decomposed(image: Values, mask: Mask, weights: Weights) -> Split:
    """Return reflectance (h, w, 3) and gray shading (h, w).

    Both are linear float32 and zero outside the mask; inside, their product is the image. The largest reflectance is 1.
    ValueError where the image or the mask cannot be used.
    """
    check(image, mask)
    exposure = exposure_of(image, mask)

    def log_shading(view: View) -> Floats:
        return view.log_gray - log_reflectance(scene_of(view), weights)

    reflectance, shading = split(image * exposure, mask, log_shading)
    return reflectance, shading / np.float32(exposure)


def log_reflectance(scene: Scene, weights: Weights, tolerance: float | None = None) -> Floats:
    """Return r (h, w) of a scene, zero outside the valid pixels and of mean 0 inside."""
    with torch.no_grad():
        system = System(scene, weights(scene))
    right = system.right_side()
    return system.solved(right) if tolerance is None else system.solved(right, tolerance)


def scene_of(view: View) -> Scene:
    """Return all that the sum knows of a view whose mean is `MEAN`.

    Groups by shade need a reflectance: that of the untrained weights, with groups by texture alone.
    """
    scene, chroma = plain_scene_of(view)
    guess = log_reflectance(scene, Weights(len(TEXTURES)), ROUGH)[view.valid]
    return replace(scene, groups=(*scene.groups, *by_shade(guess, chroma, view.valid)))


def exposure_of(image: Values, mask: Mask) -> float:
    """Return the factor that gives a picture (h, w, 3) its mean over the mask; 1 where that is black."""
    level = float(np.mean(image[mask], dtype=np.float64))
    return MEAN / level if level > 0 else 1.0
