"""What stands out of houses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.worlds.test_surface import drawn, plane
from tests.worlds.test_traffic import boxes
from unlit.worlds import facades, outdoors, paint, vistas
from unlit.worlds.builder import Builder
from unlit.worlds.bumps import _recesses
from unlit.worlds.facades import MOST, House, drawn_trim, dress
from unlit.worlds.made import panes, sills
from unlit.worlds.materials import Bump, Texture
from unlit.worlds.palette import drawn_material, drawn_print, stacked
from unlit.worlds.render_kernel import MOST_SHAPES
from unlit.worlds.scene import scene
from unlit.worlds.surface import surface_at

FRONTS = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
AT, HALF, HEIGHT = np.array([3.0, 40.0, 0.0]), (4.0, 6.0), 10.0
Add = Callable[[Builder, House, int], None]


def house(front: tuple[float, float], height: float = HEIGHT, rise: float = 2.0, **others: Any) -> House:
    return House(AT, HALF, height, front, 0, rise, **{"room": 2.5, "is_alone": True, **others})


def added(add: Add, one: House, seed: int) -> tuple[np.ndarray, np.ndarray]:
    b = Builder(np.random.default_rng(seed))
    trim = drawn_trim(b)
    add(b, one, trim)
    return boxes(b)


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("name", ["_pillars", "_balconies", "_awning"])
def test_what_is_at_the_front_stands_out_there_and_nowhere_else(name: str, front: tuple[float, float]) -> None:
    for seed in range(10):
        low, high = added(getattr(facades, name), house(front), seed)
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
        low, high = added(getattr(facades, name), house(front), seed)
        assert len(low) >= 1
        assert (high[:, :2] > AT[:2] + HALF).all()
        assert (low[:, :2] < AT[:2] - HALF).all()
        assert (high[:, 2] <= HEIGHT + 1e-6).all()
        assert (high[:, 2] - low[:, 2] < 0.5).all(), "thin"


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("rise", [0.0, 2.0])
def test_chimneys_and_dormers_stand_on_the_roof_and_within_it(front: tuple[float, float], rise: float) -> None:
    counts = []
    for seed in range(30):
        low, high = added(facades._on_roof, house(front, rise=rise), seed)
        np.testing.assert_allclose(low[:, 2], HEIGHT, atol=1e-6)
        assert (low[:, :2] > AT[:2] - HALF).all()
        assert (high[:, :2] < AT[:2] + HALF).all()
        is_chimney = high[:, 0] - low[:, 0] < 1.05
        assert (high[is_chimney, 2] > HEIGHT + rise + 0.29).all(), "higher than the ridge"
        assert (high[:, 2] < HEIGHT + rise + 1.21).all()
        counts.append((~is_chimney).sum())
    has_dormers = rise > 0 and front[0] != 0
    assert (max(counts) > 0) == has_dormers, "on slopes alone"


def test_things_keep_within_the_room_before_a_house_and_off_its_neighbors() -> None:
    tight = house((0.0, -1.0), room=0.3, is_alone=False)
    for name in ("_eaves", "_ledges", "_pillars", "_balconies", "_awning"):
        for seed in range(10):
            low, high = added(getattr(facades, name), tight, seed)
            assert (low[:, 1] >= AT[1] - HALF[1] - 0.3 - 0.051).all()
            if name in ("_eaves", "_ledges"):
                np.testing.assert_allclose(high[:, 0], AT[0] + HALF[0], atol=1e-6)


def test_an_awning_hangs_below_the_top_of_a_low_house() -> None:
    for seed in range(10):
        _, high = added(facades._awning, house((1.0, 0.0), height=2.6), seed)
        assert high[0, 2] < 2.6


def test_rails_of_open_balconies_stand_on_posts() -> None:
    opened = 0
    for seed in range(30):
        low, high = added(facades._balconies, house((0.0, -1.0)), seed)
        posts = (high[:, 0] - low[:, 0] < 0.1) & (high[:, 2] - low[:, 2] > 0.9)
        slabs = np.isclose(high[:, 2] - low[:, 2], 0.16, atol=1e-6)
        rails = high[:, 2] - low[:, 2] < 0.12
        assert posts.sum() == 2 * rails.sum()
        for post in np.flatnonzero(posts):
            assert np.isclose(low[post, 2], high[slabs, 2] - 0.08, atol=0.01).any()
        opened += int(posts.any())
    assert 3 < opened < 20


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


def test_a_town_ends_where_the_scene_is_full() -> None:
    b = Builder(np.random.default_rng(0))
    vistas._town(b, 500, 400.0, vistas._camera(b.draw), None, None)
    assert vistas._FULL < len(b) < vistas._FULL + 30


@pytest.mark.parametrize("place", ["vista", "street"])
def test_most_houses_of_towns_and_streets_have_something_that_stands_out(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[House] = []
    built: list[int] = []
    monkeypatch.setattr({"vista": vistas, "street": outdoors}[place], "dress", lambda b, one, trim: met.append(one))
    monkeypatch.setattr(Builder, "gable", lambda *_: built.append(1))
    for seed in range(10):
        scene(seed, place)
    # Three quarters of the houses in towns have gables, two fifths in streets; those far away are dressed less.
    houses = len(built) / {"vista": 0.75, "street": 0.42}[place]
    assert {"vista": 0.4, "street": 0.55}[place] < len(met) / houses < 0.95
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
    assert Texture.PICTURE not in (*outdoors._GROUND, *paint._PATTERNS, *paint._COATS)
