"""What is seen where no surface is: sky, clouds and haze."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import max_pool2d

from unlit.data.batch import batch_of
from unlit.data.dataset import Item
from unlit.data.sequence import Sequence
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.data.sizing import places_of
from unlit.data.truth import LUMINOUS, Truth
from unlit.worlds import bases as rendering
from unlit.worlds import render
from unlit.worlds.bases import World
from unlit.worlds.description import Camera
from unlit.worlds.item import world_item
from unlit.worlds.light import Role
from unlit.worlds.materials import Texture
from unlit.worlds.open import OUTDOORS, REFLECTANCE, Sky, drawn_skies, hazed, horizon, seen_sky, sky_seen_by
from unlit.worlds.scene import PLACES, scene

ROLES: tuple[Role, ...] = ("sun", "sun", "sky", "lamp", "flash", "sun", "lamp", "sky")
SIZE = (32, 48)


ENOUGH = torch.tensor([1e6])
"""So much light on what is seen that haze has no bound."""


@pytest.fixture(scope="module")
def town() -> World:
    """A vista with sky over it, and no water."""
    dry = next(s for s in range(5, 30) if not bool((scene(s, "vista").materials.texture == int(Texture.WATER)).any()))
    return next(iter(rendering._rendered([scene(dry, "vista")], SIZE, 4)))


def upwards(count: int = 4000) -> torch.Tensor:
    """Directions (3, n) all over the upper half."""
    draw = np.random.default_rng(0)
    z, around = draw.uniform(0.05, 1, count), draw.uniform(0, 2 * np.pi, count)
    flat = np.sqrt(1 - z**2)
    return torch.from_numpy(np.stack([flat * np.cos(around), flat * np.sin(around), z])).float()


def test_places_under_the_sky_are_places() -> None:
    assert set(OUTDOORS) <= set(PLACES)


def test_a_seed_has_its_skies_and_each_light_has_its_own() -> None:
    direction = upwards()
    everywhere = torch.ones(direction.shape[1], dtype=torch.bool)
    first, again = (seen_sky(drawn_skies(ROLES, 7)[0], direction, everywhere) for _ in range(2))
    assert torch.equal(first, again)
    assert len({tuple(light.flatten()[:50].tolist()) for light in first}) == len(ROLES)
    assert torch.isfinite(first).all()
    assert (first > 0).all(), "nowhere black: what has no light at all tells nothing of its reflectance"


def test_the_sky_is_brighter_by_day_than_by_night() -> None:
    direction = upwards(500)
    everywhere = torch.ones(500, dtype=torch.bool)
    means = torch.stack(
        [seen_sky(drawn_skies(ROLES, seed)[0], direction, everywhere).mean((1, 2)) for seed in range(40)]
    )
    day, night = (means[:, [r in roles for r in ROLES]] for roles in (("sun", "sky"), ("lamp", "flash")))
    assert day.median() > 10 * night.median()


@pytest.mark.parametrize("cover", [0.2, 0.5, 0.8])
def test_clouds_cover_the_share_that_is_asked_for(cover: float) -> None:
    direction = upwards()
    everywhere = torch.ones(direction.shape[1], dtype=torch.bool)
    base = drawn_skies(("sun",), 3)[0][0]
    shares = []
    for seed in range(8):
        sky = replace(base, cover=cover, cloud=30.0, softness=0.02, whiteness=0.01, scale=3.0, seed=seed, level=1.0)
        shares.append(float((seen_sky([sky], direction, everywhere)[0].mean(0) > 3).float().mean()))
    assert abs(float(np.mean(shares)) - cover) < 0.15


def a_sky(**changes: object) -> Sky:
    return replace(drawn_skies(("sun",), 3)[0][0], level=1.0, **changes)  # type: ignore[arg-type]  # any of its fields


@pytest.mark.parametrize("whiteness", [0.02, 0.2])
def test_towards_the_horizon_the_sky_turns_to_the_color_of_its_edge(whiteness: float) -> None:
    zenith, edge = np.array([0.3, 0.7, 2.0]), np.array([1.5, 1.0, 0.5])
    sky = a_sky(zenith=zenith, edge=edge, whiteness=whiteness, cover=0.0)
    direction = torch.tensor([[np.sqrt(1 - whiteness**2), 0.0], [0.0, 0.0], [whiteness, 1.0]]).float()
    seen = seen_sky([sky], direction, torch.ones(2, dtype=torch.bool))[0]
    white = np.exp(-1)
    low = zenith * (1 - 0.85 * white) + 0.85 * white * (1 + 0.3 * white) * edge
    np.testing.assert_allclose(seen[:, 0], low, rtol=1e-4)
    np.testing.assert_allclose(seen[:, 1], zenith, rtol=0.03)


@pytest.mark.parametrize("cover", [0.5, 1.0])
@pytest.mark.parametrize("tint", [0.0, 0.5])
def test_clouds_have_so_much_of_the_skys_color(tint: float, cover: float) -> None:
    zenith = np.array([0.4, 0.8, 1.8])
    sky = a_sky(zenith=zenith, whiteness=0.001, cover=cover, cloud=30.0, softness=0.01, tint=tint)
    light = seen_sky([sky], upwards(), torch.ones(4000, dtype=torch.bool))[0]
    red, _, blue = light[:, light.mean(0) > 8]
    assert float((blue / red).median()) == pytest.approx((1 + tint * 0.8) / (1 - tint * 0.6), rel=0.02)


def test_haze_has_the_clouds_brightness_and_the_horizons_color_with_a_little_of_the_zeniths() -> None:
    zenith, edge = np.array([0.4, 0.8, 1.8]), np.array([1.5, 1.0, 0.5])
    sky = replace(a_sky(zenith=zenith, edge=edge, cover=0.5, cloud=3.0), level=2.0)
    np.testing.assert_allclose(horizon([sky])[0], 4 * np.array([1.28, 0.96, 0.76]), rtol=1e-5)


def test_skies_are_of_all_kinds() -> None:
    skies = [sky for seed in range(300) for sky in drawn_skies(("sun", "sky"), seed)[0]]

    def share(is_so: Callable[[Sky], bool]) -> float:
        return float(np.mean([is_so(sky) for sky in skies]))

    assert 0.2 < share(lambda sky: sky.zenith[1] < 0.5 * sky.zenith[2]) < 0.34, "deep blue"
    assert share(lambda sky: sky.zenith[0] < 0.1 * sky.zenith[2]) > 0.02, "with hardly any red"
    assert 0.1 < share(lambda sky: sky.zenith[0] > 0.5 * sky.zenith[2]) < 0.5, "pale"
    assert 0.07 < share(lambda sky: sky.edge[0] > 1.5 * sky.edge[2]) < 0.2, "warm towards the horizon"
    assert 0.1 < share(lambda sky: sky.tint > 0.3) < 0.2, "clouds of some color"
    assert 0.2 < share(lambda sky: sky.whiteness < 0.03) < 0.4, "blue down to the horizon"
    assert 0.2 < share(lambda sky: sky.whiteness > 0.15) < 0.33, "white far up"
    for sky in skies:
        assert sky.edge[0] >= sky.edge[1] >= sky.edge[2], "never purple or green"
        assert sky.tint <= 0.6
        assert [sky.zenith.mean(), sky.edge.mean()] == pytest.approx([1, 1])


def test_every_sky_gives_light_everywhere() -> None:
    direction = torch.tensor([[0.999, 0.7, 0.0], [0.0, 0.0, 0.0], [0.04, 0.71, 1.0]])
    for seed in range(200):
        assert (seen_sky(drawn_skies(("sun", "sky", "lamp"), seed)[0], direction, torch.ones(3) > 0) > 0).all()


def test_only_what_looks_up_past_everything_sees_the_sky() -> None:
    hit = torch.zeros(1, 6, 8, dtype=torch.bool)
    hit[0, 0, 0] = True
    direction, where = sky_seen_by(Camera((0.0, 0.0, 2.0), (0.0, 1.0, 2.0), 0.9), (6, 8), hit)
    assert direction.shape == (3, 48)
    expected = torch.zeros(6, 8, dtype=torch.bool)
    expected[:3] = True  # the camera looks straight ahead: the horizon is in the middle
    expected[0, 0] = False
    assert torch.equal(where.reshape(6, 8), expected)


def test_haze_is_light_that_is_added_on_the_way() -> None:
    draw = torch.Generator().manual_seed(1)
    light, reflectance = torch.rand(2, 3, 4, 5, generator=draw), torch.rand(3, 4, 5, generator=draw) * 0.8 + 0.05
    depth = torch.rand(1, 4, 5, generator=draw) * 500 + 1
    depth[0, 0, 0] = torch.inf
    depth[0, 1, 1] = 1e4  # as a plain reaches to the horizon: haze does not swallow it
    airlight = torch.tensor([[0.5, 0.6, 0.9], [0.1, 0.1, 0.1]])
    left = (0.6, 0.9)
    seen = hazed(light, reflectance, depth, torch.tensor(left), airlight, ENOUGH.expand(len(left))) * reflectance
    far = torch.quantile(depth[torch.isfinite(depth)], 0.92)
    for k in range(2):
        for c in range(3):
            for y in range(4):
                for x in range(5):
                    own = light[k, c, y, x] * reflectance[c, y, x]
                    share = left[k] ** float((depth[0, y, x] / far).clamp_max(2.0)) if (y, x) != (0, 0) else 1.0
                    expected = own * share + airlight[k, c] * (1 - share)
                    torch.testing.assert_close(seen[k, c, y, x], expected, rtol=1e-4, atol=1e-6)


def test_there_is_little_haze_before_what_is_near_even_where_all_is() -> None:
    light, depth = torch.full((1, 3, 2, 2), 0.5), torch.full((1, 2, 2), 10.0)
    seen = hazed(light, torch.ones(3, 2, 2), depth, torch.tensor([0.2]), torch.ones(1, 3), ENOUGH)
    torch.testing.assert_close(seen, torch.full_like(seen, 1 - 0.5 * 0.2**0.1))


def test_haze_before_what_is_nearly_black_has_an_end() -> None:
    light, depth = torch.full((1, 3, 2, 2), 0.5), torch.full((1, 2, 2), 900.0)
    seen = hazed(light, torch.full((3, 2, 2), 1e-6), depth, torch.tensor([0.5]), torch.ones(1, 3), ENOUGH)
    torch.testing.assert_close(seen, torch.full_like(seen, 0.25 + 0.5 / 0.02))


def test_what_keeps_light_from_all_that_is_seen_keeps_it_from_the_haze_too() -> None:
    light = torch.rand(3, 3, 2, 2)
    airlight = torch.tensor([[0.8, 1.0, 1.2]]).expand(3, 3)
    depth = torch.full((1, 2, 2), 900.0)
    level = torch.tensor([0.01, 0.1, 5.0])
    seen = hazed(light, torch.ones(3, 2, 2), depth, torch.full((3,), 0.5), airlight, level)
    added = (seen - 0.5 * light)[:, :, 0, 0]
    torch.testing.assert_close(added, 0.5 * airlight * torch.tensor([0.02, 0.2, 1.0])[:, None])
    dark = hazed(
        torch.zeros(1, 3, 2, 2), torch.ones(3, 2, 2), depth, torch.tensor([0.5]), torch.ones(1, 3), torch.zeros(1)
    )
    assert float(dark.abs().max()) == 0


def test_most_vistas_have_a_horizon_with_sky_over_a_town() -> None:
    shown = []
    for seed in range(30):
        one = scene(seed, "vista")
        hits = render.primary_hits(one.shapes, one.camera, SIZE)
        _, is_sky = sky_seen_by(one.camera, SIZE, hits.mask)
        rows = is_sky.reshape(SIZE).float().mean(1)
        assert float(rows[-1]) == 0, "the sky is above"
        shown.append(0.02 < float(rows.mean()) < 0.6)
        assert len(hits.shape.unique()) > 4, "and there is something to see"
    assert sum(shown) > 15


def test_no_haze_leaves_light_as_it_is() -> None:
    light = torch.rand(2, 3, 4, 5)
    assert hazed(light, torch.ones(3, 4, 5), torch.ones(1, 4, 5), torch.ones(2), torch.ones(2, 3), ENOUGH) is light
    nothing = torch.full((1, 4, 5), torch.inf)
    assert hazed(light, torch.ones(3, 4, 5), nothing, torch.full((2,), 0.5), torch.ones(2, 3), ENOUGH) is light


def test_two_fifths_of_all_places_have_haze_which_comes_and_goes() -> None:
    left = torch.stack([drawn_skies(ROLES, seed)[1] for seed in range(1500)])
    hazy = left[(left < 1).any(1)]
    assert 0.3 < len(hazy) / len(left) < 0.5
    assert 0.2 <= float(left.min()) < 0.25
    assert float((hazy.amax(1) - hazy.amin(1)).median()) > 0.3, "thin at one hour, thick at another"
    assert abs(float((hazy < 0.5).float().mean()) - 0.19) < 0.025, "fog is rare"
    assert horizon(drawn_skies(ROLES, 0)[0]).shape == (len(ROLES), 3)


def test_the_sky_is_a_white_sheet_in_training_and_not_measured_elsewhere(town: World) -> None:
    sky = town.with_sky & ~town.basis.mask
    assert 0.05 < float(sky.float().mean()) < 0.8
    inner = ~max_pool2d(town.basis.mask[None].float(), 3, 1, 1)[0].bool() & sky  # not the pixels that are half a roof
    is_sheet = (town.basis.reflectance.amin(0, keepdim=True)[inner] - REFLECTANCE).abs() < 1e-5
    assert float(is_sheet.float().mean()) > 0.99, "but for chimneys and posts, which are thinner than a pixel"
    train, test = world_item(town, "train"), world_item(town, "test")
    assert train.truth is not None
    assert train.truth.reflectance is not None
    assert train.truth.shading is not None
    assert torch.equal(train.sequence.mask[:1], town.with_sky[None])
    assert torch.equal(test.sequence.mask[:1], town.basis.mask[None])
    assert test.truth is not None
    assert test.truth.reflectance is not None
    assert float(test.truth.reflectance[:, sky[0]].abs().max()) == 0, "unknown"
    shown = train.truth.reflectance * train.truth.shading
    torch.testing.assert_close(shown[:, :, sky[0]], train.sequence.frames[:, :, sky[0]], rtol=1e-4, atol=1e-6)


def test_surfaces_seen_through_haze_are_still_reflectance_times_shading(town: World) -> None:
    hazy = next(s for s in range(30) if drawn_skies(scene(s, "vista").roles, s)[1].min() < 0.8)
    item = world_item(next(iter(rendering._rendered([scene(hazy, "vista")], SIZE, 4))), "test")
    assert item.truth is not None
    assert item.truth.reflectance is not None
    assert item.truth.shading is not None
    valid = item.sequence.mask.expand_as(item.sequence.frames)
    shown = item.truth.reflectance * item.truth.shading
    torch.testing.assert_close(shown[valid], item.sequence.frames[valid], rtol=1e-3, atol=1e-6)


def test_a_room_has_no_sky() -> None:
    room = next(iter(rendering._rendered([scene(3, "room")], (16, 24), 2)))
    assert torch.equal(room.with_sky, room.basis.mask)


def test_a_clipped_sky_counts_and_a_clipped_surface_does_not() -> None:
    reflectance = torch.full((3, 8, 8), 0.5)
    reflectance[:, :4] = REFLECTANCE
    shading = torch.full((2, 3, 8, 8), 0.3)
    shading[:, :, :2] = 4.0  # of the sky, half is too bright
    shading[:, :, 6:] = 9.0
    item = Item(
        Sequence(reflectance * shading, torch.ones(2, 1, 8, 8, dtype=torch.bool), "half a sky"),
        Truth(reflectance, shading, torch.ones(2, dtype=torch.bool)),
    )
    augment = AugmentSettings(flip=False, rotation=0.0, crop=0)
    batch = batch_of(
        [item], [np.random.default_rng(0)], [places_of(item)], DataSettings(frames=2), augment, torch.device("cpu")
    )
    rows = batch.mask[0, 0, 0].all(1).tolist()
    assert rows == [True] * 6 + [False] * 2
    assert REFLECTANCE > LUMINOUS > 1
