"""What stands out of houses, and what goes and stands in streets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.worlds.test_surface import drawn, plane
from unlit.worlds import facades, outdoors, vistas
from unlit.worlds.builder import Builder
from unlit.worlds.bumps import _recesses
from unlit.worlds.description import ShapeKind, Shapes
from unlit.worlds.facades import MOST, House, drawn_trim, dress
from unlit.worlds.made import panes, sills
from unlit.worlds.materials import Bump, Texture
from unlit.worlds.palette import drawn_material, drawn_print, stacked
from unlit.worlds.render_kernel import MOST_SHAPES
from unlit.worlds.scene import scene
from unlit.worlds.surface import surface_at
from unlit.worlds.traffic import car, cars, passer, railing

FRONTS = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
AT, HALF, HEIGHT = np.array([3.0, 40.0, 0.0]), (4.0, 6.0), 10.0
Add = Callable[[Builder, House, int], None]


def house(front: tuple[float, float]) -> House:
    return House(AT, HALF, HEIGHT, front, 0)


def boxes(shapes: Shapes) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest corners (n, 3) of the boxes around shapes."""
    maps = shapes.to_world.double().numpy()
    reach = np.abs(maps[:, :, :3]).sum(2)
    return maps[:, :, 3] - reach, maps[:, :, 3] + reach


def added(add: Add, front: tuple[float, float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    b = Builder(np.random.default_rng(seed))
    trim = drawn_trim(b)
    add(b, house(front), trim)
    return boxes(b.shapes())


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("name", ["_pillars", "_balconies", "_awning"])
def test_what_is_at_the_front_stands_out_there_and_nowhere_else(name: str, front: tuple[float, float]) -> None:
    for seed in range(10):
        low, high = added(getattr(facades, name), front, seed)
        axis = int(front[0] == 0)
        out = (high[:, axis] - AT[axis]) if front[axis] > 0 else (AT[axis] - low[:, axis])
        assert (out > HALF[axis] + 0.05).all()
        assert (out < HALF[axis] + 3).all()
        back = (AT[axis] - low[:, axis]) if front[axis] > 0 else (high[:, axis] - AT[axis])
        assert (back < HALF[axis]).all(), "not behind the house"
        aside = np.maximum(high[:, 1 - axis] - AT[1 - axis], AT[1 - axis] - low[:, 1 - axis])
        assert (aside <= HALF[1 - axis] + 0.5).all()
        assert (low[:, 2] >= -1e-6).all()
        assert (high[:, 2] <= HEIGHT + 1e-6).all()


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("name", ["_eaves", "_ledges"])
def test_eaves_and_ledges_go_all_around(name: str, front: tuple[float, float]) -> None:
    for seed in range(10):
        low, high = added(getattr(facades, name), front, seed)
        assert len(low) >= 1
        assert (high[:, :2] > AT[:2] + HALF).all()
        assert (low[:, :2] < AT[:2] - HALF).all()
        assert (high[:, 2] <= HEIGHT + 1e-6).all()
        assert (high[:, 2] - low[:, 2] < 0.5).all(), "thin"


def test_chimneys_and_dormers_stand_on_the_roof_and_within_it() -> None:
    for seed in range(30):
        low, high = added(facades._on_roof, (0.0, -1.0), seed)
        np.testing.assert_allclose(low[:, 2], HEIGHT, atol=1e-6)
        assert (high[:, 2] < HEIGHT + 2 * (HALF[0] * 0.25 + 1.5)).all()
        assert (np.abs((low + high)[:, :2] / 2 - AT[:2]) < HALF).all()


def test_houses_are_dressed_in_many_ways_until_the_scene_is_full() -> None:
    counts = []
    for seed in range(60):
        b = Builder(np.random.default_rng(seed))
        dress(b, house((0.0, -1.0)), drawn_trim(b))
        counts.append(len(b))
    assert min(counts) == 0
    assert np.mean(counts) > 3
    b = Builder(np.random.default_rng(0))
    trim = drawn_trim(b)
    for _ in range(500):
        dress(b, house((0.0, -1.0)), trim)
    assert MOST <= len(b) < MOST + 20


def test_towns_and_streets_with_all_that_fit_the_fast_renderer() -> None:
    counts = [len(scene(seed, place).shapes.kind) for place in ("vista", "street") for seed in range(60)]
    assert max(counts) < MOST_SHAPES
    assert np.median(counts) > 100


@pytest.mark.parametrize("place", ["vista", "street"])
def test_most_houses_of_towns_and_streets_have_something_that_stands_out(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[House] = []
    monkeypatch.setattr({"vista": vistas, "street": outdoors}[place], "dress", lambda b, one, trim: met.append(one))
    for seed in range(10):
        scene(seed, place)
    assert len(met) > 40
    for one in met:
        assert one.front in FRONTS
        # Of the street, whose middle is x = 0, fronts look at it; of towns they look at the camera.
        assert one.front == ((0, -1) if place == "vista" else (-np.sign(one.at[0]), 0))


def test_windows_are_set_back_where_their_glass_is_and_have_sills() -> None:
    params = torch.tensor([[0.2, 0.5, 0.5, 0.5]])
    line = torch.arange(0, 4, 0.01) + 0.005
    uv = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
    many = params.expand(len(uv), 4)
    height, (_, outside) = _recesses(uv, many), panes(uv, many)
    assert float(height[outside < 0].abs().max()) == 0
    assert float(height[(outside > 0.04) & ~sills(uv, many)].min()) == pytest.approx(0.1)
    # Half a pane is .29 high: below it, from .21 of a floor down to .13, is its sill.
    below = uv[sills(uv, many)][:, 1] % 1
    assert 0.125 < float(below.min()) < float(below.max()) < 0.215
    assert float(height.max()) > 0.15, "which stands out of the wall"


def test_floors_end_in_ledges_on_some_fronts() -> None:
    uv = torch.stack([torch.full((200,), 0.01), torch.linspace(0, 2, 200)], 1)
    with_ledge, without = (sills(uv, torch.tensor([[p, 0.0, 0.0, 0.5]]).expand(200, 4)) for p in (0.9, 0.1))
    near = (uv[:, 1] - uv[:, 1].round()).abs() < 0.049
    assert bool(with_ledge[near].all())
    assert not bool(with_ledge[(uv[:, 1] - uv[:, 1].round()).abs() > 0.051].any())
    assert not bool(without.any())


def test_the_edge_of_a_window_shades_its_glass() -> None:
    material = drawn(
        Texture.WINDOWS, 0, scale=0.2, bump=int(Bump.RECESSES), bump_height=1.0, bump_scale=0.1,
        params=np.array([0.2, 0.5, 0.5, 0.5]), offset=np.zeros(3), turn=0.0,
    )  # fmt: skip
    hits = plane(side=200, width=1e-3)
    _, _, horizon, _, pane = surface_at(hits, stacked([material]))
    assert float(horizon[pane >= 0].amax(1).mean()) > 2 * float(horizon[pane < 0].amax(1).mean())
    assert float(horizon[pane >= 0].max()) > 0.8


def test_most_windows_are_set_back() -> None:
    found = [drawn_material(np.random.default_rng(seed), 3.0, (Texture.WINDOWS,)) for seed in range(200)]
    recessed = [m for m in found if m.bump == Bump.RECESSES]
    assert 0.6 < len(recessed) / len(found) < 0.9
    assert all(m.bump_scale == pytest.approx(0.5 * m.scale) for m in recessed)
    assert all(0.3 <= m.bump_height <= 1.5 for m in recessed)


def test_photographs_are_on_prints_alone_and_not_on_many() -> None:
    plain = [drawn_material(np.random.default_rng(seed), 1.0).texture for seed in range(1500)]
    assert Texture.PICTURE not in plain
    prints = [drawn_print(np.random.default_rng(seed), 1.0, 0.7).texture for seed in range(600)]
    assert 0.1 < np.mean([texture == Texture.PICTURE for texture in prints]) < 0.24
    for seed in range(40):
        assert int(Texture.PICTURE) not in scene(seed, "vista").materials.texture.tolist()


def test_people_stand_on_their_feet() -> None:
    b = Builder(np.random.default_rng(0))
    passer(b, np.array([2.0, 5.0, 0.1]))
    low, high = boxes(b.shapes())
    assert 1.6 < high[:, 2].max() < 2.0
    assert -0.1 < low[:, 2].min() < 0.2
    assert (np.abs(b.centers()[:, :2] - [2, 5]) < 0.3).all()


@pytest.mark.parametrize("yaw", [0.0, np.pi / 2, 1.0])
def test_cars_stand_on_wheels_and_lie_along_their_way(yaw: float) -> None:
    b = Builder(np.random.default_rng(0))
    car(b, np.zeros(3), yaw)
    low, high = boxes(b.shapes())
    assert low[:, 2].min() == pytest.approx(0, abs=0.01)
    assert 1.4 < high[:, 2].max() < 2.5
    wheels = b.centers()[(b.shapes().kind == int(ShapeKind.CYLINDER)).numpy()]
    along = wheels[1] - wheels[0]
    np.testing.assert_allclose(along / np.linalg.norm(along), [-np.sin(yaw), np.cos(yaw), 0], atol=1e-6)


def test_parked_cars_keep_between_their_ends_and_off_each_other() -> None:
    start, end = np.array([1.0, 2.0, 0.1]), np.array([25.0, 14.0, 0.1])
    for seed in range(20):
        b = Builder(np.random.default_rng(seed))
        cars(b, start, end)
        if not len(b):
            continue
        bodies = b.centers()[::5]
        share = (bodies - start)[:, :2] @ (end - start)[:2] / np.sum((end - start)[:2] ** 2)
        assert ((share > 0) & (share < 1)).all()
        gaps = np.linalg.norm(np.diff(bodies[:, :2], axis=0), axis=1)
        assert (gaps > 4.5).all()
    b = Builder(np.random.default_rng(0))
    cars(b, start, start + np.array([0.5, 0, 0]))
    assert len(b) == 0, "no room, no car"


def test_a_railing_has_posts_from_end_to_end_and_rails_over_all_of_it() -> None:
    start, end = np.array([0.0, 3.0, 0.0]), np.array([9.0, 3.0, 0.0])
    for seed in range(10):
        b = Builder(np.random.default_rng(seed))
        railing(b, start, end)
        low, high = boxes(b.shapes())
        posts = high[:, 0] - low[:, 0] < 1
        assert 5 <= posts.sum() <= 15
        assert 1 <= (~posts).sum() <= 2
        centers = b.centers()[posts]
        np.testing.assert_allclose([centers[0, 0], centers[-1, 0]], [0, 9], atol=1e-9)
        assert (low[:, 2] > -1e-6).all()
