"""Windows that are lit at night."""

from __future__ import annotations

import numpy as np
import torch

from unlit.worlds import render
from unlit.worlds.builder import Builder
from unlit.worlds.description import Camera
from unlit.worlds.light import Lighting
from unlit.worlds.materials import Texture
from unlit.worlds.night import with_lit_windows
from unlit.worlds.palette import drawn_material, stacked
from unlit.worlds.scene import Scene

SIZE = (60, 90)
WALL, GLASS = 0.6, 0.05


def front(seed: int = 1) -> Scene:
    """A house's front with windows, by day and under two lamps."""
    draw = np.random.default_rng(2)
    b = Builder(draw)
    stuff = drawn_material(draw, 3.0, (Texture.WINDOWS,))
    stuff.colors[:] = np.array([WALL, GLASS, WALL, WALL])[:, None]
    b.box((0, 10, 0), (30, 1, 30), b.material(stuff))
    lighting = Lighting(draw, np.zeros(3))
    lighting.sun(np.array([0.0, -0.6, 0.8]), 0.01)
    lighting.lamp((3.0, 2.0, 5.0), 0.1)
    lighting.lamp((-3.0, 2.0, 5.0), 0.1)
    camera = Camera((0.0, -10.0, 0.0), (0.0, 0.0, 0.0), 1.0)
    roles = tuple(lighting.roles)
    return Scene(b.shapes(), lighting.lights(), camera, stacked(b.materials), roles, (0.9, 0.0, 0.0), "vista", seed)


def lit(s: Scene, is_glass: torch.Tensor) -> torch.Tensor:
    """The light (k, 3, h, w) that windows add where the front is glass (h, w)."""
    hits = render.primary_hits(s.shapes, s.camera, SIZE)
    pixel = torch.arange(SIZE[0] * SIZE[1])
    reflectance = torch.where(is_glass, GLASS * 1.2, WALL).flatten()[:, None].expand(-1, 3)
    return with_lit_windows(s, hits, pixel, reflectance, torch.zeros(3, 3, *SIZE))


def test_some_windows_are_lit_warmly_while_lamps_shine_and_nothing_else_is() -> None:
    is_glass = torch.rand(SIZE, generator=torch.Generator().manual_seed(0)) < 0.4
    light = lit(front(), is_glass)
    assert float(light[0].abs().max()) == 0, "by day"
    assert float(light[:, :, ~is_glass].abs().max()) == 0
    for k in (1, 2):
        shining = light[k, 0] > 0
        assert 0.05 < float(shining[is_glass].float().mean()) < 0.75
        through = light[k, :, shining] * GLASS * 1.2
        assert bool((through[0] >= through[1]).all())
        assert bool((through[1] > through[2]).all() or (through[0] > through[2]).all())
        assert float(through[0].min()) > 0.05
        assert float(through[0].max()) < 6.1


def test_windows_of_one_room_are_lit_together_and_other_nights_are_others() -> None:
    everywhere = torch.ones(SIZE, dtype=torch.bool)
    light = lit(front(), everywhere)
    position = render.primary_hits(front().shapes, front().camera, SIZE).position
    rooms = (position / 2.5).floor()
    same = (rooms[:, :, 1:] == rooms[:, :, :-1]).all(0)
    torch.testing.assert_close(light[..., 1:][..., same], light[..., :-1][..., same], rtol=0, atol=0)
    assert not torch.equal(light[1] > 0, light[2] > 0)
    assert torch.equal(light, lit(front(), everywhere))
    assert not torch.equal(light, lit(front(seed=2), everywhere))


def test_without_lamps_or_glass_the_light_stays() -> None:
    light = lit(front(), torch.zeros(SIZE, dtype=torch.bool))
    assert float(light.abs().max()) == 0
