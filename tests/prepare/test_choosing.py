from __future__ import annotations

import numpy as np
import pytest

from tests.prepare.clips import clip
from tests.reference.registration import best_radius
from unlit.color import linear_to_srgb, srgb_to_linear
from unlit.prepare.choosing import spread
from unlit.prepare.light import descriptor, distances, principal_plane, why_useless


@pytest.mark.parametrize("seed", range(4))
def test_no_light_is_farther_than_twice_the_best_possible(seed: int) -> None:
    lights = np.random.default_rng(seed).normal(size=(12, 3)).astype(np.float32)
    taken, _ = spread(lights, 4, 0.0)
    radius = np.min([distances(lights, lights[k]) for k in taken], 0).max()
    assert radius <= 2 * best_radius(lights, 4) + 1e-6


def test_near_duplicates_stand_for_one_another_and_the_nearest_is_named() -> None:
    rng = np.random.default_rng(0)
    centres = np.eye(5, dtype=np.float32)
    lights = np.repeat(centres, 20, 0) + rng.normal(0, 0.005, (100, 5)).astype(np.float32)
    taken, nearest = spread(lights, 64, 0.1)
    assert sorted(k // 20 for k in taken) == [0, 1, 2, 3, 4]
    assert all(taken[nearest[k]] // 20 == k // 20 for k in range(100))


def test_no_more_are_taken_than_asked_for() -> None:
    lights = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    assert len(spread(lights, 7, 0.0)[0]) == 7
    assert len(set(spread(lights, 64, 0.0)[0])) == 30


def test_the_day_moves_the_light_more_than_noise_or_exposure_do() -> None:
    frames = clip(6, (60, 80))
    lights = np.stack([descriptor(frame) for frame in frames])
    again = descriptor(clip(6, (60, 80), strength=1.0)[2])
    noisy = descriptor(
        np.clip(frames[2].astype(int) + np.random.default_rng(0).integers(-3, 4, frames[2].shape), 0, 255).astype(
            np.uint8
        )
    )
    assert distances(again[None], lights[2])[0] == 0
    assert distances(noisy[None], lights[2])[0] < 0.02
    assert distances(lights[2:3], lights[3])[0] > 0.1


def test_a_darker_exposure_is_nearer_than_another_light() -> None:
    frame = clip(6, (60, 80))[3]
    darker = np.rint(frame * 0.8).astype(np.uint8)  # about 0.7 stops
    other = clip(6, (60, 80))[5]
    here = descriptor(frame)
    assert distances(descriptor(darker)[None], here)[0] < 0.5 * distances(descriptor(other)[None], here)[0]


def test_half_of_the_light_changes_one_number_only() -> None:
    bright = 0.4 + 0.5 * np.random.default_rng(0).random((60, 80, 3), dtype=np.float32)
    whole, half = (descriptor(np.rint(255 * linear_to_srgb(light * bright)).astype(np.uint8)) for light in (1.0, 0.5))
    assert np.abs(whole - half)[:-1].max() < 0.005
    assert whole[-1] - half[-1] == pytest.approx(0.3 * np.log(2), rel=0.05)


def test_the_light_is_that_of_its_definition() -> None:
    frame = clip(3, (50, 70))[1]
    linear = srgb_to_linear(frame / np.float32(255))
    logs = np.empty((9, 12, 3))
    for i in range(9):
        for j in range(12):
            cell = linear[i * 50 // 9 : (i + 1) * 50 // 9, j * 70 // 12 : (j + 1) * 70 // 12]
            logs[i, j] = np.log(cell.mean((0, 1)) + 0.01)
    level = logs.mean()
    parts = [
        logs.mean(-1).ravel() - level,
        np.stack([logs[..., 0] - logs[..., 1], logs[..., 2] - logs[..., 1]], -1).ravel(),
    ]
    expected = np.append(np.concatenate(parts) / np.sqrt(108), 0.3 * level)
    np.testing.assert_allclose(descriptor(frame), expected, atol=1e-5)


def test_black_and_white_frames_are_useless_and_others_are_not() -> None:
    frame = clip(1, (60, 80))[0]
    assert why_useless(frame) is None
    assert why_useless(frame // 30) == "near-black"
    assert why_useless(np.full_like(frame, 255)) == "near-white"
    night = np.zeros_like(frame)
    night[:30] = frame[:30]  # half of it lit
    assert why_useless(night) is None


def test_the_plane_keeps_the_distances_of_lights_that_lie_in_one() -> None:
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(9, 2)))[0]
    lights = (rng.normal(size=(20, 2)) @ axes.T + 3).astype(np.float32)
    plane = principal_plane(lights)
    np.testing.assert_allclose(distances(plane, plane[0]), distances(lights, lights[0]), atol=1e-4)
    assert principal_plane(lights[:1]).shape == (1, 2)
