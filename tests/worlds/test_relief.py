"""Bumps in the world: on sheets, however turned and from whichever side, and on roofs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import avg_pool2d

from tests.worlds.test_surface import drawn
from unlit.worlds import bases as rendering
from unlit.worlds import relief, render
from unlit.worlds.bases import World
from unlit.worlds.builder import Builder, turned
from unlit.worlds.bumps import tangents
from unlit.worlds.description import Camera, LightKind, Lights
from unlit.worlds.materials import Bump, Texture
from unlit.worlds.outdoors import house
from unlit.worlds.palette import stacked
from unlit.worlds.scene import Scene, scene
from unlit.worlds.surface import surface_at

SIZE = (48, 48)
TURNS = (np.eye(3), turned(0.7), turned(2.5, 0.6, 0.4))
SIDES = (1, -1)
WAVES = 0.5
"""Of their height; a wave of scale 0.1 m is 0.3 · 0.5 · 0.1 · sin(2π x / 0.1) m high."""


def built(b: Builder, towards: np.ndarray, camera: tuple[np.ndarray, np.ndarray, float], kind: LightKind) -> Scene:
    """What was built under one light in the direction `towards`; the camera by its place, its target and its view."""
    to_light = torch.tensor(towards / np.linalg.norm(towards)).float()[None]
    one = torch.zeros(1, 3)
    lights = Lights(
        torch.tensor([int(kind)]), 100 * to_light, -to_light, one, one, torch.ones(1), torch.full((1,), 0.01),
        torch.ones(1), torch.ones(1, 2),
    )  # fmt: skip
    (x, y, z), (a, b_, c) = camera[0].tolist(), camera[1].tolist()
    return Scene(
        b.shapes(),
        lights,
        Camera((x, y, z), (a, b_, c), camera[2]),
        stacked(b.materials),
        ("sun",),
        (0.3,),
        "closeup",
        1,
    )


def wavy(b: Builder, **changes: object) -> int:
    given = {"bump": int(Bump.WAVES), "bump_height": WAVES, "bump_scale": 0.1, "gloss": 0.0, **changes}
    return b.material(drawn(Texture.PLAIN, 0, **given))


def sheet(turn: np.ndarray, kind: LightKind = LightKind.SUN, side: int = 1, view: float = 0.9) -> Scene:
    """Waves on a sheet of a meter, turned; camera and light on one side of it, the light low over its x."""
    b = Builder(np.random.default_rng(0))
    b.quad((0, 0, 0), turn @ [0.5, 0, 0], turn @ [0, 0.5, 0], wavy(b))
    eye = turn @ np.array([0.02, 0.01, side])
    return built(b, turn @ np.array([1, 0, 0.35 * side]), (eye, np.zeros(3), view), kind)


def looked_at(s: Scene) -> tuple[render.Hits, torch.Tensor, relief.Surface]:
    """What the camera sees: hits, pixels that show something, and their surface."""
    hits = render.primary_hits(s.shapes, s.camera, SIZE)
    pixel = (hits.shape.flatten() >= 0).nonzero()[:, 0]
    place = rendering._in_meters(s, hits, pixel)
    return hits, pixel, relief.Surface(place.normal, *surface_at(place, s.materials))


def left_of_light(s: Scene) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Where (3, n) the shape is seen, in its own space, its normals (3, n) in the world, and the light's share (n,)."""
    hits, pixel, surface = looked_at(s)
    normal = relief.shaded_normals(s, hits, pixel, surface).flatten(1)[:, pixel]
    share = relief.shares_past_bumps(s, s, hits, pixel, surface)[0].flatten()[pixel]
    return hits.object_position.flatten(1)[:, pixel], normal, share


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("turn", TURNS)
def test_waves_are_shaded_from_where_the_sun_stands_however_they_are_turned(turn: np.ndarray, side: int) -> None:
    s = sheet(turn, side=side)
    position, normal, left = left_of_light(s)
    x = 0.5 * position[0].double()
    steps = torch.linspace(0, 0.1, 200).double()
    height = 0.015 * (2 * math.pi * ((x[:, None] + steps) / 0.1 + float(s.materials.offset[0, 0]))).sin()
    hidden = ((height - height[:, :1]) > 0.35 * steps + 1e-9).any(1)
    assert float(((left < 0.6) == hidden).float().mean()) > 0.8
    rises = (height[:, 1] > height[:, 0]).float() - 0.5
    leans = -torch.tensor(turn[:, 0]).float() @ normal
    assert float((leans * rises > 0).float().mean()) > 0.75, "what rises towards x faces away from it"


def rendered(s: Scene) -> World:
    return next(iter(rendering._rendered([s], SIZE, 16)))


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("side", SIDES)
def test_slopes_away_from_the_sun_are_in_shadow_on_both_sides_of_a_sheet(side: int, turn: np.ndarray) -> None:
    world = rendered(sheet(turn, side=side))
    sun = turn @ np.array([1, 0, 0.35 * side]) / math.hypot(1, 0.35)
    facing = torch.einsum("chw,c->hw", world.basis.normal, torch.tensor(sun).float())[world.basis.mask[0]]
    light = world.basis.irradiance[0, 0][world.basis.mask[0]]
    share = light / facing.clamp_min(0.05)
    away, to = share[facing < 0.15], share[facing > 0.6]
    assert min(len(away), len(to)) > 100
    assert float(away.mean()) < 0.4 * float(to.mean())


def test_a_panel_shines_around_bumps_and_the_sky_is_lost_where_they_hide_it() -> None:
    lamp, panel, sky = (left_of_light(sheet(np.eye(3), k))[2] for k in (LightKind.LAMP, LightKind.PANEL, LightKind.SKY))
    assert float(panel.std()) < 0.9 * float(lamp.std()), "softer, but no softer than edges are high"
    assert 0.6 < float(sky.min()) < 0.95
    assert float(sky.max()) > 0.97


LEANING = (np.array([1.0, 0, 0]), np.array([0.5, 0.75**0.5, 0]))


def leaning_sheet() -> Scene:
    """Waves along the first of two axes that meet at 60 degrees."""
    b = Builder(np.random.default_rng(0))
    b.quad((0, 0, 0), 0.5 * LEANING[0], 0.5 * LEANING[1], wavy(b))
    return built(b, np.array([1, 0, 0.35]), (np.array([0.002, 0.001, 1]), np.zeros(3), 0.1), LightKind.SUN)


def test_bumps_on_a_sheet_that_leans_have_the_slopes_of_their_height_in_the_world() -> None:
    s = leaning_sheet()
    position, normal, _ = left_of_light(s)
    # Half a pixel on: slopes are differences over a step of one.
    x = 0.5 * position[0].double() + 0.5 * 0.1 / SIZE[0]
    slope = 0.3 * WAVES * 2 * math.pi * (2 * math.pi * (x / 0.1 + float(s.materials.offset[0, 0]))).cos()
    uphill = np.array([1, -1 / 3**0.5, 0])
    assert [float(uphill @ axis) for axis in LEANING] == pytest.approx([1, 0])
    expected = torch.tensor([0.0, 0, 1]).double()[:, None] - torch.tensor(uphill)[:, None] * slope
    expected = expected / expected.norm(dim=0)
    assert float((normal.double() - expected).norm(dim=0).max()) < 0.02


HALF = np.array([0.8, 0.5, 0.5])
"""Of a roof: its slope is 32 degrees, so that its map leans."""


def on_roof(face: str) -> Scene:
    """The slope of a roof that looks to −x, or a sheet that lies just as it does."""
    b = Builder(np.random.default_rng(0))
    up, along = np.array([HALF[0] / 2, 0, HALF[2] / 2]), np.array([0, HALF[1], 0])
    middle = up * [-1, 1, 1]
    if face == "roof":
        b.gable((0, 0, 0), HALF, wavy(b))
    else:
        b.quad(middle, up, along, wavy(b))
    out = np.cross(up, along) / np.linalg.norm(np.cross(up, along))
    return built(b, np.array([0.6, 0.4, 0.8]), (middle + out + [0.02, 0.01, 0], middle, 0.4), LightKind.SUN)


def test_bumps_on_a_roof_are_those_of_a_sheet_that_lies_as_it_does() -> None:
    (_, normal, left), (_, same_normal, same_left) = (left_of_light(on_roof(face)) for face in ("roof", "sheet"))
    assert float(normal.std(1).max()) > 0.1
    assert float(left.std()) > 0.1
    torch.testing.assert_close(normal, same_normal, rtol=0, atol=1e-3)
    assert float((left - same_left).abs().mean()) < 1e-3


def test_normals_of_smooth_roofs_are_those_of_their_faces() -> None:
    b = Builder(np.random.default_rng(0))
    b.gable((0, 0, 0), HALF, wavy(b, bump=0))
    s = built(b, np.array([0.6, 0.4, 0.8]), (np.array([0.7, -1.2, 1.5]), np.zeros(3), 0.7), LightKind.SUN)
    hits = render.primary_hits(s.shapes, s.camera, (2 * SIZE[0], 2 * SIZE[1]))
    faces = hits.normal[:, hits.mask[0]].T.unique(dim=0)
    assert len(faces) >= 3
    assert bool(((faces[:, 1].abs() > 0.99) | ((faces[:, 2] / faces[:, 0]).abs() - 0.8 / 0.5).abs().lt(1e-4)).all())
    torch.testing.assert_close(rendered(s).basis.normal, avg_pool2d(hits.normal[None], 2)[0], rtol=0, atol=1e-5)


def test_bumps_that_are_too_far_to_be_seen_take_light_in_a_scene_too() -> None:
    for seed in range(20):
        s = scene(seed, "vista")
        hits, pixel, surface = looked_at(s)
        far = (surface.horizon.amax(1) < 0.02) & (surface.fineness > 0.4)
        if int(far.sum()) > 20:
            break
    shares = relief.shares_past_bumps(s, s, hits, pixel, surface).flatten(1)[:, pixel][:, far]
    expected = 0.2 + 0.8 / (1 + 0.3 * surface.fineness[far])
    sky = s.roles.index("sky")
    torch.testing.assert_close(shares[sky], expected, rtol=1e-3, atol=1e-3)
    assert float(shares.max()) < 0.95


@pytest.mark.parametrize("place", ["room", "street", "vista"])
def test_smooth_places_of_a_scene_keep_their_normals_and_all_of_their_light(place: str) -> None:
    s = scene(5, place)
    hits, pixel, surface = looked_at(s)
    smooth = (surface.horizon.amax(1) == 0) & (surface.fineness == 0)
    even = smooth & (surface.shaded == surface.normal).all(1)
    assert bool(even.any())
    normal = relief.shaded_normals(s, hits, pixel, surface).flatten(1)[:, pixel]
    torch.testing.assert_close(normal[:, even], hits.normal.flatten(1)[:, pixel][:, even], rtol=0, atol=1e-5)
    shares = relief.shares_past_bumps(s, s, hits, pixel, surface).flatten(1)[:, pixel]
    assert float(shares[:, smooth].min()) == 1


def test_the_parts_of_a_direction_along_leaning_tangents_make_it_up_again() -> None:
    for s in (on_roof("roof"), on_roof("sheet"), leaning_sheet(), sheet(TURNS[2], side=-1)):
        hits, pixel, surface = looked_at(s)
        frame = relief._frame(s.shapes, hits, pixel, surface.normal)
        direction = torch.nn.functional.normalize(
            torch.randn(len(pixel), 3, generator=torch.Generator().manual_seed(0))
        )
        parts = torch.einsum("nfi,ni->nf", frame, direction)
        axes = relief._axes(s.shapes)[hits.shape.flatten()[pixel]]
        first, second = (torch.einsum("nij,nj->ni", axes, t) for t in tangents(surface.normal))
        normal = hits.normal.flatten(1).T[pixel]
        again = parts[:, :1] * first + parts[:, 1:2] * second + parts[:, 2:] * normal
        torch.testing.assert_close(again, direction, rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_houses_have_windows_in_their_walls_and_none_in_their_roofs(seed: int) -> None:
    b = Builder(np.random.default_rng(seed))
    house(b, np.zeros(3), 1.0, (4.0, 3.0), 8.0)
    s = built(b, np.array([0, 0, 1.0]), (np.array([0.1, 0.2, 60.0]), np.zeros(3), 0.2), LightKind.SUN)
    hits, pixel, _ = looked_at(s)
    texture = s.materials.texture[s.shapes.material[hits.shape.flatten()[pixel]].long()]
    level = hits.normal[2].flatten()[pixel] > 0.99
    assert not bool((level & (texture == int(Texture.WINDOWS))).any())
