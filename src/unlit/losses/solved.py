"""Learning from solved sequences: a frame alone should show the reflectance that the whole sequence has.

The energy of one sequence can be minimised directly (`sequence.solve`). What that finds is no ground truth, only what
the energy says of that sequence; a network that learns to find it in single frames needs no pairs while it trains.

With d_R = log R̂ − log R, log S = mean over the channels of log I − log R, d_S = log Ŝ − log S, for each frame

    L = Σ_X [ Σ w_X (d_X − d̄_X)²  +  g Σ_l Σ w_X |∇_l d_X| ] / Σ w_X  +  ρ Σ w_S (log I − log R̂ − log Ŝ)² / Σ w_S

where d̄ is the weighted mean, since no frame tells the scale; ∇_l are the steps to the right and down at every
2^l-th pixel, with the smaller weight of their two pixels, times 4^l since there are so many fewer; the weights
w_X = X^e let bright places count more, as they do to the eye and to errors of linear light.

Shapes: n frames, h x w pixels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unlit.color import LOG_FLOOR, floored_log
from unlit.losses.solved_settings import SolvedSettings
from unlit.model.decomposition import Decomposition
from unlit.pairwise.neighbors import at_scale, paired

SCALES = 4
STEPS = ((0, 1), (1, 0))


def solved_term(
    frames: Tensor, mask: Tensor, decomposition: Decomposition, reflectance: Tensor, settings: SolvedSettings
) -> Tensor:
    """Return L, the mean over the frames.

    `frames` (n, 3, h, w) linear, `mask` (n, 1, h, w), `reflectance` (n, 3, h, w) linear, black where unknown.
    """
    with torch.autocast(frames.device.type, enabled=False):
        decomposition = decomposition.at_least_float32()
        log_reflectance, log_light = decomposition.log_reflectance, decomposition.log_light
        log_shading = decomposition.log_shading
        valid = mask & (reflectance > 0).all(1, keepdim=True) & (frames.amax(1, keepdim=True) > LOG_FLOOR)
        true_log_reflectance, log_image = floored_log(reflectance), floored_log(frames)
        true_log_shading = (log_image - true_log_reflectance).mean(1, keepdim=True)
        bright_r = _weight(reflectance.mean(1, keepdim=True), valid, settings.emphasis)
        bright_s = _weight(true_log_shading.exp(), valid, settings.emphasis)
        total = _error(log_reflectance - true_log_reflectance, bright_r, settings.gradient)
        total = total + _error(log_shading - true_log_shading, bright_s, settings.gradient)
        left = torch.where(valid, log_image - log_reflectance - log_light, 0)
        return total + settings.reconstruction * (bright_s * left.square().mean(1, keepdim=True)).sum() / len(frames)


def _weight(values: Tensor, valid: Tensor, emphasis: float) -> Tensor:
    """Return values^e (n, 1, h, w) where valid, else zero, of sum one in each frame (or zero)."""
    weight = torch.where(valid, values, 0) ** emphasis * valid
    return weight / weight.sum((1, 2, 3), keepdim=True).clamp_min(1e-20)


def _error(difference: Tensor, weight: Tensor, gradient: float) -> Tensor:
    """Return the squared error around its mean, and the steps, of (n, c, h, w) with weights (n, 1, h, w)."""
    n, c = difference.shape[:2]
    difference = torch.where(weight > 0, difference, 0)
    mean = (weight * difference).sum((1, 2, 3), keepdim=True) / c
    total = (weight * (difference - mean).square()).sum() / (n * c)
    if not gradient:
        return total
    for level in range(SCALES):
        values, weights = at_scale(difference, level), at_scale(weight, level)
        for offset in STEPS:
            both = torch.minimum(*paired(weights, offset))
            step = torch.sub(*paired(values, offset)).abs()
            total = total + gradient * (4**level * both * step).sum() / (n * c)
    return total
