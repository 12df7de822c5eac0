from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.tiny_world import SIZE, parts, write_world
from unlit.evaluate.benchmark import Outcome, Split
from unlit.evaluate.mit import mean_scores, mit_scores
from unlit.evaluate.points import point_pairs, true_comparisons
from unlit.evaluate.worlds import WorldsBenchmark, _seed, _weights
from unlit.image_io import read_image, write_image


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"))


def test_the_truth_is_perfect_and_the_picture_is_not(world: Path) -> None:
    benchmark = WorldsBenchmark(world)
    case = benchmark.read("one")
    perfect = benchmark.score(case, [Split(3 * case.truth.reflectance, 0.5 * case.truth.shading)]).scores
    assert perfect == pytest.approx(dict.fromkeys(perfect, 0.0), abs=1e-9)
    (picture,) = case.pictures
    as_it_is = benchmark.score(case, [Split(picture.image, np.ones(SIZE))]).scores
    assert min(as_it_is[key] for key in ("mse/reflectance", "lmse/shading", "whdr@0.1/gamma")) > 0.001


def test_the_picture_is_reflectance_times_shading_where_all_is_known(world: Path) -> None:
    case = WorldsBenchmark(world).read("two")
    (picture,), truth = case.pictures, case.truth
    ratio = picture.image / (truth.reflectance * truth.shading)
    assert np.ptp(ratio[truth.mask]) < 1e-4 * ratio[truth.mask].mean()
    assert picture.image.max() <= 1
    assert not truth.mask[:2].any()  # masked in the frames
    assert 0.97 < truth.mask[2:].mean() < 1  # the brightest hundredth is clipped, and so not known


def test_the_picture_of_one_light_frames_is_a_mixture_that_stays_the_same(world: Path) -> None:
    first, again = (WorldsBenchmark(world).read("one") for _ in range(2))
    np.testing.assert_array_equal(first.pictures[0].image, again.pictures[0].image)
    _, shadings = parts(0)
    # No single frame is the mixture, up to scale.
    for shading in shadings:
        ratio = (first.truth.shading / shading)[first.truth.mask]
        assert np.ptp(ratio) > 0.05 * ratio.mean()


def test_without_mixing_the_picture_is_the_frame_in_the_middle(tmp_path: Path) -> None:
    case = WorldsBenchmark(write_world(tmp_path / "w", ("a",), one_light=False)).read("a")
    ratio = (case.truth.shading / parts(0)[1][2])[case.truth.mask]
    assert np.ptp(ratio) < 1e-5 * ratio.mean()


def test_splits_are_those_of_the_dataset(world: Path) -> None:
    assert WorldsBenchmark(world).ids == ["one", "two", "three"]
    assert WorldsBenchmark(world, "test").ids == ["one"]
    assert WorldsBenchmark(world, "train").ids == ["two", "three"]


def test_scores_are_those_of_mit_and_whdr_in_four_ways(world: Path) -> None:
    benchmark = WorldsBenchmark(world)
    case = benchmark.read("one")
    found = case.pictures[0].image, np.ones(SIZE)
    scores = dict(benchmark.score(case, [Split(*found)]).scores)
    truth = case.truth
    errors = mit_scores(*found, truth.reflectance, truth.shading.mean(axis=-1), truth.mask)
    whdr = {key: scores.pop(key) for key in list(scores) if key.startswith("whdr")}
    assert scores == errors
    assert set(whdr) == {"whdr@0.1/gamma", "whdr@0.1/linear", "whdr@0.2/gamma", "whdr@0.2/linear"}
    # A reflectance of one gray is wrong wherever the truth says that one is darker.
    gray = benchmark.score(case, [Split(np.ones((*SIZE, 3)), np.ones(SIZE))]).scores["whdr@0.1/linear"]
    assert 0.4 < gray < 0.95


def test_means_are_arithmetic_and_geometric_but_not_of_whdr() -> None:
    outcomes = [
        Outcome({"mse/shading": 1.0, "whdr@0.1/gamma": 0.1}),
        Outcome({"mse/shading": 4.0, "whdr@0.1/gamma": 0}),
    ]
    totals = WorldsBenchmark(Path()).totals(outcomes, np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]]))
    found = {key: values.tolist() for key, values in totals.items()}
    assert found["mse/shading"] == [2.5, 1, 4]
    assert found["whdr@0.1/gamma"] == [0.05, 0.1, 0]
    assert found["geometric/mse/shading"] == pytest.approx([2, 1, 4])
    assert set(found) == {"mse/shading", "whdr@0.1/gamma", "geometric/mse/shading"}
    with_perfect = [Outcome({"mse/shading": 0.0}), Outcome({"mse/shading": 4.0})]
    totals = WorldsBenchmark(Path()).totals(with_perfect, np.array([[1.0, 1.0], [0.0, 2.0]]))
    assert totals["geometric/mse/shading"].tolist() == pytest.approx([0, 4])
    assert mean_scores([dict(o.scores) for o in with_perfect])["geometric/mse/shading"] == 0


def test_a_sequence_whose_truth_is_missing_is_named(tmp_path: Path) -> None:
    world = write_world(tmp_path / "w", ("a", "b"))
    (world / "a" / "truth" / "reflectance.exr").unlink()
    with pytest.raises(ValueError, match="a: its true reflectance"):
        WorldsBenchmark(world).read("a")
    stated = json.loads((world / "dataset.json").read_text())
    stated["sequences"][1]["folder"] = "nowhere"
    (world / "dataset.json").write_text(json.dumps(stated))
    with pytest.raises(ValueError, match="nowhere"):
        WorldsBenchmark(world).read("b")


@pytest.mark.parametrize("size", [(48, 60), (200, 30), (1, 40), (1, 1), (3, 2)])
def test_pairs_of_points_are_inside_the_mask(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    mask = rng.random(size) < 0.7
    first, second = point_pairs(mask, rng)
    assert len(first) == len(second)
    for points in (first, second):
        assert mask[points[:, 0], points[:, 1]].all()
    assert (first != second).any(axis=1).all()
    if min(size) > 20:
        assert len(first) > 200


def test_points_compared_are_near_and_far() -> None:
    first, second = point_pairs(np.ones((120, 120), bool), np.random.default_rng(0))
    distance = np.hypot(*(first - second).T)
    assert np.mean(distance < 25) > 0.45
    assert np.mean(distance > 40) > 0.25


def test_what_the_truth_says_of_two_points() -> None:
    reflectance = np.repeat(np.array([[0.1, 0.2, 0.205]])[..., None], 3, axis=-1)
    places = np.array([[0, 0], [0, 1], [0, 2], [0, 1]])
    said = true_comparisons(reflectance, places[:3], places[1:], 0.1)
    assert said.darker.tolist() == [1, 0, 0]
    assert true_comparisons(reflectance, places[1:2], places[:1], 0.1).darker.tolist() == [2]
    assert said.weight.tolist() == [1, 1, 1]


def test_what_the_files_have_clipped_is_not_scored(tmp_path: Path) -> None:
    """A lamp's frame is white where its light went beyond: the mixture is too dark there, and the truth is not."""
    folder = write_world(tmp_path / "w", ("a",))
    before = WorldsBenchmark(folder).read("a").truth.mask
    white = (slice(20, 24), slice(40, 60))  # more than the brightest hundredth
    for path in (folder / "a" / "frames").iterdir():
        pixels = read_image(path, encoding="linear").pixels.copy()
        pixels[white] = 1
        write_image(path, pixels, encoding="linear")
    after = WorldsBenchmark(folder).read("a").truth.mask
    assert before[white].mean() > 0.8
    assert not after[white].any()
    assert after.sum() > before.sum() - 2 * after[white].size


def test_the_true_shading_is_scaled_to_end_at_white(world: Path) -> None:
    """DSSIM and MSE depend on the truth's scale, which is arbitrary: all but the brightest hundredth is below 1."""
    for name in ("one", "two", "three"):
        truth = WorldsBenchmark(world).read(name).truth
        assert np.quantile(truth.shading.max(axis=-1)[truth.mask], 0.99) == pytest.approx(1, rel=1e-3)


def test_a_pixel_must_be_valid_in_every_lamp_that_is_on(tmp_path: Path) -> None:
    folder = write_world(tmp_path / "w", ("b",))
    files = sorted((folder / "b" / "masks").iterdir())
    for k, file in enumerate(files):
        mask = read_image(file, encoding="linear").pixels.copy()
        mask[20:24, 10 * k : 10 * k + 8] = 0
        write_image(file, mask, encoding="linear", bits=8)
    case = WorldsBenchmark(folder).read("b")
    masked = [not case.truth.mask[20:24, 10 * k : 10 * k + 8].any() for k in range(len(files))]
    frames = case.pictures[0].frames
    assert frames is not None
    weights = _weights(frames, _seed("b"), mixes=True)
    assert masked == (weights > 0).tolist()
    assert 0 < sum(masked) < len(files)
