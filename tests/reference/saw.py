"""The average precision of SAW as its protocol reads: pixel by pixel, threshold by threshold."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

Confusion = list[list[float]]
"""Three classes, each with how much is called not smooth and how much smooth."""


def pixel(image: Any, i: int, j: int) -> float:
    """The value at i, j; beyond the edge the picture is mirrored, the outermost pixel twice."""
    h, w = image.shape
    i, j = (min(k % (2 * n), 2 * n - 1 - k % (2 * n)) for k, n in ((i, h), (j, w)))
    return float(image[i, j])


def gradient(image: Any) -> Any:
    """Length of Sobel's gradient."""
    found = np.zeros(image.shape)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            down = right = 0.0
            for k, weight in ((-1, 1.0), (0, 2.0), (1, 1.0)):
                down += weight * (pixel(image, i + 1, j + k) - pixel(image, i - 1, j + k))
                right += weight * (pixel(image, i + k, j + 1) - pixel(image, i + k, j - 1))
            found[i, j] = math.hypot(down, right)
    return found


def widest(image: Any) -> Any:
    """Largest value in the window of 10 x 10: five pixels before, four after."""
    found = np.zeros(image.shape)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            found[i, j] = max(pixel(image, i + a, j + b) for a in range(-5, 5) for b in range(-5, 5))
    return found


def region_means(labels: Any, values: Any) -> Any:
    """For smooth pixels the mean of `values` over their region, connected by sides."""
    means = np.zeros(labels.shape)
    seen: set[tuple[int, int]] = set()
    for start in zip(*np.nonzero(labels == 2), strict=True):
        if start in seen:
            continue
        region, todo = [], [start]
        while todo:
            i, j = todo.pop()
            inside = 0 <= i < labels.shape[0] and 0 <= j < labels.shape[1]
            if (i, j) in seen or not inside or labels[i, j] != 2:
                continue
            seen.add((i, j))
            region.append((i, j))
            todo += [(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
        mean = sum(float(values[place]) for place in region) / len(region)
        for place in region:
            means[place] = mean
    return means


def thresholds(way: str) -> list[float]:
    """In rising order."""
    if way == "original":
        low = [10 ** (-4 + 4 * k / 99) / 2 for k in range(100)]
        return sorted(low + [1 - t for t in low])
    first = [1.001 + k * (1.5 - 1.001) / 199 for k in range(200)]
    second = [1.501 + k * (8 - 1.501) / 199 for k in range(200)]
    return [math.log(ratio) for ratio in first + second]


def confusions(shading: Any, labels: Any, image_srgb: Any, way: str) -> list[Confusion]:
    """One for each threshold. `shading` is (h, w, 3), linear."""
    gray = shading.mean(axis=-1)
    if way == "original":
        plain = gradient(gray)
        plain = plain / plain.max() if plain.max() > 0 else plain
    else:
        plain = gradient(np.log(np.maximum(gray, 1e-4)))
    wide = widest(plain)
    weights = region_means(labels, gradient(image_srgb.mean(axis=-1)))
    tables = []
    for threshold in thresholds(way):
        table: Confusion = [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
        for place, label in np.ndenumerate(labels):
            if label == 100:
                continue
            value = plain[place] if label == 2 and way != "original" else wide[place]
            weight = weights[place] if label == 2 and way == "challenge" else 1.0
            table[int(label)][int(value < threshold)] += weight
        tables.append(table)
    return tables


def average_precision(images: list[list[Confusion]]) -> float:
    """Of confusions of several images, summed."""
    curve: list[tuple[float, float]] = []
    for k in range(len(images[0])):
        rows = []
        for label, weight in ((0, 1.0), (1, 1.0), (2, 2.0)):
            row = [sum(image[k][label][called] for image in images) for called in (0, 1)]
            rows.append([weight * r / sum(row) if sum(row) else 0.0 for r in row])
        called = sum(row[1] for row in rows)
        curve.append((rows[2][1] / 2.0, rows[2][1] / called if called else 1.0))
    curve = [(0.0, curve[0][1]), *curve, (1.0, 0.5)]
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(curve))
