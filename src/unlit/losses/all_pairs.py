"""Squared distances between all pairs of frames of a sequence, in one pass over the frames.

Shapes: m frames, c channels, h x w pixels. As in the paper (Sec. 4.5), `x` and `y` are log-images and `p`, `q` their
weights; a pixel of weight zero counts for nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unlit.pairwise.filtering import has_kernels

TINY = 1e-20
"""Keeps the mean of pixels without any weight at zero instead of NaN."""


def all_pairs_sq_distance(x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """Return the sum over i, j of `|| p[i] * q[j] * (x[i] - y[j]) ||²` (APWLS): a scalar.

    `x` is (m, c, h, w); `y` may have another number of frames; `p` and `q` broadcast to them, (m, 1, h, w) or a number
    for all, say. Whatever `x` or `y` hold where their weight is zero, NaN too, does not matter.

    Expanding the square lets the frames be summed first, so the cost is linear in m. With `Σ_a` the sum over frames of
    a, the paper prints the cross term as `2 Σ_{P²Y} Σ_{Q²X}`; the double sum gives `2 Σ_{P²X} Σ_{Q²Y}`, used here.

    The expanded form subtracts large, nearly equal numbers when the values lie far from zero, as logs of dark pixels
    do; only `x - y` matters, so both are first moved by their common mean at each pixel, which changes nothing but the
    rounding. That is also why the mean needs no gradient.
    """
    # torch.compile cannot look into the kernels; the plain form it fuses with what comes before and after.
    if x.is_cuda and has_kernels() and not torch.compiler.is_compiling():
        from unlit.losses import all_pairs_kernels as kernels

        if kernels.fits(x, y, p, q):
            return kernels.all_pairs_sq_distance(x, y, p, q)
    return plain_all_pairs_sq_distance(x, y, p, q)


def plain_all_pairs_sq_distance(x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """Return that sum in plain torch operations: any device, any dtype, differentiable any number of times."""
    x, p2 = _prepared(x, p)
    y, q2 = _prepared(y, q)
    sum_p2, sum_q2 = p2.sum(0), q2.sum(0)
    mean = (((p2 * x).sum(0) + (q2 * y).sum(0)) / (sum_p2 + sum_q2 + TINY)).detach()
    x, y = x - mean, y - mean
    p2x, q2y = p2 * x, q2 * y
    squares = sum_q2 * (p2x * x).sum(0) + sum_p2 * (q2y * y).sum(0)
    return (squares - 2 * p2x.sum(0) * q2y.sum(0)).sum()


def _prepared(values: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values, fit for arithmetic where they weigh nothing, and the squared weights of all frames.

    Half precision is too short for sums over frames, and integers overflow when squared: both become float32 at least.
    """
    dtype = torch.promote_types(torch.promote_types(values.dtype, weight.dtype), torch.float32)
    values, weight = values.to(dtype), weight.to(dtype)
    frames, _, *size = values.shape
    weight = weight.expand(frames, weight.shape[1] if weight.ndim == 4 else 1, *size)  # or the sum over frames is short
    return torch.where((weight == 0) & ~values.isfinite(), 0, values), weight.square()
