"""Values carried from a small picture to a large one along the picture's own edges.

Notation: g (3, h, w) is the guide, the log of the small picture; t (1, h, w) what is to be carried. In each window of
(2 radius + 1)² pixels t is taken for a linear function of the guide, aᵀg + b, by least squares with a ridge on a
(guided filter, He et al. 2013, with a guide of three colors):

    a = (Cov g + ridge·1)⁻¹ Cov(g, t),    b = mean t − aᵀ mean g.

A pixel takes the mean of what the windows that hold it say, weighted by how well t fits there, so that a window across
an edge of the shading that is none of the picture's brightness says little to its neighbors. The coefficients are
smooth; they, not t, are interpolated to the large size, where the large picture's log meets them (fast guided filter).
"""

from __future__ import annotations

import torch
from torch import Tensor

RADIUS = 2
RIDGE = 1e-3
"""Chosen on the MIT objects, whose true shading was made small and carried back (docs/trials-predict.md)."""

MISFIT_FLOOR = 1e-3
"""Windows that misfit by less than this variance of logs count alike."""


def linear_coefficients(guide: Tensor, target: Tensor, radius: int = RADIUS, ridge: float = RIDGE) -> Tensor:
    """Return a and b, (4, h, w), for a guide (3, h, w) and a target (1, h, w)."""
    # Only differences matter to the variances, and they lose fewer digits near zero.
    center = guide.mean((1, 2), keepdim=True)
    g, t = (guide - center)[None], target[None]
    mean_g, mean_t = window_mean(g, radius), window_mean(t, radius)
    variances = window_mean(_products(g), radius) - _products(mean_g)
    covariances = window_mean(g * t, radius) - mean_g * mean_t
    a = _solved(variances, covariances, ridge)
    b = mean_t - (a * mean_g).sum(1, keepdim=True)
    misfit = window_mean(t * t, radius) - mean_t**2 - (a * covariances).sum(1, keepdim=True)
    weight = 1 / (misfit.clamp_min(0) + MISFIT_FLOOR)
    coefficients = window_mean(torch.cat([a, b], 1) * weight, radius) / window_mean(weight, radius)
    a, b = coefficients[0, :3], coefficients[0, 3:]
    return torch.cat([a, b - (a * center).sum(0, keepdim=True)])


def applied(coefficients: Tensor, guide: Tensor) -> Tensor:
    """Return aᵀg + b, (1, h, w)."""
    return (coefficients[:3] * guide).sum(0, keepdim=True) + coefficients[3:]


def window_mean(values: Tensor, radius: int) -> Tensor:
    """Return the means of (1, c, h, w) over square windows, cut off at the picture's edge.

    By shifted sums, first down and then across: on a CPU ten times as fast as torch's pooling.
    """
    for axis in (-2, -1):
        n = values.shape[axis]
        sums = values.clone()
        for shift in range(1, min(radius, n - 1) + 1):
            sums.narrow(axis, 0, n - shift).add_(values.narrow(axis, shift, n - shift))
            sums.narrow(axis, shift, n - shift).add_(values.narrow(axis, 0, n - shift))
        place = torch.arange(n, device=values.device)
        count = (place + radius + 1).clamp_max(n) - (place - radius).clamp_min(0)
        values = sums.mul_(count.to(values.dtype).reciprocal().reshape(-1, *[1] * (-1 - axis)))
    return values


def _products(colors: Tensor) -> Tensor:
    """Return the products of colors (1, 3, h, w) with one another: rr rg rb gg gb bb."""
    r, g, b = colors[0]
    return torch.stack([r * r, r * g, r * b, g * g, g * b, b * b])[None]


def _solved(variances: Tensor, covariances: Tensor, ridge: float) -> Tensor:
    """Return a (1, 3, h, w) by Cramer's rule, for the upper triangle of Cov g, (1, 6, h, w): rr rg rb gg gb bb."""
    # In few digits the inverse is noise where the colors go together, as at every black edge of a gray thing.
    rr, rg, rb, gg, gb, bb = variances.double().unbind(1)
    rr, gg, bb = rr + ridge, gg + ridge, bb + ridge
    # The cofactors, in the same order; they are symmetric as well.
    c0, c1, c2 = gg * bb - gb * gb, rb * gb - rg * bb, rg * gb - rb * gg
    c3, c4, c5 = rr * bb - rb * rb, rb * rg - rr * gb, rr * gg - rg * rg
    x, y, z = covariances.double().unbind(1)
    products = [c0 * x + c1 * y + c2 * z, c1 * x + c3 * y + c4 * z, c2 * x + c4 * y + c5 * z]
    return (torch.stack(products, 1) / (rr * c0 + rg * c1 + rb * c2)).to(variances.dtype)
