"""The energy of one sequence on a CUDA device, in Triton: its value and its gradient with a dozen launches in all.

Shapes: m frames, h x w pixels. tests/losses/test_energy_kernels.py holds both to `energy.plain_energy`.

Each smoothness term has its kernels (`reflectance_kernels`, `shading_kernels`); what compares frames of one place is
`frame_kernels`', which adds all gradients up. Term by term the same takes some seventy launches, most of them passes
over all frames that add, scale or convert what the one before has written.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from unlit.losses import reflectance_kernels, shading_kernels
from unlit.losses.frame_kernels import BLOCK, count, divisors, terms
from unlit.losses.settings import WEIGHTS, EnergySettings
from unlit.model.decomposition import Decomposition
from unlit.pairwise.filtering_kernels import TritonFilter
from unlit.pairwise.neighbors import PackedPairs
from unlit.pairwise.pairwise import Pairwise

SUMMED = 4096
"""Partial sums that are added at once."""

MOST_PIXELS = 2**29
"""Pixels of a frame are numbered by 32 bits, all channels together; those of a whole sequence by 64."""


@triton.jit
def _sum(values, n, block: tl.constexpr):
    total = tl.zeros([block], tl.float32)
    first = tl.full([], 0, tl.int64)
    while first < n:
        at = first + tl.arange(0, block)
        total += tl.load(values + at, at < n, 0.0)
        first += block
    return tl.sum(total, 0)


@triton.jit(do_not_specialize=["programs", "dense_programs", "smooth_programs"])
def _total(
    partials, dense_partials, smooth_partials, counts, terms, total,
    by_reconstruction, by_consistency, by_reflectance, by_shading, by_scale, per_point,
    programs, dense_programs, smooth_programs, block: tl.constexpr,
):  # fmt: skip
    """The terms, from what all programs left, and their weighted sum."""
    explained, compared, counted = divisors(counts)
    reconstruction = _sum(partials, programs, block) / explained
    consistency = _sum(partials + programs, programs, block) / compared
    reflectance = _sum(dense_partials, dense_programs, block) * per_point
    reflectance = tl.where(reflectance < 0, 0.0, reflectance)  # a sum of squares; rounding alone makes it negative
    shading = _sum(smooth_partials, smooth_programs, block)
    scale = _sum(partials + 2 * programs, programs, block) / counted
    tl.store(terms, reconstruction)
    tl.store(terms + 1, consistency)
    tl.store(terms + 2, reflectance)
    tl.store(terms + 3, shading)
    tl.store(terms + 4, scale)
    whole = by_reconstruction * reconstruction + by_consistency * consistency + by_reflectance * reflectance
    tl.store(total, whole + by_shading * shading + by_scale * scale)


def fits(frames: Tensor, mask: Tensor, found: Decomposition, pairwise: Pairwise, settings: EnergySettings) -> bool:
    """Return whether the kernels take these: an energy of all terms, pairs that kernels made of the same frames."""
    if not settings.all_pairs or any(getattr(settings, name) == 0 for name in WEIGHTS):
        return False
    dense = pairwise.dense
    if dense is None or dense.in_order is None or not isinstance(dense.lattice.values_filter, TritonFilter):
        return False
    m, _, h, w = frames.shape
    parts = (found.log_reflectance, found.log_shading, found.light_color)
    short = all(part.dtype in (torch.float32, torch.bfloat16, torch.float16) for part in parts)
    return (
        short and frames.dtype == dense.in_order.scale.dtype == torch.float32 and mask.dtype == torch.bool
        and isinstance(pairwise.shading, PackedPairs) and pairwise.shading.size == (m, h, w) and h * w <= MOST_PIXELS
    )  # fmt: skip


def value_and_gradients(
    frames: Tensor, mask: Tensor, found: Decomposition, pairwise: Pairwise, settings: EnergySettings
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Return the energy, its five terms, and its gradients by the three parts; None for a color that does not count."""
    m, _, h, w = frames.shape
    dense, smooth = pairwise.dense, pairwise.shading
    assert dense is not None
    own, points = dense.lattice.values_filter, dense.in_order
    assert isinstance(own, TritonFilter)
    assert points is not None
    assert isinstance(smooth, PackedPairs)
    frames, r = (reflectance_kernels.even(image.detach()) for image in (frames, found.log_reflectance))
    s, color, mask = (t.detach().contiguous() for t in (found.log_shading, found.light_color, mask.view(torch.uint8)))
    r_gradient, s_gradient = torch.empty_like(r), torch.empty_like(s)
    dense_gradient = torch.empty_like(r, dtype=torch.float32)
    dense_partials = reflectance_kernels.partials_into_gradient(own, points, r, dense_gradient)
    smooth_partials, smooth_gradient = shading_kernels.partials_and_gradient(smooth, s)
    programs = triton.cdiv(h * w, BLOCK)
    partials, color_partials = frames.new_empty(3, programs), frames.new_empty(m, 3, programs)
    count[(programs,)](mask, partials, m, h * w, block=BLOCK, num_warps=1)
    counts = partials[:2].sum(1)
    weights = [float(getattr(settings, name)) for name in WEIGHTS]
    terms[(programs,)](
        frames, mask, r, s, color, dense_gradient, smooth_gradient, counts,
        r_gradient, s_gradient, color_partials, partials,
        *weights, m, h * w, *reflectance_kernels.steps(frames)[1:], *reflectance_kernels.steps(r)[1:],
        colored=settings.colored_light, block=BLOCK, num_warps=1,
    )  # fmt: skip
    values, total = frames.new_empty(len(WEIGHTS)), frames.new_empty(())
    _total[(1,)](
        partials, dense_partials, smooth_partials, counts, values, total, *weights, 1 / (3 * points.scale.shape[0]),
        programs, len(dense_partials), len(smooth_partials), block=SUMMED, num_warps=8,
    )  # fmt: skip
    color_gradient = color_partials.sum(2).to(color.dtype) if settings.colored_light else None
    return total, values, r_gradient, s_gradient, color_gradient


class _Energy(torch.autograd.Function):
    """The energy and its terms, which have no gradients; that of the energy is at hand as soon as its value is."""

    @staticmethod
    def forward(
        ctx: Any, log_reflectance: Tensor, log_shading: Tensor, light_color: Tensor, *seen: Any
    ) -> tuple[Tensor, Tensor]:
        frames, mask, *rest = seen
        found = Decomposition(log_reflectance, log_shading, light_color)
        total, terms, *gradients = value_and_gradients(frames, mask, found, *rest)
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(terms)
        ctx.set_materialize_grads(False)
        return total, terms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if gradient is None else grads[0] * gradient for gradient in ctx.saved_tensors)
        return *scaled, None, None, None, None


def energy(
    frames: Tensor, mask: Tensor, found: Decomposition, pairwise: Pairwise, settings: EnergySettings
) -> tuple[Tensor, Tensor]:
    """Return E and its terms (5,), by the order of `WEIGHTS`, for what `fits`; only E can be differentiated, once."""
    parts = (found.log_reflectance, found.log_shading, found.light_color)
    total, terms = _Energy.apply(*parts, frames, mask, pairwise, settings)  # type: ignore[no-untyped-call]  # torch's
    return total, terms
