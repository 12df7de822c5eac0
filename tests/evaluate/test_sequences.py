from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.reference import sequences as reference
from unlit.data.sequence import Sequence, save_sequence
from unlit.evaluate.benchmark import Split
from unlit.evaluate.methods import method_of
from unlit.evaluate.running import run_benchmark
from unlit.evaluate.sequences import SequencesBenchmark, consistency_and_contrast
from unlit.image_io import write_image


def case(seed: int = 0, size: tuple[int, int, int] = (4, 5, 6)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frames of one surface under other shadings, and what might be found for them."""
    rng = np.random.default_rng(seed)
    surface = rng.uniform(0.1, 1, (*size[1:], 3))
    frames = surface * np.exp(rng.normal(0, 0.5, (*size, 1)))
    found = surface * np.exp(rng.normal(0, 0.1, (*size, 3)))
    return found, frames, rng.random(size) < 0.7


@pytest.mark.parametrize("seed", range(5))
def test_both_are_their_definitions(seed: int) -> None:
    found, frames, mask = case(seed)
    if seed == 4:
        mask[1] = False  # a frame without any valid pixel says nothing
    consistency, contrast = consistency_and_contrast(found, frames, mask)
    assert consistency == pytest.approx(reference.over_time(found, mask) / reference.over_time(frames, mask))
    assert contrast == pytest.approx(reference.over_space(found, mask) / reference.over_space(frames, mask))


def test_the_picture_itself_has_one_and_one_whatever_each_frame_s_scale() -> None:
    _, frames, mask = case()
    scales = np.array([1.0, 3.0, 0.5, 2.0])[:, None, None, None]
    assert consistency_and_contrast(scales * frames, frames, mask) == pytest.approx((1, 1))


def test_one_reflectance_for_all_frames_is_perfectly_consistent_if_all_of_it_is_seen() -> None:
    found, frames, mask = case()
    same = np.broadcast_to(found[:1], found.shape)
    consistency, contrast = consistency_and_contrast(same, frames, np.ones_like(mask))
    assert consistency == pytest.approx(0, abs=1e-12)
    assert contrast > 0.5


def test_plain_gray_is_consistent_and_has_no_contrast() -> None:
    _, frames, mask = case()
    assert consistency_and_contrast(np.ones_like(frames), frames, mask) == (0, 0)


def test_half_the_log_has_half_of_both() -> None:
    _, frames, mask = case()
    assert consistency_and_contrast(np.sqrt(frames), frames, mask) == pytest.approx((0.5, 0.5))


def test_what_is_not_valid_does_not_matter() -> None:
    found, frames, mask = case()
    expected = consistency_and_contrast(found, frames, mask)
    spoiled = np.where(mask[..., None], found, 1e6)
    assert consistency_and_contrast(spoiled, np.where(mask[..., None], frames, 0.5), mask) == pytest.approx(expected)


def test_what_cannot_be_told_is_refused() -> None:
    found, frames, mask = case()
    with pytest.raises(ValueError, match="do not fit"):
        consistency_and_contrast(found[:2], frames, mask)
    once = np.zeros_like(mask)
    once[0] = True
    with pytest.raises(ValueError, match="valid in two frames"):
        consistency_and_contrast(found, frames, once)
    with pytest.raises(ValueError, match="do not vary"):
        consistency_and_contrast(found, np.ones_like(frames), mask)


@pytest.fixture
def views(tmp_path: Path) -> Path:
    for name in ("north", "south"):
        (tmp_path / name).mkdir()
        _, frames, _ = case(len(name), (6, 20, 30))
        for k, frame in enumerate(frames):
            write_image(tmp_path / name / f"{k}.png", np.clip(frame, 0, 1).astype(np.float32))
    return tmp_path


def test_frames_are_chosen_over_the_whole_sequence_and_made_smaller(views: Path) -> None:
    benchmark = SequencesBenchmark(views, frames=3, size=15)
    read = benchmark.read("north")
    assert [picture.id for picture in read.pictures] == ["north/0", "north/2", "north/5"]
    assert all(picture.image.shape == (10, 15, 3) for picture in read.pictures)
    assert all(picture.frames is not None and len(picture.frames) == 3 for picture in read.pictures)
    with pytest.raises(ValueError, match="each frame"):
        benchmark.score(read, [Split(None, None)] * 3)


def test_methods_are_scored_on_sequences(views: Path) -> None:
    methods = {name: name for name in ("constant-shading", "constant-reflectance", "retinex-color")}
    results = run_benchmark(SequencesBenchmark(views, frames=4), methods)
    scores = {name: result.scores(SequencesBenchmark(views)) for name, result in results.items()}
    assert scores["constant-shading"] == pytest.approx({"consistency": 1, "contrast": 1}, abs=1e-3)
    assert scores["constant-reflectance"] == pytest.approx({"consistency": 0, "contrast": 0}, abs=1e-6)
    assert scores["retinex-color"]["contrast"] > 0
    assert not any(result.skipped for result in results.values())


def test_a_method_of_sequences_is_given_the_sequence(views: Path) -> None:
    read = SequencesBenchmark(views, frames=3, size=16).read("south")
    split = method_of("sequence")(read.pictures[1])
    assert split.reflectance is not None
    assert split.shading is not None
    np.testing.assert_allclose(split.reflectance * split.shading, read.pictures[1].image, rtol=1e-4, atol=1e-6)


def test_a_sequence_with_nothing_valid_at_its_size_says_so(tmp_path: Path) -> None:
    frames = torch.rand(3, 3, 8, 9)
    mask = torch.zeros(3, 1, 8, 9, dtype=torch.bool)
    mask[:, 0, 2, 3] = True
    save_sequence(Sequence(frames, mask, "dark"), tmp_path / "data" / "dark")
    (tmp_path / "data" / "dataset.json").write_text(
        json.dumps({"version": 1, "sequences": [{"name": "dark", "folder": "dark", "split": "test"}]})
    )
    with pytest.raises(ValueError, match="dark: fewer than two of its frames have anything valid"):
        SequencesBenchmark(tmp_path / "data", size=4).read("dark")
