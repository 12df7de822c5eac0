from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.reference import saw as reference
from unlit.color import linear_to_srgb
from unlit.evaluate.benchmark import Outcome, Split
from unlit.evaluate.saw import WAYS, Way, average_precision, confusion, gradient_magnitude, precision_recall, thresholds
from unlit.evaluate.saw_set import SawBenchmark
from unlit.image_io import write_image

EACH_WAY = pytest.mark.parametrize("way", WAYS)


def case(seed: int, size: tuple[int, int] = (9, 12)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shading, labels and photograph at random; shading with values that sit on thresholds and below the floor."""
    rng = np.random.default_rng(seed)
    shading = np.exp(rng.normal(0, 0.3, (*size, 1))) * np.array([1.1, 1.0, 0.9])
    shading[rng.random(size) < 0.1] = 0.0
    labels = rng.choice([0, 1, 2, 2, 100], size).astype(np.uint8)
    return shading, labels, rng.random((*size, 3))


@EACH_WAY
def test_thresholds_are_those_of_the_protocol(way: Way) -> None:
    np.testing.assert_allclose(thresholds(way), reference.thresholds(way), rtol=1e-12)
    assert len(thresholds(way)) == (200 if way == "original" else 400)
    assert (np.diff(thresholds(way)) >= 0).all()


def test_later_work_ends_at_another_threshold() -> None:
    assert thresholds("paper", 64)[-1] == pytest.approx(np.log(64))
    assert thresholds("paper", 64)[0] == thresholds("paper")[0]


def test_the_gradient_is_sobels() -> None:
    image = np.random.default_rng(0).random((6, 5))
    np.testing.assert_allclose(gradient_magnitude(image), reference.gradient(image), rtol=1e-12)
    # A ramp of 1 a pixel has 8: Sobel's filters are not divided by their sum.
    assert gradient_magnitude(np.arange(5.0)[None].repeat(5, 0))[2, 2] == 8


@EACH_WAY
def test_average_precision_is_its_definition(way: Way) -> None:
    cases = [case(seed, size) for seed, size in enumerate([(9, 12), (12, 7), (1, 5)])]
    slow = [reference.confusions(*one, way) for one in cases]
    fast = [confusion(*one, way) for one in cases]
    for images, table in zip(slow, fast, strict=True):
        called = np.array([[row[1] for row in t] for t in images])
        np.testing.assert_allclose(table[:-1], called, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(table[-1], np.array(images[0]).sum(axis=1), rtol=1e-9)
    assert float(average_precision(sum(fast, np.zeros(1)))) == pytest.approx(
        reference.average_precision(slow), rel=1e-9
    )


def test_values_exactly_at_a_threshold_are_not_below_it() -> None:
    # Ramps of 1 and of 2 a pixel: normalised, the gradient of the first is one half, and so is one of the thresholds.
    shading = np.concatenate([np.arange(20.0), 20 + 2 * np.arange(20.0)])[None].repeat(20, 0)
    labels = np.full((20, 40), 100, np.uint8)
    labels[10, 8] = 2
    levels = thresholds("original")
    table = confusion(shading, labels, np.zeros((20, 40, 3)), "original")
    assert 0.5 in levels
    assert table[:-1, 2].tolist() == [float(level > 0.5) for level in levels]


def test_perfect_shading_has_an_average_precision_of_nearly_one() -> None:
    # A step of 100 between two halves that are flat: called smooth at every threshold, the step at none.
    shading = np.ones((30, 40))
    shading[:, 20:] = 100
    labels = np.full((30, 40), 2, np.uint8)
    labels[:, 19:21] = 0
    labels[:, 10:19] = 100
    labels[:, 21:30] = 100
    image = np.random.default_rng(0).random((30, 40, 3))
    for way in WAYS:
        table = confusion(shading, labels, image, way)
        precision, recall = precision_recall(table)
        assert precision[0] == recall[0] == 1
        # The protocol's last point, (1, 0.5), adds nothing at a recall of 1.
        assert average_precision(table) == pytest.approx(1.0)


def test_a_constant_shading_calls_everything_smooth() -> None:
    _, labels, image = case(0)
    for way in WAYS:
        precision, recall = precision_recall(confusion(np.ones(labels.shape), labels, image, way))
        # Smooth pixels have half of the weight whatever their number: a precision of 2 / (1 + 1 + 2).
        np.testing.assert_allclose(precision, 0.5)
        np.testing.assert_allclose(recall, 1)
        assert average_precision(confusion(np.ones(labels.shape), labels, image, way)) == pytest.approx(0.5)


def test_a_set_of_one_class_is_as_worked_out() -> None:
    shading, labels, image = case(1)
    smooth = np.where(labels == 2, 2, 100)
    table = confusion(shading, smooth, image, "paper")
    precision, recall = precision_recall(table)
    assert (precision == 1).all()  # nothing else is there to be called smooth wrongly
    # From the last recall r at a precision of 1 the curve goes down to (1, 0.5).
    assert average_precision(table) == pytest.approx(recall[-1] + (1 - recall[-1]) * 0.75)
    rough = np.where(labels < 2, labels, 100)
    assert np.isnan(average_precision(confusion(shading, rough, image, "paper")))


def test_a_missing_class_counts_for_nothing() -> None:
    shading, labels, image = case(2)
    labels[labels == 1] = 100
    precision, _ = precision_recall(confusion(np.ones(labels.shape), labels, image, "paper"))
    np.testing.assert_allclose(precision, 2 / 3)
    np.testing.assert_allclose(
        float(average_precision(confusion(shading, labels, image, "paper"))),
        reference.average_precision([reference.confusions(shading, labels, image, "paper")]),
    )


def test_the_window_counts_for_other_classes_only_in_the_paper_s_way_and_for_all_in_the_original() -> None:
    shading = np.ones((21, 21))
    shading[:, 10:] = 2.0
    labels = np.full((21, 21), 100, np.uint8)
    labels[4, 7], labels[14, 7] = 2, 0  # three pixels beside the step: flat, but the window reaches it
    image = np.ones((21, 21, 3))
    last = {way: confusion(shading, labels, image, way)[0] for way in ("paper", "original")}  # the lowest threshold
    assert last["paper"].tolist() == [0, 0, 1]
    assert last["original"].tolist() == [0, 0, 0]


def test_the_challenge_weighs_regions_by_the_picture_s_gradient() -> None:
    labels = np.full((12, 24), 100, np.uint8)
    labels[2:10, 2:10], labels[2:10, 14:22] = 2, 2
    image = np.zeros((12, 24, 3))
    image[:, 12:] = np.random.default_rng(0).random((12, 12, 1))
    shading = np.ones((12, 24))
    shading[:, 12:] = np.random.default_rng(1).random((12, 12)) + 0.1
    # The left region, 64 pixels, is flat in the picture and weighs nothing; the right one is not smooth in the shading.
    paper, challenge = (confusion(shading, labels, image, way) for way in ("paper", "challenge"))
    assert paper[0, 2] == 64
    assert paper[-1, 2] == 128
    assert challenge[0, 2] == 0
    assert challenge[-1, 2] == pytest.approx(gradient_magnitude(image.mean(axis=-1))[2:10, 14:22].sum())


def test_a_scale_of_the_shading_does_not_matter_above_the_floor() -> None:
    rng = np.random.default_rng(0)
    shading, labels, image = np.exp(rng.normal(size=(9, 9))), rng.choice([0, 1, 2], (9, 9)), rng.random((9, 9, 3))
    for way in WAYS:
        expected = confusion(shading, labels, image, way)
        np.testing.assert_array_equal(confusion(4.0 * shading, labels, image, way), expected)


def test_wrong_labels_and_sizes_are_refused() -> None:
    shading, labels, image = case(0)
    with pytest.raises(ValueError, match="shape"):
        confusion(shading[:-1], labels, image, "paper")
    with pytest.raises(ValueError, match="labels have 3"):
        confusion(shading, np.where(labels == 2, 3, labels), image, "paper")


def write_saw(folder: Path, count: int = 3) -> None:
    for part in ("saw_images_512", "saw_splits", "saw_pixel_labels/saw_data-filter_size_0-ignore_border_0.05"):
        (folder / part).mkdir(parents=True)
    for number in range(1, count + 1):
        _, labels, image = case(number)
        write_image(folder / "saw_images_512" / f"{number}.png", image.astype(np.float32))
        np.save(folder / "saw_pixel_labels/saw_data-filter_size_0-ignore_border_0.05" / f"{number}.npy", labels)
    for split, chosen in (("train", [2]), ("val", []), ("test", [1, 3])):
        np.save(folder / "saw_splits" / f"{split}_ids.npy", np.array(chosen, int))


@pytest.mark.parametrize("inside", ["", "saw"])
def test_the_distributed_layout_is_read(tmp_path: Path, inside: str) -> None:
    write_saw(tmp_path / inside)
    benchmark = SawBenchmark(tmp_path)
    assert benchmark.ids == ["1", "3"]
    assert SawBenchmark(tmp_path, "train").ids == ["2"]
    one = benchmark.read("3")
    np.testing.assert_array_equal(one.truth, case(3)[1])
    shading = case(3)[0]
    outcome = benchmark.score(one, [Split(None, shading)])
    assert set(outcome.scores) == {"ap/paper", "ap/original", "ap/challenge"}
    totals = benchmark.totals([outcome, outcome], np.ones((1, 2)))
    assert float(totals["ap/paper"][0]) == pytest.approx(outcome.scores["ap/paper"])


def test_confusions_are_summed_before_anything_is_scored(tmp_path: Path) -> None:
    write_saw(tmp_path)
    benchmark = SawBenchmark(tmp_path)
    outcomes = [benchmark.score(benchmark.read(k), [Split(None, case(int(k))[0])]) for k in ("1", "2", "3")]
    tables = [reference.confusions(case(k)[0], case(k)[1], np.zeros((9, 12, 3)), "paper") for k in (1, 2, 3)]
    totals = benchmark.totals(outcomes, np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 1.0]]))["ap/paper"]
    assert totals[0] == pytest.approx(reference.average_precision(tables))
    assert totals[1] == pytest.approx(reference.average_precision([tables[0], tables[0], tables[2]]))


def test_the_challenge_sees_the_photograph_as_it_is_encoded(tmp_path: Path) -> None:
    write_saw(tmp_path)
    benchmark = SawBenchmark(tmp_path)
    read = benchmark.read("1")
    shading = case(1)[0]
    found = benchmark.score(read, [Split(None, shading)]).counts["ap/challenge"]
    encoded = linear_to_srgb(read.pictures[0].image)
    np.testing.assert_allclose(found, confusion(shading, read.truth, encoded, "challenge"))
    assert not np.allclose(found, confusion(shading, read.truth, read.pictures[0].image, "challenge"))


def test_an_image_of_one_class_counts_in_the_sum_and_has_no_score_of_its_own(tmp_path: Path) -> None:
    write_saw(tmp_path)
    place = tmp_path / "saw_pixel_labels/saw_data-filter_size_0-ignore_border_0.05/1.npy"
    np.save(place, np.full((9, 12), 2, np.uint8))
    benchmark = SawBenchmark(tmp_path)
    outcome = benchmark.score(benchmark.read("1"), [Split(None, case(1)[0])])
    assert outcome.scores == {}
    assert outcome.counts["ap/paper"][-1].tolist() == [0, 0, 108]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.full((9, 12), 100, np.uint8), "nothing is said"),
        (np.full((9, 11), 2, np.uint8), "shape"),
        (np.full((9, 12), 2.0), "float64"),
        (None, "missing"),
    ],
)
def test_damaged_labels_are_named(tmp_path: Path, labels: np.ndarray | None, said: str) -> None:
    write_saw(tmp_path)
    place = tmp_path / "saw_pixel_labels/saw_data-filter_size_0-ignore_border_0.05/1.npy"
    place.unlink()
    if labels is not None:
        np.save(place, labels)
    with pytest.raises(ValueError, match=rf"1\.npy.*{said}"):
        SawBenchmark(tmp_path).read("1")


def test_lists_that_name_paths_and_missing_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="saw_splits"):
        _ = SawBenchmark(tmp_path).ids
    write_saw(tmp_path)
    for odd in ("../../etc", "a/../../etc", "a\\etc", ""):
        np.save(tmp_path / "saw_splits" / "test_ids.npy", np.array(["1", odd]))
        with pytest.raises(ValueError, match="names the photograph"):
            _ = SawBenchmark(tmp_path).ids
    (tmp_path / "saw_pixel_labels" / "saw_data-other").mkdir()
    with pytest.raises(ValueError, match="2 sets of labels"):
        SawBenchmark(tmp_path, "train").read("2")


def test_outcomes_have_defaults_of_their_own() -> None:
    assert Outcome({}).counts is not Outcome({}).counts


def test_a_split_without_photographs_or_without_a_list_is_refused_with_the_remedy(tmp_path: Path) -> None:
    write_saw(tmp_path)
    with pytest.raises(ValueError, match=r"val_ids\.npy: lists nothing; say another --split"):
        _ = SawBenchmark(tmp_path, "val").ids
    (tmp_path / "saw_splits" / "val_ids.npy").unlink()
    with pytest.raises(ValueError, match=r"has no val_ids\.npy, only the lists of: train, test; copy the list there"):
        _ = SawBenchmark(tmp_path, "val").ids
