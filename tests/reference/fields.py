"""Slow, obvious versions of what the baselines solve."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def mean_field(features: Array, unary: Array, cost: Array, probability: Array, rounds: int) -> Array:
    """Mean field with the affinities of all pairs written out, each pixel updated by itself."""
    n, k = unary.shape
    affinity = np.array([[np.exp(-0.5 * np.sum((a - b) ** 2)) for b in features] for a in features])
    scale = np.ones(n)
    for _ in range(200):
        scale = np.sqrt(scale / (affinity @ scale))
    affinity = scale[:, None] * affinity * scale
    for _ in range(rounds):
        updated = np.zeros_like(probability)
        for i in range(n):
            energies = [
                unary[i, x] + sum(affinity[i, j] * probability[j, y] * cost[x, y] for j in range(n) for y in range(k))
                for x in range(k)
            ]
            updated[i] = np.exp(np.min(energies) - energies)
            updated[i] /= updated[i].sum()
        probability = updated
    return probability


def zhao_energy(
    log_reflectance: Array, log_gray: Array, valid: Array, down: Array, right: Array, groups: Array, texture: float
) -> float:
    """The sum that Zhao's method minimises, term by term; `down` and `right` have ω, `groups` (h, w)."""
    h, w = valid.shape
    total = 0.0
    for y in range(h):
        for x in range(w):
            for (v, u), omega in (((y + 1, x), down), ((y, x + 1), right)):
                if v < h and u < w and valid[y, x] and valid[v, u]:
                    step = log_reflectance[v, u] - log_reflectance[y, x]
                    total += (log_gray[v, u] - log_gray[y, x] - step) ** 2 + omega[y, x] * step**2
    for group in np.unique(groups[valid]):
        members = log_reflectance[valid & (groups == group)]
        total += texture * float(np.sum((members - members.mean()) ** 2))
    return float(total)


def border_jumps(levels: Array, label_map: Array, valid: Array, log_gray: Array) -> float:
    """The sum of the absolute jumps of log_gray − level between neighbors of different labels."""
    h, w = valid.shape
    shading = log_gray - levels[label_map]
    total = 0.0
    for y in range(h):
        for x in range(w):
            for v, u in ((y + 1, x), (y, x + 1)):
                if v < h and u < w and valid[y, x] and valid[v, u] and label_map[v, u] != label_map[y, x]:
                    total += abs(shading[v, u] - shading[y, x])
    return float(total)
