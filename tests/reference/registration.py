"""Slow, obvious versions of what `unlit.prepare` computes."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray


def fitted_motion(p: NDArray[np.float64], q: NDArray[np.float64], w: NDArray[np.float64]) -> tuple[float, ...]:
    """(dx, dy, zoom, turn) that make Σ w |zoom · R(turn) p + d − q|² least: linear least squares in (a, b, dx, dy)."""
    rows, right = [], []
    for (x, y), (u, v), weight in zip(p, q, w, strict=True):
        rows += [np.sqrt(weight) * np.array([x, -y, 1, 0]), np.sqrt(weight) * np.array([y, x, 0, 1])]
        right += [np.sqrt(weight) * u, np.sqrt(weight) * v]
    a, b, dx, dy = np.linalg.lstsq(np.array(rows), np.array(right))[0]
    return dx, dy, np.hypot(a, b), np.arctan2(b, a)


def correlation(reference: NDArray[np.complex64], field: NDArray[np.complex64]) -> NDArray[np.float64]:
    """Σ conj(reference(p)) field(p + s) for every shift s, the picture taken for a torus; not whitened."""
    h, w = reference.shape
    values = np.empty((h, w))
    for dy, dx in itertools.product(range(h), range(w)):
        values[dy, dx] = (reference.conj() * np.roll(field, (-dy, -dx), (0, 1))).sum().real
    return values


def shifted(pixels: NDArray[np.float32], dx: float, dy: float, lobes: int = 3) -> NDArray[np.float64]:
    """pixels[y + dy, x + dx], a sum of sinc-windowed sincs over all pixels near, the edge's value beyond it."""
    h, w, _ = pixels.shape

    def weights(t: float) -> tuple[int, NDArray[np.float64]]:
        first = int(np.floor(t)) - lobes + 1
        offsets = t - np.arange(first, first + 2 * lobes)
        values = np.sinc(offsets) * np.sinc(offsets / lobes)
        return first, values / values.sum()

    out = np.zeros(pixels.shape)
    for y, x in itertools.product(range(h), range(w)):
        (top, down), (left, across) = weights(y + dy), weights(x + dx)
        for i, j in itertools.product(range(2 * lobes), range(2 * lobes)):
            out[y, x] += down[i] * across[j] * pixels[np.clip(top + i, 0, h - 1), np.clip(left + j, 0, w - 1)]
    return out


def best_radius(lights: NDArray[np.float32], k: int) -> float:
    """The smallest r for which k of the lights lie within r of all: every choice of k is tried."""
    apart = np.sqrt(((lights[:, None] - lights[None]) ** 2).sum(-1))
    return min(float(apart[:, list(chosen)].min(1).max()) for chosen in itertools.combinations(range(len(lights)), k))
