"""Consistency: the reflectance of a place is the same in all frames of a sequence (the paper, Eq. 4).

    L_con = ½ Σ_i Σ_j ‖ M_i M_j (log R_i − log R_j) ‖² / pairs

Shapes: m frames, h x w pixels. Divided by the number of ordered pairs of different frames with a valid pixel at the
same place, times the three channels: half the mean over such pairs, as in the authors' release.
"""

from __future__ import annotations

from torch import Tensor

from unlit.losses.all_pairs import all_pairs_sq_distance


def consistency_term(mask: Tensor, log_reflectance: Tensor) -> Tensor:
    """Return L_con for `mask` (m, 1, h, w) and `log_reflectance` (m, 3, h, w); zero where nothing can be compared."""
    valid = mask.to(log_reflectance.dtype)
    frames_at = valid.sum(0)
    pairs = (frames_at.square() - frames_at).sum() * log_reflectance.shape[1]
    total = all_pairs_sq_distance(log_reflectance, log_reflectance, valid, valid)
    return 0.5 * total / pairs.clamp_min(1)
