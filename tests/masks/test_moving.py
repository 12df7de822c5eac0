"""Things that come and go, told from light, on clips whose answer is known; the parts against slow versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import ndimage

from tests.masks.clips import clip
from unlit.masks.build import build_masks
from unlit.masks.exposure import dark, saturated, strongest_channel
from unlit.masks.moving import BEYOND_LIGHT, closed, connected, things
from unlit.masks.ratio import BEYOND, UNEVEN, noise, unexplained, usual_roughness
from unlit.masks.settings import MaskSettings
from unlit.masks.shadow import color_by_light, without_light_edges
from unlit.masks.small import block_mean, block_size, enlarged, small_frames
from unlit.masks.structure import gradients, mismatch, similar_frames
from unlit.masks.usual import median_of_few, usual

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONLY_MOVING = MaskSettings(sky=False)
NU, NU_LARGE = np.full((), 1e-4, np.float32), np.full((), 0.003, np.float32)
KINDS = ("exposure", "sky", "day", "lamps")


@pytest.mark.parametrize("kind", KINDS)
def test_light_is_hardly_taken_for_things(kind: str) -> None:
    clips = [clip(seed, kind=kind, m=10, h=180, w=240).frames_u8 for seed in range(40, 43)]
    shares = [build_masks(frames, ONLY_MOVING)["moving"].mean() for frames in clips]
    assert max(shares) < 0.02, shares


@pytest.mark.parametrize("kind", KINDS)
def test_things_put_in_are_found(kind: str) -> None:
    both = either = 0
    for seed in range(50, 53):
        made = clip(seed, kind=kind, things=3, m=10, h=180, w=240)
        found = build_masks(made.frames_u8, ONLY_MOVING)["moving"]
        both += (found & made.things).sum()
        either += (found | made.things).sum()
    assert both / either >= 0.8


def test_more_sensitive_finds_more() -> None:
    frames = clip(60, kind="day", things=3, m=8, h=90, w=120).frames_u8
    few, many = (build_masks(frames, MaskSettings(sky=False, moving_sensitivity=s))["moving"] for s in (0.6, 1.6))
    assert few.sum() < many.sum()


def test_three_frames_are_too_few_to_say_what_is_usual() -> None:
    frames = clip(61, things=3, m=3, h=60, w=80).frames_u8
    assert not build_masks(frames, ONLY_MOVING)["moving"].any()


def test_mismatch_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    g, reference = rng.normal(size=(2, 2, 12, 14)).astype(np.float32) * 0.1
    fast = mismatch([g], [reference], NU_LARGE, 5)
    for y, x in [(4, 5), (7, 9), (6, 3)]:
        a, b = (v[:, y - 2 : y + 3, x - 2 : x + 3].astype(float) for v in (g, reference))
        products = [(p * q).sum(axis=0).mean() + 0.003 for p, q in ((a, b), (a, a), (b, b))]
        assert fast[y, x] == pytest.approx(1 - products[0] / np.sqrt(products[1] * products[2]), abs=1e-5)


def test_mismatch_is_nothing_for_the_same_edges_and_for_none() -> None:
    g = np.random.default_rng(1).normal(size=(2, 20, 20)).astype(np.float32)
    nothing = np.zeros_like(g)
    assert abs(mismatch([g], [g], NU, 5)).max() < 1e-4
    assert abs(mismatch([nothing], [nothing], NU, 5)).max() < 1e-4
    assert mismatch([g], [nothing], NU, 5).min() > 0.9
    assert abs(mismatch([g], [nothing, g], NU, 5)).max() < 1e-4, "the best reference counts"


def test_edges_colored_as_the_light_are_taken_away_and_gray_ones_stay() -> None:
    step = np.zeros((40, 40), np.float32)
    step[:, 20:] = -0.8
    beta = np.array([0.1, -0.3], np.float32)
    g, usual_g = gradients(step[None])[:, 0], np.zeros((2, 40, 40), np.float32)
    shadow = without_light_edges(g, usual_g, step[..., None] * beta, beta)
    thing = without_light_edges(g, usual_g, np.zeros((40, 40, 2), np.float32), beta)
    assert abs(shadow).max() < 0.1 * abs(g).max()
    assert np.array_equal(thing, g)


def test_the_color_of_light_is_found_despite_some_things() -> None:
    rng = np.random.default_rng(2)
    light = np.where(rng.random(4000) < 0.4, -1.0, 0.0).astype(np.float32)
    color = light[:, None] * np.array([0.1, -0.2]) + rng.normal(size=(4000, 2)) * 0.02
    color[:100] = rng.uniform(-0.5, 0.5, (100, 2))
    assert color_by_light(light, color.astype(np.float32)) == pytest.approx([0.1, -0.2], abs=0.04)


def test_frames_lit_alike_find_each_other() -> None:
    rng = np.random.default_rng(3)
    suns = rng.normal(size=(2, 40, 48)) * 0.5
    order = [0, 1, 0, 1, 0, 1, 0, 1]
    logs = np.stack([suns[k] + rng.normal() + rng.normal(size=(40, 48)) * 0.05 for k in order]).astype(np.float32)
    for i, like in enumerate(similar_frames(logs)):
        assert {order[j] for j in like} == {order[i]}
        assert i not in like


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_the_median_of_a_few_is_the_median(count: int) -> None:
    pictures = list(np.random.default_rng(count).normal(size=(count, 7, 8)).astype(np.float32))
    assert np.allclose(median_of_few(pictures), np.median(pictures, axis=0))


def test_what_is_not_known_does_not_move_the_usual() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=(9, 4, 5, 2)).astype(np.float32)
    assert np.allclose(usual(values, np.ones((9, 4, 5), bool)), np.median(values, axis=0))
    known = np.ones((9, 4, 5), bool)
    known[3:5] = False
    spoiled = values.copy()
    spoiled[3:5] = 100
    assert np.allclose(usual(spoiled, known), np.median(values[[0, 1, 2, 5, 6, 7, 8]], axis=0))


def test_weak_evidence_counts_only_beside_strong() -> None:
    weak, strong = np.zeros((40, 60), bool), np.zeros((40, 60), bool)
    weak[5:20, 5:20], weak[5:20, 35:50], strong[10:15, 40:45] = True, True, True
    found = connected(weak, strong)
    assert not found[:, :25].any()
    assert np.array_equal(found[:, 30:], weak[:, 30:])
    assert not connected(weak, np.zeros_like(weak)).any()


def lit(y: int = 48, x: int = 64) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """How a frame differs from the usual where the right half is in the shade, noise included; and its variance."""
    shade = np.array([-1.2, 0.1, -0.25])
    apart = np.random.default_rng(6).normal(size=(y, x, 3)) * 0.01
    apart[:, x // 2 :] += shade
    apart[:, x // 2 - 1] += shade / 2  # the rim is half lit
    return apart.astype(np.float32), noise(np.zeros((y, x, 3), np.float32), np.zeros((y, x), np.float32))


def test_light_explains_sun_and_shade_and_the_rim_between() -> None:
    apart, variance = lit()
    assert unexplained(apart, np.ones((48, 64), bool), variance, 24).max() < BEYOND_LIGHT


def test_light_does_not_explain_a_thing_to_the_pixel() -> None:
    apart, variance = lit()
    where = np.zeros((48, 64), bool)
    where[11:30, 20:43] = True
    apart[where] += np.array([0.1, 0.4, 0.2], np.float32)
    ground = np.ones((48, 64), bool)
    ground[7:34, 16:47] = False
    beyond = unexplained(apart, ground, variance, 40)
    assert beyond[where].min() > 10 * beyond[~where].max()


def test_things_have_sharp_outlines_though_candidates_are_blurred() -> None:
    where, candidates = np.zeros((2, 48, 64), bool)
    where[11:30, 20:43], candidates[6:35, 15:48] = True, True
    apart, variance = lit()
    apart -= np.median(apart[:, :30], axis=(0, 1))
    apart[:, 30:] = apart[:, :34]  # all of it lit alike
    known = np.ones((48, 64), bool)
    assert not things(candidates, apart, known, variance).any(), "light explains all"
    beside = apart.copy()
    beside[20, 49] += np.array([0.1, 0.4, 0.2], np.float32)
    assert not things(candidates, beside, known, variance).any(), "what touches no candidate is none"
    apart[where] += np.array([0.1, 0.4, 0.2], np.float32)
    found = things(candidates, apart, known, variance)
    assert found[where].all()
    assert not (found & ~ndimage.binary_dilation(where, np.ones((3, 3), bool))).any(), "a pixel more, where both mix"
    known[12:20] = False
    assert things(candidates, apart, known, variance)[12:20, 15:48].all(), "candidates stay where nothing is known"


def test_what_light_does_not_explain_is_its_definition() -> None:
    rng = np.random.default_rng(7)
    apart = rng.normal(size=(16, 16, 3)).astype(np.float32) * 0.2
    ground = rng.random((16, 16)) < 0.8
    variance = np.full((16, 16, 3), 0.04, np.float32)
    fast = unexplained(apart, ground, variance, 4)  # windows of one block, which is four by four
    for y, x in [(2, 3), (9, 14), (13, 6)]:
        block = (slice(y // 4 * 4, y // 4 * 4 + 4), slice(x // 4 * 4, x // 4 * 4 + 4))
        values = apart[block][ground[block]].astype(float)
        bright = values[:, 0] > values[:, 0].mean()
        a, b = values[~bright].mean(axis=0), values[bright].mean(axis=0)
        along = np.linspace(-BEYOND, 1 + BEYOND, 20001)[:, None]
        slow = (((apart[y, x] - a - along * (b - a)) ** 2).sum(axis=1) / 0.04).min()
        assert fast[y, x] == pytest.approx(slow, rel=0.01)


def test_the_usual_roughness_is_the_noise_whatever_the_light() -> None:
    rng = np.random.default_rng(8)
    light = rng.normal(size=(9, 1, 1, 3))
    apart = light + rng.normal(size=(9, 40, 50, 3)) * np.array([0.05, 0.02, 0.1])
    apart[2, 10:30, 10:30] += rng.normal(size=(20, 20, 3))  # a thing, in one frame only
    rough = usual_roughness(apart.astype(np.float32))
    assert np.sqrt(np.median(rough, axis=(0, 1))) == pytest.approx([0.05, 0.02, 0.1], rel=0.15)
    assert np.sqrt(rough[12:28, 12:28].mean(axis=(0, 1))) == pytest.approx([0.05, 0.02, 0.1], rel=0.3)


def test_noise_grows_in_the_dark_and_has_a_floor() -> None:
    still = np.zeros((1, 2, 3), np.float32)
    sigma = noise(still, np.log(np.array([[1.0, 0.01]], np.float32)))
    assert sigma[0, 0] == pytest.approx(UNEVEN**2, rel=0.05)
    assert (sigma[0, 1] > 10 * sigma[0, 0]).all()


def test_gaps_are_closed_and_the_edge_of_the_picture_does_not_open() -> None:
    mask = np.zeros((20, 30), bool)
    mask[:10, 5:10], mask[:10, 12:18] = True, True
    found = closed(mask, 2)
    assert found[:8, 5:18].all()
    assert not found[:, 22:].any()
    assert np.array_equal(closed(mask, 0), mask)


def test_blocks_have_the_mean_of_their_pixels() -> None:
    values = np.random.default_rng(5).normal(size=(12, 9, 3)).astype(np.float32)
    assert np.allclose(block_mean(values, 3), values.reshape(4, 3, 3, 3, 3).mean(axis=(1, 3)), atol=1e-6)
    assert block_mean(values, 5).shape == (3, 2, 3)
    assert block_size(480, 640, 110_000) == 2


def test_small_frames_know_what_they_cannot_trust_and_masks_come_back_to_size() -> None:
    frames = np.full((2, 7, 10, 3), 100, np.uint8)
    frames[0, :4, :4], frames[1, :, 8:] = 255, 0
    strongest = strongest_channel(frames)
    small = small_frames(frames, saturated(strongest, 250) | dark(strongest, 10), pixels=20)
    assert small.block == 2
    back = enlarged(~small.trusted, 2, 7, 10)
    assert np.array_equal(back, saturated(strongest, 250) | dark(strongest, 10))
    assert np.allclose(small.log_chromaticity, 0, atol=1e-6), "gray has no color"
