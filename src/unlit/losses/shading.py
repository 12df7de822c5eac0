"""Shading smoothness: neighbors share their shading unless the sequence shows an edge of light (the paper, Eq. 8).

    L_ss = Σ_l 1/l · ⅛ Σ_8 neighbors mean_pq v_pq (log S_p − log S_q)²

Shapes: m frames, h x w pixels. The scales l = 1, 2, … take every 2^(l−1)-th pixel. The mean is over the valid pairs of
one neighbor, all frames together; the gray shading counts, without the light's color. Weights v: `pairwise.neighbors`.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor

from unlit.pairwise.filtering import has_kernels
from unlit.pairwise.neighbors import NeighborPairs, PackedPairs, at_scale, paired


def shading_term(scales: list[list[NeighborPairs]], log_shading: Tensor) -> Tensor:
    """Return L_ss for gray log_shading (m, 1, h, w); the pairs are given by scale, finest first."""
    if log_shading.is_cuda and has_kernels() and _is_packed_for(scales, log_shading):
        from unlit.losses import shading_kernels as kernels

        return kernels.shading_term(scales, log_shading)
    return plain_shading_term(scales, log_shading)


def _is_packed_for(scales: list[list[NeighborPairs]], log_shading: Tensor) -> TypeGuard[PackedPairs]:
    """Return whether the pairs are those of a kernel, and of these frames."""
    if not isinstance(scales, PackedPairs) or log_shading.ndim != 4 or log_shading.dtype != torch.float32:
        return False
    m, h, w = scales.size
    return tuple(log_shading.shape) == (m, 1, h, w) and log_shading.device == scales.weights.device


def plain_shading_term(scales: list[list[NeighborPairs]], log_shading: Tensor) -> Tensor:
    """Return L_ss in plain torch operations: any device, any dtype, differentiable any number of times."""
    total = log_shading.new_zeros(())
    for level, pairs in enumerate(scales):
        values = at_scale(log_shading, level)
        # Four offsets stand for all eight neighbors, each pair for both of its directions: the mean is the same.
        for pair in pairs:
            difference = torch.sub(*paired(values, pair.offset))
            mean = (pair.weight * difference.square()).sum() / pair.count.clamp_min(1)
            total = total + mean / ((level + 1) * len(pairs))
    return total
