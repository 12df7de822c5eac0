from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.test_report import write_object
from unlit.evaluate.benchmark import Split
from unlit.evaluate.mit import mean_scores
from unlit.evaluate.mit_set import TEST, TRAIN, MitBenchmark
from unlit.evaluate.running import run_benchmark


@pytest.fixture
def mit(tmp_path: Path) -> Path:
    for name in ("cup2", "apple", "mine"):
        write_object(tmp_path / name)
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_objects_are_found_by_their_files_and_splits_by_their_names(mit: Path) -> None:
    assert MitBenchmark(mit).ids == ["apple", "cup2", "mine"]
    assert MitBenchmark(mit, "train").ids == sorted(TRAIN)
    assert MitBenchmark(mit, "test").ids == sorted(TEST)
    assert len({*TRAIN, *TEST}) == 20
    assert MitBenchmark(mit / "notes", "test").ids == []


def test_a_split_of_which_there_is_nothing_is_refused_and_what_is_there_is_named(mit: Path) -> None:
    shutil.rmtree(mit / "cup2")
    wrong = r"has none of the test objects \(cup2, .*turtle\), only apple, mine; .* --split all"
    with pytest.raises(ValueError, match=wrong):
        run_benchmark(MitBenchmark(mit, "test"), {"flat": "constant-reflectance"})


def test_objects_that_lack_files_are_named_and_those_of_a_split_that_are_not_there_too(mit: Path) -> None:
    (mit / "cup2" / "diffuse.png").unlink()
    found = run_benchmark(MitBenchmark(mit), {"flat": "constant-reflectance"})["flat"]
    assert list(found.outcomes) == ["apple", "mine"]
    assert "cup2/diffuse.png" in found.skipped["cup2"]
    test = run_benchmark(MitBenchmark(mit, "test"), {"flat": "constant-reflectance"})["flat"]
    assert not test.outcomes
    assert set(test.skipped) == set(TEST)


def test_the_truth_is_perfect_and_constants_are_what_they_should_be(mit: Path) -> None:
    benchmark = MitBenchmark(mit)
    case = benchmark.read("apple")
    truth = case.truth
    perfect = benchmark.score(case, [Split(truth.reflectance, truth.shading)]).scores
    assert perfect == pytest.approx(dict.fromkeys(perfect, 0.0), abs=1e-9)
    flat = benchmark.score(case, [Split(np.ones_like(truth.reflectance), np.ones_like(truth.shading))]).scores
    # One scale fits a constant best at the mean: what is left is the variance.
    assert flat["mse/reflectance"] == pytest.approx(truth.reflectance.astype(float).var(), rel=1e-5)
    assert flat["mse/shading"] == pytest.approx(truth.shading.astype(float).var(), rel=1e-5)
    with pytest.raises(ValueError, match="lacks"):
        benchmark.score(case, [Split(truth.reflectance, None)])


def test_methods_of_sequences_get_the_lights(mit: Path) -> None:
    picture = MitBenchmark(mit).read("apple").pictures[0]
    assert picture.frames is not None
    assert picture.frames.shape == (2, 24, 30, 3)
    benchmark = MitBenchmark(mit)
    found = run_benchmark(benchmark, {"weiss": "weiss", "flat": "constant-reflectance"})
    assert not found["weiss"].skipped
    assert found["weiss"].scores(benchmark)["lmse/reflectance"] < found["flat"].scores(benchmark)["lmse/reflectance"]


def test_means_are_those_of_mean_scores(mit: Path) -> None:
    benchmark = MitBenchmark(mit)
    result = run_benchmark(benchmark, {"retinex": "retinex-color"})["retinex"]
    expected = mean_scores([dict(outcome.scores) for outcome in result.outcomes.values()])
    assert result.scores(benchmark) == pytest.approx(expected, rel=1e-12)


def test_lights_of_another_size_are_named(mit: Path) -> None:
    (mit / "apple" / "light02.png").write_bytes((mit / "cup2" / "light01.png").read_bytes())
    MitBenchmark(mit).read("apple")
    from unlit.image_io import write_image

    write_image(mit / "apple" / "light02.png", np.ones((5, 5, 3), np.float32), encoding="linear", bits=16)
    with pytest.raises(ValueError, match=r"light02\.png.*size"):
        MitBenchmark(mit).read("apple")


@pytest.mark.data
def test_color_retinex_on_the_real_objects_is_near_the_known_figures(shared_data: Path, tmp_path: Path) -> None:
    """Measured before by other code: MSE .0303/.0235, LMSE .0286/.0243, DSSIM .123/.138 over the ten objects."""
    benchmark = MitBenchmark(shared_data / "mit-intrinsic", "train")
    result = run_benchmark(benchmark, {"retinex": "retinex-color"})["retinex"]
    assert list(result.outcomes) == sorted(TRAIN)
    known = {
        "mse/reflectance": 0.0303, "mse/shading": 0.0235, "lmse/reflectance": 0.0286, "lmse/shading": 0.0243,
        "dssim/reflectance": 0.123, "dssim/shading": 0.138,
    }  # fmt: skip
    scores = result.scores(benchmark)
    assert {key: scores[key] for key in known} == pytest.approx(known, rel=0.05)
    assert json.dumps(scores)
