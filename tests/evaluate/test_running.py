from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.test_iiw import write_case
from tests.evaluate.tiny_world import write_world
from unlit.evaluate.benchmark import Case, Outcome, Picture, Split
from unlit.evaluate.iiw import IiwBenchmark
from unlit.evaluate.mit_set import MitBenchmark
from unlit.evaluate.opening import open_benchmark
from unlit.evaluate.running import SHOWN, MethodResult, RunSettings, Trial, run_benchmark, tried
from unlit.evaluate.sets import write_set
from unlit.evaluate.thumbnail import LONGEST, Row, row_of, small
from unlit.image_io import write_image


@pytest.fixture
def iiw(tmp_path: Path) -> Path:
    (tmp_path / "iiw").mkdir()
    for number in range(1, 8):
        write_case(tmp_path / "iiw", number)
    return tmp_path / "iiw"


def results_of(iiw: Path, place: Path) -> Path:
    """A folder of results: the pictures themselves."""
    place.mkdir()
    for number in range(1, 8):
        shutil.copy(iiw / f"{number}.png", place / f"{number}-r.png")
    return place


def test_bad_data_is_named_and_counted_and_the_rest_is_scored(iiw: Path, tmp_path: Path) -> None:
    results = results_of(iiw, tmp_path / "results")
    (iiw / "1.json").unlink()
    content = (iiw / "2.png").read_bytes()
    (iiw / "2.png").write_bytes(content[:-40])
    stated = json.loads((iiw / "3.json").read_text())
    stated["intrinsic_points"][0]["x"] = 1.5
    (iiw / "3.json").write_text(json.dumps(stated))
    write_image(results / "4-r.png", np.ones((6, 8, 3), np.float32))
    (results / "5-r.png").unlink()
    bad = np.ones((12, 16, 3), np.float32)
    bad[3, 3] = np.nan
    (results / "6-r.png").unlink()
    np.save(results / "6-r.npy", bad)
    found = run_benchmark(IiwBenchmark(iiw, 1), {"r": str(results), "retinex": "retinex-color"}, RunSettings("srgb"))
    reasons = found["r"].skipped
    assert set(reasons) == {"1", "2", "3", "4", "5", "6"}
    for number, said in (
        ("1", "1.json: is missing"),
        ("2", "2.png"),
        ("3", "outside"),
        ("4", "8 x 6"),
        ("5", "no result"),
        ("6", "NaN"),
    ):
        assert said in reasons[number]
        assert "\n" not in reasons[number]
    assert list(found["r"].outcomes) == ["7"]
    assert set(found["retinex"].skipped) == {"1", "2", "3"}
    assert list(found["retinex"].outcomes) == ["4", "5", "6", "7"]


def test_results_of_another_size_are_scored_only_if_asked_and_counted(iiw: Path, tmp_path: Path) -> None:
    results = results_of(iiw, tmp_path / "results")
    write_image(results / "4-r.png", np.random.default_rng(0).random((6, 8, 3), dtype=np.float32))
    found = run_benchmark(IiwBenchmark(iiw, 1), {"r": str(results)}, RunSettings(resize=True))["r"]
    assert not found.skipped
    assert found.resized == ["4"]
    with pytest.raises(ValueError, match="no resizing"):
        run_benchmark(MitBenchmark(iiw), {"r": str(results)}, RunSettings(resize=True))


def test_several_processes_give_the_same_as_one(iiw: Path) -> None:
    methods = {"retinex": "retinex-color", "flat": "constant-reflectance"}
    benchmark = IiwBenchmark(iiw, 1)
    steps: list[tuple[int, int]] = []
    alone = run_benchmark(benchmark, methods, progress=lambda done, total: steps.append((done, total)))
    together = run_benchmark(benchmark, methods, processes=2)
    assert steps == [(k, 7) for k in range(1, 8)]
    for name in methods:
        assert alone[name].scores(benchmark) == together[name].scores(benchmark)
        assert list(alone[name].outcomes) == list(together[name].outcomes) == [str(k) for k in range(1, 8)]


def test_what_a_benchmark_does_not_know_is_refused(iiw: Path) -> None:
    with pytest.raises(ValueError, match="iiw has no split 'val'; choose one of test, all"):
        open_benchmark("iiw", iiw, "val")
    with pytest.raises(ValueError, match="leave --input-encoding out"):
        open_benchmark("iiw", iiw, input_encoding="srgb")


def test_an_empty_set_and_an_unknown_method_are_refused_before_any_work(tmp_path: Path, iiw: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has nothing for iiw"):
        run_benchmark(IiwBenchmark(tmp_path / "empty"), {"a": "retinex-color"})
    with pytest.raises(ValueError, match="no method"):
        run_benchmark(IiwBenchmark(iiw), {"a": "retinex-colour"})
    (tmp_path / "weights.safetensors").write_text("no weights")
    with pytest.raises(ValueError, match=r"weights\.safetensors: is damaged"):
        run_benchmark(IiwBenchmark(iiw), {"a": str(tmp_path / "weights.safetensors")})
    for processes in (0, -1, 10**9):
        with pytest.raises(ValueError, match="processes cannot be"):
            run_benchmark(IiwBenchmark(iiw), {"a": "constant-shading"}, processes=processes)


def test_whatever_a_method_raises_is_the_reason_for_skipping(iiw: Path) -> None:
    def broken(_: Picture) -> Split:
        raise ZeroDivisionError("one\nover nothing")

    benchmark = IiwBenchmark(iiw)
    trial = tried(benchmark, benchmark.read("1"), broken, RunSettings())
    assert trial.outcome is None
    assert trial.reason == "1: ZeroDivisionError: one over nothing"


def test_a_score_that_is_no_number_is_never_kept(iiw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = IiwBenchmark(iiw)
    case = benchmark.read("1")
    monkeypatch.setattr(IiwBenchmark, "score", lambda *_: Outcome({"whdr@0.1/gamma": float("nan")}))
    trial = tried(benchmark, case, lambda p: Split(p.image, None), RunSettings())
    assert trial.outcome is None
    assert "no finite number" in trial.reason


@pytest.mark.parametrize("lower_is_better", [True, False])
def test_the_best_and_the_worst_are_kept_and_nothing_else(lower_is_better: bool) -> None:
    result = MethodResult()
    for k in np.random.default_rng(0).permutation(50):
        row = Row({})
        result.add(str(k), Trial(Outcome({"x": float(k)}), "", row=row), "x", lower_is_better=lower_is_better)
    kept = [score for score, _, _ in result.rows]
    expected = [*range(SHOWN), *range(50 - SHOWN, 50)]
    assert kept == (expected if lower_is_better else expected[::-1])
    assert len(result.outcomes) == 50


def test_small_pictures_are_small_and_show_what_is_valid() -> None:
    rng = np.random.default_rng(0)
    picture = rng.random((333, 500, 3))
    mask = np.ones((333, 500), bool)
    mask[:100] = False
    shown = small(picture, mask)
    assert max(shown.shape) <= LONGEST
    assert shown.shape[0] / shown.shape[1] == pytest.approx(333 / 500, rel=0.02)
    assert (shown[: shown.shape[0] // 4] == 0).all()
    np.testing.assert_array_equal(small(1024 * picture, mask), shown)  # its own scale
    assert small(np.full((5, 2000), np.nan)).shape == (1, 200, 3)
    truth = Split(picture, picture[..., 0])
    picture_of = Picture("a", picture.astype(np.float32))
    row = row_of(Case("a", (picture_of,), truth), [Split(picture, None)])
    assert list(row.pictures) == ["image", "reflectance", "true reflectance", "true shading"]
    frames = row_of(Case("a", (picture_of,) * 5, None), [Split(k * picture, None) for k in range(5)])
    names = ("first", "middle", "last")
    assert list(frames.pictures) == [*(f"{n} frame" for n in names), *(f"reflectance, {n}" for n in names)]
    assert [frames.pictures[f"reflectance, {n}"].any() for n in names] == [False, True, True]


def test_the_truth_of_a_set_made_here_scores_as_people_would(tmp_path: Path) -> None:
    """One judgement in ten is confused: the truth itself has a WHDR of about 0.1."""
    world = write_world(tmp_path / "world", ("a", "b", "c", "d"))
    assert write_set("iiw", world, tmp_path / "iiw") == {}
    truth = tmp_path / "truth"
    truth.mkdir()
    for k, name in enumerate(("a", "b", "c", "d"), 1):
        shutil.copy(world / name / "truth" / "reflectance.exr", truth / f"{k}-r.exr")
    benchmark = IiwBenchmark(tmp_path / "iiw", 1)
    found = run_benchmark(benchmark, {"truth": str(truth), "flat": "constant-reflectance"})
    scores = {name: result.scores(benchmark)["whdr@0.1/gamma"] for name, result in found.items()}
    assert scores["truth"] == pytest.approx(0.1, abs=0.03)
    assert scores["flat"] > 0.4
