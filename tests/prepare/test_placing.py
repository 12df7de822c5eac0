from __future__ import annotations

import numpy as np
import pytest

from tests.prepare.clips import clip, light, scene, shake, view
from tests.reference.registration import shifted
from unlit.color import linear_to_srgb, srgb_to_linear
from unlit.prepare import placing
from unlit.prepare.placing import in_place, read_small_enough
from unlit.prepare.registration import Motion
from unlit.prepare.source import FullFrame

SIZE = (120, 160)


def full(frames: list[np.ndarray]) -> list[FullFrame]:
    return [FullFrame(k, frame, None) for k, frame in enumerate(frames)]


def test_shake_is_taken_out_to_a_quarter_of_a_pixel_under_strong_light_change() -> None:
    """At 480 x 360, 0 to 6 pixels, from motions as coarse as small copies give them."""
    moves = shake(8, 6, seed=3)
    rng = np.random.default_rng(0)
    coarse = [Motion(move["dx"] + rng.uniform(-0.4, 0.4), move["dy"] + rng.uniform(-0.4, 0.4)) for move in moves]
    placed = in_place(full(clip(8, (360, 480), moves=moves)), coarse)
    found = np.array([(motion.dx, motion.dy) for motion in placed.motions])
    true = np.array([(move["dx"], move["dy"]) for move in moves])
    # Only where frames lie to one another can be known: the common place is free.
    residual = (found - true) - (found - true).mean(0)
    assert np.hypot(*residual.T).max() < 0.25
    assert np.hypot(*np.diff(true, axis=0).T).max() > 5, "the camera did shake"


def test_moved_frames_look_as_if_the_camera_had_stood_still() -> None:
    paint = scene(*SIZE)
    moves = shake(7, 3, seed=5)
    lights = [paint * light(paint, k, 7) for k in range(7)]
    placed = in_place(
        full([view(lit, move["dx"], move["dy"], noise=0) for lit, move in zip(lights, moves, strict=True)]),
        [Motion(**move) for move in moves],
    )
    middle = np.median([(move["dx"], move["dy"]) for move in moves], 0)
    moved, unmoved = [], []
    for k, lit in enumerate(lights):
        still = view(lit, *middle, noise=0).astype(float)
        inside = ~placed.borders[k]
        moved.append(np.abs(placed.frames_u8[k] - still)[inside].mean())
        unmoved.append(np.abs(view(lit, moves[k]["dx"], moves[k]["dy"], noise=0) - still)[inside].mean())
    assert np.mean(moved) < 0.25 * np.mean(unmoved)


def test_a_frame_in_place_keeps_every_bit() -> None:
    frames = clip(6, SIZE)
    placed = in_place(full(frames), [Motion()] * 6)
    for before, after in zip(frames, placed.frames, strict=True):
        np.testing.assert_array_equal(before, after)
    assert not placed.borders.any()
    assert all(motion == Motion() for motion in placed.motions)


@pytest.mark.parametrize(("dx", "dy"), [(0.3, -0.7), (2.0, 0.0), (-3.25, 1.5)])
def test_a_shift_is_the_sum_over_windowed_sincs(dx: float, dy: float) -> None:
    pixels = np.random.default_rng(0).random((9, 11, 3), dtype=np.float32)
    np.testing.assert_allclose(placing._shifted(pixels, Motion(dx, dy)), shifted(pixels, dx, dy), atol=1e-5)


def test_turns_and_zooms_are_undone() -> None:
    paint = np.clip(scene(*SIZE) * 0.8, 0, 1)
    motion = Motion(1.5, -0.5, 1.015, 0.012)
    seen = srgb_to_linear(view(paint, 1.5, -0.5, 1.015, 0.012, noise=0) / np.float32(255))
    still = srgb_to_linear(view(paint, noise=0) / np.float32(255))
    inside = (slice(8, -8), slice(8, -8))
    assert np.abs(placing._warped(seen, motion) - still)[inside].mean() < 0.01
    assert np.abs(seen - still)[inside].mean() > 0.03


def test_borders_are_where_the_frame_did_not_reach() -> None:
    frame = FullFrame(0, np.full((20, 30, 3), 100, np.uint8), None)
    _, outside, _ = placing._moved(frame, Motion(3.5, -2.0))
    # What is at x is taken from x + 3.5: the last four columns and the first two rows have nothing there.
    expected = np.zeros((20, 30), bool)
    expected[:, 26:] = expected[:2] = True
    np.testing.assert_array_equal(outside, expected)


def test_a_mask_that_came_with_a_frame_moves_with_it() -> None:
    valid = np.ones((40, 50), bool)
    valid[10:20, 10:20] = False
    pixels = np.full((40, 50, 3), 100, np.uint8)
    _, _, invalid = placing._moved(FullFrame(0, pixels, valid), Motion(5.0, 0.0))
    assert invalid[10:20, 5:15].all()
    assert not invalid[10:20, 17:].any()


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
def test_large_frames_are_made_smaller_in_linear_light_and_keep_their_kind(kind: type) -> None:
    stripes = np.zeros((64, 64, 3), np.float32)
    stripes[:, ::2] = 1  # half of the light, whatever the encoding
    most = 1 if kind is np.float32 else np.iinfo(kind).max
    (small,) = read_small_enough([FullFrame(0, (stripes * most).astype(kind), None)], 16 * 16)
    assert small.pixels.shape == (16, 16, 3)
    assert small.pixels.dtype == kind
    expected = 0.5 if kind is np.float32 else most * linear_to_srgb(np.array([0.5]))[0]
    assert small.pixels[4:-4, 4:-4].mean() == pytest.approx(expected, rel=0.02)


def test_light_beyond_white_stays() -> None:
    frames = [FullFrame(k, np.full((20, 20, 3), 3.0 + k, np.float32), None) for k in range(2)]
    placed = in_place(frames, [Motion()] * 2)
    assert placed.frames[1].max() == 4.0
    assert placed.frames_u8.max() == 255
