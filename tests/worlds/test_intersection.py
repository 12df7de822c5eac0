"""Rays and shapes: each kind against a walk along the ray in small steps."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.reference.rays import bilinear, first_change, inside
from tests.worlds.example import generator, placed, shapes, turned, uniform, waves
from unlit.worlds.description import ShapeKind
from unlit.worlds.intersection import blocked, geometry, nearest, object_normals, object_positions, world_normals

SOLIDS = [ShapeKind.SPHERE, ShapeKind.BOX, ShapeKind.CYLINDER, ShapeKind.CONE]


def rays(seed: int, count: int, spread: float = 1.2) -> tuple[Tensor, Tensor]:
    """Rays from a ball of radius 4 towards the neighborhood of the origin, and some from within."""
    source = generator(seed)
    start = torch.nn.functional.normalize(torch.randn(3, count, generator=source), dim=0) * 4
    start[:, ::5] *= 0.15
    aim = uniform(source, -spread, spread, 3, count)
    return start, torch.nn.functional.normalize(aim - start, dim=0)


@pytest.mark.parametrize("kind", SOLIDS)
def test_solids_are_met_where_a_walk_meets_them(kind: ShapeKind) -> None:
    origin, direction = rays(1, 40)
    distance, index = nearest(geometry(shapes([kind], [placed((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))])), origin, direction)
    walked = [first_change(lambda p: inside(kind, p), o, d) for o, d in zip(origin.T, direction.T, strict=True)]
    assert torch.allclose(distance, torch.tensor(walked), atol=2e-5)
    assert torch.equal(index >= 0, distance < math.inf)
    assert 10 < int((index >= 0).sum()) < 40


def test_a_quad_is_met_within_its_sides_only() -> None:
    origin, direction = rays(2, 40)
    distance, _ = nearest(
        geometry(shapes([ShapeKind.QUAD], [placed((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))])), origin, direction
    )

    def side(p: Tensor) -> float:
        return float(p[2])

    for o, d, t in zip(origin.T, direction.T, distance.tolist(), strict=True):
        walked = first_change(side, o, d)
        at = o + walked * d if walked < math.inf else o
        expected = walked if walked < math.inf and max(abs(float(at[0])), abs(float(at[1]))) <= 1 else math.inf
        assert t == pytest.approx(expected, abs=2e-5)
    assert 10 < int((distance < math.inf).sum()) < 40


@pytest.mark.parametrize("side", [2, 3, 9])
def test_a_terrain_is_met_where_a_walk_meets_it(side: int) -> None:
    grid = uniform(generator(side), -1.0, 1.0, 1, side, side)
    origin, direction = rays(3, 40)
    terrain = shapes([ShapeKind.TERRAIN], [placed((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))], heights=grid)
    distance, _ = nearest(geometry(terrain), origin, direction)

    def above(p: Tensor) -> float | None:
        x, y, z = p.tolist()
        return z - bilinear(grid[0], x, y) if max(abs(x), abs(y)) <= 1 else None

    walked = torch.tensor([first_change(above, o, d) for o, d in zip(origin.T, direction.T, strict=True)])
    # A walk in steps cannot see a ray that only grazes a hill, so the found point must then be on the surface.
    for o, d, t, w in zip(origin.T, direction.T, distance.tolist(), walked.tolist(), strict=True):
        if abs(t - w) > 1e-4 or (t == math.inf) != (w == math.inf):
            assert t < w
            height = above(o + t * d)
            assert height is not None
            assert abs(height) < 1e-4
    assert float((torch.isclose(distance, walked, atol=1e-4)).float().mean()) > 0.9
    assert 10 < int((distance < math.inf).sum()) < 40


def test_rays_straight_down_meet_the_terrains_height() -> None:
    grid = waves(17)
    terrain = geometry(shapes([ShapeKind.TERRAIN], [placed((2.0, 2.0, 0.5), (0.0, 0.0, 0.0))], heights=grid))
    xy = uniform(generator(0), -1.0, 1.0, 2, 200)
    origin = torch.cat([2 * xy, torch.full((1, 200), 3.0)])
    down = torch.tensor([[0.0], [0.0], [-1.0]]).expand_as(origin)
    distance, _ = nearest(terrain, origin, down)
    heights = torch.tensor([bilinear(grid[0], x, y) for x, y in xy.T.tolist()])
    assert torch.allclose(3 - distance, heights / 2, atol=1e-5)


def test_a_ray_does_not_meet_the_terrain_that_it_leaves() -> None:
    """A saddle of a hundred meters in one cell, where the slack for seams is wider than the lift of a ray."""
    saddle = torch.tensor([[[1.0, -1.0], [-1.0, 1.0]]])
    terrain = geometry(shapes([ShapeKind.TERRAIN], [placed((50.0, 50.0, 50.0), (0.0, 0.0, 0.0))], heights=saddle))
    xy = uniform(generator(0), -1.0, 1.0, 2, 500)
    at = torch.stack([xy[0], xy[1], xy[0] * xy[1] / 50])
    normal = torch.nn.functional.normalize(torch.stack([-xy[1] / 50, -xy[0] / 50, torch.ones(500)]), dim=0)
    distance, _ = nearest(terrain, at + 1e-4 * normal, normal)
    assert bool((distance > 1.0).all())


@pytest.mark.parametrize("kind", list(ShapeKind))
def test_a_placed_shape_is_met_where_its_own_space_says(kind: ShapeKind) -> None:
    source = generator(int(kind))
    to_world = placed((0.3, 0.8, 1.5), (0.4, -0.2, 0.1), turned(source))
    to_world[:, 1] += 0.3 * to_world[:, 0]  # sheared, too
    origin, direction = rays(4, 300, 1.5)
    distance, index = nearest(geometry(shapes([kind], [to_world], heights=waves(9))), origin, direction)
    inverse = torch.linalg.inv(to_world[:, :3].double())
    inner_origin = (inverse @ (origin.double() - to_world[:, 3:])).float()
    inner_direction = (inverse @ direction.double()).float()
    unit = geometry(shapes([kind], [placed((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))], heights=waves(9)))
    again, _ = nearest(unit, inner_origin, inner_direction)
    assert torch.allclose(distance, again, atol=1e-4)
    assert int((index >= 0).sum()) > 20


@pytest.mark.parametrize("kind", list(ShapeKind))
def test_normals_stand_on_the_surface(kind: ShapeKind) -> None:
    """Points beside a hit on the same face lie in the plane that the normal stands on."""
    to_world = placed((0.6, 0.9, 1.3), (0.2, 0.1, -0.1), turned(generator(7)))
    scene = geometry(shapes([kind], [to_world], heights=waves(5)))
    origin, direction = rays(5, 400)
    near = torch.nn.functional.normalize(direction + 2e-4 * torch.randn(3, 400, generator=generator(8)), dim=0)
    t, index = nearest(scene, origin, direction)
    t_near, index_near = nearest(scene, origin, near)
    met = (index >= 0) & (index_near >= 0)
    at, beside = (origin + t * direction)[:, met], (origin + t_near * near)[:, met]
    normal = world_normals(
        scene, index[met], object_normals(scene, index[met], object_positions(scene, index[met], at))
    )
    assert torch.allclose(normal.norm(dim=0), torch.ones(1), atol=1e-5)
    step = beside - at
    slope = (step * normal).sum(0).abs() / step.norm(dim=0)
    assert float((slope < 0.02).float().mean()) > 0.95  # but for edges and very slanted hits
    outwards = (normal * (at - to_world[:, 3:])).sum(0) > 0
    assert kind in (ShapeKind.QUAD, ShapeKind.TERRAIN) or bool(outwards.all())


def test_blocked_is_nearest_before_the_limit() -> None:
    source = generator(9)
    kinds = [ShapeKind(i % 6) for i in range(12)]
    maps = [placed((0.4, 0.3, 0.5), tuple(uniform(source, -1.5, 1.5, 3).tolist()), turned(source)) for _ in kinds]
    scene = geometry(shapes(kinds, maps, heights=waves(9)))
    origin, direction = rays(10, 500)
    distance, _ = nearest(scene, origin, direction)
    limit = uniform(source, 0.5, 8.0, 500)
    assert torch.equal(blocked(scene, origin, direction, limit), distance < limit)
