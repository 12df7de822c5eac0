"""Pairs of points to be compared in a picture, spread as those of IIW are.

Shapes: h x w pixels, j pairs. IIW compares points of a loose grid with their neighbors; here a jittered grid does it,
and as many pairs of any two points are added, since surfaces that do not touch should be told apart too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unlit.evaluate.benchmark import Values
from unlit.evaluate.iiw import Comparisons, ScoredEncoding, darker, lightness

CELLS = 12
"""Of the grid, along the shorter side."""


def point_pairs(mask: NDArray[np.bool_], rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns (j, 2) of two points each, all inside the mask (h, w); none where it is too small."""
    grid = _grid(mask, rng)
    valid = mask[grid[..., 0], grid[..., 1]]
    below, beside = valid[:-1] & valid[1:], valid[:, :-1] & valid[:, 1:]
    first = np.concatenate([grid[:-1][below], grid[:, :-1][beside]])
    second = np.concatenate([grid[1:][below], grid[:, 1:][beside]])
    points = grid[valid]
    if len(points):
        places = rng.integers(len(points), size=(2, len(first)))
        first, second = (np.concatenate([near, points[k]]) for near, k in zip((first, second), places, strict=True))
    apart = (first != second).any(axis=1)  # cells may share a pixel
    return first[apart], second[apart]


def _grid(mask: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return one random point (rows, columns, 2) in each cell of a grid over the picture."""
    h, w = mask.shape
    cell = max(1.0, min(h, w) / CELLS)
    rows, columns = max(1, int(h / cell)), max(1, int(w / cell))
    places = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1)
    jittered = (places + rng.random(places.shape)) * np.array([h / rows, w / columns])
    grid: NDArray[np.intp] = np.minimum(jittered.astype(np.intp), np.array([h - 1, w - 1]))
    return grid


def true_comparisons(
    reflectance: Values,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    delta: float,
    encoding: ScoredEncoding = "linear",
) -> Comparisons:
    """Return what somebody who sees `reflectance` (h, w, 3) itself would say of pairs of points (j, 2), all sure."""
    said = darker(lightness(reflectance, first, second, encoding), delta)
    return Comparisons(first, second, said, np.ones(len(said)))
