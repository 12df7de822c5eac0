"""The permutohedral lattice by its definition: every vertex a tuple, every blur a matrix.

The lattice is the grid of integers of d + 1 coordinates, seen along its diagonal. A vertex is a tuple k of integers,
the last of them zero (k and k + 1 look the same), and a step along axis j takes 1 from k_j.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import torch
from torch import Tensor

Vertex = tuple[int, ...]


def cell_coordinates(features: Tensor) -> Tensor:
    """Points (n, d) on the hyperplane (n, d + 1), in cells: an isometry times sqrt(2/3)."""
    return math.sqrt(2 / 3) * features.double() @ _basis(features.shape[1])


def features_at(points: Tensor) -> Tensor:
    """Features (n, d) of points (n, d + 1) on the hyperplane, in cells: the way back."""
    return math.sqrt(3 / 2) * points.double() @ _basis(points.shape[1] - 1).T


def hat(offset: Tensor) -> Tensor:
    """The weight of a vertex for a point at `offset` (..., d + 1) in cells from it: linear, zero from the next on."""
    return (1 - (offset.amax(-1) - offset.amin(-1))).clamp_min(0)


def corners(point: Tensor) -> dict[Vertex, float]:
    """The vertices around a point (d + 1,) in cells that have weight there, with their weights."""
    found = {}
    for up in product((0, 1), repeat=len(point)):
        k = point.floor() + torch.tensor(up)
        weight = float(hat(point - k))
        if weight > 0:
            found[_vertex([int(i) for i in k])] = weight
    return found


def around(vertex: Vertex) -> list[list[Vertex]]:
    """The two neighbors of a vertex along each axis."""
    return [
        [_vertex([i - sign * (axis == j) for j, i in enumerate(vertex)]) for sign in (1, -1)]
        for axis in range(len(vertex))
    ]


def vertices(occupied: set[Vertex]) -> list[Vertex]:
    """The occupied vertices, and the empty ones beside at least two of them."""
    beside = Counter(neighbor for vertex in occupied for pair in around(vertex) for neighbor in pair)
    return [*occupied, *(vertex for vertex, count in beside.items() if count >= 2 and vertex not in occupied)]


def filter_matrix(features: Tensor) -> Tensor:
    """W (n, n) between points (n, d) none of which lies on the face of a simplex."""
    n, d = features.shape
    places = [corners(point) for point in cell_coordinates(features)]
    known = vertices({vertex for place in places for vertex in place})
    number = {vertex: i for i, vertex in enumerate(known)}
    slicing = torch.zeros(n, len(known), dtype=torch.float64)
    for point, place in enumerate(places):
        for vertex, weight in place.items():
            slicing[point, number[vertex]] = weight
    blurs = [torch.eye(len(known), dtype=torch.float64) for _ in range(d + 1)]
    for vertex, i in number.items():
        for blur, pair in zip(blurs, around(vertex), strict=True):
            for neighbor in pair:
                if neighbor in number:
                    blur[i, number[neighbor]] = 0.5
    forward: Tensor = torch.linalg.multi_dot(blurs)
    return gain(d) * slicing @ (forward + forward.T) @ slicing.T


def gain(d: int) -> float:
    """The Gaussian's integral over that of a row of SᵀB̄S: the blurs double d + 1 times, in two orders."""
    steps = torch.eye(d + 1, dtype=torch.float64)[:d] - 1 / (d + 1)
    volume = float(torch.linalg.det(steps @ steps.T).sqrt()) * math.pow(3 / 2, d / 2)
    return math.pow(2 * math.pi, d / 2) / (2 * math.pow(2, d + 1) * volume)


def _basis(d: int) -> Tensor:
    """Orthonormal rows (d, d + 1) that each sum to zero."""
    rows = [[1.0] * j + [-j] + [0.0] * (d - j) for j in range(1, d + 1)]
    return torch.nn.functional.normalize(torch.tensor(rows, dtype=torch.float64), dim=1)


def _vertex(k: list[int]) -> Vertex:
    return tuple(i - k[-1] for i in k)
