"""Where rays meet shapes: the readable form, in torch, for any device. `render_kernel.cu` does the same faster.

Shapes: r rays, n shapes, g shapes of one kind. Vectors come first, (3, r), so that coordinates are planes.

A ray is taken into each shape's own space, where the shape is a unit shape. The direction is not made of length one
there, so that the distance t along the ray is the same in both spaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlit.worlds.description import ShapeKind, Shapes
from unlit.worlds.terrain import terrain_distance, terrain_normal

TESTS = 1 << 18
"""Rays times shapes that are looked at in one step: few enough for a processor's cache."""
TINY = 1e-20
"""Stands for a direction's coordinate that is zero, where it divides."""


@dataclass(frozen=True)
class Geometry:
    """Shapes, ready to be met by rays."""

    shapes: Shapes
    to_object: Tensor
    """(n, 3, 4) float32: world to object."""
    groups: tuple[tuple[ShapeKind, Tensor], ...]
    """The kinds that occur, and the indices (g,) of their shapes."""


def geometry(shapes: Shapes) -> Geometry:
    """Return `shapes` with their inverse maps, grouped by kind."""
    kinds = shapes.kind.tolist()
    groups = tuple(
        (kind, torch.tensor([i for i, other in enumerate(kinds) if other == kind], device=shapes.kind.device))
        for kind in ShapeKind
        if kind in kinds
    )
    return Geometry(shapes, torch.from_numpy(inverse_maps(shapes)).float().to(shapes.to_world.device), groups)


def inverse_maps(shapes: Shapes) -> NDArray[np.float64]:
    """Return the maps from the world to each shape's own space, (n, 3, 4)."""
    to_world = shapes.to_world.detach().cpu().numpy().astype(np.float64)  # thin shapes need the digits
    inverse = np.linalg.inv(to_world[:, :, :3])
    return np.concatenate([inverse, -inverse @ to_world[:, :, 3:]], 2)


def nearest(scene: Geometry, origin: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far the first shape is along each ray (r,), and which it is (r,) int64.

    Where a ray meets nothing the distance is infinite and the index −1.
    """
    distance = origin.new_full(origin.shape[1:], torch.inf)
    index = torch.full(origin.shape[1:], -1, dtype=torch.int64, device=origin.device)
    for kind, members in scene.groups:
        for part in torch.arange(origin.shape[1], device=origin.device).split(max(TESTS // len(members), 1)):
            t = _distances(scene, kind, members, origin[:, part], direction[:, part])
            closest, which = t.min(0)
            nearer = closest < distance[part]
            distance[part] = torch.where(nearer, closest, distance[part])
            index[part] = torch.where(nearer, members[which], index[part])
    return distance, index


def blocked(scene: Geometry, origin: Tensor, direction: Tensor, limit: Tensor) -> Tensor:
    """Return (r,) bool: whether any shape lies on the ray before the distance `limit` (r,)."""
    result = torch.zeros(origin.shape[1], dtype=torch.bool, device=origin.device)
    for kind, members in scene.groups:
        for part in torch.nonzero(~result)[:, 0].split(max(TESTS // len(members), 1)):
            t = _distances(scene, kind, members, origin[:, part], direction[:, part])
            result[part] = (t < limit[part]).any(0)
    return result


def object_positions(scene: Geometry, index: Tensor, position: Tensor) -> Tensor:
    """Return `position` (3, r) in the space of the shapes `index` (r,)."""
    maps = scene.to_object[index]
    return torch.einsum("rij,jr->ir", maps[:, :, :3], position) + maps[:, :, 3].T


def object_normals(scene: Geometry, index: Tensor, at: Tensor) -> Tensor:
    """Return the normals (3, r), outwards and in object space, of the shapes `index` at points `at` on them."""
    result = torch.zeros_like(at)
    kind = scene.shapes.kind[index]
    for number, normal in _NORMALS.items():
        here = kind == number
        if here.any():
            result[:, here] = normal(at[:, here])
    here = kind == ShapeKind.TERRAIN
    if here.any():
        result[:, here] = terrain_normal(scene.shapes.heights, scene.shapes.grid[index[here]], at[:, here])
    return result


def world_normals(scene: Geometry, index: Tensor, normal: Tensor) -> Tensor:
    """Return object-space normals (3, r) of the shapes `index` in the world, of length one."""
    turned: Tensor = torch.einsum("rij,ir->jr", scene.to_object[index][:, :, :3], normal)
    return turned / (turned * turned).sum(0).sqrt().clamp_min(TINY)


def _distances(scene: Geometry, kind: ShapeKind, members: Tensor, origin: Tensor, direction: Tensor) -> Tensor:
    """How far each of `members`, all of one kind, is along each ray: (g, r), infinite where it is not met."""
    maps = scene.to_object[members]
    o = (maps[:, :, :3] @ origin + maps[:, :, 3:]).unbind(1)
    d = (maps[:, :, :3] @ direction).unbind(1)
    if kind == ShapeKind.TERRAIN:
        grids = scene.shapes.heights[scene.shapes.grid[members].long()]
        return terrain_distance(grids, torch.stack(o, 1), torch.stack(d, 1))
    return _DISTANCES[kind](o, d)


Coordinates = tuple[Tensor, ...]
"""x, y and z, each (g, r)."""


def _first(enter: Tensor, leave: Tensor) -> Tensor:
    """The first positive end of an interval of the ray that lies inside a shape: where it enters, or else leaves."""
    t = torch.where(enter > 0, enter, leave)
    return torch.where((enter <= leave) & (t > 0), t, torch.inf)


def _slab(o: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """The interval of the ray within −1 and 1 of one coordinate."""
    inverse = 1 / torch.where(d.abs() < TINY, TINY, d)
    a, b = (-1 - o) * inverse, (1 - o) * inverse
    return torch.minimum(a, b), torch.maximum(a, b)


def _sphere(o: Coordinates, d: Coordinates) -> Tensor:
    a = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
    middle = -(o[0] * d[0] + o[1] * d[1] + o[2] * d[2]) / a
    # Measured from the ray's point nearest to the center, far spheres keep their precision.
    x, y, z = o[0] + middle * d[0], o[1] + middle * d[1], o[2] + middle * d[2]
    inside = (1 - (x * x + y * y + z * z)) / a
    half = inside.clamp_min(0).sqrt()
    return torch.where(inside >= 0, _first(middle - half, middle + half), torch.inf)


def _box(o: Coordinates, d: Coordinates) -> Tensor:
    enter, leave = _slab(o[0], d[0])
    for i in (1, 2):
        start, end = _slab(o[i], d[i])
        enter, leave = torch.maximum(enter, start), torch.minimum(leave, end)
    return _first(enter, leave)


def _cylinder(o: Coordinates, d: Coordinates) -> Tensor:
    enter, leave = _slab(o[2], d[2])
    a = (d[0] * d[0] + d[1] * d[1]).clamp_min(TINY)
    middle = -(o[0] * d[0] + o[1] * d[1]) / a
    x, y = o[0] + middle * d[0], o[1] + middle * d[1]
    inside = 1 - (x * x + y * y)
    half = (inside.clamp_min(0) / a).sqrt()
    met = _first(torch.maximum(enter, middle - half), torch.minimum(leave, middle + half))
    return torch.where(inside >= 0, met, torch.inf)


def _cone(o: Coordinates, d: Coordinates) -> Tensor:
    """Where x² + y² ≤ ((1 − z)/2)², a t² + 2 b t + c ≤ 0, meets the slab, which leaves one of the two cones."""
    enter, leave = _slab(o[2], d[2])
    above = 1 - o[2]
    a = d[0] * d[0] + d[1] * d[1] - d[2] * d[2] / 4
    a = torch.where(a.abs() < TINY, TINY, a)
    b = o[0] * d[0] + o[1] * d[1] + above * d[2] / 4
    c = o[0] * o[0] + o[1] * o[1] - above * above / 4
    root = (b * b - a * c).clamp_min(0).sqrt()
    q = -b - torch.where(b >= 0, root, -root)
    one, two = q / a, c / torch.where(q.abs() < TINY, TINY, q)
    low, high = torch.minimum(one, two), torch.maximum(one, two)
    # A steep ray (a < 0) is inside the two cones before `low` and after `high`; ours is the one below the tip.
    rising = d[2] > 0
    start = torch.where(a > 0, low, torch.where(rising, -torch.inf, high))
    end = torch.where(a > 0, high, torch.where(rising, low, torch.inf))
    met = _first(torch.maximum(enter, start), torch.minimum(leave, end))
    return torch.where((a < 0) | (b * b >= a * c), met, torch.inf)


def _quad(o: Coordinates, d: Coordinates) -> Tensor:
    t = -o[2] / torch.where(d[2].abs() < TINY, TINY, d[2])
    x, y = o[0] + t * d[0], o[1] + t * d[1]
    return torch.where((x.abs() <= 1) & (y.abs() <= 1) & (t > 0), t, torch.inf)


def _box_normal(at: Tensor) -> Tensor:
    axis = at.abs().argmax(0, keepdim=True)
    return torch.zeros_like(at).scatter(0, axis, at.gather(0, axis).sign())


def _cylinder_normal(at: Tensor) -> Tensor:
    x, y, z = at
    on_cap = z.abs() > (x * x + y * y).sqrt()
    return torch.stack([torch.where(on_cap, 0, x), torch.where(on_cap, 0, y), torch.where(on_cap, z.sign(), 0)])


def _cone_normal(at: Tensor) -> Tensor:
    x, y, z = at
    radius = (x * x + y * y).sqrt()
    on_cap = z + 1 < (1 - z) / 2 - radius
    side = torch.stack([x, y, radius / 2])
    cap = torch.stack([torch.zeros_like(x), torch.zeros_like(x), -torch.ones_like(x)])
    return torch.where(on_cap, cap, side)


def _quad_normal(at: Tensor) -> Tensor:
    return torch.stack([torch.zeros_like(at[0]), torch.zeros_like(at[0]), torch.ones_like(at[0])])


_DISTANCES: dict[ShapeKind, Callable[[Coordinates, Coordinates], Tensor]] = {
    ShapeKind.SPHERE: _sphere,
    ShapeKind.BOX: _box,
    ShapeKind.CYLINDER: _cylinder,
    ShapeKind.CONE: _cone,
    ShapeKind.QUAD: _quad,
}
_NORMALS: dict[ShapeKind, Callable[[Tensor], Tensor]] = {
    ShapeKind.SPHERE: lambda at: at,
    ShapeKind.BOX: _box_normal,
    ShapeKind.CYLINDER: _cylinder_normal,
    ShapeKind.CONE: _cone_normal,
    ShapeKind.QUAD: _quad_normal,
}
