"""Windows that are lit at night."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.worlds.test_surface import drawn, plane
from unlit.worlds import bases as rendering
from unlit.worlds import render
from unlit.worlds.builder import Builder
from unlit.worlds.description import Camera
from unlit.worlds.light import Lighting, Role
from unlit.worlds.materials import Texture
from unlit.worlds.night import panes_at_night, with_lit_windows
from unlit.worlds.palette import drawn_material, stacked
from unlit.worlds.relief import Surface
from unlit.worlds.scene import Scene
from unlit.worlds.surface import surface_at

SIZE = (60, 90)
WALL, GLASS = 0.06, 0.05
"""Much alike: which is which the pattern says, not the color."""
ROLES: tuple[Role, ...] = ("sun", "lamp", "lamp", "flash")


def front(seed: int = 1, texture: Texture = Texture.WINDOWS) -> Scene:
    """A house's front with windows, by day, under two lamps, and under a flash."""
    draw = np.random.default_rng(2)
    b = Builder(draw)
    stuff = drawn_material(draw, 3.0, (texture,))
    stuff.colors[:] = np.array([WALL, GLASS, WALL, GLASS])[:, None]
    stuff.scale, stuff.wear, stuff.gloss, stuff.bump, stuff.params = 3.0, 0.0, 0.0, 0, np.full(4, 0.5)
    b.box((0, 10, 0), (30, 1, 30), b.material(stuff))
    lighting = Lighting(draw, np.array([0.0, 9.0, 0.0]))
    lighting.sun(np.array([0.0, -0.6, 0.8]), 0.01)
    lighting.lamp((3.0, 2.0, 5.0), 0.1)
    lighting.lamp((-3.0, 2.0, 5.0), 0.1)
    lighting.flash((0.0, -10.0, 0.0))
    camera = Camera((0.0, -10.0, 0.0), (0.0, 0.0, 0.0), 1.0)
    assert tuple(lighting.roles) == ROLES
    heights = (0.9, 0.0, 0.0, 0.0)
    return Scene(b.shapes(), lighting.lights(), camera, stacked(b.materials), ROLES, heights, "vista", seed)


def seen(s: Scene) -> tuple[torch.Tensor, Surface]:
    """All pixels of a front, and its surface."""
    hits = render.primary_hits(s.shapes, s.camera, SIZE)
    pixel = torch.arange(SIZE[0] * SIZE[1])
    place = rendering._in_meters(s, hits, pixel)
    return pixel, Surface(place.normal, *surface_at(place, s.materials))


def lit(s: Scene, before: torch.Tensor) -> torch.Tensor:
    """What windows add to a light (4, 3, h, w)."""
    pixel, surface = seen(s)
    return with_lit_windows(s, pixel, surface, panes_at_night(s, surface), before) - before


def test_some_panes_are_lit_warmly_while_lamps_shine_and_nothing_else_is() -> None:
    before = torch.full((4, 3, *SIZE), 0.5)
    added = lit(front(), before)
    is_glass = (seen(front())[1].pane >= 0).reshape(SIZE)
    assert 0.1 < float(is_glass.float().mean()) < 0.5
    assert float(added[[0, 3]].abs().max()) == 0, "by day, and while only a flash goes off"
    assert float(added[:, :, ~is_glass].abs().max()) == 0
    for k in (1, 2):
        shining = added[k, 0] > 0
        assert 0.05 < float(shining[is_glass].float().mean()) < 0.8
        through = added[k][:, shining] * GLASS
        assert bool((through[0] > through[1]).all())
        assert bool((through[0] > through[2]).all())
        assert float(through[0].min()) > 0.5 * 0.5 * 0.3 - 1e-4
        assert float(through[0].max()) < 0.5 * 1.5 * 8 + 1e-3
        assert len(through[0].round(decimals=4).unique()) > 3, "some brighter than others"
    assert not torch.equal(added[1] > 0, added[2] > 0)


def test_panes_are_lit_as_a_whole_and_other_nights_are_others() -> None:
    before = torch.full((4, 3, *SIZE), 0.5)
    added, pane = lit(front(), before), seen(front())[1].pane.reshape(SIZE)
    for number in pane.unique().tolist():
        if number >= 0:
            assert len(added[1, 0][pane == number].round(decimals=4).unique()) == 1
    assert torch.equal(added, lit(front(), before))
    assert not torch.equal(added, lit(front(seed=2), before))


def test_windows_shine_with_the_lamps_and_not_without() -> None:
    before = torch.full((4, 3, *SIZE), 0.5)
    torch.testing.assert_close(lit(front(), 0.1 * before), 0.1 * lit(front(), before), rtol=1e-4, atol=1e-5)
    assert float(lit(front(), 0 * before).abs().max()) == 0


@pytest.mark.parametrize("s", [front(texture=Texture.PLAIN), replace(front(), roles=("sun", "sky", "window", "flash"))])
def test_without_windows_or_lamps_the_light_stays(s: Scene) -> None:
    before = torch.rand(4, 3, *SIZE)
    pixel, surface = seen(s)
    assert panes_at_night(s, surface) is None
    assert with_lit_windows(s, pixel, surface, None, before) is before


def test_panes_are_where_the_pattern_has_glass_unless_they_are_too_fine() -> None:
    colors = np.repeat(np.array([0.6, 0.1, 0.3, 0.2])[:, None], 3, 1)
    materials = stacked([drawn(Texture.WINDOWS, 3, colors=colors, scale=0.2)])
    reflectance, *_, pane = surface_at(plane(side=80, width=1e-3), materials)
    is_glass = (reflectance[:, 0] - 0.1).abs().minimum((reflectance[:, 0] - 0.2).abs()) < 1e-4
    assert torch.equal(pane >= 0, is_glass)
    assert len(pane.unique()) > 3
    assert int(surface_at(plane(side=20, width=0.3), materials)[-1].max()) == -1
    assert int(surface_at(plane(), stacked([drawn(Texture.BRICK, 3)]))[-1].max()) == -1


def test_rendered_fronts_have_their_windows_lit(monkeypatch: pytest.MonkeyPatch) -> None:
    bright = next(iter(rendering._rendered([front()], (24, 36), 4))).basis.irradiance
    monkeypatch.setattr(rendering, "with_lit_windows", lambda _home, _pixel, _surface, _panes, light: light)
    dark = next(iter(rendering._rendered([front()], (24, 36), 4))).basis.irradiance
    torch.testing.assert_close(bright[0], dark[0], rtol=0, atol=0)
    assert float((bright - dark)[1].max()) > 0.5
    assert float((bright - dark).min()) > -1e-4
