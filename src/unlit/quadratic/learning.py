"""What is learned: that a single picture shows the reflectance which its whole sequence has.

Shapes: h x w pixels of the box that holds the mask. The loss of a picture is

    MSE / .0148  +  ½ LMSE / .0284  +  DSSIM / .112

of its R and S against those that the sequence's reflectance gives (`targets.py`), each error divided by what is wanted
of it on the MIT set, so that they weigh about the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlit.baselines.splitting import box_of, view_of
from unlit.quadratic.comparing import errors
from unlit.quadratic.decompose import exposure_of, scene_of
from unlit.quadratic.solving import minimum
from unlit.quadratic.weights import Scene, Weights

if TYPE_CHECKING:
    from unlit.baselines.splitting import Mask, Values

SHARES = (1 / 0.0148, 0.5 / 0.0284, 1 / 0.112)
"""Of MSE, LMSE and DSSIM."""
BRIGHT, BRIGHT_REFLECTANCE, BRIGHT_SHADING = 0.99, 0.85, 0.7
"""This quantile of R and of S is brought to these values, near those of MIT's files: MSE and SSIM have a scale."""
DARKEST_SHADING = 1e-4
TOLERANCE, ROUNDS = 1e-3, 300
"""Of solving while learning: less exactly than in use, but with rounds enough for rough pictures. With 80 a squirrel's
gradient had a cosine of .28 to the exact one (docs/trials.md)."""


@dataclass(frozen=True)
class Sample:
    """One picture, with what its sequence says of it."""

    scene: Scene
    image: Tensor
    """(3, h, w), linear, black outside the mask."""
    wanted: Tensor
    """(4, h, w): R's three channels and gray S."""


def sample_of(image: Values, mask: Mask, reflectance: Values) -> Sample:
    """Return what is learned from a picture (h, w, 3) with gray `reflectance` (h, w), known where it is above 0.

    ValueError where no pixel of the mask has one.
    """
    known = mask & (reflectance > 0)
    if not known.any():
        raise ValueError("has no valid pixel whose reflectance is known; leave it out")
    box = box_of(known)
    valid = known[box]
    bright = image * exposure_of(image, known)
    cropped = np.where(valid[..., None], bright[box], 0.0).astype(np.float64)
    view = view_of(cropped, valid)
    shading = np.where(valid, view.light.mean(0) / np.where(valid, reflectance[box], 1.0), 0.0)
    paint = cropped.transpose(2, 0, 1) / np.where(valid, np.maximum(shading, DARKEST_SHADING), 1.0)
    paint *= _scale(paint.max(0)[valid], BRIGHT_REFLECTANCE)
    shading *= _scale(shading[valid], BRIGHT_SHADING)
    wanted = np.concatenate([paint, shading[None]]).astype(np.float32)
    picture = cropped.transpose(2, 0, 1).astype(np.float32)
    return Sample(scene_of(view), torch.from_numpy(picture), torch.from_numpy(wanted))


def _scale(values: NDArray[np.float64], bright: float) -> float:
    """Return the factor that brings the bright of values (n,) to `bright`; 1 where they are black."""
    quantile = float(np.quantile(values, BRIGHT))
    return bright / quantile if quantile > 0 else 1.0


def loss_of(sample: Sample, weights: Weights) -> Tensor:
    """Return the loss of one picture, with its gradient by the weights."""
    scene = sample.scene
    found = minimum(scene, weights(scene), TOLERANCE, ROUNDS)
    log_shading = torch.from_numpy(scene.log_gray).to(found.dtype) - found
    valid = torch.from_numpy(scene.valid)
    reflectance = torch.where(valid, sample.image.to(found.dtype) * torch.exp(-log_shading), 0)
    shading = torch.where(valid, torch.exp(log_shading), 0)
    parts = errors(torch.cat([reflectance, shading[None]]), sample.wanted.to(found.dtype), valid)
    return (parts * torch.tensor(SHARES, dtype=parts.dtype)).sum()


def departure(weights: Weights, start: Weights) -> Tensor:
    """Return the squared distance of the weights from where they began: few pictures should not lead them far."""
    pairs = zip(weights.parameters(), start.parameters(), strict=True)
    return torch.stack([(now - before.detach()).square().sum() for now, before in pairs]).sum()
