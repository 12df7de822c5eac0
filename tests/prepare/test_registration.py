from __future__ import annotations

import numpy as np
import pytest

from tests.prepare.clips import clip, light, scene, shake, view
from tests.reference import registration as slow
from unlit.prepare import registration
from unlit.prepare.registration import Motion, moved_back, orientation, packed, register, unpacked

SIZE = (120, 160)


def seen_at(one: Motion, other: Motion, points: np.ndarray) -> np.ndarray:
    """Where the points of the first camera's picture are in the other's."""
    scene_points = (points - (one.dx, one.dy)) @ np.linalg.inv(one.matrix).T
    return np.asarray(scene_points @ other.matrix.T + (other.dx, other.dy))


def worst_corner(one: Motion, other: Motion, found: Motion, size: tuple[int, int] = SIZE) -> float:
    h, w = size
    corners = np.array([[x, y] for x in (-w / 2, w / 2) for y in (-h / 2, h / 2)])
    error = corners @ found.matrix.T + (found.dx, found.dy) - seen_at(one, other, corners)
    return float(np.hypot(*error.T).max())


def test_a_shift_is_found_under_quite_another_light() -> None:
    moves = shake(8, 6, seed=1)
    fields = [orientation(frame) for frame in clip(8, SIZE, moves=moves)]
    for k in range(1, 8):
        match = register(fields[0], fields[k])
        assert worst_corner(Motion(**moves[0]), Motion(**moves[k]), match.motion) < 0.35
        true = np.array([moves[k][a] - moves[0][a] for a in ("dx", "dy")])
        assert np.hypot(*(true - (match.motion.dx, match.motion.dy))) < 0.2
        assert match.height > 20


@pytest.mark.parametrize(("zoom", "turn"), [(1.012, 0.0), (1.0, 0.012), (0.99, -0.008)])
def test_small_turns_and_zooms_are_found(zoom: float, turn: float) -> None:
    paint = scene(*SIZE)
    still, moved = view(paint * light(paint, 3, 8)), view(paint * light(paint, 5, 8), 2.3, -1.4, zoom, turn, seed=1)
    match = register(orientation(still), orientation(moved))
    assert match.motion.zoom == pytest.approx(zoom, abs=0.003)
    assert match.motion.turn == pytest.approx(turn, abs=0.003)
    assert worst_corner(Motion(), Motion(2.3, -1.4, zoom, turn), match.motion) < 0.5


def test_contrast_turned_round_is_the_same_view() -> None:
    frame = clip(1, SIZE)[0]
    match = register(orientation(frame), orientation(255 - frame))
    assert match.motion.farthest(*SIZE) < 0.02
    assert match.height > 50


def test_other_scenes_do_not_match() -> None:
    fields = [orientation(clip(1, SIZE, seed=seed)[0]) for seed in range(5)]
    heights = [register(fields[i], fields[j]).height for i in range(5) for j in range(i)]
    assert max(heights) < 8


def test_noise_and_flat_pictures_match_nothing() -> None:
    frame = orientation(clip(1, SIZE)[0])
    noise = orientation(np.random.default_rng(0).integers(0, 255, (*SIZE, 3)).astype(np.uint8))
    flat = orientation(np.full((*SIZE, 3), 128, np.uint8))
    assert register(frame, noise).height < 8
    assert register(frame, flat).height < 8
    assert np.isfinite(register(flat, flat).height)


def test_the_fit_is_that_of_linear_least_squares() -> None:
    rng = np.random.default_rng(0)
    p, q, w = rng.normal(0, 50, (9, 2)), rng.normal(0, 50, (9, 2)), rng.uniform(0.1, 1, 9)
    q = p * 1.01 + 0.1 * q
    found = registration._least_squares(p, q, w)
    assert (found.dx, found.dy, found.zoom, found.turn) == pytest.approx(slow.fitted_motion(p, q, w))


def test_blocks_that_disagree_are_left_aside() -> None:
    p = np.array([[x, y] for x in (-50, 0, 50) for y in (-40, 0, 40)], float)
    shifts = np.tile([3.0, -2.0], (9, 1))
    shifts[4] = [40, 25]  # a car
    motion = registration._fitted(p, shifts, np.ones(9))
    assert motion is not None
    assert (motion.dx, motion.dy, motion.zoom, motion.turn) == pytest.approx((3, -2, 1, 0), abs=1e-9)


def test_without_whitening_the_correlation_is_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.normal(size=(12, 15)) + 1j * rng.normal(size=(12, 15)) for _ in range(2))
    monkeypatch.setattr(registration, "_fade", lambda h, w: np.ones((h, w), np.float32))
    monkeypatch.setattr(registration, "_whitened", lambda product: product)
    found = registration._correlated(a.astype(np.complex64), b.astype(np.complex64))
    np.testing.assert_allclose(found, slow.correlation(a, b), atol=1e-3)


def test_moving_back_undoes_a_motion() -> None:
    paint = scene(*SIZE) * 0.8
    motion = Motion(4.3, -2.6, 1.01, 0.01)
    back = moved_back(view(paint, 4.3, -2.6, 1.01, 0.01, noise=0), motion)
    still = view(paint, noise=0) @ registration.LUMA
    inside = (slice(10, -10), slice(10, -10))
    assert np.abs(back[..., 0].astype(float) - still)[inside].mean() < 2
    unmoved = view(paint, 4.3, -2.6, 1.01, 0.01, noise=0) @ registration.LUMA
    assert np.abs(unmoved - still)[inside].mean() > 8


def test_two_motions_one_after_the_other_are_their_composition() -> None:
    first, second = Motion(3, -1, 1.02, 0.05), Motion(-0.4, 0.7, 0.99, -0.02)
    p = np.array([[10.0, -20], [-5, 30]])
    inner = p @ second.matrix.T + (second.dx, second.dy)
    outer = inner @ first.matrix.T + (first.dx, first.dy)
    both = second.after(first)
    np.testing.assert_allclose(p @ both.matrix.T + (both.dx, both.dy), outer, rtol=1e-12)


def test_a_packed_field_is_the_field_again() -> None:
    field = orientation(clip(1, SIZE)[0])
    assert np.abs(unpacked(packed(field)) - field).max() < 0.006
