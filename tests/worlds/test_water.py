"""Water: what it mirrors, its waves, and what is agreed on of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from unlit.worlds import bases as rendering
from unlit.worlds import render, vistas
from unlit.worlds.bases import World, _rendered
from unlit.worlds.builder import Builder
from unlit.worlds.description import Camera, ShapeKind
from unlit.worlds.item import world_item
from unlit.worlds.landscape import WATER, drawn_water
from unlit.worlds.light import Lighting
from unlit.worlds.materials import Texture
from unlit.worlds.noise import fractal
from unlit.worlds.open import Sky, drawn_skies
from unlit.worlds.palette import drawn_material, mean_reflectance, stacked
from unlit.worlds.scene import Scene, scene
from unlit.worlds.water import is_water, mirrored, mirroring, water_pixels, waves

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
    return s, hits, light, mirroring(s, s, hits, water_pixels(s, s, hits), light, even_sky(0.7), 256)


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
    wet = water_pixels(dry, dry, hits)
    assert len(wet) == 0
    assert mirroring(dry, dry, hits, wet, light, even_sky(1.0), 4) is light


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


def test_waves_are_the_slopes_of_one_height() -> None:
    n = 200
    place = torch.rand(3, n, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 50
    scale, steepness = torch.full((n,), 3.0, dtype=torch.float64), torch.full((n,), 0.1, dtype=torch.float64)
    seed = torch.full((n,), 5)
    normal = waves(place, torch.zeros(n, dtype=torch.float64), scale, steepness, seed)
    for axis in (0, 1):
        step = torch.zeros(3, 1, dtype=torch.float64)
        step[axis] = 0.075  # half of the step of the waves: so both differences are about the same middle
        ahead, here = (fractal((p / 3).T, seed, 3) for p in (place + 2 * step, place))
        torch.testing.assert_close(-normal[axis] / normal[2], (ahead - here) / 0.15 * 3 * 0.1)


def test_the_slope_of_waves_does_not_depend_on_their_size() -> None:
    n = 4000
    place = torch.rand(3, n, generator=torch.Generator().manual_seed(0)) * 300
    rough = []
    for scale in (0.5, 5.0):
        numbers = torch.full((n,), scale), torch.full((n,), 0.2), torch.full((n,), 7)
        normal = waves(place, torch.full((n,), 0.01 * scale), *numbers)
        rough.append(float((normal[:2] / normal[2]).square().mean().sqrt()))
    assert rough[0] == pytest.approx(rough[1], rel=0.1)


def test_waves_are_seen_in_what_water_mirrors_and_more_so_near_by() -> None:
    still, rippled = lake(), lake(0.3)
    hits = render.primary_hits(still.shapes, still.camera, SIZE)
    wet = water_pixels(still, still, hits)
    light = torch.full((1, 3, *SIZE), 0.4)
    smooth, rough = (mirroring(s, s, hits, wet, light, even_sky(0.7), 4) for s in (still, rippled))
    assert bool(torch.isfinite(rough).all())
    assert float(rough.min()) >= 0
    assert float(rough.max()) < 0.9 / WATER, "hardly more than the brightest of the sky"
    change = (rough - smooth).abs().mean((0, 1))
    is_wet = is_water(still, hits)[0]
    rows = [float(change[y][is_wet[y]].mean()) for y in range(SIZE[0]) if bool(is_wet[y].all())]
    assert max(rows) > 0.05


def test_mirrored_directions_need_no_length_and_never_look_down() -> None:
    s, place = lake(), torch.tensor([[0.0], [-100.0], [0.0]])
    down, low = (mirrored(s, place, torch.tensor([[0.0], [-1.0], [z]]), even_sky(0.7), 4) for z in (-0.5, 0.02))
    torch.testing.assert_close(down, low)
    assert float(low.min()) > 0.6
    for y in (0.9, -0.9):  # the wall, and the sky near the horizon
        direction, near = torch.tensor([[0.0], [y], [0.2]]), torch.tensor([[0.0], [20.0], [0.0]])
        once, thrice = (mirrored(s, near, k * direction, even_sky(0.7), 4) for k in (1, 3))
        torch.testing.assert_close(once, thrice)


@pytest.mark.parametrize("seed", range(5))
def test_water_is_smooth_but_for_its_waves_and_bounces_meet_its_body(seed: int) -> None:
    for k in range(20):
        water = drawn_water(np.random.default_rng((seed, k)))
        assert (water.texture, water.bump, water.gloss, water.wear) == (int(Texture.WATER), 0, 0.0, 0.0)
        np.testing.assert_allclose(mean_reflectance(water), np.clip(water.colors[3], 0.02, 0.9))
        assert (water.colors[:3] == WATER).all()


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


def test_water_mirrors_and_nothing_else_does(shore: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hits = render.primary_hits(shore.scene.shapes, shore.scene.camera, (2 * SIZE[0], 2 * SIZE[1]))
    share = is_water(shore.scene, hits).float().reshape(SIZE[0], 2, SIZE[1], 2).mean((1, 3))
    monkeypatch.setattr(rendering, "mirroring", lambda home, s, hits, wet, light, sky, samples: light)
    (dull,) = _rendered([shore.scene], SIZE, 8)
    sky = shore.scene.roles.index("sky")
    mirrored_light, own_light = (world.basis.irradiance[sky] for world in (shore, dull))
    off = (mirrored_light / own_light.clamp_min(1e-6)).log().abs()
    assert float(off[:, share == 1].median()) > 0.1, "what it mirrors is another light"
    land = (share == 0) & shore.basis.mask[0]
    assert int(land.sum()) > 20
    torch.testing.assert_close(mirrored_light[:, land], own_light[:, land])


def test_three_in_ten_vistas_have_water() -> None:
    textures = [scene(seed, "vista").materials.texture for seed in range(80)]
    assert 14 < sum(bool((texture == int(Texture.WATER)).any()) for texture in textures) < 35


def test_towns_stand_on_land_and_not_at_all_where_there_is_none() -> None:
    camera = Camera((0.0, -15.0, 20.0), (0.0, 85.0, 0.0), 0.7)
    for seed in range(10):
        b = Builder(np.random.default_rng(seed))
        water = vistas._water(b)
        before = len(b)
        vistas._town(b, 40, 150.0, camera, None, water)
        houses = b.centers()[before:, :2]
        inside = ((houses > water[0]) & (houses < water[1])).all(1)
        assert inside.mean() < 0.02 if len(houses) else True, seed
    flooded = Builder(np.random.default_rng(0))
    vistas._town(flooded, 20, 150.0, camera, None, np.array([[-1e4, -1e4], [1e4, 1e4]]))
    assert len(flooded) == 0


def test_houses_stand_in_a_grid() -> None:
    camera = Camera((0.0, -15.0, 20.0), (0.0, 85.0, 0.0), 0.7)
    for seed in range(20):
        place = vistas._place(np.random.default_rng(seed), camera, 18, 150, None, 8.0)
        assert place is not None
        np.testing.assert_allclose(place % 8, 0, atol=1e-9)


def test_a_rendered_scene_mirrors_the_sky_of_each_light_and_its_haze_knows_the_light_alone(
    shore: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, Any] = {}

    def mirrors(*given: Any) -> torch.Tensor:
        told["skies"] = given[5]
        light: torch.Tensor = given[4] * 100
        return light

    def haze(*given: Any) -> torch.Tensor:
        told["level"] = given[5]
        light: torch.Tensor = given[0]
        return light

    monkeypatch.setattr(rendering, "mirroring", mirrors)
    monkeypatch.setattr(rendering, "hazed", haze)
    monkeypatch.setattr(rendering, "shares_past_bumps", lambda home, *_: torch.full((len(home.roles), 1, 1), 0.5))
    monkeypatch.setattr(
        render,
        "irradiance",
        lambda _, lights, points, *__, **___: torch.ones(len(lights.kind), *points.shape),
    )
    next(iter(rendering._rendered([shore.scene], SIZE, 4)))
    expected = drawn_skies(shore.scene.roles, shore.scene.seed)[0]
    assert [sky.seed for sky in told["skies"]] == [sky.seed for sky in expected]
    torch.testing.assert_close(told["level"], torch.full((len(expected),), 0.5))


def test_water_begins_beyond_the_camera_unless_a_river_goes_by() -> None:
    wide = []
    for seed in range(200):
        low, high = vistas._water(Builder(np.random.default_rng(seed)))
        along = high[1] - low[1] > 2000 > high[0] - low[0]
        assert along or low[1] >= 20
        wide.append(along)
    assert 0.05 < np.mean(wide) < 0.25


def test_ponds_lie_in_the_lower_half_of_some_gardens() -> None:
    shares = []
    for seed in range(120):
        s = scene(seed, "garden")
        lies = s.materials.texture[s.shapes.material.long()] == int(Texture.WATER)
        if bool(lies.any()):
            ground = (s.shapes.kind == int(ShapeKind.TERRAIN)).nonzero()[0, 0]
            heights = s.shapes.heights[s.shapes.grid[ground]] * s.shapes.to_world[ground, 2, 2]
            level = float(s.shapes.to_world[lies][0, 2, 3] - s.shapes.to_world[ground, 2, 3])
            shares.append(float((heights < level).float().mean()))
    assert 5 < len(shares) < 26
    assert min(shares) > 0.15
    assert max(shares) < 0.6


def test_skies_over_water_are_those_that_are_seen(shore: World) -> None:
    skies, _ = drawn_skies(shore.scene.roles, shore.scene.seed)
    up = torch.tensor([[0.0], [0.0], [1.0]])
    high = torch.tensor([[0.0], [-400.0], [0.0]])
    light = mirrored(shore.scene, high, up, skies, 4)
    assert light.shape == (len(skies), 3, 1)
    expected = torch.tensor([sky.level for sky in skies if sky.cover == 0])
    clear = torch.tensor([sky.cover == 0 for sky in skies])
    assert bool(clear.any())
    torch.testing.assert_close(light[clear].mean((1, 2)), expected, rtol=0.05, atol=0)
