"""Gaussian filtering among all pairs of points at a cost linear in their number: the permutohedral lattice.

Shapes: n points, d features, k channels, v vertices. Values of the points are *splatted* onto the vertices of the
simplices that hold them, *blurred* along the d + 1 axes of the lattice, and *sliced* back to the points (Adams, Baek &
Davis 2010): `W = SᵀB̄S`, times a constant. The blur along one axis is `I + ½ (two neighbors)`; blurs along different
axes do not quite commute where neighbors are missing, so `B̄ = B₀…B_d + B_d…B₀` makes W symmetric (the paper, Sec. 4.3).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unlit.pairwise.bistochastic import ROUNDS, TOLERANCE, Bistochastic
from unlit.pairwise.construction import build_structure
from unlit.pairwise.embedding import MOST_FEATURES
from unlit.pairwise.filtering import TorchFilter, best_filter


class PermutohedralLattice:
    """The lattice over a set of points, and the symmetric filter W between them.

    `features` (n, d) are scaled so that the affinity of two points is about `exp(-½‖f_p − f_q‖²)`; no further scale is
    needed. Points of different `group` (n,), integers, have nothing to do with one another: so several sequences share
    one lattice and every step of the work. The lattice is constant: `features` get no gradient.
    """

    def __init__(self, features: Tensor, group: Tensor | None = None) -> None:
        if features.ndim != 2 or 0 in features.shape:
            raise ValueError(f"features must be (n, d), with n and d at least 1, not {tuple(features.shape)}")
        if features.shape[1] > MOST_FEATURES:
            raise ValueError(f"features must be at most {MOST_FEATURES} for each point, not {features.shape[1]}")
        features = features.detach()
        if features.dtype not in (torch.float32, torch.float64):
            features = features.float()
        if group is None:
            group = torch.zeros(1, dtype=torch.long, device=features.device).expand(features.shape[0])
        if group.shape != features.shape[:1] or group.is_floating_point():
            raise ValueError(f"group must be ({features.shape[0]},) integers, not {tuple(group.shape)} {group.dtype}")
        self.n, self.d = features.shape
        self.structure = build_structure(features, group)
        self._filter = best_filter(self.structure)

    @property
    def values_filter(self) -> TorchFilter:
        """The filter W, without gradients, as the device has it."""
        return self._filter

    @property
    def vertex_count(self) -> int:
        """The number of vertices v."""
        return self.structure.neighbors.shape[2]

    def filter(self, values: Tensor) -> Tensor:
        """Return W values: at each point about `Σ_q exp(-½‖f_p − f_q‖²) values_q`, for values (n, k).

        The result has the features' dtype. Differentiable in `values`; W is symmetric, so the gradient is the same
        filter of the incoming one.
        """
        if values.ndim != 2 or values.shape[0] != self.n:
            raise ValueError(f"values must be ({self.n}, k), one row for each point, not {tuple(values.shape)}")
        result: Tensor = _Filter.apply(values.to(self.structure.weights.dtype), self)  # type: ignore[no-untyped-call]  # torch's
        return result

    def bistochastic_scale(self, rounds: int = ROUNDS, tolerance: float = TOLERANCE) -> Tensor:
        """Return the positive scale N (n,) for which `N W N` has rows and columns that sum to one."""
        return self.bistochastic(rounds, tolerance).scale

    def bistochastic(self, rounds: int = ROUNDS, tolerance: float = TOLERANCE) -> Bistochastic:
        """Return that scale with the row sums it reached and the filterings it took."""
        return self._filter.bistochastic(rounds, tolerance)


class _Filter(torch.autograd.Function):
    """W as a symmetric linear map."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, lattice: PermutohedralLattice) -> Tensor:
        ctx.lattice = lattice
        return lattice._filter(values.detach())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.lattice.filter(grads[0]), None  # tracked, so that second derivatives work too
