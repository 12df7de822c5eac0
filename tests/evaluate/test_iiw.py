from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import iiw as reference
from unlit.data.judgements import read_judgements
from unlit.evaluate.benchmark import Split
from unlit.evaluate.iiw import Comparisons, IiwBenchmark, comparisons_of, numeric_ids, whdr, whdr_scores
from unlit.image_io import write_image


def judgements(rng: np.random.Generator, points: int = 9, comparisons: int = 30) -> dict[str, Any]:
    """Random ones, with all that does not count among them."""
    return {
        "intrinsic_points": [
            {"id": 10 + k, "x": float(rng.random()), "y": float(rng.random()), "opaque": bool(rng.random() < 0.8)}
            for k in range(points)
        ],
        "intrinsic_comparisons": [
            {
                "id": k,
                "point1": 10 + int(rng.integers(points)),
                "point2": 10 + int(rng.integers(points)),
                "darker": ["1", "2", "E", None][int(rng.integers(4))],
                "darker_score": [None, 0.0, -1.0, 0.5, 2.0][int(rng.integers(5))],
            }
            for k in range(comparisons)
        ],
    }


def read(stated: dict[str, Any], folder: Path, size: tuple[int, int]) -> Comparisons:
    file = folder / "j.json"
    file.write_text(json.dumps(stated))
    return comparisons_of(read_judgements(file, size), size)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), h=st.integers(1, 30), w=st.integers(1, 30))
def test_whdr_is_its_definition(seed: int, h: int, w: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = np.random.default_rng(seed)
    reflectance = rng.choice([0.0, 0.1, 0.11, 0.12, 0.125, 0.5, 1.0], (h, w, 3)) * rng.choice(
        [0.0, 1.0, 1.1], (h, w, 1)
    )
    stated = judgements(rng)
    comparisons = read(stated, tmp_path_factory.mktemp("j"), (h, w))
    for delta in (0.1, 0.2):
        for encoding in ("gamma", "linear"):
            expected = reference.whdr(reflectance, stated, delta, encoding)
            if expected is None:
                with pytest.raises(ValueError, match="no comparison counts"):
                    whdr(reflectance, comparisons, (h, w), delta, encoding)
            else:
                assert whdr_scores(reflectance, comparisons, (h, w))[f"whdr@{delta}/{encoding}"] == pytest.approx(
                    expected
                )


def one(darker: int, weight: float = 1.0) -> Comparisons:
    return Comparisons(np.array([[0, 0]]), np.array([[0, 1]]), np.array([darker]), np.array([weight]))


@pytest.mark.parametrize(
    ("lightness", "delta", "answer"),
    [
        ((1.0, 1.25), 0.25, 0),  # exactly 1 + δ is still equal
        ((1.25, 1.0), 0.25, 0),
        ((1.0, np.nextafter(1.25, 2)), 0.25, 1),
        ((np.nextafter(1.25, 2), 1.0), 0.25, 2),
        ((1.0, 1.1), 0.1, 0),
        ((0.0, 0.0), 0.1, 0),  # black beside black is equal, not a division by zero
        ((0.0, 1e-9), 0.1, 1),
        ((0.0, 1e-11), 0.1, 0),  # both are below the floor of 1e-10
    ],
)
def test_ties_and_black_are_as_worked_out(lightness: tuple[float, float], delta: float, answer: int) -> None:
    reflectance = np.repeat(np.array([lightness])[..., None], 3, axis=-1)
    for said in (0, 1, 2):
        assert whdr(reflectance, one(said), (1, 2), delta, "linear") == float(said != answer)


def test_the_gamma_makes_near_surfaces_equal() -> None:
    # 1.2^(1/2.2) = 1.086: equal once encoded, different in linear light.
    reflectance = np.repeat(np.array([[1.0, 1.2]])[..., None], 3, axis=-1)
    assert whdr(reflectance, one(1), (1, 2), 0.1, "linear") == 0
    assert whdr(reflectance, one(1), (1, 2), 0.1, "gamma") == 1
    assert whdr(reflectance, one(0), (1, 2), 0.1, "gamma") == 0


def test_lightness_is_the_mean_of_the_channels_after_encoding() -> None:
    # Linear: 1/3 beside 1/3. Encoded: 1/3 beside (1/3)^(1/2.2) = 0.607.
    reflectance = np.array([[[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]]])
    assert whdr(reflectance, one(0), (1, 2), 0.1, "linear") == 0
    assert whdr(reflectance, one(1), (1, 2), 0.1, "gamma") == 0


def test_weights_weigh_and_a_scale_does_not_matter() -> None:
    # From left to right: darker, equal, lighter. People say that the first is darker each time.
    reflectance = np.repeat(np.array([[0.1, 0.5, 0.5, 0.2]])[..., None], 3, axis=-1)
    first, second = (np.array([[0, k + step] for k in range(3)]) for step in (0, 1))
    said = Comparisons(first, second, np.array([1, 1, 1]), np.array([1.0, 2.0, 5.0]))
    assert whdr(reflectance, said, (1, 4), 0.1, "gamma") == 7 / 8
    assert whdr(7 * reflectance, said, (1, 4), 0.1, "gamma") == 7 / 8


def test_a_constant_reflectance_is_right_where_people_say_equal() -> None:
    rng = np.random.default_rng(1)
    darker = rng.integers(0, 3, 200)
    weight = rng.random(200)
    places = rng.integers(0, 8, (2, 200, 2))
    said = Comparisons(places[0], places[1], darker, weight)
    expected = weight[darker != 0].sum() / weight.sum()
    for score in whdr_scores(np.full((8, 8, 3), 0.3), said, (8, 8)).values():
        assert score == pytest.approx(expected)


def test_a_reflectance_of_another_size_is_resized_bilinearly() -> None:
    # Two pixels, 0 and 1, over four: 0, 0.25, 0.75, 1.
    reflectance = np.repeat(np.array([[0.0, 1.0]])[..., None], 3, axis=-1)
    said = Comparisons(np.array([[0, 1]]), np.array([[0, 2]]), np.array([1]), np.array([1.0]))
    assert whdr(reflectance, said, (1, 4), 1.9, "linear") == 0  # a ratio of 3
    assert whdr(reflectance, said, (1, 4), 2.1, "linear") == 1


def write_case(folder: Path, number: int, stated: dict[str, Any] | None = None) -> None:
    rng = np.random.default_rng(number)
    write_image(folder / f"{number}.png", rng.random((12, 16, 3), dtype=np.float32))
    (folder / f"{number}.json").write_text(json.dumps(stated or judgements(rng, 9, 60)))


def test_the_test_list_is_every_fifth_in_numeric_order(tmp_path: Path) -> None:
    for number in (1, 2, 9, 10, 11, 100, 101, 117, 1000, 1001, 9999):
        (tmp_path / f"{number}.json").touch()
    (tmp_path / "117-r.png").touch()
    (tmp_path / "notes.json").touch()
    assert IiwBenchmark(tmp_path).ids == ["1", "100", "9999"]
    # A picture whose judgements are missing keeps its place, so that the list stays the same.
    (tmp_path / "9.json").unlink()
    (tmp_path / "9.png").touch()
    assert IiwBenchmark(tmp_path).ids == ["1", "100", "9999"]
    assert len(numeric_ids(tmp_path)) == 11


def test_a_case_is_read_and_scored(tmp_path: Path) -> None:
    write_case(tmp_path, 7)
    benchmark = IiwBenchmark(tmp_path)
    case = benchmark.read("7")
    reflectance = np.random.default_rng(3).random((12, 16, 3))
    outcome = benchmark.score(case, [Split(reflectance, None)])
    stated = json.loads((tmp_path / "7.json").read_text())
    assert outcome.scores["whdr@0.2/linear"] == pytest.approx(reference.whdr(reflectance, stated, 0.2, "linear"))
    assert set(outcome.scores) == {"whdr@0.1/gamma", "whdr@0.1/linear", "whdr@0.2/gamma", "whdr@0.2/linear"}


@pytest.mark.parametrize("point", [{"x": 1.2, "y": 0.5}, {"x": 0.5, "y": -0.1}, {"x": float("nan"), "y": 0.5}])
def test_a_judgement_outside_the_image_is_named(tmp_path: Path, point: dict[str, float]) -> None:
    stated = judgements(np.random.default_rng(0))
    stated["intrinsic_points"][3] |= point
    write_case(tmp_path, 7, stated)
    with pytest.raises(ValueError, match=r"7\.json.*outside"):
        IiwBenchmark(tmp_path).read("7")


def test_an_image_without_judgements_that_count_is_named(tmp_path: Path) -> None:
    stated = judgements(np.random.default_rng(0))
    for k, comparison in enumerate(stated["intrinsic_comparisons"]):
        comparison["darker_score"] = [0.0, None][k % 2]
    write_case(tmp_path, 7, stated)
    with pytest.raises(ValueError, match=r"7\.json.*no comparison"):
        IiwBenchmark(tmp_path).read("7")
    write_case(tmp_path, 8, {"intrinsic_points": [], "intrinsic_comparisons": []})
    with pytest.raises(ValueError, match=r"8\.json.*no comparison"):
        IiwBenchmark(tmp_path).read("8")
