"""Building the permutohedral lattice: which simplices hold the points, which vertices these have, who neighbors whom.

Shapes: n points, d features, s simplices, v vertices, t words of a packed row (one, as a rule). Most points share their
simplex with many others, so each point is reduced to one integer that names its simplex; these are sorted once, and the
rest is done for simplices, not points. Vertices are integers too; a step along an axis adds a constant to them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unlit.pairwise.embedding import chunks, corner_axes, lift_matrix, located
from unlit.pairwise.filtering import Structure, has_kernels
from unlit.pairwise.packing import Packing, Range, distinct, found

_FARTHEST_CELL = 2**31 - 8
"""Cells are counted in int32 (`embedding.Location`); a few are spare for the return to the hyperplane."""


def build_structure(features: Tensor, group: Tensor) -> Structure:
    """Return the lattice around the points `features` (n, d).

    Points of different `group` (n,) never share a simplex or a vertex.
    """
    d = features.shape[1]
    group_range, *cells = _ranges(features, group)
    packing = Packing([group_range, *cells, *[(0, d)] * d])
    words, weights = _located(features, group, packing)
    simplices = distinct(words)
    del words  # memory that the rest, which has its own, can use
    # Corners lie at most d beyond their cell, the bridges between them d beyond that, and their neighbors d more.
    vertex_packing = Packing([group_range, *[((d + 1) * low - 3 * d, (d + 1) * high + 3 * d) for low, high in cells]])
    steps = torch.tensor(vertex_packing.steps(axis_steps(d))).to(features.device)
    occupied = distinct(_corners(simplices.rows, packing, steps, vertex_packing))
    corners = occupied.number.reshape(d + 1, -1).T.to(torch.int32).contiguous()
    neighbors = _neighbors(_with_bridges(occupied.rows, steps), steps).to(torch.int32)
    simplex = simplices.ordered_number.to(torch.int32)
    return Structure(weights, simplex, simplices.order, simplices.times.max(), corners, neighbors)


def _located(features: Tensor, group: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """Return for each point its simplex, as words (t, n) of group, cell and rank, and its weights (n, d + 1) in it.

    Of cell and rank the last coordinate is left out; it follows from the others.
    """
    n, d = features.shape
    if features.is_cuda and packing.word_count == 1 and has_kernels():
        from unlit.pairwise import construction_kernels

        return construction_kernels.located(features, group, packing)
    weights = features.new_empty(n, d + 1)
    words = torch.empty(packing.word_count, n, dtype=torch.int64, device=features.device)
    for part in chunks(n, features.device):
        place = located(features[part].double())
        weights[part] = place.weights.T
        words[:, part] = packing.words([group[part], *place.cell[:d], *place.rank[:d]])
    return words, weights


def _corners(simplices: Tensor, simplex_packing: Packing, steps: Tensor, packing: Packing) -> Tensor:
    """Return the corners (t, (d + 1) s) of simplices (t, s), color after color.

    The simplex is walked around: each corner is one step along some axis from the one before.
    """
    if simplices.is_cuda and simplex_packing.word_count == packing.word_count == 1 and has_kernels():
        from unlit.pairwise import construction_kernels

        return construction_kernels.corners(simplices, simplex_packing, packing)
    columns = simplex_packing.columns(simplices)
    d = columns.shape[0] // 2
    rank = columns[d + 1 :]
    last = d * (d + 1) // 2 - rank.sum(0, keepdim=True)  # the ranks are 0 to d in some order
    axes = corner_axes(torch.cat([rank, last]))
    first = packing.words([columns[0], *(columns[1 : d + 1] * (d + 1))])
    walk = torch.cat([first[:, None], steps[:, axes]], dim=1).cumsum_(1)
    return walk.reshape(packing.word_count, -1)


def _with_bridges(occupied: Tensor, steps: Tensor) -> Tensor:
    """Return the occupied vertices, and after them the empty ones that are one step away from at least two of them.

    Values pass through these on their way from one occupied vertex to another. Without them sparse points lose up to a
    quarter of the dense term; more of the empty ones cost more than they mend (docs/trials.md).
    """
    around = _moved(occupied, torch.cat([steps, -steps], dim=1))
    all_rows = distinct(torch.cat([occupied, around], dim=1))
    bridge = all_rows.times >= 2
    bridge[all_rows.number[: occupied.shape[1]]] = False  # those are occupied themselves
    return torch.cat([occupied, all_rows.rows[:, bridge]], dim=1)


def _neighbors(vertices: Tensor, steps: Tensor) -> Tensor:
    """Return the vertices (d + 1, 2, v) one step behind and ahead of each along each axis, v where there is none."""
    axes, v = steps.shape[1], vertices.shape[1]
    ahead = found(vertices, _moved(vertices, steps)).reshape(axes, v)
    # Who is ahead of me has me behind. The extra column takes what has nobody ahead, and is dropped.
    behind = torch.full((axes, v + 1), v, device=ahead.device, dtype=ahead.dtype)
    behind.scatter_(1, ahead, torch.arange(v, device=ahead.device).expand(axes, v))
    return torch.stack([behind[:, :v], ahead], dim=1)


def axis_steps(d: int) -> list[list[int]]:
    """Return columns (d + 1,), group first: a step along axis j adds 1 to each coordinate but takes d from the j-th."""
    return [[0] * (d + 1), *([-d if j == i else 1 for j in range(d + 1)] for i in range(d))]


def _moved(vertices: Tensor, steps: Tensor) -> Tensor:
    """Return every vertex (t, v) moved by every step (t, e), step after step: (t, e v)."""
    return (steps[:, :, None] + vertices[:, None, :]).reshape(vertices.shape[0], -1)


def _ranges(features: Tensor, group: Tensor) -> list[Range]:
    """Return bounds of the group and of the first d cell coordinates, from the bounds of the features alone."""
    d = features.shape[1]
    # A group for all is one number, repeated: no need to look at it more than once.
    bounds = [*torch.aminmax(features, dim=0), *torch.aminmax(group if group.stride(0) else group[:1])]
    # One transfer from a GPU for all of them; the arithmetic on these few is quickest on plain numbers, and the device
    # waits for it.
    *numbers, first, last = torch.cat([b.double().reshape(-1) for b in bounds]).tolist()
    if not all(map(math.isfinite, numbers)):
        raise ValueError("features hold NaN or infinite values; leave such points out of the lattice")
    low, high = numbers[:d], numbers[d:]
    # A lifted coordinate is linear in the features, so its bounds are sums of the bounds that each gives alone.
    lows, highs = [0.0] * d, [0.0] * d
    for row, a, b in zip(lift_matrix(d).tolist(), low, high, strict=True):
        for j in range(d):
            least, most = sorted((row[j] * a / (d + 1), row[j] * b / (d + 1)))
            lows[j] += least
            highs[j] += most
    # Rounding moves a coordinate by half a cell at most, the return to the hyperplane by one more.
    farthest = max(map(abs, [*lows, *highs]))
    if farthest > _FARTHEST_CELL:
        raise ValueError(f"features lie up to {farthest:.3g} cells from zero, too many to count; scale them down")
    cells = [(math.floor(a) - 2, math.ceil(b) + 2) for a, b in zip(lows, highs, strict=True)]
    return [(int(first), int(last)), *cells]
