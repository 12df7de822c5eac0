"""What webcams see: squares, valleys, winters, and calm colors."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
import pytest
import torch

from unlit.worlds import vistas
from unlit.worlds.builder import Builder
from unlit.worlds.calm import GROUND, ROCK, ROOFS, WALLS, Stuff, drawn_calm, usual_color
from unlit.worlds.description import ShapeKind
from unlit.worlds.materials import Texture
from unlit.worlds.palette import drawn_greens, toned
from unlit.worlds.scene import scene
from unlit.worlds.squares import add_square


def hue_of(color: np.ndarray) -> float:
    return colorsys.rgb_to_hsv(*color)[0]


def saturation_of(color: np.ndarray) -> float:
    return colorsys.rgb_to_hsv(*color)[1]


def spreads(texture: Texture) -> np.ndarray:
    """Return by how much the log of the first and of the last color differ, for many materials (n,)."""
    found = [drawn_calm(np.random.default_rng(seed), 3.0, (texture,), WALLS).colors for seed in range(300)]
    return np.array([np.abs(np.log(colors[3] / colors[0])).mean() for colors in found])


def test_most_materials_of_the_open_have_tones_of_one_color_and_some_any() -> None:
    found = spreads(Texture.BRICK)
    assert np.median(found) < 0.25
    assert 0.12 < (found > 0.6).mean() < 0.3


@pytest.mark.parametrize("kinds", [GROUND, WALLS, ROOFS, ROCK])
def test_usual_colors_are_those_of_some_stuff(kinds: tuple[Stuff, ...]) -> None:
    for seed in range(200):
        color = usual_color(np.random.default_rng(seed), kinds)
        lightness = float(color @ [0.2126, 0.7152, 0.0722])
        # A strong color has a channel that is held at 0.02.
        assert any(low * 0.999 <= lightness <= high * 1.001 + 0.01 for low, high in (k.lightness for k in kinds))
        assert not 0.25 < hue_of(color) < 0.5 or saturation_of(color) < 0.2, "nothing of it is green"


def test_stuffs_come_by_their_shares() -> None:
    light, dark = Stuff(3, (0.5, 0.6), 0.1, (0.0, 0.1)), Stuff(1, (0.1, 0.2), 0.1, (0.0, 0.1))
    found = [usual_color(np.random.default_rng(seed), (light, dark)).mean() for seed in range(400)]
    assert 0.68 < np.mean(np.array(found) > 0.3) < 0.82


def test_lightness_is_even_in_logs_between_its_ends() -> None:
    wide = (Stuff(1, (0.05, 0.8), 0.1, (0.0, 0.0)),)
    found = [usual_color(np.random.default_rng(seed), wide).mean() for seed in range(400)]
    assert 0.15 < np.median(found) < 0.27, "the geometric mean is 0.2"
    assert min(found) < 0.06
    assert max(found) > 0.7


def test_roofs_are_darker_than_walls_and_rock_is_dull() -> None:
    def colors(kinds: tuple[Stuff, ...]) -> np.ndarray:
        return np.array([usual_color(np.random.default_rng(seed), kinds) for seed in range(400)])

    walls, roofs, ground = (np.median(colors(kinds) @ [0.2126, 0.7152, 0.0722]) for kinds in (WALLS, ROOFS, GROUND))
    assert walls > 0.3
    assert roofs < 0.2
    assert ground < 0.25
    assert max(saturation_of(color) for color in colors(ROCK)) < 0.55


def test_a_tone_has_its_hue_and_lightness_unless_no_surface_can() -> None:
    for hue in (-0.01, 0.99):
        color = toned(hue, 0.5, 0.3)
        assert color @ [0.2126, 0.7152, 0.0722] == pytest.approx(0.3)
        assert hue_of(color) == pytest.approx(0.99, abs=0.02)
    blue = toned(0.66, 0.97, 0.8)
    assert blue.min() >= 0.02
    assert blue.max() == pytest.approx(0.9), "darker than asked, and not whiter"
    assert saturation_of(blue) > 0.95


def test_towns_have_roofs_on_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[tuple[tuple[Texture, ...], tuple[Stuff, ...]]] = set()

    def noted(draw: np.random.Generator, size: float, textures: tuple[Texture, ...], kinds: Any, *more: float) -> Any:
        asked.add((textures, kinds))
        return drawn_calm(draw, size, textures, kinds, *more)

    monkeypatch.setattr(vistas, "drawn_calm", noted)
    for seed in range(20):
        vistas.vista(np.random.default_rng(seed))
    of = {textures: {kinds for some, kinds in asked if some == textures} for textures, _ in asked}
    assert of[vistas._WALLS] == {WALLS}
    assert of[vistas._ROOFS] == {ROOFS}
    assert of[vistas._SLOPES] == {ROCK}


def test_two_thirds_of_walls_have_a_usual_color_and_the_others_any() -> None:
    black = (Stuff(1, (0.03, 0.031), 0.0, (0.0, 0.0)),)
    found = [drawn_calm(np.random.default_rng(seed), 3.0, (Texture.PLAIN,), black).colors[0] for seed in range(400)]
    usual = [bool(np.ptp(color) < 1e-9 and 0.0299 < color[0] < 0.0311) for color in found]
    assert 0.58 < np.mean(usual) < 0.72


def test_glass_stays_dark_in_calm_walls() -> None:
    walls = [drawn_calm(np.random.default_rng(seed), 3.0, (Texture.WINDOWS,), WALLS).colors for seed in range(100)]
    assert max(colors[1].mean() for colors in walls) < 0.2
    assert max(colors[0].mean() for colors in walls) > 0.6


def test_a_square_lies_on_the_ground_and_everything_stands_on_it() -> None:
    middle, half = np.array([3.0, 20.0, 0.0]), np.array([10.0, 6.0])
    heads = 0
    for seed in range(20):
        b = Builder(np.random.default_rng(seed))
        add_square(b, middle, half)
        away = np.abs(b.centers()[:, :2] - middle[:2]) - half
        assert (away < 4.5).all(), "or reaches a little beyond"
        assert (b.centers()[:, 2] > -0.2).all()
        assert 2 <= len(b) < 110
        shapes = b.shapes()
        assert int(shapes.kind[0]) == int(ShapeKind.BOX)
        np.testing.assert_allclose(shapes.to_world[0], np.c_[np.diag([*half, 0.1]), middle], atol=1e-6)
        balls = b.centers()[(shapes.kind == int(ShapeKind.SPHERE)).numpy()]
        heads += int(np.isclose(balls[:, 2], 1.72).sum())
    assert heads > 20, "people pass"


def test_a_valleys_side_rises_away_from_the_town_and_spares_the_camera() -> None:
    for seed in range(30):
        b = Builder(np.random.default_rng(seed))
        vistas._slope(b)
        shapes = b.shapes()
        assert shapes.kind.tolist() == [int(ShapeKind.TERRAIN)]
        heights, to_world = shapes.heights[0], shapes.to_world[0]
        outwards = to_world[:2, 0] / to_world[:2, 0].norm()
        assert float(heights[:, -1].mean()) > 0.7 > 0.05 > float(heights[:, 0].abs().max())
        assert float(to_world[:2, 3] @ outwards - to_world[:2, 0].norm()) > 20, "its foot is so far from the middle"
        assert torch.allclose(to_world[2, :2], torch.zeros(2), atol=1e-3), "upright"


def test_in_winter_ground_and_roofs_are_of_the_same_snow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vistas, "_WINTER", 1.0)
    b, _, _ = vistas.vista(np.random.default_rng(3))
    shapes = b.shapes()
    assert float(shapes.reflectance[0].min()) > 0.45, "the ground"
    assert int((shapes.material == shapes.material[0]).sum()) > 6, "and roofs"


def test_streets_have_rows_of_houses_most_of_them_at_both_sides() -> None:
    sides, counts = [], []
    for seed in range(60):
        s = scene(seed, "street")
        box = s.shapes.to_world[s.shapes.kind == int(ShapeKind.BOX)]
        # Fronts: as deep as houses of streets are, and meters high.
        fronts = box[((box[:, 0, 0].abs() - 4).abs() < 1e-4) & (box[:, 2, 2] > 1.2)]
        sides.append(len({bool(x > 0) for x in fronts[:, 0, 3].tolist()}))
        counts.append(len(fronts))
    assert 0.6 < np.mean([n == 2 for n in sides]) < 0.9
    assert np.mean([n == 0 for n in sides]) < 0.1
    assert np.median(counts) >= 5


def test_a_third_of_all_towns_are_large() -> None:
    reach = []
    for seed in range(60):
        s = scene(seed, "vista")
        box = s.shapes.to_world[s.shapes.kind == int(ShapeKind.BOX)]
        reach.append(float(box[box[:, 2, 2] > 1.4][:, 1, 3].max()))
    assert 0.2 < np.mean([r > 190 for r in reach]) < 0.5


def test_leaves_are_dark_and_those_of_one_plant_differ_little() -> None:
    plants = np.array([drawn_greens(np.random.default_rng(seed))[:3] @ [0.2126, 0.7152, 0.0722] for seed in range(300)])
    assert 0.06 < np.median(plants) < 0.1
    assert np.quantile(plants, 0.05) < 0.045
    assert 0.15 < np.quantile(plants, 0.95) < 0.25
    assert 0.15 < np.log(plants).std(1).mean() < 0.5 * np.log(plants).std()


def test_every_third_wood_is_of_firs() -> None:
    firs, slender = [], []
    for seed in range(120):
        b = Builder(np.random.default_rng(seed))
        vistas._woods(b, 5, np.array([0.0, 40.0]))
        kinds, to_world = b.shapes().kind, b.shapes().to_world
        assert len(set(kinds.tolist())) == 1
        firs.append(int(kinds[0]) == int(ShapeKind.CONE))
        if firs[-1]:
            assert (to_world[:, 2, 2] > 0).all(), "their tips are above"
            assert torch.allclose(to_world[:, 2, 3] - to_world[:, 2, 2], torch.tensor(0.3)), "they stand on the ground"
            slender.append(float((to_world[:, 0, 0] / to_world[:, 2, 2]).median()))
    assert 0.25 < np.mean(firs) < 0.45
    assert 0.3 < np.median(slender) < 0.7, "mostly higher than wide"


def test_most_leaves_are_dull() -> None:
    strong = []
    for seed in range(300):
        color = drawn_greens(np.random.default_rng(seed))[0]
        strong.append(1 - color.min() / color.max())
    assert 0.35 < np.median(strong) < 0.6
    assert np.quantile(strong, 0.97) > 0.8
