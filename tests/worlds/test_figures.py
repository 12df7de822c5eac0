"""Figures: one painted thing that fills the view, under hard lamps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unlit.worlds import render
from unlit.worlds.bases import _rendered
from unlit.worlds.builder import Builder, turned
from unlit.worlds.creatures import beast, growth, person
from unlit.worlds.description import LightKind, ShapeKind
from unlit.worlds.figures import _KINDS
from unlit.worlds.hits import Hits
from unlit.worlds.materials import Texture
from unlit.worlds.paint import drawn_paint
from unlit.worlds.palette import drawn_material, stacked
from unlit.worlds.render_kernel import MOST_SHAPES
from unlit.worlds.scene import PLACES, scene
from unlit.worlds.sculptor import Sculptor
from unlit.worlds.surface import surface_at
from unlit.worlds.variety import variety

SEEDS = range(60)


def sculptor(seed: int, place: tuple[float, float, float] = (0.0, 0.0, 0.0), size: float = 1.0) -> Sculptor:
    b = Builder(np.random.default_rng(seed))
    return Sculptor(b, drawn_paint(b, size), turned(0.7), size, np.array(place))


def test_shares_of_places_make_a_whole() -> None:
    assert sum(share for share, _ in PLACES.values()) == pytest.approx(1)


def test_every_figure_is_in_view_and_fills_a_good_part_of_it() -> None:
    filled = []
    for seed in SEEDS:
        one = scene(seed, "figure")
        hits = render.primary_hits(one.shapes, one.camera, (32, 48))
        # Grounds are the only large shapes: half as wide as 6 meters.
        is_thing = one.shapes.to_world[:, :, :3].norm(dim=1).amax(1) < 5
        seen = (hits.mask[0] & is_thing[hits.shape.clamp_min(0)]).float()
        filled.append(float(seen.mean()))
        # Between the first and the last row, or column, that has a part of it.
        reach = max(np.ptp(np.flatnonzero(seen.amax(side).numpy())) / seen.shape[1 - side] for side in (0, 1))
        assert reach > 0.6, f"scene {seed} is small in its picture"
        assert filled[-1] > 0.06, f"scene {seed} is hardly seen"
    assert float(np.median(filled)) > 0.25


def test_a_figure_has_few_shapes_and_all_kinds_come() -> None:
    counts = [len(scene(seed, "figure").shapes.kind) for seed in SEEDS]
    assert max(counts) <= 130 < MOST_SHAPES
    assert float(np.median(counts)) < 45, "or rendering costs more than of close-ups"
    for kind in _KINDS:
        for seed in range(4):
            s = sculptor(seed)
            kind(s)
            assert 1 <= len(s.b) <= 60
            assert float(np.ptp(s.b.outline(), axis=0).max()) < 3


def test_a_thing_is_the_same_wherever_it_stands_and_however_large_it_is() -> None:
    for kind in (beast, person, growth):
        here, there = sculptor(3), sculptor(3, (1.0, -2.0, 0.5), 2.0)
        kind(here)
        kind(there)
        np.testing.assert_allclose(there.b.outline(), 2 * here.b.outline() + [1.0, -2.0, 0.5], atol=1e-9)


def test_lamps_on_figures_are_mostly_small() -> None:
    small, lamps = 0, 0
    for seed in SEEDS:
        lights = scene(seed, "figure").lights
        middle = lights.position.new_tensor([0, 0, 0.4])
        is_round = (lights.kind == int(LightKind.LAMP)) | (lights.kind == int(LightKind.SPOT))
        angle = lights.radius / (lights.position - middle).norm(dim=1)
        small += int((is_round & (angle < 0.06)).sum())
        lamps += len(lights.kind)
    assert small / lamps > 0.75


def test_many_figures_have_one_color_and_many_have_several() -> None:
    paints = []
    for seed in range(200):
        s = sculptor(seed)
        beast(s)
        materials = [s.b.materials[number] for number in set(s.paint.parts.values())]
        paints.append(len(materials) if all(m.texture == Texture.PLAIN for m in materials) else 0)
    shares = [paints.count(1) / 200, sum(n > 1 for n in paints) / 200, paints.count(0) / 200]
    assert min(shares) > 0.15, shares


def test_nothing_of_a_figure_but_its_details_shines() -> None:
    for seed in SEEDS:
        s = sculptor(seed)
        assert all(s.b.materials[number].gloss == 0 for number in s.paint.materials)


def place_on(position: torch.Tensor, world: torch.Tensor) -> Hits:
    n = len(position)
    up, ball = torch.tensor([0.0, 0, 1]).expand(n, 3), torch.full((n,), int(ShapeKind.SPHERE))
    return Hits(position, up, ball, torch.ones(n), torch.zeros(n, dtype=torch.long), torch.full((n,), 1e-3), world)


@pytest.mark.parametrize("texture", [Texture.COAT, Texture.LINES, Texture.NOISE])
def test_a_pattern_that_goes_over_all_parts_does_not_break_between_them(texture: Texture) -> None:
    draw = np.random.default_rng(0)
    material = drawn_material(draw, 0.5, (texture,))
    material.wear, material.bump, material.colors = 0.0, 0, np.array([[0.8], [0.1], [0.3], [0.05]]).repeat(3, 1)
    world = torch.from_numpy(draw.uniform(-1, 1, (400, 3))).float()
    parts = [torch.from_numpy(draw.uniform(-1, 1, (400, 3))).float() for _ in range(2)]
    for whole in (1.0, 0.0):
        material.whole = whole
        one, other = (surface_at(place_on(part, world), stacked([material]))[0] for part in parts)
        assert torch.equal(one, other) == (whole == 1.0), "the same in the world, whatever the part"


def test_shading_of_figures_is_about_as_dark_as_of_photographed_ones() -> None:
    """The MIT objects' shading: 0.09, 0.30, 0.58, 0.78, 0.94 of the brightest hundredth (docs/worlds.md)."""
    grays = []
    for world in _rendered([scene(seed, "figure") for seed in range(10)], (24, 36), 16):
        valid = [light for light in world.basis.irradiance if float(light.mean()) > 1e-3]
        grays += [variety(light, world.basis.mask).grays for light in valid]
    low, _, middle, _, high = torch.stack(grays).mean(0).tolist()
    assert low < 0.2
    assert 0.3 < middle < 0.7
    assert high > 0.75


def test_a_fifth_of_all_paints_is_dark_beside_light_and_most_things_are_rough() -> None:
    weights = np.array([0.2126, 0.7152, 0.0722])
    contrasts, rough = [], []
    for seed in range(300):
        b = Builder(np.random.default_rng(seed))
        paint = drawn_paint(b, 1.0)
        first = b.materials[paint.materials[0]]
        low, high = np.sort(first.colors[:2] @ weights)
        contrasts.append(first.texture != Texture.PLAIN and low <= 0.2 and high >= 0.33)
        rough.append(first.bump != 0)
    assert 0.15 < np.mean(contrasts) < 0.4
    assert 0.5 < np.mean(rough) < 0.7
