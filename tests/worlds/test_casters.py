"""What stands out of sight outdoors, and its shadows, which are seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from unlit.worlds import outdoors, render
from unlit.worlds.builder import Builder
from unlit.worlds.casters import add_casters
from unlit.worlds.description import Camera, Lights, Shapes
from unlit.worlds.light import Lighting
from unlit.worlds.render_kernel import MOST_SHAPES
from unlit.worlds.scene import Scene, scene

SIZE = (24, 36)
OUTDOORS = ("street", "garden", "ruin", "vista")
LIT = 0.02
"""Irradiance / π of the lowest sun on level ground is three times this."""


def alone(seed: int, place: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many shapes a scene has before its casters."""
    counts: list[int] = []

    def counted(b: Builder, lighting: Lighting, camera: Camera) -> None:
        counts.append(len(b))
        add_casters(b, lighting, camera)

    with monkeypatch.context() as patched:
        patched.setattr(outdoors, "add_casters", counted)
        whole = len(scene(seed, place).shapes.kind)
    return counts[0] if counts else whole


def first(shapes: Shapes, count: int) -> Shapes:
    return replace(shapes, **{k: v[:count] for k, v in vars(shapes).items() if k != "heights"})


def sunlight(one: Scene, shapes: Shapes, hits: render.Hits) -> torch.Tensor:
    """Return the light of each sun alone (k, h, w), without bounces."""
    suns = [k for k, role in enumerate(one.roles) if role == "sun"]
    lights = Lights(**{k: v if k == "sky" else v[suns] for k, v in vars(one.lights).items()})
    light = render.irradiance(shapes, lights, hits.position, hits.normal, mask=hits.mask, samples=4, paths=1, bounces=0)
    return light.mean(1)


@pytest.mark.parametrize("place", OUTDOORS)
def test_casters_are_never_seen(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    added = 0
    for seed in range(30):
        one, count = scene(seed, place), alone(seed, place, monkeypatch)
        hits = render.primary_hits(one.shapes, one.camera, SIZE)
        assert int(hits.shape.max()) < count, f"a caster is seen in {place} {seed}"
        added += len(one.shapes.kind) - count
        assert len(one.shapes.kind) < MOST_SHAPES
    assert added > 100, "there are some"


def test_in_many_scenes_what_is_out_of_sight_shadows_a_quarter_of_what_a_sun_lit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strong = []
    for place in OUTDOORS:
        for seed in range(12):
            one = scene(seed, place)
            hits = render.primary_hits(one.shapes, one.camera, SIZE)
            before = sunlight(one, first(one.shapes, alone(seed, place, monkeypatch)), hits) > LIT
            after = sunlight(one, one.shapes, hits) > LIT
            lost = (before & ~after).sum((1, 2)) / before.sum((1, 2)).clamp_min(1)
            strong.append(bool((lost > 0.25).any()))
    assert sum(strong) / len(strong) > 0.3


def test_most_scenes_have_a_sun_that_leaves_a_quarter_of_the_ground_in_shadow_and_lights_the_rest() -> None:
    found = []
    for place in OUTDOORS:
        for seed in range(12):
            one = scene(seed, place)
            hits = render.primary_hits(one.shapes, one.camera, SIZE)
            ground = hits.mask[0] & (hits.normal[2] > 0.8) & (hits.position[2] < 0.5)
            if int(ground.sum()) > 40:
                dark = (sunlight(one, one.shapes, hits)[:, ground] < LIT).float().mean(1)
                found.append(bool(((dark > 0.25) & (dark < 0.95)).any()))
    assert len(found) > 25
    assert sum(found) / len(found) > 0.6


def test_streets_and_gardens_are_seen_from_high_above_as_well_as_from_the_ground() -> None:
    for place, high in (("street", 9.0), ("garden", 4.0)):
        heights = [scene(seed, place).camera.position[2] for seed in range(40)]
        above = sum(height >= high for height in heights) / 40
        assert 0.2 < above < 0.65
