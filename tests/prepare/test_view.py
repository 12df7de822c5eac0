"""Which view a frame shows, on clips whose answer is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.prepare.clips import MARGIN, clip, light, scene, shake, view
from unlit.prepare.finding import find_sources
from unlit.prepare.settings import PrepareSettings
from unlit.prepare.shot import choose_shots, runs
from unlit.prepare.source import SmallFrame, Source, SourceError, small_frames
from unlit.prepare.view import Watcher

SIZE = (96, 128)
SETTINGS = PrepareSettings()
SOURCE = Source("clip", Path("clip.mp4"))


def watched(frames: list[NDArray[np.uint8]], settings: PrepareSettings = SETTINGS) -> Watcher:
    watcher = Watcher(settings)
    for k, pixels in enumerate(frames):
        watcher.watch(SmallFrame(k, f"{k:04}", k / 25, (pixels.shape[0], pixels.shape[1]), pixels))
    return watcher


def views(watcher: Watcher) -> list[int | None]:
    return [seen.view for seen in watcher.seen]


def test_light_alone_is_neither_cut_nor_motion() -> None:
    watcher = watched(clip(16, SIZE))
    assert views(watcher) == [0] * 16
    assert max(seen.motion.farthest(*SIZE) for seen in watcher.seen) < 0.35


def test_a_lamp_switched_off_and_on_is_no_cut() -> None:
    paint = scene(*SIZE)
    lamps = [light(paint, k, 8) * level for k in range(8) for level in (1.0, 0.12)]
    assert views(watched([view(paint * lamp, seed=k) for k, lamp in enumerate(lamps)])) == [0] * 16


def test_a_cut_is_found_and_a_cut_back_too() -> None:
    here, there = clip(14, SIZE, seed=0), clip(14, SIZE, seed=5)
    watcher = watched(here[:7] + there[:7] + here[7:])
    assert views(watcher) == [0] * 7 + [1] * 7 + [0] * 7
    assert watcher.causes[1] == "another view, after a cut"
    shots, _ = choose_shots(SOURCE, watcher, SETTINGS)
    assert [len(shot.frames) for shot in shots] == [14, 7]


def test_shake_is_measured_and_moved_back() -> None:
    moves = shake(12, 1.5, seed=2)
    watcher = watched(clip(12, SIZE, moves=moves))
    assert views(watcher) == [0] * 12
    found = np.array([(seen.motion.dx, seen.motion.dy) for seen in watcher.seen])
    true = np.array([(move["dx"], move["dy"]) for move in moves])
    error = (found - true) - np.median(found - true, 0)
    assert np.hypot(*error.T).max() < 0.25


def test_a_pan_between_two_rests_gives_two_views_and_says_how_far_it_moved() -> None:
    rest, pan = [{"dx": 0.0}] * 8, [{"dx": -4.0 * k} for k in range(1, 9)]
    moves = rest + pan + [{"dx": -34.0}] * 8
    watcher = watched(clip(24, SIZE, moves=moves))
    shots, reasons = choose_shots(SOURCE, watcher, SETTINGS)
    assert [
        {seen.index for seen in shot.frames} >= rests
        for shot, rests in zip(shots, ({*range(8)}, {*range(16, 24)}), strict=True)
    ] == [True, True]
    moving = [reasons[k] for k in range(10, 14)]
    assert all("the view moved by" in reason for reason in moving)
    assert watcher.extent[2] - watcher.extent[0] == pytest.approx(34, abs=2)


def test_a_zoom_is_found() -> None:
    moves = [{"zoom": 1.0}] * 8 + [{"zoom": 1 + 0.012 * k} for k in range(1, 9)]
    watcher = watched(clip(16, SIZE, moves=moves))
    assert views(watcher)[:8] == [0] * 8
    assert views(watcher)[-1] != 0
    assert any("zoomed by 1.0" in cause for cause in watcher.causes.values())


def test_a_slow_drift_is_measured_not_learned() -> None:
    moves = [{"dx": 0.1 * k} for k in range(60)]
    watcher = watched(clip(60, SIZE, moves=moves), PrepareSettings(max_shift=0.2))
    last = watcher.seen[-1].motion.dx - watcher.seen[0].motion.dx
    assert last == pytest.approx(5.9, abs=0.4)


def test_a_hand_held_camera_is_refused_with_the_motion_measured() -> None:
    rng = np.random.default_rng(0)
    path = np.clip(np.cumsum(rng.normal(0, 6, (20, 2)), 0), -MARGIN + 4, MARGIN - 4)
    watcher = watched(clip(20, SIZE, moves=[{"dx": x, "dy": y} for x, y in path]))
    with pytest.raises(
        SourceError, match=r"the view is not fixed: it moves by \d+\.\d px from frame to frame"
    ) as caught:
        choose_shots(SOURCE, watcher, SETTINGS)
    stated = float(str(caught.value).split("moves by ")[1].split(" px")[0])
    assert stated == pytest.approx(np.median(np.hypot(*np.diff(path, axis=0).T)), rel=0.25)


def test_pictures_of_different_places_are_refused_as_such() -> None:
    watcher = watched([clip(1, SIZE, seed=seed)[0] for seed in range(8)])
    with pytest.raises(SourceError, match="8 frames show 8 different views"):
        choose_shots(SOURCE, watcher, SETTINGS)


def narrower(picture: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Return a picture of another size: the left of it."""
    return picture[:, :width]


def test_pictures_of_different_places_and_sizes_are_not_said_to_move() -> None:
    """Three of each place, the camera quite still meanwhile."""
    places = [narrower(picture, SIZE[1] - 8 * (seed % 2)) for seed in range(4) for picture in clip(3, SIZE, seed=seed)]
    with pytest.raises(SourceError, match="12 frames show 4 different views at 2 sizes; give 5 or more of one view"):
        choose_shots(SOURCE, watched(places), SETTINGS)


def test_two_places_with_too_few_frames_each_are_not_said_to_move() -> None:
    watcher = watched([*clip(4, SIZE, seed=0), *clip(4, SIZE, seed=1)])
    with pytest.raises(SourceError, match="8 frames show 2 different views; give 5 or more of one view"):
        choose_shots(SOURCE, watcher, SETTINGS)


def test_frames_that_all_differ_in_size_are_refused_for_that() -> None:
    watcher = watched([narrower(picture, SIZE[1] - 4 * k) for k, picture in enumerate(clip(6, SIZE))])
    with pytest.raises(SourceError, match="its frames have 6 different sizes; give frames of one view at one size"):
        choose_shots(SOURCE, watcher, SETTINGS)


def test_black_frames_and_copies_are_dropped_with_their_reason() -> None:
    frames = clip(8, SIZE)
    black = np.zeros_like(frames[0])
    watcher = watched([black, black, *frames, frames[3]])
    _, reasons = choose_shots(SOURCE, watcher, SETTINGS)
    assert reasons == {0: "near-black", 1: "near-black", 10: "the same picture as 0005"}
    assert runs(watcher, reasons) == [
        {"first": "0000", "last": "0001", "reason": "near-black"},
        {"first": "0010", "last": "0010", "reason": "the same picture as 0005"},
    ]


def test_frames_under_nearly_one_light_stand_for_one_another() -> None:
    paint = scene(*SIZE)
    frames = [view(paint * light(paint, k, 6), seed=10 * k + copy) for k in range(6) for copy in range(4)]
    watcher = watched(frames)
    (shot,), reasons = choose_shots(SOURCE, watcher, SETTINGS)
    assert sorted(seen.index // 4 for seen in shot.kept) == list(range(6))
    assert not reasons
    assert all(reason.endswith("has nearly the light") for reason in shot.reasons.values())
    assert len(shot.reasons) == 18
    for index, reason in shot.reasons.items():
        assert int(reason[:4]) // 4 == index // 4, "the frame that is named has the same light"


def test_light_that_never_changes_is_refused() -> None:
    paint = scene(*SIZE)
    watcher = watched([view(paint * 0.7, seed=k) for k in range(10)])
    with pytest.raises(SourceError, match=r"the light hardly changes \(1 different light\(s\) in 10 frames\)"):
        choose_shots(SOURCE, watcher, SETTINGS)


def test_all_black_is_refused_by_name() -> None:
    watcher = watched([np.zeros((*SIZE, 3), np.uint8)] * 9)
    with pytest.raises(SourceError, match=r"has 9 frame\(s\), 9 near-black; 5 that show something are needed"):
        choose_shots(SOURCE, watcher, SETTINGS)


def test_frames_of_another_size_are_left_out() -> None:
    frames = clip(8, SIZE)
    odd = clip(2, (80, 100))
    watcher = watched([*frames[:4], *odd, *frames[4:]])
    (shot,), reasons = choose_shots(SOURCE, watcher, SETTINGS)
    assert len(shot.frames) == 8
    assert reasons == dict.fromkeys((4, 5), "has 100 x 80 pixels, most have 128 x 96")


def test_a_camera_on_the_move_does_not_fill_the_memory() -> None:
    rng = np.random.default_rng(0)
    watcher = watched([np.asarray(rng.integers(0, 255, (*SIZE, 3)), np.uint8) for _ in range(30)])
    assert len(watcher.causes) == 30
    assert len(watcher._views) <= 8


@pytest.mark.data
@pytest.mark.parametrize("name", ["chamonix", "courbevoie", "frankfurt", "panorama"])
def test_real_views_over_days_seasons_and_nights_are_one_view(shared_data: Path, name: str) -> None:
    (source,), _ = find_sources([shared_data / "webcams" / name], SETTINGS)
    some = replace(source, pictures=source.pictures[::4])
    watcher = Watcher(SETTINGS)
    for frame in small_frames(some, SETTINGS):
        assert isinstance(frame, SmallFrame)
        watcher.watch(frame)
    used = [seen for seen in watcher.seen if seen.reason is None]  # the panorama has pictures twice
    assert len(used) >= 9
    assert {seen.view for seen in used} == {0}
    longer = max(watcher.seen[0].size)
    assert max(np.hypot(seen.motion.dx, seen.motion.dy) for seen in used) < 0.005 * longer


@pytest.mark.data
def test_a_real_day_from_dusk_to_dusk_is_one_view_and_black_ends_go(shared_data: Path) -> None:
    (source,), _ = find_sources([shared_data / "video" / "one-day.mp4"], SETTINGS)
    watcher = Watcher(SETTINGS)
    for frame in small_frames(source, PrepareSettings(every=12)):
        assert isinstance(frame, SmallFrame)
        watcher.watch(frame)
    assert watcher.seen[0].reason == watcher.seen[-1].reason == "near-black"
    assert {seen.view for seen in watcher.seen if seen.reason is None} == {0}
    assert sum(seen.reason is None for seen in watcher.seen) > 40


def test_a_view_that_comes_back_after_another_faded_into_it_is_the_first_one_again() -> None:
    """The view between goes along with the fading, and would keep the other's frames for its own."""
    paint, other = scene(seed=0), scene(seed=50)
    day = [paint * light(paint, k + 10, 60) for k in range(12)]
    between = [other * np.float32(0.4 + 0.02 * k) for k in range(12)]
    fading = [(1 - k / 15) * between[-1] + k / 15 * day[0] for k in range(16)]
    watcher = Watcher(PrepareSettings())
    for k, radiance in enumerate([*day, *between, *fading, *day]):
        pixels = view(radiance, seed=k)
        watcher.watch(SmallFrame(k, f"{k:04}", None, pixels.shape[:2], pixels))
    views = [seen.view for seen in watcher.seen]
    assert set(views[:12]) == {0}
    assert set(views[12:24]) == {1}
    assert set(views[-12:]) == {0}
