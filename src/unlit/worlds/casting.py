"""Which shapes can stand between a light and any other shape.

Shapes: n shapes, k lights; six planes a shape, those of the box around it in its own space.

A wall of a room, or the ground, stands behind everything: if all other shapes and a light lie beyond one plane that has
the whole wall on its other side, no ray between them meets the wall. Such walls are the largest shapes of a scene, and
every ray would be held against them in vain. Shapes are looked at from outside: of a solid with a camera in it the
inner side might be lit through its wall.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unlit.worlds.description import LightKind, Lights, ShapeKind, Shapes
from unlit.worlds.intersection import geometry

SUNK = 1e-4
"""Meters that a shape may be sunk into a wall that it stands on."""


def casting(shapes: Shapes, lights: Lights) -> Tensor:
    """Return (k, n) bool: False where a shape cannot shade any other from a light."""
    low, high = height_range(shapes)
    maps = geometry(shapes).to_object.double()
    normal = torch.cat([maps[:, :, :3], -maps[:, :, :3]], 1)  # (n, 6, 3)
    offset = torch.cat([maps[:, :, 3], -maps[:, :, 3]], 1)  # (n, 6)
    length = (normal * normal).sum(2).sqrt()
    ones = torch.ones(len(low), 2, dtype=torch.float64)
    level = torch.cat([ones, high[:, None], ones, -low[:, None]], 1)  # what the shape reaches at most
    least = _least_of_shapes(shapes, low, high, normal, offset)  # (n, 6, n)
    itself = torch.eye(len(low), dtype=torch.bool)[:, None]
    apart = ((least - level[:, :, None]) / length[:, :, None] >= -SUNK) | itself
    behind_all = apart.all(2) & (shapes.kind != ShapeKind.TERRAIN)[:, None]  # a terrain may shade itself
    shape, face = torch.nonzero(behind_all, as_tuple=True)
    planes = (normal[shape, face], offset[shape, face], level[shape, face], length[shape, face])
    casts = torch.ones(len(lights.kind), len(low), dtype=torch.bool)
    for light in range(len(lights.kind)):
        casts[light, shape[_beyond(lights, light, *planes)]] = False
    return casts


def height_range(shapes: Shapes) -> tuple[Tensor, Tensor]:
    """Return the lowest and the highest z (n,) of each shape in its own space, in float64."""
    low, high = -torch.ones(len(shapes.kind), dtype=torch.float64), torch.ones(len(shapes.kind), dtype=torch.float64)
    flat = shapes.kind == ShapeKind.QUAD
    low[flat], high[flat] = 0, 0
    rough = shapes.kind == ShapeKind.TERRAIN
    if rough.any():
        grids = shapes.heights.double()[shapes.grid[rough].long()]
        low[rough], high[rough] = grids.amin((1, 2)), grids.amax((1, 2))
    return low, high


def _least_of_shapes(shapes: Shapes, low: Tensor, high: Tensor, normal: Tensor, offset: Tensor) -> Tensor:
    """The least value of normal · x + offset over each shape x, (n, 6, n)."""
    axes = torch.einsum("sfi,jia->sfja", normal, shapes.to_world[:, :, :3].double())
    center = torch.einsum("sfi,ji->sfj", normal, shapes.to_world[:, :, 3].double()) + offset[:, :, None]
    x, y, z = axes.unbind(3)
    box = x.abs() + y.abs() + torch.maximum(-z * low, -z * high)
    disk = (x * x + y * y).sqrt()
    reach = torch.where(shapes.kind == ShapeKind.SPHERE, (disk * disk + z * z).sqrt(), box)
    reach = torch.where(shapes.kind == ShapeKind.CYLINDER, disk + z.abs(), reach)
    reach = torch.where(shapes.kind == ShapeKind.CONE, torch.maximum(-z, disk + z), reach)
    return center - reach


def _beyond(lights: Lights, light: int, normal: Tensor, offset: Tensor, level: Tensor, length: Tensor) -> Tensor:
    """Whether the whole light lies beyond each of q planes normal · x + offset = level: (q, 3), the others (q,)."""
    kind = LightKind(int(lights.kind[light]))
    if kind == LightKind.SUN:
        towards = normal @ -lights.direction[light].double()
        return towards - length * 2 * math.sin(float(lights.angle[light]) / 2) >= 0
    if kind == LightKind.SKY:
        return _sky_beyond(lights.sky, normal, length)
    center = normal @ lights.position[light].double() + offset
    if kind == LightKind.PANEL:
        u, v = (normal @ edge[light].double() for edge in (lights.edge_u, lights.edge_v))
        return (center - u.abs() - v.abs() - level) / length >= -SUNK
    return (center - level) / length - float(lights.radius[light]) >= -SUNK


def _sky_beyond(sky: Tensor, normal: Tensor, length: Tensor) -> Tensor:
    """Whether all of the sky that shines lies above planes of these normals (q, 3), whose length is `length` (q,)."""
    directions = _bright_corners(sky)
    if len(directions) == 0:
        return torch.ones_like(length, dtype=torch.bool)
    # Between its corners a pixel bulges sideways.
    bulge = normal[:, :2].square().sum(1).sqrt() * (1 - math.cos(math.pi / (2 * sky.shape[0])))
    return (normal @ directions.T).amin(1) >= bulge - 1e-6 * length


def _bright_corners(sky: Tensor) -> Tensor:
    """The corners (q, 3) of the pixels of a sky that shine."""
    s = sky.shape[0]
    rows, columns = torch.nonzero(sky > 0, as_tuple=True)
    corners = [
        ((rows.double() + down) * (math.pi / s), (columns.double() + right) * (math.pi / s))
        for down in (0, 1)
        for right in (0, 1)
    ]
    polar, turn = (torch.cat(part) for part in zip(*corners, strict=True))
    return torch.stack([polar.sin() * turn.cos(), polar.sin() * turn.sin(), polar.cos()], 1)
