"""Reconstruction: every frame's light must explain that frame with every frame's reflectance (the paper, Eq. 3).

    L_rec = Σ_i Σ_j ‖ P_i Q_j (log I_i − log S_i − c_i − log R_j) ‖² / pairs,   P = lum^(1/8) · M,  Q = M

Shapes: m frames, h x w pixels. Logs are natural, of linear light. The sum is divided by the number of pairs of valid
pixels (frame i, frame j, one place) times the three channels, so it is a mean.
"""

from __future__ import annotations

from torch import Tensor

from unlit.color import floored_log, intensity
from unlit.losses.all_pairs import all_pairs_sq_distance

LUMINANCE_POWER = 1 / 8
"""P's exponent: dark pixels, whose logs are mostly noise, count a little less (the paper, Sec. 4.1)."""


def reconstruction_term(
    frames: Tensor, mask: Tensor, log_reflectance: Tensor, log_light: Tensor, *, all_pairs: bool = True
) -> Tensor:
    """Return L_rec of a sequence.

    `frames` (m, 3, h, w) linear, `mask` (m, 1, h, w), `log_reflectance` (m, 3, h, w), `log_light` (m, 3, h, w) or
    (m, 1, h, w): shading with its color, log S + c. Without `all_pairs` a frame is explained by its own reflectance
    alone (the ablation "per-image reconstruction").
    """
    valid = mask.to(frames.dtype)
    weight = intensity(frames, axis=1).clamp_min(0) ** LUMINANCE_POWER * valid
    target = floored_log(frames) - log_light
    if all_pairs:
        pairs = valid.sum(0).square().sum()
        total = all_pairs_sq_distance(target, log_reflectance, weight, valid)
    else:
        pairs = valid.sum()
        total = (weight * (target - log_reflectance)).square().sum()
    return total / (pairs * frames.shape[1]).clamp_min(1)
