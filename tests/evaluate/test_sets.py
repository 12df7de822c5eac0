from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.tiny_world import SIZE, write_world
from unlit.evaluate.benchmark import Split
from unlit.evaluate.iiw import IiwBenchmark
from unlit.evaluate.saw_set import SawBenchmark
from unlit.evaluate.sets import MARK, made_here, shading_labels, write_set
from unlit.evaluate.worlds import WorldsBenchmark
from unlit.image_io import ImageError, read_image

NAMES = ("a", "b", "c", "d", "e", "f")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), NAMES)


def test_an_iiw_set_has_the_distributed_layout(world: Path, tmp_path: Path) -> None:
    assert write_set("iiw", world, tmp_path / "iiw") == {}
    assert IiwBenchmark(tmp_path / "iiw").ids == ["1", "6"]
    assert IiwBenchmark(tmp_path / "iiw", 1).ids == ["1", "2", "3", "4", "5", "6"]
    picture = WorldsBenchmark(world).read("b").pictures[0]
    np.testing.assert_allclose(read_image(tmp_path / "iiw" / "2.png").pixels, picture.image, atol=0.005)
    stated = json.loads((tmp_path / "iiw" / "2.json").read_text())
    assert {"id", "x", "y", "opaque"} <= set(stated["intrinsic_points"][0])
    assert {"point1", "point2", "darker", "darker_score"} <= set(stated["intrinsic_comparisons"][0])
    assert {c["darker"] for c in stated["intrinsic_comparisons"]} == {"1", "2", "E"}


def test_one_judgement_in_ten_is_confused(world: Path, tmp_path: Path) -> None:
    write_set("iiw", world, tmp_path / "iiw")
    benchmark = IiwBenchmark(tmp_path / "iiw", 1)
    wrong = []
    for k, name in enumerate(NAMES, 1):
        truth = WorldsBenchmark(world).read(name).truth.reflectance
        scores = benchmark.score(benchmark.read(str(k)), [Split(truth, None)]).scores
        wrong.append(scores["whdr@0.1/gamma"])
    assert np.mean(wrong) == pytest.approx(0.1, abs=0.02)


def test_a_seed_gives_the_same_set_again(world: Path, tmp_path: Path) -> None:
    for place, seed in (("one", 3), ("again", 3), ("other", 4)):
        write_set("iiw", world, tmp_path / place, seed=seed)
    one, again, other = ((tmp_path / place / "1.json").read_text() for place in ("one", "again", "other"))
    assert one == again != other


def test_a_saw_set_has_the_distributed_layout_and_the_truth_does_well_on_it(world: Path, tmp_path: Path) -> None:
    assert write_set("saw", world, tmp_path / "saw") == {}
    benchmark = SawBenchmark(tmp_path / "saw", "train")
    assert benchmark.ids == ["2", "3", "4", "5"]
    assert SawBenchmark(tmp_path / "saw").ids == ["1", "6"]
    truth = [WorldsBenchmark(world).read(NAMES[int(k) - 1]).truth for k in benchmark.ids]
    flat = np.ones(SIZE)
    outcomes = {
        "truth": [
            benchmark.score(benchmark.read(k), [Split(None, t.shading)])
            for k, t in zip(benchmark.ids, truth, strict=True)
        ],
        "flat": [benchmark.score(benchmark.read(k), [Split(None, flat)]) for k in benchmark.ids],
    }
    scores = {name: benchmark.totals(o, np.ones((1, len(o))))["ap/paper"][0] for name, o in outcomes.items()}
    assert scores["truth"] > 0.98
    assert scores["flat"] == pytest.approx(0.5)


def test_shadows_and_folds_are_told_apart_by_what_all_lights_show(world: Path) -> None:
    """The plates have a fold at column 30, and shadows that end at rows 10, 19, 28 and 37 by the light."""
    case = WorldsBenchmark(world).read("c")
    labels = shading_labels(case.truth)
    assert set(np.unique(labels)) == {0, 1, 2, 100}
    fold = labels[4:-2, 29:31]
    assert (fold[fold != 100] == 0).mean() > 0.8
    rows, columns = np.nonzero(labels == 1)
    assert set(rows.tolist()) <= {row + d for row in (10, 19, 28, 37) for d in range(-5, 5)}
    _, jumps = np.nonzero(labels == 0)
    assert set(jumps.tolist()) <= set(range(25, 35))
    assert len(columns) > 20
    assert (labels[:2] == 100).all()  # masked


def test_a_set_says_that_it_compares_with_nothing(world: Path, tmp_path: Path) -> None:
    write_set("saw", world, tmp_path / "saw")
    mark = json.loads((tmp_path / "saw" / MARK).read_text())
    assert mark["comparable"] is False
    assert "made by unlit" in made_here(tmp_path / "saw")
    assert "not-comparable" in next((tmp_path / "saw" / "saw_pixel_labels").iterdir()).name
    assert made_here(tmp_path) == ""
    (tmp_path / "saw" / MARK).write_text("{")
    assert "damaged" in made_here(tmp_path / "saw")


def test_what_cannot_be_made_is_named(tmp_path: Path) -> None:
    world = write_world(tmp_path / "world", ("a", "b"))
    (world / "a" / "truth" / "reflectance.exr").unlink()
    assert list(write_set("iiw", world, tmp_path / "iiw")) == ["a"]
    assert IiwBenchmark(tmp_path / "iiw", 1).ids == ["2"]
    with pytest.raises(ValueError, match="empty folder"):
        write_set("iiw", world, tmp_path / "iiw")
    (world / "b" / "truth" / "reflectance.exr").unlink()
    with pytest.raises(ValueError, match="no picture could be made"):
        write_set("iiw", world, tmp_path / "other")


def test_a_set_appears_whole_or_not_at_all(world: Path, tmp_path: Path) -> None:
    def stop(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_set("iiw", world, tmp_path / "iiw", progress=stop)
    assert not list(tmp_path.iterdir())
    write_set("iiw", world, tmp_path / "iiw")
    assert [p.name for p in tmp_path.iterdir()] == ["iiw"]


def test_wrong_seeds_and_places_are_refused(world: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="seed cannot be -1; give 0 or more"):
        write_set("iiw", world, tmp_path / "iiw", seed=-1)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot be written to .* choose another place"):
        write_set("iiw", world, tmp_path / "file" / "iiw")


def test_a_full_disk_is_a_failure_and_no_reason_to_leave_a_picture_out(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise ImageError(path, "cannot be written", "make room")

    monkeypatch.setattr("unlit.evaluate.sets.write_image", full)
    with pytest.raises(OSError, match="cannot be written"):
        write_set("iiw", world, tmp_path / "iiw")
    assert not list(tmp_path.iterdir())
