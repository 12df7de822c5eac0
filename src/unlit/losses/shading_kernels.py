"""Shading smoothness on a CUDA device, in Triton: value and gradient of all scales and offsets in one launch.

Shapes: m frames, h x w pixels. tests/losses/test_loss_kernels.py holds both to `shading.plain_shading_term`.

Every pixel gathers its gradient from its neighbors, and every program leaves its share of the sum in a place of its
own: no order of additions is left to chance, so training repeats bit for bit.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from unlit.losses.shading import plain_shading_term
from unlit.pairwise.neighbor_kernels import length_at, neighbor
from unlit.pairwise.neighbors import PackedPairs

BLOCK = 512
"""Pixels of a program, all of one frame."""


@triton.jit(do_not_specialize=["m", "h", "w"])
def _smoothness(
    log_shading, weights, counts, partials, gradient, m, h, w,
    levels: tl.constexpr, wants_gradient: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The terms of L_ss whose p is among some pixels of frame program_id(1), and the whole gradient at these."""
    frame = tl.program_id(1)
    pixel = tl.program_id(0) * block + tl.arange(0, block)
    y, x = pixel // w, pixel % w
    own = log_shading + frame.to(tl.int64) * (h * w)
    here = tl.load(own + pixel, pixel < h * w, 0.0).to(tl.float32)
    total = tl.zeros([block], tl.float32)
    slope = tl.zeros([block], tl.float32)
    for level in range(levels):
        rows, columns = length_at(h, level), length_at(w, level)
        plane = (rows * columns).to(tl.int64)
        row, column = y >> level, x >> level
        taken = (pixel < h * w) & ((row << level) == y) & ((column << level) == x)
        for number in tl.static_range(4):
            down, right = neighbor(number)
            # Four offsets stand for all eight neighbors, each pair for both of its directions: the mean is the same.
            share = 1.0 / (tl.maximum(tl.load(counts + level * 4 + number), 1).to(tl.float32) * (level + 1) * 4)
            at = weights + (number * m + frame) * plane + row * columns + column
            reach = ((down << level) * w) + (right << level)
            ahead = taken & (row + down < rows) & (column + right >= 0) & (column + right < columns)
            weight = share * tl.load(at, ahead, 0.0)
            difference = here - tl.load(own + pixel + reach, ahead, 0.0).to(tl.float32)
            total += weight * difference * difference
            if wants_gradient:
                behind = taken & (row >= down) & (column >= right) & (column - right < columns)
                slope += 2 * weight * difference
                weight = share * tl.load(at - (down * columns + right), behind, 0.0)
                slope += 2 * weight * (here - tl.load(own + pixel - reach, behind, 0.0).to(tl.float32))
        weights += 4 * m * plane
    if wants_gradient:
        tl.store(gradient + frame.to(tl.int64) * (h * w) + pixel, slope, pixel < h * w)
    tl.store(partials + frame * tl.num_programs(0) + tl.program_id(0), tl.sum(total, 0))


def value_and_gradient(pairs: PackedPairs, log_shading: Tensor, wants_gradient: bool) -> tuple[Tensor, Tensor | None]:
    """Return L_ss of log_shading (m, 1, h, w), float32, and its gradient, if wanted."""
    partials, gradient = partials_and_gradient(pairs, log_shading.detach().contiguous(), wants_gradient)
    return partials.sum(), gradient


def partials_and_gradient(
    pairs: PackedPairs, log_shading: Tensor, wants_gradient: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Return numbers whose sum is L_ss of log_shading, contiguous, and its gradient, if wanted; both are float32."""
    m, h, w = pairs.size
    grid = (triton.cdiv(h * w, BLOCK), m)
    partials = pairs.weights.new_empty(m * grid[0])
    gradient = torch.empty_like(log_shading, dtype=torch.float32) if wants_gradient else None
    _smoothness[grid](
        log_shading, pairs.weights, pairs.counts, partials, partials if gradient is None else gradient, m, h, w,
        levels=len(pairs), wants_gradient=wants_gradient, block=BLOCK,
    )  # fmt: skip
    return partials, gradient


class _ShadingTerm(torch.autograd.Function):
    """L_ss; its gradient is at hand as soon as its value is."""

    @staticmethod
    def forward(ctx: Any, log_shading: Tensor, pairs: PackedPairs) -> Tensor:
        value, gradient = value_and_gradient(pairs, log_shading, ctx.needs_input_grad[0])
        ctx.pairs = pairs
        ctx.save_for_backward(log_shading, gradient)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        log_shading, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient shall be differentiated in turn, which plain torch can do
            value = plain_shading_term(ctx.pairs, log_shading)
            (tracked,) = torch.autograd.grad(value, log_shading, grads[0], create_graph=True)
            return tracked, None
        return grads[0] * gradient, None


def shading_term(pairs: PackedPairs, log_shading: Tensor) -> Tensor:
    """Return L_ss as `shading.plain_shading_term` does, for log_shading (m, 1, h, w), float32."""
    value: Tensor = _ShadingTerm.apply(log_shading, pairs)  # type: ignore[no-untyped-call]  # torch's
    return value
