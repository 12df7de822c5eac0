"""Things that come and go, told from light, on clips whose answer is known; the parts against slow versions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.masks.clips import clip
from unlit.masks.build import build_masks
from unlit.masks.exposure import dark, saturated, strongest_channel
from unlit.masks.moving import drawn_to_edges, things
from unlit.masks.settings import MaskSettings
from unlit.masks.shadow import color_by_light, without_light_edges
from unlit.masks.small import block_mean, block_size, enlarged, small_frames
from unlit.masks.structure import gradients, mismatch, similar_frames
from unlit.masks.usual import median_of_few, usual

ONLY_MOVING = MaskSettings(sky=False)
NU, NU_LARGE = np.full((), 1e-4, np.float32), np.full((), 0.003, np.float32)
KINDS = ("exposure", "sky", "day", "lamps")


def moving_share(kind: str, seeds: range) -> float:
    masks = [build_masks(clip(s, kind=kind, m=10, h=180, w=240).frames_u8, ONLY_MOVING)["moving"] for s in seeds]
    return float(np.mean(masks))


def test_light_is_hardly_taken_for_things() -> None:
    shares = {kind: moving_share(kind, range(40, 43)) for kind in KINDS}
    assert max(shares["exposure"], shares["sky"], shares["lamps"]) < 0.01, shares
    assert shares["day"] < 0.04, f"hard shadows on plain ground are the worst case: {shares}"
    assert np.mean(list(shares.values())) < 0.02, shares


@pytest.mark.parametrize(("kind", "least"), [("exposure", 0.75), ("sky", 0.75), ("lamps", 0.75), ("day", 0.6)])
def test_things_put_in_are_found(kind: str, least: float) -> None:
    both = either = 0
    for seed in range(50, 53):
        made = clip(seed, kind=kind, things=3, m=10, h=180, w=240)
        found = build_masks(made.frames_u8, ONLY_MOVING)["moving"]
        both += (found & made.things).sum()
        either += (found | made.things).sum()
    assert both / either > least


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
    evidence = np.zeros((40, 60), np.float32)
    evidence[5:20, 5:20] = 2.4
    evidence[5:20, 35:50] = 2.4
    evidence[10:15, 40:45] = 6
    found = things(evidence, np.zeros_like(evidence))
    assert not found[:, :25].any()
    assert found[12, 42]
    assert found[8, 46]


def test_evidence_is_drawn_to_the_edges_of_the_frame() -> None:
    guide = np.zeros((30, 40), np.float32)
    guide[:, 20:] = 1
    ramp = np.clip((np.arange(40) - 14) / 12, 0, 1).astype(np.float32)
    blurred = np.asarray(ramp[None].repeat(30, axis=0))
    drawn = drawn_to_edges(blurred, guide)
    assert drawn[15, 21] - drawn[15, 18] > 1.5 * (blurred[15, 21] - blurred[15, 18])


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
