"""Which shapes can stand between a light and any other shape.

Shapes: n shapes, k lights; six planes a shape, those of the box around it in its own space.

A wall of a room, or the ground, stands behind everything: if all other shapes and a light lie beyond one plane that has
the whole wall on its other side, no ray between them meets the wall. Such walls are the largest shapes of a scene, and
every ray would be held against them in vain. Shapes are looked at from outside: of a solid with a camera in it the
inner side might be lit through its wall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unlit.worlds.description import LightKind, Lights, ShapeKind, Shapes
from unlit.worlds.intersection import inverse_maps

Array = NDArray[Any]
SUNK = 1e-4
"""Meters that a shape may be sunk into a wall that it stands on."""


@dataclass(frozen=True)
class Planes:
    """Planes normal · x + offset = level, (q, 3) and (q,), that have a shape below them."""

    normal: Array
    offset: Array
    level: Array

    @property
    def length(self) -> Array:
        """The length (..., q) of the normals."""
        length: Array = np.sqrt((self.normal**2).sum(-1))
        return length

    def __getitem__(self, which: tuple[Array, ...]) -> Planes:
        return Planes(self.normal[which], self.offset[which], self.level[which])


def casting(shapes: Shapes, lights: Lights) -> Array:
    """Return (k, n) bool: False where a shape cannot shade any other from a light."""
    low, high = height_range(shapes)
    planes = _planes(shapes, low, high)
    apart = (_least_of_shapes(shapes, low, high, planes) - planes.level[:, :, None]) / planes.length[
        :, :, None
    ] >= -SUNK
    apart |= np.eye(len(low), dtype=bool)[:, None]
    is_terrain = _numpy(shapes.kind) == ShapeKind.TERRAIN  # which may shade itself
    shape, face = np.nonzero(apart.all(2) & ~is_terrain[:, None])
    behind_all = planes[shape, face]
    casts = np.ones((len(lights.kind), len(low)), bool)
    for light in range(len(lights.kind)):
        casts[light, shape[_beyond(lights, light, behind_all)]] = False
    return casts


def height_range(shapes: Shapes) -> tuple[Array, Array]:
    """Return the lowest and the highest z (n,) of each shape in its own space, in float64."""
    kind = _numpy(shapes.kind)
    low = np.where(kind == ShapeKind.QUAD, 0.0, -1.0)
    high = np.where(kind == ShapeKind.QUAD, 0.0, 1.0)
    rough = kind == ShapeKind.TERRAIN
    if rough.any():
        grids, which = _numpy(shapes.heights), _numpy(shapes.grid)[rough]
        low[rough], high[rough] = grids.min((1, 2))[which], grids.max((1, 2))[which]
    return low, high


def _numpy(values: Tensor) -> Array:
    return values.detach().cpu().numpy()


def _planes(shapes: Shapes, low: Array, high: Array) -> Planes:
    """The six planes of each shape's own box, (n, 6, 3) and (n, 6)."""
    maps = inverse_maps(shapes)
    ones = np.ones((len(low), 2))
    return Planes(
        np.concatenate([maps[:, :, :3], -maps[:, :, :3]], 1),
        np.concatenate([maps[:, :, 3], -maps[:, :, 3]], 1),
        np.concatenate([ones, high[:, None], ones, -low[:, None]], 1),
    )


def _least_of_shapes(shapes: Shapes, low: Array, high: Array, planes: Planes) -> Array:
    """The least value of normal · x + offset over each shape x, (n, 6, n)."""
    to_world, kind = _numpy(shapes.to_world).astype(np.float64), _numpy(shapes.kind)
    x, y, z, center = (planes.normal @ to_world[:, :, i].T for i in range(4))
    disk = np.sqrt(x * x + y * y)
    reach = np.abs(x) + np.abs(y) + np.maximum(-z * low, -z * high)
    reach = np.where(kind == ShapeKind.SPHERE, np.sqrt(disk * disk + z * z), reach)
    reach = np.where(kind == ShapeKind.CYLINDER, disk + np.abs(z), reach)
    reach = np.where(kind == ShapeKind.CONE, np.maximum(-z, disk + z), reach)
    least: Array = center + planes.offset[:, :, None] - reach
    return least


def _beyond(lights: Lights, light: int, planes: Planes) -> Array:
    """Whether the whole light lies beyond each of q planes, (q,) bool."""
    kind = LightKind(int(lights.kind[light]))
    beyond: Array
    if kind == LightKind.SUN:
        towards = planes.normal @ -_numpy(lights.direction[light])
        beyond = towards - planes.length * 2 * math.sin(float(lights.angle[light]) / 2) >= 0
        return beyond
    if kind == LightKind.SKY:
        return _sky_beyond(_numpy(lights.sky), planes)
    above = planes.normal @ _numpy(lights.position[light]) + planes.offset - planes.level
    if kind == LightKind.PANEL:
        u, v = (planes.normal @ _numpy(edge[light]) for edge in (lights.edge_u, lights.edge_v))
        beyond = (above - np.abs(u) - np.abs(v)) / planes.length >= -SUNK
    else:
        beyond = above / planes.length - float(lights.radius[light]) >= -SUNK
    return beyond


def _sky_beyond(sky: Array, planes: Planes) -> Array:
    """Whether all of the sky that shines lies above planes of these normals, (q,) bool."""
    directions = _bright_corners(sky)
    if len(directions) == 0 or len(planes.offset) == 0:
        return np.ones(len(planes.offset), bool)
    # Between its corners a pixel bulges sideways.
    bulge = np.sqrt((planes.normal[:, :2] ** 2).sum(1)) * (1 - math.cos(math.pi / (2 * len(sky))))
    beyond: Array = (planes.normal @ directions.T).min(1) >= bulge - 1e-6 * planes.length
    return beyond


def _bright_corners(sky: Array) -> Array:
    """The corners (q, 3) of the pixels of a sky that shine."""
    bright = np.pad(sky > 0, ((1, 1), (0, 0)))
    rows_meet = bright[1:] | bright[:-1]  # (s + 1, 2s): a row of corners has a bright pixel above or below
    row, column = np.nonzero(rows_meet | np.roll(rows_meet, 1, 1))
    polar, turn = row * (math.pi / len(sky)), column * (math.pi / len(sky))
    return np.stack([np.sin(polar) * np.cos(turn), np.sin(polar) * np.sin(turn), np.cos(polar)], 1)
