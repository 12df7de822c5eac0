"""Bumps stand in each other's light: their horizons, and what light they leave."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.worlds.test_surface import bumpy, plane
from unlit.worlds import bases as rendering
from unlit.worlds import bumps
from unlit.worlds.bases import bases
from unlit.worlds.bump_shade import BOUNCED, past_bumps
from unlit.worlds.bumps import DIRECTIONS, _crowns, bumped, tangents
from unlit.worlds.hits import Hits
from unlit.worlds.materials import Bump, Materials, joined
from unlit.worlds.scene import scene
from unlit.worlds.surface import surface_at

WAVES = 0.5
"""Of their height; a wave of scale 0.1 m is 0.3 · 0.5 · 0.1 · sin(2π x / 0.1) m high."""


def horizons_of_waves() -> tuple[torch.Tensor, torch.Tensor]:
    """Positions along x (n,) and horizons (n, a) of waves across x, on a plane whose pixels are fine."""
    hits = plane(side=200, width=1e-4)
    return hits.position[:, 0], surface_at(hits, bumpy(Bump.WAVES, WAVES))[2]


def test_horizons_of_waves_are_the_slopes_to_where_is_looked() -> None:
    x, horizon = horizons_of_waves()
    first, second = (t[0].double() for t in tangents(torch.tensor([[0.0, 0, 1]])))
    offset = float(bumpy(Bump.WAVES).offset[0, 0])

    def height(at: np.ndarray) -> np.ndarray:
        return 0.3 * WAVES * 0.1 * np.sin(2 * np.pi * (at / 0.1 + offset))

    at = x.double().numpy()
    for k in range(DIRECTIONS):
        angle = 2 * math.pi * k / DIRECTIONS
        along = float((math.cos(angle) * first + math.sin(angle) * second)[0])
        rises = [(height(at + away * along) - height(at)) / away for away in (0.015, 0.045)]
        np.testing.assert_allclose(horizon[:, k], np.maximum(np.maximum(*rises), 0), atol=2e-3)


def test_a_smooth_surface_loses_no_light() -> None:
    low = torch.tensor([[0.99], [0.0], [0.1]])
    assert float(past_bumps(torch.zeros(1, DIRECTIONS), low, 0.1)) == 1
    assert float(past_bumps(torch.zeros(1, DIRECTIONS), None, 0.1)) == 1


@pytest.mark.parametrize("soft", [0.12, 0.5])
@pytest.mark.parametrize("rise", [1e-6, 1e-4, 1e-2])
def test_what_hardly_rises_loses_hardly_any_light_of_what_stands_low_and_wide(rise: float, soft: float) -> None:
    low = torch.tensor([[0.99], [0.0], [0.1]])
    assert float(past_bumps(torch.full((1, DIRECTIONS), rise), low, soft)) == pytest.approx(1, abs=rise**2 + 1e-6)


def test_the_higher_bumps_rise_the_less_light_they_leave() -> None:
    rises = torch.linspace(0, 2, 300)[:, None].expand(300, DIRECTIONS)
    for soft in (0.12, 0.5):
        share = past_bumps(rises, torch.tensor([[0.8], [0.0], [0.6]]).expand(3, 300), soft)
        assert bool((share.diff() <= 1e-6).all())
        assert float(share[-1]) == pytest.approx(BOUNCED)


@pytest.mark.parametrize("number", range(DIRECTIONS))
def test_a_light_is_lost_behind_what_rises_in_its_direction_and_only_there(number: int) -> None:
    horizon = torch.zeros(1, DIRECTIONS)
    horizon[0, number] = 1.0
    angle = 2 * math.pi * number / DIRECTIONS

    def left(slope: float, turn: float) -> float:
        across = 1 / math.hypot(1, slope)
        towards = torch.tensor([[across * math.cos(angle + turn)], [across * math.sin(angle + turn)], [across * slope]])
        return float(past_bumps(horizon, towards, 0.1))

    assert left(0.5, 0.0) == pytest.approx(BOUNCED), "lower than the bump"
    assert left(2.0, 0.0) == pytest.approx(1.0), "higher"
    assert left(1.0, 0.0) == pytest.approx(BOUNCED + (1 - BOUNCED) / 2), "at its edge"
    assert left(0.5, math.pi) == pytest.approx(1.0), "from the other side"
    assert left(0.7, math.pi / DIRECTIONS) == pytest.approx(1.0), "half way to the next direction it is half as steep"


def test_light_from_all_sides_is_lost_by_how_much_is_hidden() -> None:
    # A pit whose rim is at 45 degrees all around sees half of a diffuse sky.
    assert float(past_bumps(torch.ones(1, DIRECTIONS), None, 0.1)) == pytest.approx(BOUNCED + (1 - BOUNCED) * 0.5)


def test_where_a_light_stands_below_the_surface_only_what_has_bounced_is_dimmed() -> None:
    behind = torch.tensor([[0.6], [0.0], [-0.8]])
    pit = torch.ones(1, DIRECTIONS)
    assert float(past_bumps(pit, behind, 0.1)) == pytest.approx(float(past_bumps(pit, None, 0.1)))


def test_bumps_of_scenes_take_light_and_never_give_any(monkeypatch: pytest.MonkeyPatch) -> None:
    size, gardens = (24, 36), [scene(seed, "garden") for seed in range(7, 12)]
    rough = list(rendering._rendered(gardens, size, 8))
    monkeypatch.setattr(rendering, "shares_past_bumps", lambda home, *_: torch.ones(len(home.lights.kind), 1, 1))
    dimmed = []
    for one, smooth in zip(rough, rendering._rendered(gardens, size, 8), strict=True):
        assert torch.equal(one.basis.reflectance, smooth.basis.reflectance)
        ratio = (one.basis.irradiance / smooth.basis.irradiance.clamp_min(1e-9))[:, :, smooth.basis.mask[0]]
        lit = smooth.basis.irradiance[:, :, smooth.basis.mask[0]] > 1e-6
        assert float(ratio[lit].max()) <= 1 + 1e-5
        assert float(ratio[lit].min()) >= BOUNCED - 1e-5
        dimmed.append(float((ratio[lit] < 0.9).float().mean()))
    assert sum(dimmed) / len(dimmed) > 0.05, dimmed  # some gardens are smooth


def test_bumps_shade_as_the_same_relief_of_shapes_would() -> None:
    """Low sun over deep waves: half of them lies in shadow, as a walk along each ray over the waves finds too."""
    x, horizon = horizons_of_waves()
    first, second = (t[0].double() for t in tangents(torch.tensor([[0.0, 0, 1]])))
    slope = 0.35
    sun = torch.tensor([1.0, 0, slope]).double() / math.hypot(1, slope)
    towards = torch.stack([first @ sun, second @ sun, sun[2]]).float()[:, None].expand(3, len(x))
    share = past_bumps(horizon, towards, 0.05)
    offset = float(bumpy(Bump.WAVES).offset[0, 0])
    steps = torch.linspace(0, 0.1, 200).double()
    height = 0.015 * (2 * math.pi * ((x.double()[:, None] + steps) / 0.1 + offset)).sin()
    hidden = ((height - height[:, :1]) > slope * steps + 1e-9).any(1)
    agree = (share < BOUNCED + (1 - BOUNCED) / 2) == hidden
    assert 0.2 < float(hidden.float().mean()) < 0.8
    assert float(agree.float().mean()) > 0.85


def test_worlds_are_the_same_one_by_one_and_together() -> None:
    numbers = [11, 12]
    together = list(bases(numbers, (16, 24), 4))
    for number, world in zip(numbers, together, strict=True):
        alone = next(iter(bases([number], (16, 24), 4)))
        torch.testing.assert_close(alone.basis.irradiance, world.basis.irradiance)


def light_on_bumps(kind: Bump, width: float, height: float, elevation: float | None) -> float:
    """The mean light on bumps, beside that on a smooth surface, of a sun at an elevation, or of the sky."""
    hits = plane(side=100, width=width)
    _, normal, horizon, fineness, _ = surface_at(hits, bumpy(kind, height))
    if elevation is None:
        return float(past_bumps(horizon, None, 0.12, fineness).mean())
    sun = torch.tensor([math.cos(elevation), 0.0, math.sin(elevation)])
    towards = torch.stack([(t * sun).sum(1) for t in (*tangents(hits.normal), hits.normal)])
    shares = past_bumps(horizon, towards, 0.12, fineness)
    return float((shares * (normal @ sun).clamp_min(0)).mean() / sun[2])


@pytest.mark.parametrize("kind", [kind for kind in Bump if kind != Bump.NONE])
@pytest.mark.parametrize("elevation", [0.5, 0.8, 1.1, None])
def test_bumps_too_fine_to_be_seen_take_as_much_light_as_those_that_are(kind: Bump, elevation: float | None) -> None:
    for height in (0.4, 1.0):
        seen, unseen = (light_on_bumps(kind, width, height, elevation) for width in (1e-4, 2.0))
        assert seen < 0.995
        assert unseen == pytest.approx(seen, abs=0.08)


@pytest.mark.parametrize("kind", [kind for kind in Bump if kind not in (Bump.NONE, Bump.JOINTS, Bump.RECESSES)])
def test_fineness_is_the_root_mean_square_of_horizons_that_would_be_seen(kind: Bump) -> None:
    horizon = surface_at(plane(side=120, width=1e-4), bumpy(kind, 1.0))[2]
    assert float(horizon.square().mean().sqrt()) == pytest.approx(bumps._STEEPNESS[kind], rel=0.25)


def test_bumps_finer_than_a_pixel_have_no_horizons_but_are_fine() -> None:
    near, far = (surface_at(plane(side=60, width=w), bumpy(Bump.CROWNS, 1.0)) for w in (1e-4, 2.0))
    assert float(far[2].mean()) < 0.2 * float(near[2].mean())
    assert float(near[3].max()) < 1e-3
    assert float(far[3].min()) == pytest.approx(float(near[2].square().mean().sqrt()), rel=0.1)


def asked_one_by_one(hits: Hits, m: Materials, kind: Bump) -> tuple[torch.Tensor, torch.Tensor]:
    """Normals and horizons of hits with bumps of one kind, every height asked for alone."""

    def height(position: torch.Tensor) -> torch.Tensor:
        return bumps._FIELDS[kind](hits, position, m) * m.bump_height * m.bump_scale

    first, second = tangents(hits.normal)
    here, step = height(hits.position), hits.width[:, None]
    slope = torch.stack([(height(hits.position + step * t) - here) / hits.width for t in (first, second)], 1)
    slope = slope * (1.2 / slope.norm(dim=1, keepdim=True).clamp_min(1.2))
    turned = hits.normal - slope[:, :1] * first - slope[:, 1:] * second
    horizon = torch.zeros(len(here), DIRECTIONS)
    for k in range(DIRECTIONS):
        towards = math.cos(math.pi * k / 3) * first + math.sin(math.pi * k / 3) * second
        for share in (0.15, 0.45):
            away = torch.maximum(share * m.bump_scale, hits.width)
            rise = (height(hits.position + away[:, None] * towards) - here) / away
            horizon[:, k] = torch.maximum(horizon[:, k], rise)
    return turned / turned.norm(dim=1, keepdim=True), horizon


def test_kinds_of_bumps_together_are_what_each_is_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bumps, "_TOGETHER", {"cpu": 100})
    kinds = [kind for kind in Bump if kind != Bump.NONE]
    table, hits = joined([bumpy(kind) for kind in Bump]), plane(side=40, width=0.004)
    m = Materials(*(values[torch.arange(1600) % len(Bump)] for values in vars(table).values()))
    normal, horizon, fineness = bumped(hits, m)
    assert torch.equal(fineness > 0, m.bump != int(Bump.NONE))
    assert torch.equal(normal[m.bump == int(Bump.NONE)], hits.normal[m.bump == int(Bump.NONE)])
    for kind in kinds:
        rows = m.bump == int(kind)
        few, some = Hits(*(v[rows] for v in vars(hits).values())), Materials(*(v[rows] for v in vars(m).values()))
        slow = asked_one_by_one(few, some, kind)
        torch.testing.assert_close(normal[rows], slow[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(horizon[rows], slow[1], rtol=0, atol=1e-6)
        assert float(horizon[rows].max()) > 0.01


def test_crowns_are_high_and_low_with_small_ones_on_them() -> None:
    uv = torch.stack(torch.meshgrid(torch.arange(0, 12, 0.05), torch.arange(0, 12, 0.05), indexing="ij"), -1)
    height = _crowns(uv.reshape(-1, 2), torch.full((uv[..., 0].numel(),), 5)).reshape(uv.shape[:2])
    blocks = height.reshape(12, 20, 12, 20).amax((1, 3))
    assert float(blocks.min()) < 0.75
    assert float(blocks.max()) > 1.1
    inner = height[1:-1, 1:-1]
    around = [height[1 + y : 239 + y, 1 + x : 239 + x] for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
    peaks = torch.stack([inner > other for other in around]).all(0)
    assert int(peaks.sum()) > 2 * 12 * 12, "more than one a cell"
