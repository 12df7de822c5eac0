"""Reflectance smoothness: pixels that look alike, anywhere in the sequence, share their reflectance (the paper, Eq. 6).

    L_rs = ½ Σ_pq Ŵ_pq ‖ r_p − r_q ‖² / 3n  =  rᵀ (D − Ŵ) r / 3n,    Ŵ = N Sᵀ B̄ S N,   r = log R

Shapes: m frames, h x w pixels, n valid pixels of all frames. D holds the row sums of Ŵ, which are 1 up to the tolerance
of N; with D in the place of the paper's identity the term is exactly a sum of squares, so it is never negative. It is
divided by the number of valid pixels times channels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unlit.pairwise.neighbors import NeighborPairs, paired
from unlit.pairwise.pairwise import DensePairs


def dense_reflectance_term(pairs: DensePairs, log_reflectance: Tensor) -> Tensor:
    """Return L_rs for log_reflectance (m, 3, h, w): every valid pixel with every other, at a cost linear in n."""
    if log_reflectance.is_cuda and pairs.in_order is not None:
        from unlit.losses import reflectance_kernels as kernels

        if kernels.fits(pairs, log_reflectance):
            return kernels.dense_reflectance_term(pairs, log_reflectance)
    return plain_dense_reflectance_term(pairs, log_reflectance)


def plain_dense_reflectance_term(pairs: DensePairs, log_reflectance: Tensor) -> Tensor:
    """Return L_rs by the lattice's own filter: any device, any dtype, differentiable any number of times."""
    values = log_reflectance.permute(0, 2, 3, 1).reshape(-1, log_reflectance.shape[1])
    values = values.to(pairs.scaled.ordered_scale.dtype)
    total: Tensor = _QuadraticForm.apply(values, pairs)  # type: ignore[no-untyped-call]  # torch's
    return total / (pairs.lattice.n * values.shape[1])


def local_reflectance_term(pairs: list[NeighborPairs], log_reflectance: Tensor) -> Tensor:
    """Return the term with neighbors in the same frame only: `Σ W_pq ‖r_p − r_q‖²` over their number times channels."""
    total = log_reflectance.new_zeros(())
    for pair in pairs:
        difference = torch.sub(*paired(log_reflectance, pair.offset))
        total = total + (pair.weight * difference.square()).sum() / pair.count.clamp_min(1)
    return total / (len(pairs) * log_reflectance.shape[1])


class _QuadraticForm(torch.autograd.Function):
    """rᵀ (D − Ŵ) r; the one product (D − Ŵ) r serves the value and the gradient, 2 (D − Ŵ) r."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, pairs: DensePairs) -> Tensor:
        centered, product = _centered_and_product(values, pairs)
        ctx.pairs = pairs
        ctx.save_for_backward(values, product)
        return (centered * product).sum().clamp_min(0)  # a sum of squares; rounding alone could make it negative

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        values, product = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody asks for second derivatives, and the saved product has no graph
            _, product = _centered_and_product(values, ctx.pairs)
        gradient = 2 * grads[0] * product
        if ctx.pairs.pixels is None:
            return gradient, None
        # No pixel comes twice, so each row is written once; torch's own way of undoing an indexing must add.
        return torch.zeros_like(values).index_copy(0, ctx.pairs.pixels, gradient), None


def _centered_and_product(values: Tensor, pairs: DensePairs) -> tuple[Tensor, Tensor]:
    """Return r and (D − Ŵ) r for the valid ones of values (m h w, c).

    Only differences of r matter: around their mean the values are small, and so is the rounding.
    """
    chosen = values if pairs.pixels is None else values[pairs.pixels]
    centered = chosen - chosen.mean(0)
    scale = pairs.scaled.scale[:, None]
    return centered, pairs.scaled.row_sums[:, None] * centered - scale * pairs.lattice.filter(scale * centered)
