"""A guess that needs no learning, for a network to start from: color retinex over the whole picture.

Shapes: m images, h x w pixels. Steps of log brightness from a pixel to the next belong to the reflectance r where color
or brightness changes much there, else to the shading (Grosse et al. 2009; `baselines/retinex.py`). Which way a step
goes is seen nearby; what the steps add up to is not, and layers that look a few pixels far would have to learn to sum:

    r minimises  Σ w (r_q − r_p − k)²,  k the step where it is the reflectance's, else 0.

The weights w are small where the picture is nearly black: logs of black say nothing, and what lies beside an object on
a black ground must not tie its sides together. Solved by conjugate gradients, with the equation of equal weights, which
cosines diagonalise, as preconditioner. Cosine transforms are products with matrices: at these sizes as quick as any
other way, and every runtime has them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

THRESHOLDS = ((0.05, 0.7), (0.15, 1.5))
"""Of color and of brightness, in logs from pixel to pixel: for fine paint, and for coarse."""

ROUNDS = 8
DARK = 0.05
"""Pixels darker than this share of the picture's mean count less."""
LEAST = 0.02
"""The weight of black."""
FLOOR = 1e-4


def retinex_cues(images: Tensor) -> Tensor:
    """Return logs of gray shading (m, 2, h, w), each with a mean of zero, for linear images (m, 3, h, w).

    One for each pair of `THRESHOLDS`. No gradient flows through.
    """
    with torch.no_grad(), torch.autocast(images.device.type, enabled=False):
        light = images.float().clamp_min(0)  # colors outside of sRGB have negative values
        gray = light.mean(1, keepdim=True)
        floor = DARK * gray.mean((2, 3), keepdim=True) + FLOOR
        logs = light.clamp_min(0.2 * floor).log()
        log_gray = logs.mean(1, keepdim=True)
        color = logs - log_gray
        certain = (gray / floor).clamp(LEAST, 1.0)
        weights = [torch.minimum(*_pairs(certain, axis)) for axis in (2, 3)]
        steps = [_step(log_gray, axis) for axis in (2, 3)]
        changes = [_step(color, axis).square().sum(1, keepdim=True).sqrt() for axis in (2, 3)]
        kept = []
        for step, change in zip(steps, changes, strict=True):
            is_paint = [(change > of_color) | (step.abs() > of_gray) for of_color, of_gray in THRESHOLDS]
            kept.append(step * torch.cat(is_paint, 1))
        reflectance = _summed(kept, weights)
        shading = log_gray - reflectance
        return shading - shading.mean((2, 3), keepdim=True)


def _pairs(values: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return each pixel and the next one along an axis."""
    n = values.shape[axis]
    return values.narrow(axis, 0, n - 1), values.narrow(axis, 1, n - 1)


def _step(values: Tensor, axis: int) -> Tensor:
    first, second = _pairs(values, axis)
    return second - first


def _gathered(steps: list[Tensor]) -> Tensor:
    """Return the transpose of `_step`, both axes together: what each pixel gets of the steps to and from it."""
    down, right = steps
    return pad(down, (0, 0, 1, 0)) - pad(down, (0, 0, 0, 1)) + pad(right, (1, 0)) - pad(right, (0, 1))


def _summed(kept: list[Tensor], weights: list[Tensor]) -> Tensor:
    """Return r (m, c, h, w), whose steps come nearest to those `kept`, by weighted least squares."""
    h, w = kept[1].shape[2], kept[0].shape[3]
    device = kept[0].device
    down, right = _cosines(h, device), _cosines(w, device)
    stiffness = _eigenvalues(h, device)[:, None] + _eigenvalues(w, device)
    # The mean is free: its equation says 0 = 0, and any number will do here.
    inverse = torch.where(stiffness > 0, 1 / stiffness.clamp_min(1e-12), 0.0)

    def preconditioned(values: Tensor) -> Tensor:
        return down.T @ (inverse * (down @ values @ right.T)) @ right

    def applied(values: Tensor) -> Tensor:
        return _gathered([_step(values, axis) * weight for axis, weight in zip((2, 3), weights, strict=True)])

    residual = _gathered([step * weight for step, weight in zip(kept, weights, strict=True)])
    found = torch.zeros_like(residual)
    direction = better = preconditioned(residual)
    size = _dot(residual, better)
    for _ in range(ROUNDS):
        pushed = applied(direction)
        along = size / _dot(direction, pushed).clamp_min(1e-20)
        found = found + along * direction
        residual = residual - along * pushed
        better = preconditioned(residual)
        size, before = _dot(residual, better), size
        direction = better + size / before.clamp_min(1e-20) * direction
    return found


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((2, 3), keepdim=True)


def _cosines(n: int, device: torch.device) -> Tensor:
    """Return the matrix (n, n) of the orthonormal cosine transform, type II."""
    k, count = _counted(n, device)
    matrix = torch.cos(math.pi / count * k[:, None] * (k + 0.5)) * (2 / count).sqrt()
    return torch.where(k[:, None] == 0, (1 / count).sqrt(), matrix)


def _eigenvalues(n: int, device: torch.device) -> Tensor:
    """Return those (n,) of the squared step along an axis of n pixels, by the order of the cosines."""
    k, count = _counted(n, device)
    return 2 - 2 * torch.cos(math.pi / count * k)


def _counted(n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return 0 to n − 1, and n, as tensors: a size that is not known yet, in an exported network, is no number."""
    k = torch.arange(n, device=device, dtype=torch.float32)
    return k, torch.ones_like(k).sum()
