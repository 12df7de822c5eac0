"""The renderer against physics: laws and figures that are known without rendering."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.worlds.example import CAMERA, light, placed, random_lights, random_shapes, shapes, some_of, together
from unlit.worlds import path
from unlit.worlds.description import Camera, LightKind, Lights, ShapeKind, Shapes
from unlit.worlds.render import Form, irradiance, primary_hits, render
from unlit.worlds.render_kernel import is_available

CPU = torch.device("cpu")
FORMS: list[Form] = ["reference", "kernel"]
UP = torch.tensor([0.0, 0.0, 1.0])
FAR_AWAY = shapes([ShapeKind.SPHERE], [placed((0.1, 0.1, 0.1), (0.0, 0.0, -500.0))])
"""A scene must have a shape; this one is out of everything's way."""


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    chosen: Form = request.param
    if chosen == "kernel" and not is_available(CPU):
        pytest.skip("the fast form on a CPU needs a C++ compiler, and none was found")
    return chosen


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


def test_lights_do_not_change_each_other(form: Form) -> None:
    scene = random_shapes(1)
    lights = random_lights(1)
    every = render(scene, lights, CAMERA, size=(6, 8), samples=16, form=form).irradiance
    first = some_of(lights, 2)
    some = render(scene, first, CAMERA, size=(6, 8), samples=16, form=form).irradiance
    assert torch.equal(every[:2], some)


def test_a_light_twice_as_bright_gives_twice_as_much(form: Form) -> None:
    scene, lights = random_shapes(2), random_lights(2)
    once = render(scene, lights, CAMERA, size=(6, 8), samples=16, form=form).irradiance
    twice = render(scene, replace(lights, radiance=2 * lights.radiance), CAMERA, size=(6, 8), samples=16, form=form)
    assert torch.allclose(twice.irradiance, 2 * once, rtol=1e-6)
    assert once.amin() >= 0


def test_two_halves_of_a_panel_are_the_panel(form: Form) -> None:
    scene = random_shapes(3)
    whole = light(
        LightKind.PANEL, position=[0.0, 0.0, 3.0], edge_u=[0.8, 0.0, 0.0], edge_v=[0.0, -0.6, 0.0], radiance=9.0
    )
    halves = [
        light(LightKind.PANEL, position=[x, 0.0, 3.0], edge_u=[0.4, 0.0, 0.0], edge_v=[0.0, -0.6, 0.0], radiance=9.0)
        for x in (-0.4, 0.4)
    ]
    found = render(scene, together(whole, *halves), CAMERA, size=(12, 16), samples=256, form=form).irradiance
    assert float((found[0] - found[1] - found[2]).abs().mean() / found[0].mean()) < 0.02


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


def test_masked_pixels_are_zero_and_the_others_as_before(form: Form) -> None:
    scene, lights = random_shapes(4), random_lights(4)
    hits = primary_hits(scene, CAMERA, (6, 8), form)
    mask = hits.mask.clone()
    mask[:, :3] = False
    every = irradiance(scene, lights, hits.position, hits.normal, mask=hits.mask, samples=8, form=form)
    some = irradiance(scene, lights, hits.position, hits.normal, mask=mask, samples=8, form=form)
    assert not some[:, :, :3].any()
    assert torch.equal(some[:, :, 3:], every[:, :, 3:])


def test_the_seed_decides_the_noise(form: Form) -> None:
    scene, lights = random_shapes(5), random_lights(5)
    one, again, other = (
        render(scene, lights, CAMERA, size=(6, 8), samples=8, seed=seed, form=form).irradiance for seed in (3, 3, 4)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_the_camera_sees_what_stands_before_it(form: Form) -> None:
    ball = shapes(
        [ShapeKind.SPHERE, ShapeKind.QUAD],
        [placed((0.5, 0.5, 0.5), (3.0, 0.0, 1.0)), placed((9.0, 9.0, 1.0), (0.0, 0.0, 0.0))],
    )
    camera = Camera((0.0, 0.0, 1.0), (1.0, 0.0, 1.0), math.pi / 2)
    hits = primary_hits(ball, camera, (101, 101), form)
    assert int(hits.shape[50, 50]) == 0
    assert float(hits.depth[0, 50, 50]) == pytest.approx(2.5, rel=1e-5)
    assert torch.allclose(hits.normal[:, 50, 50], torch.tensor([-1.0, 0.0, 0.0]), atol=1e-5)
    assert not hits.mask[0, 0].any()
    assert float(hits.depth[0, 0, 0]) == math.inf
    assert bool((hits.shape[100] == 1).all())  # the ground is below
    # Left of the axis is y > 0, since z is up.
    assert float(hits.position[1, 100, 0]) > 0 > float(hits.position[1, 100, 100])
    # At 45° below the axis, one meter high: one meter away.
    assert float(hits.depth[0, 100, 50]) == pytest.approx(101 / 100, rel=1e-3)


def test_normals_look_at_the_camera_also_from_within(form: Form) -> None:
    room = shapes([ShapeKind.BOX], [placed((2.0, 3.0, 1.0), (0.0, 0.0, 0.0))])
    hits = primary_hits(room, Camera((0.0, 0.0, 0.0), (1.0, 0.2, 0.1), 1.5), (9, 9), form)
    assert bool(hits.mask.all())
    assert bool(((hits.normal * hits.position).sum(0) < 0).all())


def test_a_batch_that_does_not_fit_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, lights = random_shapes(6), random_lights(6)
    whole = render(scene, lights, CAMERA, size=(6, 8), samples=4, form="reference").irradiance
    fits = path._light
    sizes = []

    def crowded(scene_: path.Scene, at: path.Surface, *rest: object) -> Tensor:
        sizes.append(at.position.shape[1])
        if sizes[-1] > 10:
            raise torch.OutOfMemoryError("the device is full")
        return fits(scene_, at, *rest)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(path, "_light", crowded)
    halved = render(scene, lights, CAMERA, size=(6, 8), samples=4, form="reference").irradiance
    assert torch.allclose(halved, whole, rtol=1e-4, atol=1e-5)  # products of other sizes round otherwise
    assert max(sizes) > 10 >= min(sizes)


NOTHING = Shapes(*(values[:0] for values in vars(FAR_AWAY).values()))
ONE_LAMP = light(LightKind.LAMP)


@pytest.mark.parametrize(
    ("scene", "lights", "size", "samples", "message"),
    [
        (NOTHING, ONE_LAMP, (4, 4), 1, "without shapes"),
        (FAR_AWAY, some_of(ONE_LAMP, 0), (4, 4), 1, "without lights"),
        (FAR_AWAY, ONE_LAMP, (0, 4), 1, "0 x 4 has no pixels"),
        (FAR_AWAY, ONE_LAMP, (4, -1), 1, "no pixels"),
        (FAR_AWAY, ONE_LAMP, (4, 4), 0, "at least one sample"),
        (FAR_AWAY, replace(ONE_LAMP, sky=torch.ones(3, 3)), (4, 4), 1, "must be"),
        (FAR_AWAY, replace(ONE_LAMP, radius=torch.zeros(1)), (4, 4), 1, "radius"),
        (replace(FAR_AWAY, to_world=torch.zeros(1, 3, 4)), ONE_LAMP, (4, 4), 1, "cannot be inverted"),
    ],
)  # fmt: skip
def test_what_cannot_be_rendered_is_refused(
    scene: Shapes, lights: Lights, size: tuple[int, int], samples: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        render(scene, lights, CAMERA, size=size, samples=samples)


def test_a_camera_that_looks_at_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="where it looks"):
        primary_hits(FAR_AWAY, Camera((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), 1.0), (4, 4))
