"""The renderer against physics: laws and figures that are known without rendering."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.worlds.example import light, placed, shapes, together
from unlit.worlds.description import LightKind, Lights, ShapeKind, Shapes
from unlit.worlds.render import Form, irradiance

UP = torch.tensor([0.0, 0.0, 1.0])
FAR_AWAY = shapes([ShapeKind.SPHERE], [placed((0.1, 0.1, 0.1), (0.0, 0.0, -500.0))])
"""A scene must have a shape; this one is out of everything's way."""


def at_points(
    scene: Shapes,
    lights: Lights,
    points: Tensor,
    normals: Tensor,
    form: Form,
    samples: int = 256,
    bounces: int = 0,
    paths: int | None = None,
) -> Tensor:
    """Irradiance / π (k, 3, n) at points (n, 3)."""
    at, up = (vectors.expand(len(points), 3).T[:, None].contiguous() for vectors in (points, normals))
    return irradiance(scene, lights, at, up, samples=samples, bounces=bounces, paths=paths, form=form)[:, :, 0]


def line(*points: tuple[float, float, float]) -> Tensor:
    return torch.tensor(points)


def corner_form_factor(a: float, b: float) -> float:
    """From a point to a parallel rectangle of a x b at distance 1, one of whose corners is right above it."""
    p, q = math.sqrt(1 + a * a), math.sqrt(1 + b * b)
    return (a / p * math.atan(b / p) + b / q * math.atan(a / q)) / (2 * math.pi)


def test_light_falls_with_the_square_of_the_distance(form: Form) -> None:
    lamp = light(LightKind.LAMP, position=[0.0, 0.0, 0.0], radius=0.1, radiance=7.0)
    points = line((0.0, 0.0, -0.5), (0.0, 0.0, -1.0), (0.0, 0.0, -2.0), (0.0, 0.0, -8.0))
    found = at_points(FAR_AWAY, lamp, points, UP, form)[0, 0]
    assert torch.allclose(found, 7 * (0.1 / points[:, 2]) ** 2, rtol=2e-3)


def test_light_falls_with_the_cosine(form: Form) -> None:
    angles = torch.tensor([0.0, 0.4, 0.9, 1.3, 1.5])
    normals = torch.stack([angles.sin(), torch.zeros(5), angles.cos()], 1)
    points = torch.zeros(5, 3)
    lamp = light(LightKind.LAMP, position=[0.0, 0.0, 4.0], radius=0.05, radiance=7.0)
    sun = light(LightKind.SUN, direction=[0.0, 0.0, -1.0], angle=0.02, radiance=9.0)
    found = at_points(FAR_AWAY, together(lamp, sun), points, normals, form)[:, 0]
    assert torch.allclose(found[0], 7 * (0.05 / 4) ** 2 * angles.cos(), rtol=3e-3)
    assert torch.allclose(found[1], 9 * math.sin(0.02) ** 2 * angles.cos(), rtol=3e-3)


def test_a_light_behind_the_surface_gives_nothing(form: Form) -> None:
    lights = together(
        light(LightKind.LAMP, position=[0.0, 0.0, -1.0]),
        light(LightKind.SUN, direction=[0.0, 0.0, 1.0]),
        light(LightKind.PANEL, position=[0.0, 0.0, 1.0], edge_u=[1.0, 0.0, 0.0], edge_v=[0.0, 1.0, 0.0]),
    )  # the panel is above, but shines upwards
    assert torch.equal(at_points(FAR_AWAY, lights, torch.zeros(1, 3), UP, form), torch.zeros(3, 3, 1))


def test_a_spot_is_a_lamp_within_half_its_angle_and_dark_beyond_it(form: Form) -> None:
    points = line((0.0, 0.0, 0.0), (0.5, 0.0, 0.0), (1.3, 0.0, 0.0), (3.0, 0.0, 0.0))
    above = light(LightKind.LAMP, position=[0.0, 0.0, 2.0], radius=0.1, angle=0.8, radiance=5.0)
    lamp = at_points(FAR_AWAY, above, points, UP, form)[0, 0]
    spot = at_points(FAR_AWAY, replace(above, kind=above.kind + LightKind.SPOT), points, UP, form)[0, 0]
    assert torch.allclose(spot[:2], lamp[:2])
    assert 0 < spot[2] < lamp[2]
    assert spot[3] == 0


def test_parallel_rectangles_have_their_form_factor(form: Form) -> None:
    panel = light(
        LightKind.PANEL, position=[0.5, 1.0, 1.0], edge_u=[0.0, 1.0, 0.0], edge_v=[0.5, 0.0, 0.0], radiance=2.0
    )
    points = line((0.0, 0.0, 0.0), (0.5, 1.0, 0.0))
    found = at_points(FAR_AWAY, panel, points, UP, form, samples=1024)[0, 0]
    assert float(found[0]) == pytest.approx(2 * corner_form_factor(1, 2), rel=5e-3)
    assert float(found[1]) == pytest.approx(2 * 4 * corner_form_factor(0.5, 1), rel=5e-3)


def test_opposite_faces_of_a_cube_see_a_fifth_of_each_other(form: Form) -> None:
    panel = light(LightKind.PANEL, position=[0.5, 0.5, 1.0], edge_u=[0.0, 0.5, 0.0], edge_v=[0.5, 0.0, 0.0])
    middles = (torch.arange(12) + 0.5) / 12
    x, y = torch.meshgrid(middles, middles, indexing="ij")
    points = torch.stack([x.flatten(), y.flatten(), torch.zeros(144)], 1)
    found = at_points(FAR_AWAY, panel, points, UP, form, samples=64)
    assert float(found.mean()) == pytest.approx(0.19982, rel=5e-3)  # the tabulated form factor


def test_a_sphere_hides_its_form_factor_of_the_sky(form: Form) -> None:
    above = shapes([ShapeKind.SPHERE], [placed((0.8, 0.8, 0.8), (0.0, 0.0, 2.0))])
    sky = light(LightKind.SKY, torch.ones(4, 8))
    found = at_points(above, sky, torch.zeros(1, 3), UP, form, samples=4096)
    assert float(found[0, 0, 0]) == pytest.approx(1 - (0.8 / 2) ** 2, rel=5e-3)


def test_the_whole_sky_gives_one_and_half_of_it_gives_a_wall_half(form: Form) -> None:
    upper = torch.cat([torch.ones(4, 16), torch.zeros(4, 16)])
    points, normals = torch.zeros(2, 3), line((0.0, 0.0, 1.0), (0.6, 0.8, 0.0))
    whole = at_points(FAR_AWAY, light(LightKind.SKY, torch.ones(8, 16)), points, normals, form, samples=4096)[0, 0]
    half = at_points(FAR_AWAY, light(LightKind.SKY, upper), points, normals, form, samples=4096)[0, 0]
    assert torch.allclose(whole, torch.ones(2), rtol=5e-3)
    assert torch.allclose(half, torch.tensor([1.0, 0.5]), rtol=5e-3)


def test_a_bright_spot_of_the_sky_is_a_sun(form: Form) -> None:
    """A sky that is dark but for one pixel gives what the pixel's solid angle says."""
    sky = torch.zeros(32, 64)
    sky[5, 10] = 100.0
    low, high = 5 * math.pi / 32, 6 * math.pi / 32
    turn = math.pi / 32
    # ∫ cos θ sin θ dθ dφ over the pixel.
    expected = 100 * turn * (math.sin(high) ** 2 - math.sin(low) ** 2) / 2 / math.pi
    found = at_points(FAR_AWAY, light(LightKind.SKY, sky), torch.zeros(1, 3), UP, form, samples=2048)
    assert float(found[0, 0, 0]) == pytest.approx(expected, rel=1e-2)


def test_a_shadow_has_a_dark_middle_a_soft_edge_and_an_end(form: Form) -> None:
    """A half plane at height 1 under a panel at height 2: the penumbra is as wide as the panel."""
    screen = shapes([ShapeKind.QUAD], [placed((5.0, 5.0, 1.0), (-5.0, 0.0, 1.0))])
    panel = light(LightKind.PANEL, position=[0.0, 0.0, 2.0], edge_u=[0.0, 0.1, 0.0], edge_v=[0.1, 0.0, 0.0])
    points = line((-0.12, 0.0, 0.0), (-0.05, 0.0, 0.0), (0.0, 0.0, 0.0), (0.05, 0.0, 0.0), (0.12, 0.0, 0.0))
    shaded = at_points(screen, panel, points, UP, form, samples=1024)[0, 0]
    whole = at_points(FAR_AWAY, panel, points, UP, form, samples=1024)[0, 0]
    share = shaded / whole
    assert torch.allclose(share, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]), atol=0.01)


def room_panels() -> Lights:
    """Panels before all six walls of the room [−1, 1]³, a hair inside, shining inwards."""
    panels = []
    for axis in range(3):
        for side in (-1.0, 1.0):
            position, edge_u, edge_v = [0.0] * 3, [0.0] * 3, [0.0] * 3
            position[axis] = side * 0.999
            edge_u[(axis + 1) % 3], edge_v[(axis + 2) % 3] = (1.0, -side)
            panels.append(light(LightKind.PANEL, position=position, edge_u=edge_u, edge_v=edge_v))
    return together(*panels)


@pytest.mark.parametrize("rho", [0.5, 0.8])
def test_white_furnace(form: Form, rho: float) -> None:
    """In a closed room whose walls shine evenly and reflect ρ, everything is 1/(1 − ρ) bright."""
    room = shapes([ShapeKind.BOX], [placed((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))], reflectance=rho)
    middles = torch.linspace(-0.6, 0.6, 4)
    x, y = torch.meshgrid(middles, middles, indexing="ij")
    points = torch.stack([x.flatten(), y.flatten(), -torch.ones(16)], 1)
    bounces = math.ceil(math.log(1e-3) / math.log(rho))
    found = at_points(room, room_panels(), points, UP, form, samples=1024, paths=256, bounces=bounces)
    assert float(found.sum(0).mean()) == pytest.approx(1 / (1 - rho), rel=0.01)


def test_bounces_add_powers_of_the_reflectance(form: Form) -> None:
    room = shapes([ShapeKind.BOX], [placed((1.0, 1.0, 1.0), (0.0, 0.0, 0.0))], reflectance=0.6)
    points = line(*((x, y, -1.0) for x in (-0.6, -0.1, 0.3, 0.7) for y in (-0.5, 0.0, 0.2, 0.6)))
    for bounces, expected in ((0, 1.0), (1, 1.6), (2, 1.96)):
        found = at_points(room, room_panels(), points, UP, form, samples=512, paths=512, bounces=bounces)
        assert float(found.sum(0).mean()) == pytest.approx(expected, rel=0.02)


def test_bounced_light_takes_the_color_of_what_it_met(form: Form) -> None:
    wall = shapes([ShapeKind.QUAD], [placed((1.0, 1.0, 1.0), (0.0, 0.0, 1.0))])
    wall = replace(wall, reflectance=torch.tensor([[0.8, 0.4, 0.1]]))
    lamp = light(LightKind.PANEL, position=[0.0, 0.0, 0.2], edge_u=[0.3, 0.0, 0.0], edge_v=[0.0, 0.3, 0.0])
    found = at_points(wall, lamp, torch.zeros(1, 3), UP, form, bounces=1, paths=256)[0, :, 0]
    assert found[0] > 0
    assert torch.allclose(found / found[0], torch.tensor([1.0, 0.5, 0.125]))


def test_what_leaves_one_patch_for_another_comes_back_as_much(form: Form) -> None:
    """Reciprocity: A₁ F₁₂ = A₂ F₂₁, patches of different size and slant, something between them."""
    between = shapes([ShapeKind.SPHERE], [placed((0.25, 0.25, 0.25), (0.3, 0.2, 0.5))])
    patches = [
        (torch.tensor([0.0, 0.0, 0.0]), torch.tensor([0.5, 0.0, 0.0]), torch.tensor([0.0, 0.4, 0.0])),
        (torch.tensor([0.4, 0.3, 1.0]), torch.tensor([0.0, 0.3, 0.0]), torch.tensor([0.2, 0.0, 0.1])),
    ]
    arrived = []
    for source, target in (patches, patches[::-1]):
        lamp = light(LightKind.PANEL, position=source[0].tolist(), edge_u=source[1].tolist(), edge_v=source[2].tolist())
        steps = (torch.arange(16) + 0.5) / 8 - 1
        u, v = torch.meshgrid(steps, steps, indexing="ij")
        points = target[0] + u.reshape(-1, 1) * target[1] + v.reshape(-1, 1) * target[2]
        face = torch.linalg.cross(target[1], target[2])
        found = at_points(between, lamp, points, face / face.norm(), form, samples=256)
        arrived.append(float(found.mean() * 4 * face.norm()))
    assert arrived[0] == pytest.approx(arrived[1], rel=0.01)
    assert arrived[0] > 0


def test_bumps_turn_the_light_but_let_none_through(form: Form) -> None:
    lights = together(
        light(LightKind.SUN, direction=[-math.sin(0.5), 0.0, -math.cos(0.5)], angle=0.01, radiance=1e4),
        light(LightKind.SUN, direction=[-math.sin(1.7), 0.0, -math.cos(1.7)], angle=0.01, radiance=1e4),
    )  # the second comes from below the ground
    geometric, turned = UP.reshape(3, 1, 1), torch.tensor([math.sin(0.5), 0.0, math.cos(0.5)]).reshape(3, 1, 1)
    found = irradiance(
        FAR_AWAY, lights, torch.zeros(3, 1, 1), geometric, shading_normals=turned, samples=64, bounces=0, form=form
    )[:, 0, 0, 0]
    assert float(found[0]) == pytest.approx(1e4 * math.sin(0.01) ** 2, rel=1e-3)
    assert found[1] == 0
