"""Ten scenes against Mitsuba 3: the same irradiance to 3 %, outside shadow edges.

`pip install -c constraints.txt -e '.[referee]'`, and Debian's libllvm19 for Mitsuba's fast mode.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.worlds.example import CAMERA, light, random_lights, random_shapes, together
from tests.worlds.mitsuba_export import mitsuba_scene, radiance
from unlit.worlds.description import LightKind, Lights, Shapes
from unlit.worlds.render import camera_rays, irradiance, mean_reflectance, primary_hits

pytestmark = [pytest.mark.referee, pytest.mark.filterwarnings("ignore")]  # what Mitsuba warns of is its own affair

SIZE = (16, 24)
FINER = 5
"""How much finer edges are looked for; odd, so that pixels keep their centers."""
SAMPLES = 384
WITHIN = 0.03
"""Mean error over mean irradiance that is allowed. Both pictures have noise, which is most of what is found."""


@pytest.fixture(scope="module")
def mi() -> Any:
    mitsuba = pytest.importorskip("mitsuba", reason="the referee is not installed: pip install '.[referee]'")
    import drjit

    if not drjit.has_backend(drjit.JitBackend.LLVM):
        pytest.skip("Mitsuba's llvm_ad_rgb needs LLVM: install Debian's libllvm19")
    mitsuba.set_variant("llvm_ad_rgb")
    return mitsuba


def lights_of(seed: int) -> Lights:
    """A lamp, a panel, a sun and a smooth sky."""
    every = random_lights(seed)
    keep = torch.tensor([LightKind.LAMP, LightKind.PANEL, LightKind.SUN])
    some = Lights(**{name: value if name == "sky" else value[keep] for name, value in vars(every).items()})
    sun = replace(some, angle=torch.where(some.kind == LightKind.SUN, 0.004, some.angle))
    bright = replace(sun, radiance=torch.where(sun.kind == LightKind.SUN, 2e4, sun.radiance))
    sky = torch.linspace(1.0, 0.1, 64)[:, None].repeat(1, 128)
    return together(bright, light(LightKind.SKY, sky), sky=sky)


def away_from_edges(scene: Shapes, lights: Lights) -> Tensor:
    """(k, h, w) bool: False where direct light varies by more than a third within three fifths of a pixel."""
    hits = primary_hits(scene, CAMERA, (FINER * SIZE[0], FINER * SIZE[1]))
    fine = irradiance(scene, lights, hits.position, hits.normal, mask=hits.mask, samples=64, bounces=0)[:, :1]
    most = torch.nn.functional.max_pool2d(fine, 3, 1, 1)
    least = -torch.nn.functional.max_pool2d(-fine, 3, 1, 1)
    middle = FINER // 2
    return (most <= least * 4 / 3)[:, 0, middle::FINER, middle::FINER]


@pytest.mark.parametrize("seed", range(10))
def test_irradiance_is_mitsubas(mi: Any, seed: int, tmp_path: Path) -> None:
    scene, lights = random_shapes(seed, 8), lights_of(seed)
    hits = primary_hits(scene, CAMERA, SIZE)
    found = irradiance(scene, lights, hits.position, hits.normal, mask=hits.mask, samples=SAMPLES, seed=seed)
    reflectance = mean_reflectance(scene, hits).clamp_min(1e-6)
    direction, _ = camera_rays(CAMERA, SIZE, torch.device("cpu"))
    origin = torch.tensor(CAMERA.position)[:, None].expand_as(direction)
    smooth = away_from_edges(scene, lights)
    errors = []
    for number in range(len(lights.kind)):
        theirs = mitsuba_scene(mi, scene, lights, number, 2, tmp_path)
        seen = radiance(mi, theirs, origin, direction, SAMPLES, seed).reshape(3, *SIZE)
        ours = found[number]
        keep = smooth[number] & hits.mask[0]
        assert int(keep.sum()) > 60, "too little is left to compare"
        expected = (seen / reflectance)[:, keep]
        errors.append(float((ours[:, keep] - expected).abs().mean() / expected.mean()))
        # Noise has no sign: what is left of the mean is a true difference.
        assert float(ours[:, keep].mean()) == pytest.approx(float(expected.mean()), rel=0.01)
    print("mean relative errors (lamp, panel, sun, sky):", [round(error, 4) for error in errors])
    assert max(errors) < WITHIN


def test_bounced_light_is_mitsubas(mi: Any, tmp_path: Path) -> None:
    """In the shadow all light has bounced; the mean over the shadow has little noise."""
    scene, lights = random_shapes(6, 8), lights_of(6)
    hits = primary_hits(scene, CAMERA, SIZE)
    reflectance = mean_reflectance(scene, hits).clamp_min(1e-6)
    direction, _ = camera_rays(CAMERA, SIZE, torch.device("cpu"))
    origin = torch.tensor(CAMERA.position)[:, None].expand_as(direction)
    number = lights.kind.tolist().index(LightKind.SUN)
    direct, one, two = (
        irradiance(scene, lights, hits.position, hits.normal, mask=hits.mask, samples=SAMPLES, bounces=bounces)[number]
        for bounces in range(3)
    )
    shadow = away_from_edges(scene, lights)[number] & hits.mask[0] & (direct[0] == 0)
    assert int(shadow.sum()) > 100
    for bounces, ours in ((1, one), (2, two)):
        theirs = mitsuba_scene(mi, scene, lights, number, bounces, tmp_path)
        seen = radiance(mi, theirs, origin, direction, SAMPLES, 3).reshape(3, *SIZE) / reflectance
        assert float(ours[:, shadow].mean()) == pytest.approx(float(seen[:, shadow].mean()), rel=0.03)
