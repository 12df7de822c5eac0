"""Much that is small, side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from unlit.worlds.builder import GRID, Builder, dome
from unlit.worlds.clutter import CROWD, ROOFTOPS, RUBBLE, SHRUBS, WOODS, Heap, add_heap, blocks, domes, wooded
from unlit.worlds.description import ShapeKind
from unlit.worlds.intersection import blocked, geometry
from unlit.worlds.scene import scene

HEAPS = {"crowd": CROWD, "shrubs": SHRUBS, "rubble": RUBBLE, "woods": WOODS, "rooftops": ROOFTOPS}


def heap_maps(seed: int, place: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where the heaps of a scene stand (n, 3, 4), and its camera's place (3,)."""
    s = scene(seed, place)
    lowest = s.shapes.heights.amin((1, 2))[s.shapes.grid.long()] if len(s.shapes.heights) else torch.zeros(1)
    is_heap = (s.shapes.kind == int(ShapeKind.TERRAIN)) & torch.isclose(lowest, torch.tensor(-0.2))
    return s.shapes.to_world[is_heap].double().numpy(), np.array(s.camera.position)


@pytest.mark.parametrize("heights", [blocks, domes])
def test_things_stand_apart_and_the_ground_shows_between_and_around_them(
    heights: Callable[[np.random.Generator], NDArray[np.float64]],
) -> None:
    shares = []
    for seed in range(60):
        found = heights(np.random.default_rng(seed))
        assert found.shape == (GRID, GRID)
        assert found.max() <= 1
        rim = np.concatenate([found[0], found[-1], found[:, 0], found[:, -1]])
        assert (rim < 0).all(), "or its border would hang in the air"
        shares.append((found > 0).mean())
    assert min(shares) < 0.2
    assert 0.45 < max(shares) < 0.75


@pytest.mark.parametrize("name", HEAPS)
def test_things_have_the_size_of_what_they_are(name: str) -> None:
    heap = HEAPS[name]
    for seed in range(30):
        b = Builder(np.random.default_rng(seed))
        half = heap.drawn_half(b.draw, 0.3)
        assert half[0] / half[1] == pytest.approx(0.3)
        wide = 2 * 2 * np.sqrt(half.prod()) / (GRID - 1)
        assert heap.wide[0] <= wide <= heap.wide[1], "two cells of the grid"
        add_heap(b, np.array([1.0, 2.0, 3.0]), half, heap, 0.5)
        to_world = b.shapes().to_world[0].double().numpy()
        np.testing.assert_allclose(np.linalg.norm(to_world[:, :2], axis=0), half, rtol=1e-5)
        assert heap.high[0] <= to_world[2, 2] <= heap.high[1]
        np.testing.assert_allclose(to_world[:, 3], [1, 2, 3])


def test_crowds_are_motley_and_woods_are_green() -> None:
    def spread(heap: Heap) -> float:
        colors = [heap.stuff(np.random.default_rng(seed), 0.3).colors[:3] for seed in range(80)]
        return float(np.median([np.log(some).std(0).mean() for some in colors]))

    assert spread(CROWD) > 2 * spread(WOODS)


def test_the_sun_makes_shade_as_fine_as_the_things() -> None:
    b = Builder(np.random.default_rng(0))
    add_heap(b, np.zeros(3), np.array([8.0, 8.0]), CROWD)
    b.quad((0, 0, 0), (50, 0, 0), (0, 50, 0), 0)
    along = torch.linspace(-7, 7, 400)
    start = torch.stack([along, torch.zeros(400), torch.full((400,), 0.02)])
    to_sun = torch.tensor([[0.3], [0.5], [0.8]]).expand(3, 400)
    shaded = blocked(geometry(b.shapes()), start, to_sun, torch.full((400,), 100.0))
    assert 0.1 < float(shaded.float().mean()) < 0.95
    assert int((shaded[1:] != shaded[:-1]).sum()) > 8, "from light to shade and back, time and again"


@pytest.mark.parametrize(("place", "least"), [("vista", 40), ("street", 25), ("garden", 10), ("ruin", 10)])
def test_heaps_stand_before_the_camera_and_not_around_it(place: str, least: int) -> None:
    count = 0
    for seed in range(40):
        maps, camera = heap_maps(seed, place)
        for to_world in maps:
            count += 1
            x, y, _ = np.linalg.solve(to_world[:, :3], camera - to_world[:, 3])
            assert max(abs(x), abs(y)) > 1, f"scene {seed}"
    assert count >= least


def test_woods_grow_on_a_slope_whose_foot_stays_in_the_ground() -> None:
    for seed in range(20):
        draw = np.random.default_rng(seed)
        bare = dome(draw, 0.5)
        grown = wooded(draw, bare, 40.0, 10.0)
        assert grown.max() <= 1
        assert (wooded(draw, np.minimum(bare, 0), 40.0, 10.0) <= 0).all(), "nothing grows where it is no hill"
        rough, smooth = (np.abs(np.diff(heights[15:25, 15:25], 2)).mean() for heights in (grown, bare))
        assert rough > smooth, "crowns"
    low = wooded(np.random.default_rng(0), np.ones((GRID, GRID)), 500.0, 1.0)
    assert low.min() >= 0.6, "a low hill is more hill than trees"
