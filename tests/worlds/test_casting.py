"""Which shapes can cast a shadow: never too few."""

from __future__ import annotations

import numpy as np
import torch

from tests.worlds.example import generator, light, placed, random_lights, shapes, together, turned, uniform, waves
from unlit.worlds.casting import casting
from unlit.worlds.description import LightKind, ShapeKind
from unlit.worlds.emission import sample_light, sky_table
from unlit.worlds.intersection import blocked, geometry

GROUND = placed((5.0, 5.0, 1.0), (0.0, 0.0, 0.0))
BALL = placed((0.5, 0.5, 0.5), (0.0, 0.0, 1.0))


def test_the_ground_casts_no_shadow_from_what_is_above_it() -> None:
    scene = shapes([ShapeKind.QUAD, ShapeKind.SPHERE], [GROUND, BALL])
    upper = torch.cat([torch.ones(4, 16), torch.zeros(4, 16)])
    lights = together(
        light(LightKind.LAMP, position=[0.0, 0.0, 3.0]),
        light(LightKind.LAMP, position=[0.0, 0.0, -3.0]),
        light(LightKind.SUN, direction=[0.6, 0.0, -0.8], angle=0.01),
        light(LightKind.SUN, direction=[1.0, 0.0, 0.0], angle=0.01),
        light(LightKind.PANEL, position=[0.0, 0.0, 2.0], edge_u=[1.0, 0.0, 1.0], edge_v=[0.0, 1.0, 0.0]),
        light(LightKind.PANEL, position=[0.0, 0.0, 0.5], edge_u=[1.0, 0.0, 1.0], edge_v=[0.0, 1.0, 0.0]),
        light(LightKind.SKY),
        sky=upper,
    )
    assert casting(scene, lights)[:, 0].tolist() == [False, True, False, True, False, True, False]
    # Seen from below, the ball stands behind the ground.
    assert casting(scene, lights)[:, 1].tolist() == [True, False, True, True, True, True, True]


def test_the_ground_shades_from_a_sky_that_shines_from_below() -> None:
    scene = shapes([ShapeKind.QUAD, ShapeKind.SPHERE], [GROUND, BALL])
    assert bool(casting(scene, light(LightKind.SKY, torch.ones(8, 16)))[0, 0])


def test_a_shape_that_is_sunk_into_the_ground_makes_it_count() -> None:
    sunk = shapes([ShapeKind.QUAD, ShapeKind.SPHERE], [GROUND, placed((0.5, 0.5, 0.5), (0.0, 0.0, 0.4))])
    assert bool(casting(sunk, light(LightKind.LAMP, position=[0.0, 0.0, 3.0]))[0, 0])


def test_a_terrain_may_shade_itself() -> None:
    above = placed((0.5, 0.5, 0.5), (0.0, 0.0, 2.0))
    alone = shapes([ShapeKind.TERRAIN, ShapeKind.SPHERE], [GROUND, above], heights=waves(9))
    assert casting(alone, light(LightKind.LAMP, position=[0.0, 0.0, 3.0])).all()


def test_what_is_left_out_blocks_no_ray_to_the_light() -> None:
    """Random scenes, random points of the other shapes: no ray to the light meets a shape that was left out."""
    left_out = 0
    for seed in range(30):
        source = generator(seed)
        kinds = [ShapeKind.QUAD, ShapeKind.BOX, ShapeKind.CYLINDER, ShapeKind.CONE, ShapeKind.SPHERE]
        maps = [placed((3.0, 3.0, 1.0), (0.0, 0.0, 0.0))]
        maps += [placed((0.3, 0.3, 0.3), (*uniform(source, -2, 2, 2).tolist(), 1.0), turned(source)) for _ in kinds[1:]]
        scene, lights = shapes(kinds, maps), random_lights(seed)
        casts = casting(scene, lights)
        sky = sky_table(lights.sky)
        for number in range(len(lights.kind)):
            for shape in np.nonzero(~casts[number])[0].tolist():
                left_out += 1
                rest = [m for i, m in enumerate(maps) if i != shape]
                others = torch.cat([m[:, :3] @ uniform(source, -0.5, 0.5, 3, 40) + m[:, 3:] for m in rest], 1)
                u, v = torch.rand(2, others.shape[1], generator=source)
                up = torch.tensor([[0.0], [0.0], [1.0]]).expand_as(others)
                sampled = sample_light(lights, sky, number, others, up, u, v)
                one = geometry(shapes([kinds[shape]], [maps[shape]]))
                shines = sampled.weight > 0
                assert not blocked(one, others[:, shines], sampled.direction[:, shines], sampled.distance[shines]).any()
    assert left_out > 30
