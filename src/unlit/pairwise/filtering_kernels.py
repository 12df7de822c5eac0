"""The lattice's filter and its bistochastic scale on a CUDA device, in Triton.

Shapes: n points, v vertices, d + 1 colors, k channels. tests/pairwise/test_kernels.py holds them to `filtering.py`.

Splatting adds millions of numbers onto thousands of vertices in an order that no one controls; float sums would differ
in their last bits from run to run. The sums are kept as 64-bit integers, in units so small that nothing is lost next to
float32: integer addition does not mind the order, so training repeats bit for bit.

Steps are fused to few launches, since on a fast device these, not the arithmetic, are what a sequence costs.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from unlit.pairwise.bistochastic import Bistochastic, expected_rounds, step_factors
from unlit.pairwise.filtering import Structure, TorchFilter

BLOCK = 256
"""Points or vertices a program handles."""

RUN, RUNS = 8, 32
"""Points that a lane splats one after another, and lanes of a program: one warp, whose lanes need not wait."""

FIXED_BITS, MOST_BITS = 62, 50
"""Bits of a fixed-point sum: n values of the largest size must fit; and the most that one value takes (`_whole`)."""


@triton.jit
def _unit(largest, room):
    """How many units of the fixed point are 1: a power of two, so that only rounding to whole units is inexact."""
    size = tl.maximum(tl.load(largest).to(tl.float64), 1e-30)
    return tl.exp2(tl.floor(room - tl.log2(size)))


@triton.jit
def _whole(value):
    """The nearest whole number of a float64 below 2⁵¹ in size: added to 1.5 · 2⁵², it stands in the last bits."""
    return (value + 6755399441055744.0).to(tl.int64, bitcast=True) - 0x4338000000000000


@triton.jit(do_not_specialize=["n", "room"])
@no_type_check  # of tuples that grow
def _splat(
    values, largest, weights, simplex, corners, sums, n, room,
    k: tl.constexpr, width: tl.constexpr, run: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Each lane adds up a run of points, `block` apart, and hands its sums on where the simplex changes.

    That takes a fraction of the additions in memory, and keeps the many points of one simplex from queuing there.
    Additions are relaxed, here as elsewhere: nobody reads the sums before the kernel's end, and Triton's own choice
    puts a fence before each, and throws the cache away after it.
    """
    channel = tl.program_id(1)
    start = tl.program_id(0).to(tl.int64) * (block * run)
    left = tl.minimum(n - start, block * run).to(tl.int32)
    values += start * k + channel
    weights += start * width
    simplex += start
    sums += channel
    lane = tl.arange(0, block)
    unit = _unit(largest, room)
    current = tl.load(simplex + lane, lane < left, 0)
    totals = ()
    for _ in tl.static_range(width):
        totals += (tl.zeros([block], tl.int64),)
    for i in range(run):
        point = i * block + lane
        inside = point < left
        here = tl.load(simplex + point, inside, -1)
        value = tl.load(values + point * k, inside, 0.0).to(tl.float64) * unit
        leaves = here != current
        corner = corners + current.to(tl.int64) * width
        following = ()
        for color in tl.static_range(width):
            weight = tl.load(weights + point * width + color, inside, 0.0).to(tl.float64)
            following += (tl.where(leaves, 0, totals[color]) + _whole(weight * value),)
        for color in tl.static_range(width):
            vertex = tl.load(corner + color, leaves, 0).to(tl.int64)
            tl.atomic_add(sums + vertex * k, totals[color], leaves, sem="relaxed")
        totals = following
        current = tl.where(inside, here, 0)
    corner = corners + current.to(tl.int64) * width
    for color in tl.static_range(width):
        vertex = tl.load(corner + color, lane < left, 0).to(tl.int64)
        tl.atomic_add(sums + vertex * k, totals[color], lane < left, sem="relaxed")


@triton.jit
def _at(values, place, present, unit, dtype: tl.constexpr):
    """The values at some places, zero where none is present; sums in fixed point are brought to floats."""
    value = tl.load(values + place, present, 0)
    if values.dtype.element_ty == tl.int64:
        value = value.to(tl.float64) / unit
    return value.to(dtype)


@triton.jit
def _blurred_once(values, neighbors, axis, vertex, channel, v, k: tl.constexpr, unit, dtype: tl.constexpr):
    """The blur along one axis at some vertices; zero where the vertex is v, that is none."""
    present = vertex < v
    pair = neighbors + axis.to(tl.int64) * 2 * v + vertex
    behind = tl.load(pair, present, v).to(tl.int64)
    ahead = tl.load(pair + v, present, v).to(tl.int64)
    left = _at(values, behind * k + channel, behind < v, unit, dtype)
    right = _at(values, ahead * k + channel, ahead < v, unit, dtype)
    return _at(values, vertex * k + channel, present, unit, dtype) + 0.5 * (left + right)


@triton.jit(do_not_specialize=["before_stride", "v", "room"])
def _blur(
    before, before_stride, after, largest, neighbors, axis, d, v, room,
    k: tl.constexpr, axes: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """One axis or two of either order; program_id(1) is 0 for the axes from 0 on, 1 for those from d down."""
    order = tl.program_id(1)
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = place < v * k
    vertex, channel = tl.where(inside, place // k, v), place % k
    values = before + order.to(tl.int64) * before_stride
    unit = _unit(largest, room)
    dtype: tl.constexpr = after.dtype.element_ty
    first = tl.where(order == 0, axis, d - axis)
    value = _blurred_once(values, neighbors, first, vertex, channel, v, k, unit, dtype)
    if axes == 2:
        second = tl.where(order == 0, axis + 1, d - axis - 1)
        pair = neighbors + second.to(tl.int64) * 2 * v + vertex
        behind = tl.load(pair, inside, v).to(tl.int64)
        ahead = tl.load(pair + v, inside, v).to(tl.int64)
        left = _blurred_once(values, neighbors, first, behind, channel, v, k, unit, dtype)
        right = _blurred_once(values, neighbors, first, ahead, channel, v, k, unit, dtype)
        value += 0.5 * (left + right)
    tl.store(after + order.to(tl.int64) * v * k + place, value, inside)


@triton.jit
def sliced(blurred, weights, corner, point, inside, v, channel, k: tl.constexpr, width: tl.constexpr):
    """The mean, at the points, of what both orders of the blur left at the vertices."""
    total = tl.zeros_like(point).to(weights.dtype.element_ty)
    for color in tl.static_range(width):
        place = blurred + tl.load(corner + color, inside, 0).to(tl.int64) * k + channel
        both = tl.load(place, inside, 0.0) + tl.load(place + v * k, inside, 0.0)
        total += tl.load(weights + point * width + color, inside, 0.0) * both
    return total


@triton.jit(do_not_specialize=["n", "v"])
def _slice(
    blurred, gain, weights, simplex, corners, values, n, v,
    k: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    point = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = point < n
    corner = corners + tl.load(simplex + point, inside, 0).to(tl.int64) * width
    channel = tl.program_id(1)
    total = sliced(blurred, weights, corner, point, inside, v, channel, k, width)
    tl.store(values + point * k + channel, total * tl.load(gain), inside)


@triton.jit(do_not_specialize=["n", "v"])
def _slice_and_step(
    blurred, gain, weights, simplex, corners, log_scale, step, scale, row_sums, worst, n, v, a, b,
    width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The end of one round of `bistochastic.bistochastic`; `worst` takes the largest |residual|."""
    point = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = point < n
    corner = corners + tl.load(simplex + point, inside, 0).to(tl.int64) * width
    filtered = sliced(blurred, weights, corner, point, inside, v, 0, 1, width) * tl.load(gain)
    log_now = tl.load(log_scale + point, inside, 0.0)
    row_sum = tl.where(inside, filtered * tl.exp(log_now), 1.0)
    residual = -tl.log(row_sum)
    # Floats that are not negative are ordered as their bits are, so an integer maximum finds the largest.
    tl.atomic_max(worst, tl.max(tl.abs(residual), 0).to(tl.float32).to(tl.int32, bitcast=True), sem="relaxed")
    change = a * tl.load(step + point, inside, 0.0) + b * residual
    tl.store(row_sums + point, row_sum, inside)
    tl.store(step + point, change, inside)
    tl.store(log_scale + point, log_now + change, inside)
    tl.store(scale + point, tl.exp(log_now + change), inside)


def laid_out(order: Tensor) -> Tensor:
    """Return what sorted points have (n,) so that the first of all runs come first, then the second of all, and so on.

    So what the lanes of a program read at once lies side by side. A rest that does not fill a program stays as it is:
    the order is for speed alone.
    """
    whole = order.shape[0] // (RUN * RUNS) * (RUN * RUNS)
    runs = order[:whole].reshape(-1, RUNS, RUN).transpose(1, 2)
    return torch.cat([runs.reshape(-1), order[whole:]])


class TritonFilter(TorchFilter):
    """W on a CUDA device. Points are kept sorted by simplex, `laid_out`; callers see them in their own order."""

    def __init__(self, structure: Structure) -> None:
        super().__init__(structure)
        weights = structure.weights
        self._n, self.width = weights.shape
        self._axes, _, self._v = structure.neighbors.shape
        # A tensor, since kernels' scalars are float32; filled there, which does not make the host wait.
        self._gain = torch.full((), self.gain, dtype=weights.dtype, device=weights.device)
        self._order = laid_out(structure.order)
        self.on_points = (
            self._gain, weights[self._order], laid_out(structure.ordered_simplex), structure.corners
        )  # fmt: skip
        """What slicing takes: the gain of W, and of the sorted points weights and simplices, with their corners."""

    def __call__(self, values: Tensor) -> Tensor:
        """Return W values, for values (n, k)."""
        k = values.shape[1]
        ordered = values[self._order]
        blurred = self.blurred(ordered, torch.linalg.vector_norm(values, math.inf))
        result = torch.empty_like(ordered)
        shape = {"k": k, "width": self.width, "block": BLOCK}
        _slice[self._over(BLOCK, k)](blurred, *self.on_points, result, self._n, self._v, **shape)
        return self._in_callers_order(result)

    def blurred(self, values: Tensor, largest: Tensor) -> Tensor:
        """Return both orders of the blur (2, v, k) of the splat of sorted values (n, k), none larger than `largest`."""
        sums, buffers = self._workspace(1, values.shape[1])
        return self._blurred(values, largest, sums[0], buffers)

    def bistochastic(self, rounds: int, tolerance: float) -> Bistochastic:
        """Return the scale that makes W bistochastic, as `bistochastic.bistochastic` does, in fewer launches."""
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, not {rounds}")
        log_scale, step, row_sums = torch.zeros(3, self._n, dtype=self._gain.dtype, device=self._gain.device)
        scale = torch.ones_like(log_scale)
        # N ≤ W_pp^(−½) at the answer, and W_pp is at least gain · 2 Σ weights²; on the way N may be somewhat larger.
        largest = torch.full_like(self._gain, 16 * math.sqrt(self.width / (2 * self.gain)))
        worst = torch.zeros(rounds, dtype=torch.int32, device=self._gain.device)
        sums, buffers = self._workspace(rounds, 1)
        for done, (a, b) in enumerate(islice(step_factors(), rounds), start=1):
            blurred = self._blurred(scale[:, None], largest, sums[done - 1], buffers)
            state = (log_scale, step, scale, row_sums, worst[done - 1 :])
            numbers = (self._n, self._v, a, b)
            _slice_and_step[self._over(BLOCK)](
                blurred, *self.on_points, *state, *numbers, width=self.width, block=BLOCK
            )
            # To look how far it is means to wait for the device.
            if done >= expected_rounds(tolerance) and float(worst[done - 1].view(torch.float32)) <= 2 * tolerance:
                break
        log_scale -= step  # the row sums are those of the scale before its last step
        scale = log_scale.exp_()
        return Bistochastic(scale, row_sums, done, self._order)

    def _workspace(self, filterings: int, k: int) -> tuple[Tensor, Tensor]:
        """Return fixed-point sums, zero, for some filterings of k channels, and two buffers (2, v, k) for the blur."""
        device, dtype = self._gain.device, self._gain.dtype
        sums = torch.zeros(filterings, self._v, k, dtype=torch.int64, device=device)
        return sums, torch.empty(2, 2, self._v, k, dtype=dtype, device=device)

    def _blurred(self, values: Tensor, largest: Tensor, sums: Tensor, buffers: Tensor) -> Tensor:
        """Do so with memory that is given."""
        k, d, room = values.shape[1], self._axes - 1, min(FIXED_BITS - self._n.bit_length(), MOST_BITS)
        shape = {"k": k, "width": self.width, "run": RUN, "block": RUNS}
        points = self.on_points[1:]
        _splat[self._over(RUN * RUNS, k)](values, largest, *points, sums, self._n, room, num_warps=1, **shape)
        grid = (triton.cdiv(self._v * k, BLOCK), 2)
        before, stride = sums, 0  # both orders start from the same sums
        for turn, axis in enumerate(range(0, self._axes, 2)):
            after = buffers[turn % 2]
            _blur[grid](
                before, stride, after, largest, self.structure.neighbors, axis, d, self._v, room,
                k=k, axes=min(2, self._axes - axis), block=BLOCK,
            )  # fmt: skip
            before, stride = after, self._v * k
        return before

    def _over(self, block: int, k: int = 1) -> tuple[int, int]:
        """Return the grid over all points, `block` to a program, and over k channels."""
        return triton.cdiv(self._n, block), k

    def _in_callers_order(self, values: Tensor) -> Tensor:
        result = torch.empty_like(values)
        result[self._order] = values
        return result
