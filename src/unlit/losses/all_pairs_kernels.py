"""Squared distances between all pairs of frames on a CUDA device, in Triton: value and gradients in one launch.

Shapes: m frames, c channels, h x w pixels. tests/losses/test_loss_kernels.py holds them to
`all_pairs.plain_all_pairs_sq_distance`, where the names are explained.

A program walks through the frames of some pixels of one channel: once for their mean, once for the sums about it, and
once to write the gradients. Its share of the sum has a place of its own, so that results repeat bit for bit.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from unlit.losses.all_pairs import TINY, plain_all_pairs_sq_distance

BLOCK = 128
"""Pixels of a program, all of one channel: one for each lane, since a walk through the frames is mostly waiting."""

MOST_PIXELS = 2**31 - 1
"""Pixels of a frame are numbered by 32 bits, all channels together; those of a whole sequence by 64."""

_TINY = tl.constexpr(TINY)


@triton.jit
def _loaded(values, weights, inside):
    """Values of one frame, fit for arithmetic where they weigh nothing, and their squared weights."""
    value, weight = tl.load(values, inside, 0.0), tl.load(weights, inside, 0.0)
    finite = tl.abs(value) < float("inf")  # which NaN is not either
    return tl.where((weight == 0) & (finite == 0), 0.0, value), weight * weight


@triton.jit
def _moments(values, value_at, value_step, weights, weight_at, weight_step, frames, mean, inside):
    """Sums over the frames of w, w (value − mean) and w (value − mean)², for the squared weights w."""
    sum_0, sum_1, sum_2 = tl.zeros_like(mean), tl.zeros_like(mean), tl.zeros_like(mean)
    frame = 0
    while frame < frames:  # not `range`, whose end Triton's interpreter cannot read from a variable
        value, square = _loaded(values + value_at, weights + weight_at, inside)
        value -= mean
        sum_0 += square
        sum_1 += square * value
        sum_2 += square * value * value
        values += value_step
        weights += weight_step
        frame += 1
    return sum_0, sum_1, sum_2


@triton.jit
def _store_gradient(
    gradient, at, step, values, value_at, value_step, weights, weight_at, weight_step,
    frames, mean, others, shift, inside,
):  # fmt: skip
    """2 w (others (value − mean) − shift) in every frame: the gradient by one side, from the other side's sums."""
    frame = 0
    while frame < frames:
        value, square = _loaded(values + value_at, weights + weight_at, inside)
        tl.store(gradient + at, 2 * square * (others * (value - mean) - shift), inside)
        gradient += step
        values += value_step
        weights += weight_step
        frame += 1


@triton.jit(do_not_specialize=["x_frames", "y_frames"])
def _distance(
    x, y, p, q, partials, x_gradient, y_gradient, x_frames, y_frames, plane, frame_step,
    x_step, x_channel, x_pixel, y_step, y_channel, y_pixel,
    p_step, p_channel, p_pixel, q_step, q_channel, q_pixel,
    wants_x: tl.constexpr, wants_y: tl.constexpr, is_one: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """All terms of some pixels of channel program_id(1), and their gradients where wanted.

    Frames lie `_step` numbers apart, channels `_channel` and pixels `_pixel`; the gradients are contiguous. Where x and
    y with their weights are one (`is_one`), the gradient by y is that by both.
    """
    channel = tl.program_id(1)
    pixel = tl.program_id(0) * block + tl.arange(0, block)
    inside = pixel < plane
    x_at, y_at = channel * x_channel + pixel * x_pixel, channel * y_channel + pixel * y_pixel
    p_at, q_at = channel * p_channel + pixel * p_pixel, channel * q_channel + pixel * q_pixel
    zero = tl.zeros([block], tl.float32)
    sum_p2, sum_x, _ = _moments(x, x_at, x_step, p, p_at, p_step, x_frames, zero, inside)
    if is_one:
        sum_q2, sum_y = sum_p2, sum_x
    else:
        sum_q2, sum_y, _ = _moments(y, y_at, y_step, q, q_at, q_step, y_frames, zero, inside)
    mean = (sum_x + sum_y) / (sum_p2 + sum_q2 + _TINY)
    _, sum_x, sum_xx = _moments(x, x_at, x_step, p, p_at, p_step, x_frames, mean, inside)
    if is_one:
        sum_y, sum_yy = sum_x, sum_xx
    else:
        _, sum_y, sum_yy = _moments(y, y_at, y_step, q, q_at, q_step, y_frames, mean, inside)
    value = sum_q2 * sum_xx + sum_p2 * sum_yy - 2 * sum_x * sum_y
    tl.store(partials + channel * tl.num_programs(0) + tl.program_id(0), tl.sum(value, 0))
    at = channel * plane + pixel
    if wants_x:
        _store_gradient(
            x_gradient, at, frame_step, x, x_at, x_step, p, p_at, p_step, x_frames, mean, sum_q2, sum_y, inside
        )
    if wants_y:
        if is_one:
            sum_p2, sum_x = 2 * sum_p2, 2 * sum_x
        _store_gradient(
            y_gradient, at, frame_step, y, y_at, y_step, q, q_at, q_step, y_frames, mean, sum_p2, sum_x, inside
        )


def fits(x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> bool:
    """Return whether the kernel takes these: float32 of four axes, of one size, and constant weights that fit them."""
    for values, weight in ((x, p), (y, q)):
        if not values.ndim == weight.ndim == 4 or weight.requires_grad:
            return False
        if not values.dtype == weight.dtype == torch.float32 or not values.device == weight.device == x.device:
            return False
        if any(mine not in (1, theirs) for mine, theirs in zip(weight.shape, values.shape, strict=True)):
            return False
    return x.shape[1:] == y.shape[1:] and 0 < x[0:1].numel() <= MOST_PIXELS and y.shape[0] > 0


def value_and_gradients(
    x: Tensor, y: Tensor, p: Tensor, q: Tensor, wants_x: bool, wants_y: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the sum and its gradients by x and by y, as far as wanted, for what `fits`.

    Where x and y are one, and their weights too, what would be the gradient by y is that by both.
    """
    is_one = x is y and p is q
    wants_x = wants_x and not is_one
    _, c, h, w = x.shape
    inputs = [_walkable(t.detach()) for t in (x, y, p.expand(x.shape), q.expand(y.shape))]
    steps = [step for t in inputs for step in (t.stride(0), t.stride(1), _pixel_step(t))]
    grid = (triton.cdiv(h * w, BLOCK), c)
    partials = x.new_empty(grid[0] * c)
    x_gradient = x.new_empty(x.shape) if wants_x else None
    y_gradient = x.new_empty(y.shape) if wants_y else None
    outputs = (partials if t is None else t for t in (x_gradient, y_gradient))
    _distance[grid](
        *inputs, partials, *outputs, len(x), len(y), h * w, c * h * w, *steps,
        wants_x=wants_x, wants_y=wants_y, is_one=is_one, block=BLOCK,
    )  # fmt: skip
    return partials.sum(), x_gradient, y_gradient


def _walkable(values: Tensor) -> Tensor:
    """Return values (m, c, h, w) whose pixels, row after row, lie at equal steps: most do, channels last too."""
    return values if _pixel_step(values) is not None else values.contiguous()


def _pixel_step(values: Tensor) -> int | None:
    h, w = values.shape[2:]
    row, column = values.stride()[2:]
    if w == 1:
        return row
    return column if h == 1 or row == w * column else None


class _AllPairs(torch.autograd.Function):
    """The sum; its gradients are at hand as soon as its value is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> Tensor:
        value, *gradients = value_and_gradients(x, y, p, q, *ctx.needs_input_grad[:2])
        ctx.save_for_backward(x, y, p, q, *gradients)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, y, p, q, *gradients = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradients shall be differentiated in turn, which plain torch can do
            x, y = x.view_as(x), y.view_as(y)  # or they would be one where both sides are the same tensor
            value = plain_all_pairs_sq_distance(x, y, p, q)
            tracked = iter(
                torch.autograd.grad(value, [t for t in (x, y) if t.requires_grad], grads[0], create_graph=True)
            )
            return *(next(tracked) if t.requires_grad else None for t in (x, y)), None, None
        return *(None if gradient is None else grads[0] * gradient for gradient in gradients), None, None


def all_pairs_sq_distance(x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """Return the sum as `all_pairs.plain_all_pairs_sq_distance` does, for what `fits`."""
    value: Tensor = _AllPairs.apply(x, y, p, q)  # type: ignore[no-untyped-call]  # torch's
    return value
