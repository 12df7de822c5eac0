from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.evaluate.tiny_world import write_world
from tests.predict.weights import write_weights
from tests.test_cli import run
from unlit.evaluate import running, unfinished
from unlit.evaluate.opening import Name, open_benchmark
from unlit.evaluate.running import RunSettings, run_benchmark
from unlit.evaluate.sets import write_set
from unlit.evaluate.unfinished import FILE, Unfinished
from unlit.evaluate.worlds import WorldsBenchmark
from unlit.predict import network

METHODS = {"retinex": "retinex-color", "flat": "constant-reflectance"}
SPLITS = {"worlds": "all", "iiw": "all", "saw": "train", "sequences": None}


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets of five or six cases; one of IIW's is damaged."""
    root = tmp_path_factory.mktemp("sets")
    write_world(root / "worlds", tuple("abcdef"))
    for kind in ("iiw", "saw"):
        write_set(kind, root / "worlds", root / kind)
    (root / "iiw" / "2.json").unlink()
    (root / "sequences").symlink_to(root / "worlds")
    return root


@contextmanager
def interrupted_after(count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let a run end as by ctrl-c after so many cases; yields those that were worked on."""
    tried: list[str] = []
    work = running._tried_case

    def counted(case_id: str) -> Any:
        if len(tried) == count:
            raise KeyboardInterrupt
        tried.append(case_id)
        return work(case_id)

    with monkeypatch.context() as patch:
        patch.setattr(running, "_tried_case", counted)
        yield tried


@pytest.mark.parametrize("name", list(SPLITS))
def test_a_run_that_was_interrupted_ends_with_the_numbers_of_one_that_was_not(
    name: Name, sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = open_benchmark(name, sets / name, SPLITS[name])
    whole = run_benchmark(benchmark, METHODS)

    def begun(*, resume: bool) -> Unfinished:
        return Unfinished(tmp_path, benchmark, METHODS, RunSettings(), resume=resume)

    with interrupted_after(3, monkeypatch) as tried, pytest.raises(KeyboardInterrupt):
        run_benchmark(benchmark, METHODS, unfinished=begun(resume=False))
    with interrupted_after(99, monkeypatch) as rest:
        steps: list[int] = []
        found = run_benchmark(
            benchmark, METHODS, unfinished=begun(resume=True), progress=lambda done, _: steps.append(done)
        )
    assert [*tried, *rest] == list(benchmark.ids)
    assert steps[0] == 4
    for method, result in found.items():
        expected = whole[method]
        assert list(result.outcomes) == list(expected.outcomes)
        assert (result.skipped, result.resized) == (expected.skipped, expected.resized)
        assert result.scores(benchmark) == expected.scores(benchmark)
        assert result.seconds > 0
        for (score, case_id, row), (true_score, true_id, true_row) in zip(result.rows, expected.rows, strict=True):
            assert (score, case_id) == (true_score, true_id)
            assert all((row.pictures[key] == true_row.pictures[key]).all() for key in true_row.pictures)


def test_what_is_found_is_kept_as_the_run_goes(sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed says nothing at its end."""
    benchmark = open_benchmark("worlds", sets / "worlds")
    monkeypatch.setattr(unfinished, "EVERY", 0.0)
    kept = Unfinished(tmp_path, benchmark, METHODS, RunSettings(), resume=False)
    counts = []

    def look(*_: int) -> None:
        found = Unfinished(tmp_path, benchmark, METHODS, RunSettings(), resume=True)
        counts.append(found.results["flat"].count)

    run_benchmark(benchmark, METHODS, unfinished=kept, progress=look)
    assert counts == [1, 2, 3, 4, 5, 6]


def test_the_command_goes_on_where_it_was_interrupted(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("evaluate", "worlds", "--data", sets / "worlds", "--method", "constant-shading", "--quiet")
    out = tmp_path / "out"
    with interrupted_after(2, monkeypatch):
        assert run(*words, "--out", out) == 1
    assert "unlit: interrupted: 2 images are kept; go on with --resume" in capfd.readouterr().err
    assert [path.name for path in out.iterdir()] == [FILE]
    assert run(*words, "--out", out) == 2
    assert "say --resume to go on, or --force" in capfd.readouterr().err
    with interrupted_after(99, monkeypatch) as rest:
        assert run(*words, "--out", out, "--resume") == 0
    assert rest == list("cdef")
    assert run(*words, "--out", tmp_path / "whole") == 0
    assert not (out / FILE).exists()
    assert (out / "images.csv").read_text() == (tmp_path / "whole" / "images.csv").read_text()
    assert (out / "intervals.json").read_text() == (tmp_path / "whole" / "intervals.json").read_text()
    assert run(*words, "--out", out, "--resume") == 2
    assert "has no run that was interrupted" in capfd.readouterr().err


def test_another_run_is_not_gone_on_with(sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = write_weights(tmp_path / "net.safetensors")
    benchmark = open_benchmark("worlds", sets / "worlds")
    methods = {"net": str(weights), "flat": "constant-shading"}

    def resumed(chosen: Any = benchmark, settings: RunSettings | None = None, **other: str) -> Unfinished:
        return Unfinished(tmp_path, chosen, methods | other, settings or RunSettings(), resume=True)

    begun = Unfinished(tmp_path, benchmark, methods, RunSettings(), resume=False)
    run_benchmark(benchmark, methods, RunSettings(device="cpu"), unfinished=begun)
    resumed()
    with pytest.raises(ValueError, match=r"its methods changed from .* to .*retinex-color.*; resume it unchanged"):
        resumed(flat="retinex-color")
    with pytest.raises(ValueError, match="its benchmark changed"):
        resumed(open_benchmark("worlds", sets / "worlds", "train"))
    with pytest.raises(ValueError, match="its encoding changed"):
        resumed(settings=RunSettings("linear"))
    with monkeypatch.context() as patch:
        patch.setattr(WorldsBenchmark, "ids", list("abcdeg"))
        with pytest.raises(ValueError, match="its set changed from 6 images"):
            resumed()
    write_weights(weights, spread=0.1)
    with pytest.raises(ValueError, match="its methods changed"):
        resumed()
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-100])
    with pytest.raises(ValueError, match="is damaged; say --force"):
        resumed()


def test_a_disk_that_is_full_costs_the_file_and_not_the_run(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(unfinished, "replace_durably", full)
    benchmark = open_benchmark("worlds", sets / "worlds")
    kept = Unfinished(tmp_path, benchmark, METHODS, RunSettings(), resume=False)
    found = run_benchmark(benchmark, METHODS, unfinished=kept)
    assert np.isfinite(list(found["flat"].scores(benchmark).values())).all()
    assert (kept.count, kept.kept) == (6, 0)


def test_what_could_not_be_kept_is_not_said_to_be(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(unfinished, "replace_durably", full)
    words = ("evaluate", "worlds", "--data", sets / "worlds", "--method", "constant-shading", "--quiet")
    with interrupted_after(2, monkeypatch):
        assert run(*words, "--out", tmp_path / "out") == 1
    said = capfd.readouterr().err
    assert "interrupted" in said
    assert "kept" not in said


def test_other_weights_of_the_package_are_another_method(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = open_benchmark("worlds", sets / "worlds")
    begun = Unfinished(tmp_path, benchmark, {"net": "default"}, RunSettings(), resume=False)
    begun.results["net"].skipped["a"] = "for no reason"
    begun.write()
    Unfinished(tmp_path, benchmark, {"net": "default"}, RunSettings(), resume=True)
    monkeypatch.setattr(network, "DEFAULT_WEIGHTS", write_weights(tmp_path / "net.safetensors"))
    with pytest.raises(ValueError, match="its methods changed"):
        Unfinished(tmp_path, benchmark, {"net": "default"}, RunSettings(), resume=True)
    monkeypatch.setattr(network, "DEFAULT_WEIGHTS", tmp_path / "none.safetensors")
    missing = Unfinished(tmp_path, benchmark, {"net": "default"}, RunSettings(), resume=False)
    with pytest.raises(ValueError, match="this copy has no default model"):
        run_benchmark(benchmark, {"net": "default"}, unfinished=missing)
