"""Where rays meet a height grid that is bilinear between its values.

Shapes: g grids of side s, r rays. Coordinates on the grid are x and y from 0 to s − 1, so that cells are unit squares.

A ray walks from cell to cell. In each the height above the surface is a quadratic in the distance, whose first root
within the cell is where the ray meets it.
"""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-20
SLACK = 1e-5
"""By how much, in cells, a root may lie outside its cell: rounding must not open the seams between cells."""


def terrain_distance(grids: Tensor, origin: Tensor, direction: Tensor) -> Tensor:
    """Return the distance (g, r) along rays (g, 3, r) in object space to `grids` (g, s, s), infinite where missed."""
    reach = (grids.shape[-1] - 1) / 2
    start, end = _box_interval(grids, origin, direction)
    scale = torch.tensor([[reach], [reach], [1.0]], device=origin.device)
    d = direction * scale
    o = (origin + torch.tensor([[1.0], [1.0], [0.0]], device=origin.device)) * scale
    distance = torch.full_like(start, torch.inf)
    inside = start < end
    grid, ray = torch.nonzero(inside, as_tuple=True)
    if len(grid):
        distance[grid, ray] = _walk(grids, grid, o[grid, :, ray], d[grid, :, ray], start[inside], end[inside])
    return distance


def terrain_normal(heights: Tensor, grid: Tensor, at: Tensor) -> Tensor:
    """Return normals (3, r), not of length one, upwards in object space, of grids `grid` (r,) at points `at` (3, r)."""
    reach = (heights.shape[-1] - 1) / 2
    x, y = (at[0] + 1) * reach, (at[1] + 1) * reach
    column = x.long().clamp(0, heights.shape[-1] - 2)
    row = y.long().clamp(0, heights.shape[-1] - 2)
    _, along_x, along_y, both = _cell(heights, grid.long(), row, column)
    slope_x = along_x + (y - row) * both
    slope_y = along_y + (x - column) * both
    return torch.stack([-slope_x * reach, -slope_y * reach, torch.ones_like(slope_x)])


def smooth_terrain_normal(heights: Tensor, grid: Tensor, at: Tensor) -> Tensor:
    """Return normals as `terrain_normal` does, but of slopes that are bilinear between those at the grid's points.

    The slopes of a bilinear surface jump from cell to cell, which is seen as facets.
    """
    side = heights.shape[-1]
    reach = (side - 1) / 2
    slope_y, slope_x = torch.gradient(heights, dim=(1, 2))
    x, y = ((at[i] + 1) * reach for i in range(2))
    column, row = x.long().clamp(0, side - 2), y.long().clamp(0, side - 2)
    slopes = []
    for slope in (slope_x, slope_y):
        corner, along_x, along_y, both = _cell(slope, grid.long(), row, column)
        a, b = x - column, y - row
        slopes.append(-(corner + a * along_x + b * along_y + a * b * both) * reach)
    return torch.stack([*slopes, torch.ones_like(x)])


def _box_interval(grids: Tensor, origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """The part (g, r), (g, r) of each ray, ahead of its origin, within the box that holds the grid."""
    lowest, highest = grids.amin((1, 2))[:, None] - SLACK, grids.amax((1, 2))[:, None] + SLACK
    start, end = torch.zeros_like(origin[:, 0]), torch.full_like(origin[:, 0], torch.inf)
    for axis, low, high in ((0, -1, 1), (1, -1, 1), (2, lowest, highest)):
        d = direction[:, axis]
        inverse = 1 / torch.where(d.abs() < TINY, TINY, d)
        a, b = (low - origin[:, axis]) * inverse, (high - origin[:, axis]) * inverse
        start, end = torch.maximum(start, torch.minimum(a, b)), torch.minimum(end, torch.maximum(a, b))
    return start, end


def _walk(grids: Tensor, grid: Tensor, o: Tensor, d: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """The distance to the surface of rays (q, 3) in coordinates of their `grid` (q,), within `start` and `end` (q,)."""
    last = grids.shape[-1] - 2
    found = torch.full_like(start, torch.inf)
    d = torch.where(d.abs() < TINY, TINY, d)  # also where its sign is asked: a ray straight down goes to one side
    inverse = 1 / d
    entry = o + start[:, None] * d
    column, row = entry[:, 0].long().clamp(0, last), entry[:, 1].long().clamp(0, last)
    t, live = start, torch.arange(len(start), device=start.device)
    for _ in range(2 * last + 4):
        leave_x = (column + (d[:, 0] > 0) - o[:, 0]) * inverse[:, 0]
        leave_y = (row + (d[:, 1] > 0) - o[:, 1]) * inverse[:, 1]
        leave = torch.maximum(torch.minimum(torch.minimum(leave_x, leave_y), end), t)
        at = o + t[:, None] * d - torch.stack([column, row, torch.zeros_like(row)], 1)
        root = _root(_cell(grids, grid, row, column), at, d, leave - t, t)
        found[live] = t + root
        across = leave_x < leave_y
        column = column + torch.where(across, torch.where(d[:, 0] > 0, 1, -1), 0)
        row = row + torch.where(across, 0, torch.where(d[:, 1] > 0, 1, -1))
        goes_on = root.isinf() & (leave < end) & (column >= 0) & (column <= last) & (row >= 0) & (row <= last)
        if not goes_on.any():
            break
        live, grid, o, d, inverse = live[goes_on], grid[goes_on], o[goes_on], d[goes_on], inverse[goes_on]
        column, row, t, end = column[goes_on], row[goes_on], leave[goes_on], end[goes_on]
    return found


def _cell(grids: Tensor, grid: Tensor, row: Tensor, column: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The height of a cell: first corner, slopes along x and y, and the factor of x·y."""
    corner = grids[grid, row, column]
    along_x, along_y = grids[grid, row, column + 1] - corner, grids[grid, row + 1, column] - corner
    return corner, along_x, along_y, grids[grid, row + 1, column + 1] - corner - along_x - along_y


def _root(cell: tuple[Tensor, ...], at: Tensor, d: Tensor, length: Tensor, before: Tensor) -> Tensor:
    """The first distance in [0, `length`] beyond `at` where the height above the cell is zero, or infinity.

    `at` is counted from the cell's first corner and lies `before` from the ray's origin, which cannot be met itself.
    """
    corner, along_x, along_y, both = cell
    x, y = at[:, 0], at[:, 1]
    a = -d[:, 0] * d[:, 1] * both
    b = d[:, 2] - d[:, 0] * along_x - d[:, 1] * along_y - both * (x * d[:, 1] + y * d[:, 0])
    c = at[:, 2] - corner - x * along_x - y * along_y - x * y * both
    square = b * b - 4 * a * c
    root = square.clamp_min(0).sqrt()
    q = -(b + torch.where(b >= 0, root, -root)) / 2
    one = q / torch.where(a.abs() < TINY, TINY, a)
    two = c / torch.where(q.abs() < TINY, TINY, q)
    low, high = torch.minimum(one, two), torch.maximum(one, two)
    slack = SLACK * length
    least, most = -torch.minimum(slack, before), length + slack
    near, far = (low > least) & (low <= most), (high > least) & (high <= most)
    t = torch.where(near, low, torch.where(far, high, torch.inf)).clamp_min(0)
    return torch.where(square >= 0, t, torch.inf)
