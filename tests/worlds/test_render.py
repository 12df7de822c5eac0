"""The renderer as its callers meet it: cameras, masks, seeds, lights by themselves, input that cannot be."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.worlds.example import CAMERA, light, placed, random_lights, random_shapes, shapes, some_of, together
from unlit.worlds import path
from unlit.worlds.description import Camera, LightKind, Lights, ShapeKind, Shapes
from unlit.worlds.render import Form, irradiance, primary_hits, render, smooth_normals

FAR_AWAY = shapes([ShapeKind.SPHERE], [placed((0.1, 0.1, 0.1), (0.0, 0.0, -500.0))])
"""A scene must have a shape; this one is out of everything's way."""


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


def test_smooth_normals_take_the_facets_from_a_terrain() -> None:
    """A dome of 13 x 13 values: the normals of its cells are off by degrees, the smooth ones are the dome's."""
    steps = torch.linspace(-1, 1, 13)
    dome = (0.8 - 0.4 * (steps[:, None] ** 2 + steps**2))[None]
    scene = shapes(
        [ShapeKind.TERRAIN, ShapeKind.SPHERE],
        [placed((2.0, 2.0, 1.0), (0.0, 0.0, 0.0)), placed((0.3, 0.3, 0.3), (0.0, 0.0, 1.2))],
        heights=dome,
    )
    hits = primary_hits(scene, Camera((0.0, -3.0, 6.0), (0.0, 0.0, 0.0), 0.4), (24, 24))
    smooth = smooth_normals(scene, hits)
    on_dome, on_ball = hits.shape == 0, hits.shape == 1
    x, y = hits.object_position[:2]
    true = torch.nn.functional.normalize(torch.stack([0.4 * x, 0.4 * y, torch.ones_like(x)]), dim=0)

    def off(normals: Tensor) -> float:
        return float((normals - true).norm(dim=0)[on_dome & (x.abs() < 0.8) & (y.abs() < 0.8)].max())

    assert off(smooth) < 1e-3 < 0.01 < off(hits.normal)
    assert torch.equal(smooth[:, on_ball], hits.normal[:, on_ball])
    assert int(on_ball.sum()) > 10


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
