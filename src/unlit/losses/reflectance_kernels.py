"""Dense reflectance smoothness on a CUDA device, in Triton: value and gradient with what the lattice's filter launches.

Shapes: m frames, h x w pixels, n valid pixels, v vertices, k channels. tests/losses/test_loss_kernels.py holds both to
`reflectance.plain_dense_reflectance_term`.

The points stay sorted by simplex, as the filter takes them (`pairwise.SortedPoints`): one kernel gathers them from the
image, centers and scales them, another takes the filter's answer and writes the gradient into an image again. Sums are
of each program alone, or of whole numbers, so training repeats bit for bit.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from unlit.losses.reflectance import plain_dense_reflectance_term
from unlit.pairwise.filtering_kernels import TritonFilter, sliced
from unlit.pairwise.pairwise import DensePairs, SortedPoints

BLOCK = 256
"""Points of a program."""

SAMPLE = 64
"""Points whose mean the values are taken from: only differences matter, so any value near them makes them small."""

_SAMPLE = tl.constexpr(SAMPLE)


@triton.jit
def _at(places, point, inside, plane, frame_step, pixel_step):
    """Where in an image (m, k, h, w) the first channel of some points is."""
    place = tl.load(places + point, inside, 0)
    return (place // plane).to(tl.int64) * frame_step + (place % plane).to(tl.int64) * pixel_step


@triton.jit(do_not_specialize=["n"])
def _gather(
    image, places, scale, values, largest, n, plane, frame_step, channel_step, pixel_step,
    k: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """`scale` times the centered values of the points; `largest` takes the largest of them, as bits."""
    point = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = point < n
    at = image + _at(places, point, inside, plane, frame_step, pixel_step)
    some = tl.arange(0, _SAMPLE).to(tl.int64) * n // _SAMPLE
    sample = image + _at(places, some, some < n, plane, frame_step, pixel_step)
    own = tl.load(scale + point, inside, 0.0)
    size = tl.zeros([block], tl.float32)
    for channel in tl.static_range(k):
        mean = tl.sum(tl.load(sample + channel * channel_step).to(tl.float32), 0) / _SAMPLE
        value = own * (tl.load(at + channel * channel_step, inside, 0.0).to(tl.float32) - mean)
        tl.store(values + point * k + channel, value, inside)
        size = tl.maximum(size, tl.abs(value))
    # Floats that are not negative are ordered as their bits are, so an integer maximum finds the largest.
    tl.atomic_max(largest, tl.max(size, 0).to(tl.int32, bitcast=True), sem="relaxed")


@triton.jit(do_not_specialize=["n", "v"])
def _product(
    blurred, gain, weights, simplex, corners, values, places, scale, row_sums, gradient, partials, factor,
    n, v, plane, frame_step, channel_step, pixel_step,
    k: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """(D − Ŵ) r of some points, times `factor`, into the gradient; their share of rᵀ (D − Ŵ) r into the partials."""
    point = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = point < n
    corner = corners + tl.load(simplex + point, inside, 0).to(tl.int64) * width
    at = gradient + _at(places, point, inside, plane, frame_step, pixel_step)
    own = tl.load(scale + point, inside, 1.0)
    row_sum = tl.load(row_sums + point, inside, 0.0)
    total = tl.zeros([block], tl.float32)
    for channel in tl.static_range(k):
        filtered = sliced(blurred, weights, corner, point, inside, v, channel, k, width) * tl.load(gain)
        centered = tl.load(values + point * k + channel, inside, 0.0) / own
        product = row_sum * centered - own * filtered
        tl.store(at + channel * channel_step, factor * product, inside)
        total += tl.where(inside, centered * product, 0.0)
    tl.store(partials + tl.program_id(0), tl.sum(total, 0))


def fits(pairs: DensePairs, log_reflectance: Tensor) -> bool:
    """Return whether the kernels take these: pairs of points that a kernel sorted, and float32 images."""
    if pairs.in_order is None or not isinstance(pairs.lattice.values_filter, TritonFilter):
        return False
    return log_reflectance.ndim == 4 and log_reflectance.dtype == pairs.in_order.scale.dtype == torch.float32


def value_and_gradient(
    own: TritonFilter, points: SortedPoints, log_reflectance: Tensor, *, is_whole: bool
) -> tuple[Tensor, Tensor]:
    """Return L_rs of log_reflectance (m, k, h, w), float32, and its gradient; it `is_whole` where all pixels count."""
    image = even(log_reflectance.detach())
    gradient = torch.empty_like(image) if is_whole else torch.zeros_like(image)
    # A sum of squares; rounding alone could make it negative.
    value = partials_into_gradient(own, points, image, gradient).sum().clamp_min(0)
    return value / (points.scale.shape[0] * image.shape[1]), gradient


def partials_into_gradient(own: TritonFilter, points: SortedPoints, image: Tensor, gradient: Tensor) -> Tensor:
    """Write the gradient of L_rs by an `even` image (m, k, h, w); return numbers whose sum is 3n L_rs.

    The gradient is float32, in memory as an `even` image is; where pixels do not count it is left as it was.
    """
    n, k = points.scale.shape[0], image.shape[1]
    values, largest = gradient.new_empty(n, k), torch.zeros((), dtype=torch.int32, device=image.device)
    grid = (triton.cdiv(n, BLOCK),)
    _gather[grid](image, points.places, points.scale, values, largest, n, *steps(image), k=k, block=BLOCK)
    blurred = own.blurred(values, largest.view(torch.float32))
    partials = gradient.new_empty(grid)
    _product[grid](
        blurred, *own.on_points, values, *points, gradient, partials, 2 / (n * k), n, blurred.shape[1],
        *steps(gradient), k=k, width=own.width, block=BLOCK,
    )  # fmt: skip
    return partials


def even(image: Tensor) -> Tensor:
    """Return an image (m, k, h, w) whose pixels, row after row, lie at equal steps: most do, channels last too."""
    layouts = (torch.contiguous_format, torch.channels_last)
    return image if any(image.is_contiguous(memory_format=layout) for layout in layouts) else image.contiguous()


def steps(image: Tensor) -> tuple[int, int, int, int]:
    """Return the pixels of a frame, and the steps in memory from frame to frame, channel to channel, pixel to pixel."""
    frame, channel, row, column = image.stride()
    return image.shape[2] * image.shape[3], frame, channel, column if image.shape[3] > 1 else row


class _DenseTerm(torch.autograd.Function):
    """L_rs; its gradient is at hand as soon as its value is."""

    @staticmethod
    def forward(ctx: Any, log_reflectance: Tensor, pairs: DensePairs) -> Tensor:
        own, points = pairs.lattice.values_filter, pairs.in_order
        assert isinstance(own, TritonFilter)
        assert points is not None
        value, gradient = value_and_gradient(own, points, log_reflectance, is_whole=pairs.pixels is None)
        ctx.pairs = pairs
        ctx.save_for_backward(log_reflectance, gradient)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        log_reflectance, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient shall be differentiated in turn, which plain torch can do
            value = plain_dense_reflectance_term(ctx.pairs, log_reflectance)
            (tracked,) = torch.autograd.grad(value, log_reflectance, grads[0], create_graph=True)
            return tracked, None
        return grads[0] * gradient, None


def dense_reflectance_term(pairs: DensePairs, log_reflectance: Tensor) -> Tensor:
    """Return L_rs as `reflectance.plain_dense_reflectance_term` does, for what `fits`."""
    value: Tensor = _DenseTerm.apply(log_reflectance, pairs)  # type: ignore[no-untyped-call]  # torch's
    return value
