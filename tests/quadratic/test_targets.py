"""What a sequence says of its reflectance: by medians, by stereo, and by all three ways together."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.quadratic.objects import Floats, ball, lights, lit_sequence
from unlit.quadratic.stereo import stereo_log_reflectance
from unlit.quadratic.targets import pseudo_reflectance
from unlit.quadratic.weiss import median_log_reflectance

SIDE = 48


def in_full_light(seed: int = 0, count: int = 8, side: int = SIDE) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Frames (m, h, w, 3) of mean 1 of what every light reaches, its mask, and the log of gray reflectance."""
    thing, directions = ball(seed, side), lights(count, seed)
    valid = thing.mask & ((thing.normals @ directions.T) > 0.05).all(-1)
    frames = np.stack([thing.lit(light) for light in directions]).astype(np.float64)
    frames /= frames[:, valid].mean((1, 2))[:, None, None, None]
    return frames, valid, np.log(thing.reflectance.mean(-1))


def distance(found: Floats, truth: Floats, valid: NDArray[np.bool_]) -> float:
    """How far two logs are apart, but for a constant."""
    return float(np.std((found - truth)[valid]))


def seen_of(frames: Floats, valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.broadcast_to(valid, frames.shape[:3]).copy()


def test_stereo_finds_the_reflectance_of_a_matte_thing_from_no_guess() -> None:
    frames, valid, truth = in_full_light()
    guess = np.zeros(valid.shape)
    found = stereo_log_reflectance(frames.mean(3), seen_of(frames, valid), valid, guess)
    assert distance(found, truth, valid) < 0.1 * distance(guess, truth, valid)
    assert np.all(found[~valid] == 0)


def test_stereo_believes_neither_shadows_nor_highlights() -> None:
    frames, valid, truth = in_full_light()
    shadowed, shining = frames.copy(), frames.copy()
    shadowed[:3, 16:30, 16:30] = 0.0
    shining[0, 18:26, 18:26] *= 3.0
    shining[4, 26:32, 20:26] *= 3.0
    for changed in (shadowed, shining):
        found = stereo_log_reflectance(changed.mean(3), seen_of(changed, valid), valid, np.zeros(valid.shape))
        assert distance(found, truth, valid) < 0.01


def test_where_lights_are_alike_stereo_has_nothing_but_the_guess() -> None:
    frames, valid, truth = in_full_light(count=5)
    same = np.repeat(frames[:1], 5, 0)
    found = stereo_log_reflectance(same.mean(3), seen_of(same, valid), valid, truth)
    assert distance(found, truth, valid) < distance(np.zeros_like(truth), truth, valid)
    assert np.isfinite(found).all()


def test_medians_find_the_reflectance_under_lights_from_all_sides() -> None:
    frames, valid, truth = in_full_light(count=9)
    found = median_log_reflectance(0.2 * frames, seen_of(frames, valid), valid)
    assert distance(found, truth, valid) < 0.35 * distance(np.zeros_like(truth), truth, valid)
    assert distance(found, truth, valid) < 0.5 * distance(np.log(frames[0].mean(-1) + 1e-6), truth, valid)


def test_pieces_of_one_texture_that_do_not_touch_hold_each_other() -> None:
    frames, valid, _ = in_full_light()
    row, column = np.mgrid[:SIDE, :SIDE]
    is_dark = row % 12 < np.where(column < SIDE // 2, 3, 9)  # more of the dark paint on the right
    painted = np.where(is_dark[..., None], [0.3, 0.2, 0.1], [0.8, 0.8, 0.9])[None]
    flat = np.repeat(painted, len(frames), 0)
    flat[:, :, SIDE // 2 :] *= np.linspace(0.5, 2.0, len(frames))[:, None, None, None]  # each half has its own light
    valid = np.ones((SIDE, SIDE), np.bool_)
    valid[:, SIDE // 2 - 1 : SIDE // 2 + 1] = False
    found = median_log_reflectance(0.2 * flat, seen_of(flat, valid), valid)
    assert distance(found, np.log(painted[0].mean(-1)), valid) < 0.05


def test_a_frame_that_is_masked_does_not_count() -> None:
    frames, valid, _ = in_full_light(count=6)
    seen = seen_of(frames, valid)
    seen[2, 15:25, 15:25] = False
    broken = frames.copy()
    broken[2, 15:25, 15:25] = 7.0
    one, other = (median_log_reflectance(0.2 * f, seen, valid) for f in (frames, broken))
    assert np.array_equal(one, other)
    one, other = (stereo_log_reflectance(f.mean(3), seen, valid, np.zeros(valid.shape)) for f in (frames, broken))
    assert distance(one, other, valid) < 0.02


def test_a_sequence_says_its_reflectance_and_nothing_where_fewer_than_four_frames_do() -> None:
    thing, sequence = ball(1, SIDE), lit_sequence(1, 7, SIDE)
    frames, mask = sequence.frames.numpy(), sequence.mask[:, 0].numpy().copy()
    mask[:4, 20:24, 20:24] = False
    solved = np.full((3, SIDE, SIDE), 0.5, np.float32)
    found = pseudo_reflectance(frames, mask, solved)
    assert found.dtype == np.float32
    assert np.all(found[20:24, 20:24] == 0)
    valid = mask.sum(0) >= 4
    assert np.all((found > 0) == valid)
    truth = np.log(thing.reflectance.mean(-1))
    log_found = np.log(found, out=np.zeros(found.shape), where=valid)
    assert distance(log_found, truth, valid) < 0.6 * distance(np.zeros_like(truth), truth, valid)


def test_lights_that_show_nothing_are_not_counted() -> None:
    sequence = lit_sequence(0, 5, 32)
    frames, mask = sequence.frames.numpy().copy(), sequence.mask[:, 0].numpy()
    frames[3:] = 0
    with pytest.raises(ValueError, match="3 lights that show something where 4 are needed"):
        pseudo_reflectance(frames, mask, np.full((3, 32, 32), 0.5, np.float32))
