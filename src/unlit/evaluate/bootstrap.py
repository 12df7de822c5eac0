"""How far a score could be off because these images and no others were scored: intervals by drawing images again.

Shapes: n images, k draws. Images are drawn with replacement as many times as there are; the scores of many such draws
scatter as those of other images from the same place would (Efron 1979).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

DRAWS = 1000
LEVEL = 0.95
SEED = 0
_AT_ONCE = 100
"""Draws whose sums are in memory together."""

Totals = Callable[[NDArray[np.float64]], dict[str, NDArray[np.float64]]]


def bootstrap_intervals(
    totals: Totals, count: int, *, draws: int = DRAWS, level: float = LEVEL, seed: int = SEED
) -> dict[str, tuple[float, float]]:
    """Return for each score the interval that holds `level` of its draws, for a set of `count` images.

    `totals` gives each score (k,) for weights (k, n): how often each image is drawn. Draws in which a score is NaN say
    nothing of it; a score without any other has no interval. With a single image nothing can be said.
    """
    if count < 2:
        return {}
    rng = np.random.default_rng(seed)
    found: dict[str, list[NDArray[np.float64]]] = {}
    for start in range(0, draws, _AT_ONCE):
        weights = rng.multinomial(count, np.full(count, 1 / count), min(_AT_ONCE, draws - start)).astype(np.float64)
        for key, values in totals(weights).items():
            found.setdefault(key, []).append(values)
    edges = ((1 - level) / 2, (1 + level) / 2)
    intervals = {}
    for key, parts in found.items():
        values = np.concatenate(parts)
        known = values[np.isfinite(values)]
        if len(known):
            low, high = np.quantile(known, edges)
            intervals[key] = (float(low), float(high))
    return intervals
