from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from unlit.color import linear_to_srgb, srgb_to_linear
from unlit.image_io import ImageError
from unlit.predict.predictor import Predictor
from unlit.predict.video import decompose_frames, decompose_video, primed, primers
from unlit.video_io import read_video
from unlit.video_writing import VideoWriter

pytest.importorskip("av", reason="needs PyAV")


def lit_frames(count: int, image: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """One view under light that flickers, with noise."""
    rng = np.random.default_rng(0)
    frames = []
    for _ in range(count):
        light = rng.uniform(0.5, 1) * rng.normal(1, 0.03, image.shape)
        frames.append(np.clip(image * light, 0, 1).astype(np.float32))
    return frames


def step(frames: list[NDArray[np.float32]]) -> float:
    logs = [np.log(np.maximum(frame, 1e-3)) for frame in frames]
    return float(np.mean([np.abs(b - a).mean() for a, b in pairwise(logs)]))


def test_reflectance_is_steady_and_the_product_is_the_frame(predictor: Predictor, image: NDArray[np.float32]) -> None:
    frames = lit_frames(20, image)
    found = list(decompose_frames(predictor, iter(frames)))
    for frame, part in zip(frames, found, strict=True):
        np.testing.assert_allclose(part.reflectance * part.shading, frame, rtol=1e-5, atol=1e-9)
        assert part.reflectance.min() > 0
        assert part.reflectance.max() <= 1
    assert step([part.reflectance for part in found[10:]]) < 0.1 * step(frames[10:])


def test_a_day_that_begins_in_the_dark_begins_with_what_it_will_see(
    predictor: Predictor, image: NDArray[np.float32]
) -> None:
    """Frames from noise in the dark to full light: looked at beforehand, surfaces are there from the first on."""
    rng = np.random.default_rng(0)
    frames = [
        np.clip(image * light + rng.normal(0, 2e-3, image.shape), 0, 1).astype(np.float32)
        for light in np.geomspace(1e-4, 1, 24)
    ]
    memory = primed(predictor, [frames[k] for k in sorted(primers(24)) if k % 3 == 2])
    late = [part.reflectance for part in decompose_frames(predictor, iter(frames))]
    early = [part.reflectance for part in decompose_frames(predictor, iter(frames), memory=memory)]
    assert step(early) < 0.3 * step(frames)
    assert step(early) < 0.5 * step(late)


def test_few_frames_are_looked_at_beforehand_from_all_over() -> None:
    assert primers(None) == set()
    assert primers(3) == {0, 1, 2}
    assert len(primers(602)) == 24
    assert {0, 601} <= primers(602)


def test_a_video_becomes_two_and_their_description(
    predictor: Predictor, image: NDArray[np.float32], tmp_path: Path
) -> None:
    source = tmp_path / "view.mp4"
    frames = lit_frames(6, image[:59, :89])  # odd sides, which H.264 does not have
    with VideoWriter(source, rate=10) as out:
        for k, frame in enumerate(frames):
            out.write(np.rint(255 * linear_to_srgb(frame)).astype(np.uint8), [0, 0.1, 0.2, 0.5, 0.6, 0.7][k])
    told: list[tuple[int, int | None]] = []
    paths = decompose_video(predictor, source, tmp_path / "out", "view", progress=lambda *x: told.append(x))
    assert [path.name for path in paths] == ["view.reflectance.mp4", "view.shading.mp4", "view.unlit.json"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in paths)
    assert [done for done, _ in told] == [1, 2, 3, 4, 5, 6]
    stated = json.loads(paths[-1].read_text())
    assert stated["frames"] == 6
    read = [list(read_video(path)) for path in (source, *paths[:2])]
    for frame, reflectance, shading in zip(*read, strict=True):
        assert frame.time == pytest.approx(reflectance.time, abs=1e-3)
        product = (
            srgb_to_linear(reflectance.pixels_srgb / 255)
            * srgb_to_linear(shading.pixels_srgb / 255)
            * stated["files"]["view.shading.mp4"]["scale"]
        )
        assert np.abs(linear_to_srgb(product) - frame.pixels_srgb / 255).mean() < 0.03  # of lossy, eight-bit video
    with pytest.raises(ImageError, match="exists already"):
        decompose_video(predictor, source, tmp_path / "out", "view")


def test_lossless_video_keeps_every_byte_and_its_times(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (4, 20, 30, 3), np.uint8)
    with VideoWriter(tmp_path / "a.mkv") as out:
        for frame, seconds in zip(frames, (0.0, 0.04, 0.5, 0.54), strict=True):
            out.write(frame, seconds)
    found = list(read_video(tmp_path / "a.mkv"))
    assert [frame.time for frame in found] == pytest.approx([0.0, 0.04, 0.5, 0.54], abs=1e-3)
    for frame, before in zip(found, frames, strict=True):
        np.testing.assert_array_equal(frame.pixels_srgb, before)


def test_a_video_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    def write_and_fail() -> None:
        with VideoWriter(tmp_path / "a.mp4") as out:
            out.write(np.zeros((8, 8, 3), np.uint8), 0.0)
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.data
def test_over_one_day_the_reflectance_changes_by_less_than_a_third_of_the_light(
    predictor: Predictor, shared_data: Path
) -> None:
    """At noon, by whatever weights: what matters here is the steadying."""
    read = read_video(shared_data / "video" / "one-day.mp4", longest=160, only=range(200, 240), end=240)
    frames = [np.asarray(srgb_to_linear(f.pixels_srgb / np.float32(255)), np.float32) for f in read]
    found = [part.reflectance for part in decompose_frames(predictor, iter(frames))]
    assert step(found) < 0.3 * step(frames)
