"""The scores of the MIT Intrinsic Images as plain loops over windows, pixels and channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


def best_scale(estimates: list[float], truths: list[float]) -> float:
    energy = sum(e * e for e in estimates)
    return sum(e * t for e, t in zip(estimates, truths, strict=True)) / energy if energy > 0 else 0.0


def sq_error(estimates: list[float], truths: list[float]) -> float:
    scale = best_scale(estimates, truths)
    return sum((t - scale * e) ** 2 for e, t in zip(estimates, truths, strict=True))


def channels(image: Values) -> list[Values]:
    return [image] if image.ndim == 2 else [image[..., k] for k in range(image.shape[2])]


def valid_values(image: Values, mask: Mask) -> list[float]:
    """The values of all channels inside the mask, one after the other."""
    h, w = mask.shape
    return [float(c[y, x]) for c in channels(image) for y in range(h) for x in range(w) if mask[y, x]]


def mse(estimate: Values, truth: Values, mask: Mask) -> float:
    truths = valid_values(truth, mask)
    return sq_error(valid_values(estimate, mask), truths) / len(truths)


def lmse(estimate: Values, truth: Values, mask: Mask) -> float:
    h, w = mask.shape
    scores = []
    for e, t in zip(channels(estimate), channels(truth), strict=True):
        error = total = 0.0
        for y in range(0, h - 20 + 1, 10):
            for x in range(0, w - 20 + 1, 10):
                window = (slice(y, y + 20), slice(x, x + 20))
                truths = valid_values(t[window], mask[window])
                error += sq_error(valid_values(e[window], mask[window]), truths)
                total += sum(value**2 for value in truths)
        scores.append(error / total)
    return sum(scores) / len(scores)


def dssim(estimate: Values, truth: Values, mask: Mask) -> float:
    scale = best_scale(valid_values(estimate, mask), valid_values(truth, mask))
    h, w = mask.shape
    scores = []
    for e, t in zip(channels(estimate), channels(truth), strict=True):
        for y in range(h):
            for x in range(w):
                if mask[y, x]:
                    scores.append((1 - similarity(scale * e, t, mask, y, x)) / 2)
    return sum(scores) / len(scores)


def similarity(a: Values, b: Values, mask: Mask, y: int, x: int) -> float:
    """SSIM at one pixel: Wang et al. 2004, a Gaussian of 1.5 in a window of 11 x 11, a range of 1, invalid = black."""
    h, w = mask.shape
    weights, values = [], []
    for i in range(-5, 6):
        for j in range(-5, 6):
            weights.append(math.exp(-(i * i + j * j) / (2 * 1.5**2)))
            v, u = y + i, x + j
            seen = 0 <= v < h and 0 <= u < w and bool(mask[v, u])
            values.append((float(a[v, u]), float(b[v, u])) if seen else (0.0, 0.0))
    weights = [weight / sum(weights) for weight in weights]
    pairs = list(zip(weights, values, strict=True))
    mean_a = sum(g * p for g, (p, _) in pairs)
    mean_b = sum(g * q for g, (_, q) in pairs)
    var_a = sum(g * (p - mean_a) ** 2 for g, (p, _) in pairs)
    var_b = sum(g * (q - mean_b) ** 2 for g, (_, q) in pairs)
    both = sum(g * (p - mean_a) * (q - mean_b) for g, (p, q) in pairs)
    c1, c2 = 0.01**2, 0.03**2
    return ((2 * mean_a * mean_b + c1) * (2 * both + c2)) / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
