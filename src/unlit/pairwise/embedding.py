"""Where a point lies in the permutohedral lattice: its simplex and its weights in it (Adams et al. 2010, Sec. 3).

Shapes: n points, d features. A point is lifted onto the hyperplane of d + 1 coordinates that sum to zero. The lattice's
vertices there have integer coordinates, all of one vertex alike modulo d + 1; that common remainder is the vertex's
*color*, and the d + 1 vertices of a simplex have one of each. A simplex is named by

- `cell` (d + 1, n): coordinates of its vertex of color 0, divided by d + 1;
- `rank` (d + 1, n): the order, from the largest, of the point's offsets from that vertex along each coordinate.

Everything is computed in float64, so that float32 features of 10⁴ cells lose nothing; temporaries are of one chunk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 1 << 16
"""Points lifted at once on a CPU: the temporaries of a chunk stay in the cache."""


MOST_FEATURES = 64
"""Ranks are counted in int8, and on the way to the hyperplane may go half as far again as d."""


class Location(NamedTuple):
    """The simplex around each point, and the point's barycentric weights there by color: each (d + 1, n)."""

    cell: Tensor
    rank: Tensor
    weights: Tensor


def lifted(features: Tensor) -> Tensor:
    """Return the coordinates (d + 1, n) on the hyperplane of points `features` (n, d).

    The lift is an isometry times sqrt(2/3) (d + 1), which makes splat, blur and slice together a Gaussian of standard
    deviation one in the units of `features` (Adams et al., Sec. 4.2). The columns of its matrix are, up to their
    lengths, (1, …, 1, −j, 0, …, 0), so each coordinate is a running sum.
    """
    n, d = features.shape
    spread = math.sqrt(2 / 3) * (d + 1)
    points = features.new_empty(d + 1, n)
    total = points[0].zero_()
    for j in range(d, 0, -1):
        step = features[:, j - 1] * (spread / math.sqrt(j * (j + 1)))
        torch.sub(total, step * j, out=points[j])
        total += step
    return points


@cache
def lift_matrix(d: int) -> Tensor:
    """Return the matrix (d, d + 1), float64, by which features, as rows, are multiplied to be lifted."""
    return lifted(torch.eye(d, dtype=torch.float64)).T.contiguous()


def located(features: Tensor) -> Location:
    """Return where each point of `features` (n, d), float64, lies."""
    d = features.shape[1]
    offset = lifted(features)
    cell = torch.round(offset / (d + 1))
    offset -= cell * (d + 1)
    rank = _descending_rank(offset)
    # Rounding each coordinate alone may leave the hyperplane. The excess moves the coordinates at one end of the order
    # by a whole cell, which turns the order around by as many places.
    rank += cell.sum(0).to(torch.int8)
    wrap = (rank < 0).to(torch.int8) - (rank > d).to(torch.int8)
    rank += wrap * (d + 1)
    cell += wrap
    offset -= wrap * (d + 1)
    return Location(cell.to(torch.int32), rank, _barycentric(offset.div_(d + 1), rank))


def corner_axes(rank: Tensor) -> Tensor:
    """Return (d, n) the axes along which one walks from a simplex's corner of color 0 to those of colors 1 to d.

    A step along axis j adds 1 to every coordinate and takes d + 1 from the j-th; the first takes it from the
    coordinate of the highest `rank` (d + 1, n), whose offset is the smallest, the second from the next, and so on.
    """
    d1 = rank.shape[0]
    axes = torch.arange(d1, device=rank.device)[:, None].expand_as(rank)
    return torch.empty_like(axes).scatter_(0, rank.long(), axes).flip(0)[: d1 - 1]


def chunks(n: int, device: torch.device) -> Iterator[slice]:
    """Yield the slices in which n points are lifted: by chunks on a CPU, at once on a device that likes large ones."""
    size = CHUNK if device.type == "cpu" else max(n, 1)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _descending_rank(offset: Tensor) -> Tensor:
    """Return for offsets (d + 1, n) how many of a point's are larger than each, ties going to the earlier; int8."""
    rank = torch.zeros_like(offset, dtype=torch.int8)
    for i in range(len(offset)):
        for j in range(i + 1, len(offset)):
            later_is_larger = offset[j] > offset[i]
            rank[i] += later_is_larger
            rank[j] += ~later_is_larger
    return rank


def _barycentric(offset: Tensor, rank: Tensor) -> Tensor:
    """Return weights (d + 1, n) by color from offsets in cells: the steps between the sorted offsets; they sum to 1."""
    falling = torch.empty_like(offset).scatter_(0, rank.long(), offset)
    weights = torch.empty_like(offset)
    weights[1:] = (falling[:-1] - falling[1:]).flip(0)
    weights[0] = 1 + falling[-1] - falling[0]
    return weights
