"""Water: what it mirrors, its waves, and what is agreed on of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from unlit.worlds import render
from unlit.worlds.bases import World, _rendered
from unlit.worlds.builder import Builder
from unlit.worlds.dataset import world_item
from unlit.worlds.description import Camera
from unlit.worlds.landscape import WATER, drawn_water
from unlit.worlds.light import Lighting
from unlit.worlds.materials import Texture
from unlit.worlds.open import Sky, drawn_skies
from unlit.worlds.palette import drawn_material, stacked
from unlit.worlds.scene import Scene, scene
from unlit.worlds.water import is_water, mirrored, mirroring, waves

SIZE = (24, 36)
WALL = np.array([0.5, 0.1, 0.1])
BODY = np.array([0.02, 0.06, 0.04])
BEHIND, TOP = 40.0, 12.0
"""Where a wall stands behind the lake, in meters, and how high it is."""


def lake(steepness: float = 1e-6) -> Scene:
    """A lake before a red wall, under an overcast sky."""
    draw = np.random.default_rng(0)
    b = Builder(draw)
    water = drawn_water(draw)
    water.colors[3], water.params[0], water.scale = BODY, steepness, 2.0
    b.quad((0, 0, 0), (500, 0, 0), (0, 500, 0), b.material(water))
    wall = drawn_material(draw, 1.0, (Texture.PLAIN,), WALL)
    wall.colors[:], wall.wear, wall.gloss, wall.bump = WALL, 0.0, 0.0, 0
    b.box((0, BEHIND + 1, TOP / 2), (500, 1, TOP / 2), b.material(wall))
    lighting = Lighting(draw, np.array([0.0, 20.0, 0.0]))
    lighting.open_sky(np.array([0.0, 0.0, 1.0]), None)
    camera = Camera((0.0, -10.0, 6.0), (0.0, 30.0, 2.0), 0.7)
    return Scene(b.shapes(), lighting.lights(), camera, stacked(b.materials), tuple(lighting.roles), (0.0,), "vista", 3)


def even_sky(level: float) -> list[Sky]:
    return [Sky(level, np.ones(3), np.ones(3), 0.1, 0.0, 1.0, 0.0, 1.0, 0.1, np.zeros(3), 0)]


@pytest.fixture(scope="module")
def still() -> tuple[Scene, render.Hits, torch.Tensor, torch.Tensor]:
    """A still lake: the scene, what is seen, the irradiance, and the same with what it mirrors."""
    s = lake()
    hits = render.primary_hits(s.shapes, s.camera, SIZE)
    light = render.irradiance(s.shapes, s.lights, hits.position, hits.normal, mask=hits.mask, samples=64)
    return s, hits, light, mirroring(s, s, hits, light, even_sky(0.7), 256)


def expected_at(position: np.ndarray, eye: np.ndarray) -> tuple[float, bool]:
    """Fresnel's share at a place on still water, and whether the wall is mirrored there."""
    away = eye - position
    cosine = away[2] / np.linalg.norm(away)
    share = 0.02 + 0.98 * (1 - cosine) ** 5
    mirrored_at = away[2] / -away[1] * (BEHIND - position[1])  # as high as the ray is when it reaches the wall
    return share, bool(mirrored_at < TOP)


def test_still_water_is_fresnels_share_of_sky_and_shore_and_the_rest_of_its_body(
    still: tuple[Scene, render.Hits, torch.Tensor, torch.Tensor],
) -> None:
    s, hits, light, seen = still
    is_wet = is_water(s, hits)[0]
    kinds = set()
    for y, x in is_wet.nonzero().tolist():
        share, is_wall = expected_at(hits.position[:, y, x].numpy().astype(float), np.array(s.camera.position))
        inside = (1 - share) * BODY * light[0, :, y, x].numpy()
        left = seen[0, :, y, x].numpy() * WATER
        kinds.add(is_wall)
        if is_wall:
            from_wall = (left - inside) / share
            assert 0.02 < from_wall[0] < 0.5, "a red wall that the sky lights from one side"
            assert from_wall[0] / from_wall[1] == pytest.approx(5, rel=0.1)
        else:
            np.testing.assert_allclose(left, share * 0.7 + inside, rtol=1e-3)
    assert kinds == {True, False}
    torch.testing.assert_close(seen[:, :, ~is_wet], light[:, :, ~is_wet], rtol=0, atol=0)


def test_the_shore_is_mirrored_as_bright_as_it_is() -> None:
    s = lake()
    places = torch.tensor([[0.0, 5.0], [20.0, 30.0], [0.0, 0.0]])
    direction = torch.tensor([[0.0, 0.0], [0.9, 0.9], [0.2, 0.2]])
    light = mirrored(s, places, direction, even_sky(0.7), 4096)
    met = torch.tensor([[0.0, 5.0], [BEHIND, BEHIND], [20 * 0.2 / 0.9 + 0.05, 10 * 0.2 / 0.9 + 0.05]])
    normal = torch.tensor([0.0, -1.0, 0.0])[:, None].expand(3, 2)
    there = render.irradiance(s.shapes, s.lights, met[:, None], normal[:, None], samples=4096)[:, :, 0]
    torch.testing.assert_close(light, there * torch.from_numpy(WALL).float()[:, None], rtol=0.05, atol=0)


def test_a_scene_without_water_keeps_its_light() -> None:
    s = lake()
    dry = replace(s, materials=replace(s.materials, texture=torch.zeros_like(s.materials.texture)))
    hits = render.primary_hits(dry.shapes, dry.camera, SIZE)
    light = torch.rand(1, 3, *SIZE)
    assert mirroring(dry, dry, hits, light, even_sky(1.0), 4) is light


def test_waves_turn_the_water_as_steeply_as_they_are_and_only_where_they_are_seen() -> None:
    n = 4000
    place = torch.rand(3, n, generator=torch.Generator().manual_seed(0)) * 300
    numbers = torch.full((n,), 2.0), torch.full((n,), 7, dtype=torch.long)

    def slope(width: float, steepness: float) -> float:
        normal = waves(place, torch.full((n,), width), numbers[0], torch.full((n,), steepness), numbers[1])
        torch.testing.assert_close(normal.norm(dim=0), torch.ones(n))
        assert float(normal[2].min()) > 0
        return float((normal[:2].norm(dim=0) / normal[2]).square().mean().sqrt())

    assert slope(0.01, 0.2) == pytest.approx(2 * slope(0.01, 0.1), rel=1e-3)
    assert 0.05 < slope(0.01, 0.2) < 0.4
    assert slope(20.0, 0.2) < 0.2 * slope(0.01, 0.2)


@pytest.fixture(scope="module")
def shore() -> World:
    """A vista that shows water."""
    for seed in range(40):
        s = scene(seed, "vista")
        if float(is_water(s, render.primary_hits(s.shapes, s.camera, SIZE)).float().mean()) > 0.2:
            return next(iter(_rendered([s], SIZE, 8)))
    raise AssertionError("of forty vistas none shows water")


def test_water_is_gray_in_training_and_not_measured_elsewhere(shore: World) -> None:
    hits = render.primary_hits(shore.scene.shapes, shore.scene.camera, (2 * SIZE[0], 2 * SIZE[1]))
    wet = is_water(shore.scene, hits).float().reshape(SIZE[0], 2, SIZE[1], 2).mean((1, 3)) == 1
    assert float(wet.float().mean()) > 0.1
    torch.testing.assert_close(shore.basis.reflectance[:, wet], torch.full((3, int(wet.sum())), WATER))
    assert not bool(shore.basis.mask[0][wet].any())
    assert bool(shore.with_sky[0][wet].all())
    train = world_item(shore, "train")
    assert train.truth is not None
    assert train.truth.reflectance is not None
    assert train.truth.shading is not None
    shown = train.truth.reflectance * train.truth.shading
    torch.testing.assert_close(shown[:, :, wet], train.sequence.frames[:, :, wet], rtol=1e-3, atol=1e-6)


def test_a_third_of_all_vistas_has_water_and_houses_stand_on_land() -> None:
    wet, drowned = 0, []
    for seed in range(60):
        s = scene(seed, "vista")
        lies = s.materials.texture[s.shapes.material.long()] == int(Texture.WATER)
        if bool(lies.any()):
            wet += 1
            middle, half = s.shapes.to_world[lies][0, :2, 3], s.shapes.to_world[lies][0, :2, :2].abs().sum(1)
            houses = s.shapes.to_world[(s.shapes.kind == 1) & ~lies][:, :2, 3]
            inside = ((houses - middle).abs() < 0.9 * half).all(1).float()
            drowned.append(float(inside.mean()) if len(inside) else 0.0)
    assert 10 < wet < 30
    assert np.mean(drowned) < 0.2


def test_skies_over_water_are_those_that_are_seen(shore: World) -> None:
    skies, _ = drawn_skies(shore.scene.roles, shore.scene.seed)
    up = torch.tensor([[0.0], [0.0], [1.0]])
    high = torch.tensor([[0.0], [-400.0], [0.0]])
    light = mirrored(shore.scene, high, up, skies, 4)
    assert light.shape == (len(skies), 3, 1)
    expected = torch.tensor([sky.level for sky in skies if sky.cover == 0])
    clear = torch.tensor([sky.cover == 0 for sky in skies])
    torch.testing.assert_close(light[clear].mean((1, 2)), expected, rtol=0.05, atol=0)
