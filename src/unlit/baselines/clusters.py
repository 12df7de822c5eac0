"""k-means: points gathered around a few centers.

Shapes: n points, d features, k clusters. The same points always give the same clusters: the first center is the point
nearest to the mean, each further one is drawn, by a seeded generator, with a chance that grows with the squared
distance from those there are (k-means++, Arthur & Vassilvitskii 2007); then Lloyd's rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Points = NDArray[np.floating[Any]]

ROUNDS = 30
"""Lloyd's rounds at most; what still moves after them moves little."""


class Clusters(NamedTuple):
    """The result: no cluster is empty, so there may be fewer than were asked for."""

    centers: NDArray[np.float64]
    """(k, d)."""
    labels: NDArray[np.intp]
    """(n,) the cluster of each point, 0 to k − 1."""


def k_means(points: Points, k: int, rounds: int = ROUNDS) -> Clusters:
    """Return at most k clusters of points (n, d), n at least 1."""
    exact = np.asarray(points, np.float64)
    centers = _first_centers(exact, k)
    labels = _nearest(exact, centers)
    for _ in range(rounds):
        centers = means_of(exact, labels)
        before, labels = labels, _nearest(exact, centers)
        if np.array_equal(labels, before):
            break
    _, labels = np.unique(labels, return_inverse=True)
    return Clusters(means_of(exact, labels), labels)


def means_of(values: NDArray[np.float64], labels: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the mean (k, d) of the values (n, d) of each label; of labels that none has, zero."""
    counts = np.maximum(np.bincount(labels), 1)
    sums = [np.bincount(labels, column) for column in values.T]
    return np.stack(sums, axis=-1) / counts[:, None]


def _first_centers(points: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Return centers (k, d) far from one another; fewer where there are fewer different points."""
    generator = np.random.default_rng(0)
    centers = [points[np.argmin(np.sum((points - points.mean(axis=0)) ** 2, axis=-1))]]
    distance = np.sum((points - centers[0]) ** 2, axis=-1)
    while len(centers) < k:
        total = np.cumsum(distance)
        if total[-1] <= 0:
            break
        drawn = np.searchsorted(total, generator.random() * total[-1], side="right")
        centers.append(points[min(int(drawn), len(points) - 1)])
        distance = np.minimum(distance, np.sum((points - centers[-1]) ** 2, axis=-1))
    return np.array(centers)


def _nearest(points: NDArray[np.float64], centers: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the index (n,) of the center nearest to each point."""
    # |p − c|² less |p|², which is the same for all centers: one matrix product instead of n k differences.
    return np.asarray(np.argmin(np.sum(centers**2, axis=-1) - 2 * points @ centers.T, axis=-1))
