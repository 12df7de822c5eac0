"""The guided filter by its definition: a ridge regression in each window, one by one. Slow and obvious."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def linear_coefficients(
    guide: NDArray[np.float64], target: NDArray[np.float64], radius: int, ridge: float, misfit_floor: float
) -> NDArray[np.float64]:
    """Return a and b (4, h, w) for a guide (3, h, w) and a target (1, h, w)."""
    h, w = target.shape[1:]
    own, weight = np.zeros((4, h, w)), np.zeros((h, w))
    for y in range(h):
        for x in range(w):
            rows, columns = _window(y, h, radius), _window(x, w, radius)
            g = guide[:, rows, columns].reshape(3, -1)
            t = target[0, rows, columns].reshape(-1)
            n = len(t)
            # Minimise mean (aᵀg + b − t)² + ridge |a|²: b is not ridged.
            design = np.vstack([g, np.ones(n)]).T
            normal = design.T @ design / n + np.diag([ridge, ridge, ridge, 0])
            own[:, y, x] = np.linalg.solve(normal, design.T @ t / n)
            # What is left of the variance after a, by the covariance that a was found from.
            covariance = ((g - g.mean(1, keepdims=True)) * (t - t.mean())).mean(1)
            misfit = t.var() - own[:3, y, x] @ covariance
            weight[y, x] = 1 / (max(misfit, 0) + misfit_floor)
    found = np.zeros((4, h, w))
    for y in range(h):
        for x in range(w):
            rows, columns = _window(y, h, radius), _window(x, w, radius)
            share = weight[rows, columns] / weight[rows, columns].sum()
            found[:, y, x] = (own[:, rows, columns] * share).sum((1, 2))
    return found


def _window(place: int, n: int, radius: int) -> slice:
    return slice(max(0, place - radius), min(n, place + radius + 1))
