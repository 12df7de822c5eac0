"""Scenes: the same from one seed, unlike one another, and fit to be rendered."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from unlit.worlds.description import LightKind, ShapeKind
from unlit.worlds.materials import Texture
from unlit.worlds.render_kernel import MOST_SHAPES
from unlit.worlds.scene import LIGHTS, PLACES, Scene, scene

SEEDS = range(40)


def tensors(one: Scene) -> list[torch.Tensor]:
    return [*vars(one.shapes).values(), *vars(one.lights).values(), *vars(one.materials).values()]


def test_a_seed_gives_the_same_scene_again_also_in_another_process() -> None:
    for seed in (0, 7):
        assert all(torch.equal(a, b) for a, b in zip(tensors(scene(seed)), tensors(scene(seed)), strict=True))
    code = "from unlit.worlds.scene import scene; print(float(scene(7).shapes.to_world.double().sum()))"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert float(printed) == float(scene(7).shapes.to_world.double().sum())


def test_no_two_scenes_are_alike() -> None:
    seen = {(len(s.shapes.kind), float(s.shapes.to_world.sum()), s.camera.position) for s in map(scene, SEEDS)}
    assert len(seen) == len(SEEDS)


@pytest.mark.parametrize("place", PLACES)
def test_every_place_can_be_rendered(place: str) -> None:
    for seed in range(12):
        one = scene(seed, place)
        assert all(bool(torch.isfinite(t.float()).all()) for t in tensors(one))
        assert bool((torch.linalg.det(one.shapes.to_world[:, :, :3].double()).abs() > 1e-15).all())
        assert int(one.shapes.material.max()) < len(one.materials.texture)
        assert len(one.lights.kind) == len(one.roles) == len(one.sun_heights) == LIGHTS
        terrains = one.shapes.kind == int(ShapeKind.TERRAIN)
        assert torch.equal(one.shapes.grid >= 0, terrains)
        assert float(one.shapes.heights.abs().max() if len(one.shapes.heights) else 0) <= 1
        assert 1 <= len(one.shapes.kind) < MOST_SHAPES


def test_reflectances_are_those_of_real_surfaces() -> None:
    materials = [scene(seed).materials for seed in SEEDS]
    colors = torch.cat([m.colors[m.texture != int(Texture.WATER)] for m in materials]).reshape(-1, 3)
    assert float(colors.min()) >= 0.02 - 1e-6
    assert float(colors.max()) <= 0.9 + 1e-6
    gray = colors.mean(1)
    assert float((gray < 0.06).float().mean()) > 0.03, "some things are black"
    assert float((gray > 0.6).float().mean()) > 0.08, "some are white"
    chroma = (colors.amax(1) - colors.amin(1)) / colors.amax(1)
    assert float((chroma < 0.4).float().mean()) > 0.5, "most are dull"
    assert float((chroma > 0.75).float().mean()) > 0.03, "some are vivid"


def test_lamps_and_suns_can_shine() -> None:
    for seed in SEEDS:
        lights = scene(seed).lights
        is_round = (lights.kind == int(LightKind.LAMP)) | (lights.kind == int(LightKind.SPOT))
        assert bool((lights.radius[is_round] > 0).all())
        suns = lights.kind == int(LightKind.SUN)
        assert bool((lights.direction[suns][:, 2] < 0).all()), "the sun shines downwards"
        assert bool((lights.radiance > 0).all())
        torch.testing.assert_close(lights.direction.norm(dim=1), torch.ones(LIGHTS))


def test_windows_shine_into_their_room() -> None:
    for seed in range(20):
        one = scene(seed, "room")
        middle = torch.tensor(one.camera.position)
        for k, role in enumerate(one.roles):
            if role == "window":
                towards = torch.linalg.cross(one.lights.edge_u[k], one.lights.edge_v[k])
                assert float(((middle - one.lights.position[k]) * towards).sum()) > 0


def test_an_unknown_place_is_refused() -> None:
    with pytest.raises(ValueError, match="place must be one of room"):
        scene(0, "moon")
