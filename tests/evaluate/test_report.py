from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from PIL import Image

from tests.evaluate.tiny_world import write_world
from unlit.evaluate.benchmark import Benchmark
from unlit.evaluate.opening import Name, open_benchmark
from unlit.evaluate.plot import COLORS, Axis, write_plot
from unlit.evaluate.published import PUBLISHED
from unlit.evaluate.report import Heading, commit, file_names, write_report
from unlit.evaluate.running import MethodResult, run_benchmark
from unlit.evaluate.sets import made_here, write_set
from unlit.image_io import write_image

METHODS = {"retinex": "retinex-color", "flat": "constant-reflectance"}
HEADING = Heading("unlit evaluate ...", "abc123")


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of each, with a damaged case."""
    root = tmp_path_factory.mktemp("sets")
    write_world(root / "worlds", ("a", "b", "c"))
    for kind in ("iiw", "saw"):
        write_set(kind, root / "worlds", root / kind)
    (root / "iiw" / "2.json").unlink()
    (root / "saw" / "saw_images_512" / "3.png").unlink()
    for name in ("cup2", "pear"):
        write_object(root / "mit" / name)
    (root / "mit" / "pear" / "mask.png").unlink()
    (root / "sequences").symlink_to(root / "worlds")
    return {name: root / name for name in ("iiw", "saw", "mit", "worlds", "sequences")}


def write_object(folder: Path) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    reflectance, shading = rng.uniform(0.2, 1, (24, 30, 3)), rng.uniform(0.2, 1, (24, 30, 1))
    pictures = {"reflectance": reflectance, "shading": shading.repeat(3, 2), "mask": np.ones((24, 30, 3))}
    pictures |= {"diffuse": reflectance * shading, "light01": reflectance * shading, "light02": 0.5 * reflectance}
    for name, pixels in pictures.items():
        write_image(folder / f"{name}.png", pixels.astype(np.float32), encoding="linear", bits=16)


def run(name: Name, sets: dict[str, Path], out: Path) -> tuple[Benchmark, dict[str, MethodResult]]:
    split = {"iiw": "all", "saw": "train", "mit": None, "worlds": None, "sequences": None}[name]
    benchmark = open_benchmark(name, sets[name], split)
    results = run_benchmark(benchmark, METHODS)
    write_report(out, benchmark, results, Heading("unlit evaluate ...", "abc123", made_here(sets[name])))
    return benchmark, results


KEYS = {
    "iiw": {"whdr@0.1/gamma", "whdr@0.1/linear", "whdr@0.2/gamma", "whdr@0.2/linear"},
    "saw": {"ap/paper", "ap/original", "ap/challenge"},
    "mit": {
        f"{mean}{m}/{part}"
        for mean in ("", "geometric/")
        for m in ("mse", "lmse", "dssim")
        for part in ("reflectance", "shading")
    },
    "sequences": {"consistency", "contrast"},
}
KEYS["worlds"] = KEYS["mit"] | KEYS["iiw"]


@pytest.mark.parametrize("name", ["iiw", "saw", "mit", "worlds", "sequences"])
def test_the_record_is_as_promised(name: Name, sets: dict[str, Path], tmp_path: Path) -> None:
    _, results = run(name, sets, tmp_path)
    record = json.loads((tmp_path / "report.json").read_text())
    assert set(record) == {"benchmark", "command", "commit", "data", "methods"}
    assert (record["benchmark"], record["command"], record["commit"]) == (name, "unlit evaluate ...", "abc123")
    assert record["data"] == str(sets[name])
    assert set(record["methods"]) == set(METHODS)
    for method, entry in record["methods"].items():
        assert set(entry) == {"scores", "images", "skipped"}
        assert set(entry["scores"]) == KEYS[name]
        assert entry["images"] == {k: dict(o.scores) for k, o in results[method].outcomes.items()}
        assert entry["skipped"] == results[method].skipped
        damaged = {"iiw": ["2"], "saw": ["3"], "mit": ["pear"]}.get(name, [])
        assert list(entry["skipped"]) == damaged


@pytest.mark.parametrize("name", ["iiw", "saw", "mit", "worlds", "sequences"])
def test_the_text_names_every_score_every_file_and_everything_skipped(
    name: Name, sets: dict[str, Path], tmp_path: Path
) -> None:
    run(name, sets, tmp_path)
    text = (tmp_path / "report.md").read_text()
    for key in KEYS[name]:
        assert f"| {key} |" in text
    pictures = re.findall(r"!\[.*\]\((.*)\)", text)
    assert set(pictures) == {path.name for path in tmp_path.glob("*.png")}
    assert len(pictures) >= 3
    for picture in pictures:
        with Image.open(tmp_path / picture) as opened:
            assert np.asarray(opened).std() > 5
    for entry in json.loads((tmp_path / "report.json").read_text())["methods"].values():
        for case_id, reason in entry["skipped"].items():
            assert f"| {case_id} | {reason} |" in text


def test_scores_are_the_means_over_images(sets: dict[str, Path], tmp_path: Path) -> None:
    run("worlds", sets, tmp_path)
    for entry in json.loads((tmp_path / "report.json").read_text())["methods"].values():
        for key in ("mse/shading", "whdr@0.2/linear"):
            assert entry["scores"][key] == pytest.approx(np.mean([i[key] for i in entry["images"].values()]))
    with (tmp_path / "images.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows] == ["a", "b", "c", "a", "b", "c"]
    assert float(rows[0]["mse/shading"]) > 0


def test_intervals_stand_beside_the_scores(sets: dict[str, Path], tmp_path: Path) -> None:
    run("worlds", sets, tmp_path)
    intervals = json.loads((tmp_path / "intervals.json").read_text())
    assert (intervals["level"], intervals["draws"]) == (0.95, 1000)
    scores = json.loads((tmp_path / "report.json").read_text())["methods"]
    for method, entry in scores.items():
        for key, score in entry["scores"].items():
            low, high = intervals["methods"][method][key]
            assert low <= score <= high


def test_published_rows_stand_beside_ours_and_say_what_they_are(sets: dict[str, Path], tmp_path: Path) -> None:
    run("mit", sets, tmp_path)
    text = (tmp_path / "report.md").read_text()
    row = next(line for line in text.splitlines() if "SIRFS" in line)
    assert "0.0147 | 0.0083 | published, not measured" in row
    assert "ten test objects. These are others" in text
    assert not any("published, not measured" in line for line in text.splitlines() if line.startswith("| retinex"))


@pytest.mark.parametrize("name", get_args(Name))
def test_no_table_has_a_column_without_a_name_or_without_content(
    name: Name, sets: dict[str, Path], tmp_path: Path
) -> None:
    run(name, sets, tmp_path)
    for table in re.findall(r"(?:^\|.*\n)+", (tmp_path / "report.md").read_text(), re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
        assert all(head)
        assert all(any(row[k] for row in rows) for k in range(len(head)))


@pytest.mark.parametrize("name", ["iiw", "saw"])
def test_a_set_made_here_has_no_published_rows_beside_it(name: Name, sets: dict[str, Path], tmp_path: Path) -> None:
    benchmark, results = run(name, sets, tmp_path / "made")
    text = (tmp_path / "made" / "report.md").read_text()
    assert "Not comparable with published figures" in text
    assert "published, not measured" not in text
    write_report(tmp_path / "real", benchmark, results, HEADING)  # the same, if it were the original
    text = (tmp_path / "real" / "report.md").read_text()
    assert all(f"| {published} |" in text for published in PUBLISHED[name])


def test_the_published_rows_are_those_of_the_paper() -> None:
    assert PUBLISHED["iiw"]["Li & Snavely 2018, BigTime"] == {"whdr@0.1/gamma": 0.203}
    assert PUBLISHED["saw"]["Bell et al. 2014"] == {"ap/paper": 0.9737}
    assert PUBLISHED["mit"]["Shi et al. 2016, with ground truth"]["lmse/shading"] == 0.0240


def test_precision_and_recall_are_written_down(sets: dict[str, Path], tmp_path: Path) -> None:
    run("saw", sets, tmp_path)
    curves = json.loads((tmp_path / "curves.json").read_text())
    for key, length in (("ap/paper", 400), ("ap/original", 200), ("ap/challenge", 400)):
        assert {len(values) for values in curves["retinex"][key].values()} == {length}
        for method in METHODS:
            assert (np.diff(curves[method][key]["recall"]) >= 0).all()  # a higher threshold calls more smooth
            assert curves[method][key]["recall"][-1] > 0.9


def test_a_method_that_was_scored_on_nothing_still_has_its_row(sets: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    benchmark = open_benchmark("iiw", sets["iiw"], "all")
    results = run_benchmark(benchmark, {"none": str(tmp_path / "none")})
    record = write_report(tmp_path / "out", benchmark, results, HEADING)
    assert record["methods"]["none"]["scores"] == {}
    assert len(record["methods"]["none"]["skipped"]) == 3
    assert "| none | 0 | 3 | 0 |" in (tmp_path / "out" / "report.md").read_text()


def test_a_plot_shows_its_curves(tmp_path: Path) -> None:
    write_plot(
        tmp_path / "p.png", "title", Axis("x", 0, 2), Axis("y"), {"a": ([0, 2], [0, 1]), "b": ([0, 2], [0.5, 0.5])}
    )
    pixels = np.asarray(Image.open(tmp_path / "p.png")).astype(int)
    for color in COLORS[:2]:
        assert (np.abs(pixels - color).max(axis=-1) < 40).sum() > 250
    assert not (np.abs(pixels - COLORS[2]).max(axis=-1) < 40).any()


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.4, 1, [0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]),
        (0, 0.037, [0, 0.01, 0.02, 0.03]),
    ],
)
def test_axes_have_round_marks(low: float, high: float, ticks: list[float]) -> None:
    assert Axis("x", low, high).ticks() == pytest.approx(ticks)
    assert len(Axis("x", 0, 123.4).ticks()) < 9


def test_names_of_methods_become_names_of_files() -> None:
    assert file_names(["a/b c"]) == ["a-b-c"]
    assert file_names(["../..", "..."]) == ["-..", "method"]
    assert file_names(["a b", "a-b", "A B", "a/b"]) == ["a-b", "a-b-2", "A-B-3", "a-b-4"]
    assert len(file_names(["x" * 300])[0]) < 200


def test_a_report_appears_whole_and_one_that_fails_leaves_the_earlier_one(
    sets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark, results = run("iiw", sets, tmp_path / "out")
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}

    def full(*_: object) -> list[str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unlit.evaluate.report.write_curves", full)
    for place in ("out", "new"):
        with pytest.raises(OSError, match=rf"{place}: the report cannot be written \(No space left on device\)"):
            write_report(tmp_path / place, benchmark, results, Heading("another command", "abc123"))
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    assert not list((tmp_path / "new").iterdir())


def test_the_commit_is_that_of_unlit_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLIT_COMMIT", "from elsewhere")
    assert commit() == "from elsewhere"
    monkeypatch.delenv("UNLIT_COMMIT")
    assert commit()
    asked: list[list[str]] = []
    real = subprocess.run

    def noted(words: list[str], **more: Any) -> Any:
        asked.append(words)
        return real(words, **more)

    monkeypatch.setattr(subprocess, "run", noted)
    assert commit()
    assert all("--no-optional-locks" in words for words in asked), "a report changes nothing in the repository"
    monkeypatch.setenv("PATH", "")
    assert commit().startswith("unlit ")


@pytest.mark.parametrize("ratio", [1.0, float("nan"), float("inf"), 1e300])
def test_thresholds_that_cannot_be_are_refused(ratio: float, sets: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match=r"largest ratio must be .*; take 8 or 64"):
        open_benchmark("saw", sets["saw"], largest_ratio=ratio)
