"""The learned quadratic, slowly: every term as a row of a matrix, the minimum by least squares."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from unlit.quadratic.pairs import KINDS
from unlit.quadratic.weights import Scene, Terms

Floats = NDArray[np.float64]


def dense_minimum(scene: Scene, terms: Terms) -> Floats:
    """Return r (h, w) of mean 0 inside, zero outside: the least-squares solution of all terms' rows."""
    matrix, right = rows_of(scene, terms)
    inside, *_ = np.linalg.lstsq(matrix, right, rcond=1e-12)
    found = np.zeros(scene.valid.shape)
    found[scene.valid] = inside - inside.mean()
    return found


def sum_of(scene: Scene, terms: Terms, r: Floats) -> float:
    """Return the sum at r (h, w)."""
    matrix, right = rows_of(scene, terms)
    return float(np.sum((matrix @ r[scene.valid] - right) ** 2))


def rows_of(scene: Scene, terms: Terms) -> tuple[Floats, Floats]:
    """Return a matrix (k, n) and what its product with r should be (k,), each row scaled by the root of its weight."""
    valid, log_gray = scene.valid, scene.log_gray
    count = int(valid.sum())
    index = np.full(valid.shape, -1)
    index[valid] = np.arange(count)
    rows, wanted = [], []
    paints, sures = ([t.detach().double().numpy() for t in kinds] for kinds in (terms.paint, terms.sure))
    for (span, axis), paint, sure in zip(KINDS, paints, sures, strict=True):
        for y, x in np.ndindex(*paint.shape):
            other = (y + span, x) if axis == 0 else (y, x + span)
            if valid[y, x] and valid[other]:
                row, root = np.zeros(count), float(sure[y, x]) ** 0.5
                row[index[other]], row[index[y, x]] = root, -root
                rows.append(row)
                wanted.append(root * float(paint[y, x]) * (log_gray[other] - log_gray[y, x]))
    for groups, alike in zip(scene.groups, terms.alike.detach().double().numpy(), strict=True):
        for j in range(count):
            row, mates = np.zeros(count), groups == groups[j]
            row[mates] -= alike[mates] / alike[mates].sum()
            row[j] += 1
            rows.append(alike[j] ** 0.5 * row)
            wanted.append(0.0)
    target = log_gray[valid] - terms.guess.detach().double().numpy()
    root = float(terms.anchor.detach()) ** 0.5
    rows += list(root * (np.eye(count) - 1 / count))
    wanted += list(root * (target - target.mean()))
    return np.stack(rows), np.array(wanted)


def finite_difference(function: object, values: torch.Tensor, index: tuple[int, ...], step: float) -> float:
    """Return the slope of `function()` as one entry of `values` is moved to either side."""
    assert callable(function)
    with torch.no_grad():
        before = float(values[index])
        values[index] = before + step
        high = float(function())
        values[index] = before - step
        low = float(function())
        values[index] = before
    return (high - low) / (2 * step)
