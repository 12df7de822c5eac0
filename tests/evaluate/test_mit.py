import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.reference import mit as slow
from unlit.evaluate.mit import (
    dssim,
    lmse,
    load_mit_truth,
    mean_scores,
    mit_scores,
    mse,
)
from unlit.image_io import ImageError, write_image

Array = NDArray[Any]
Metric = Callable[[Array, Array, Array], float]

METRICS = pytest.mark.parametrize("metric", [mse, lmse, dssim], ids=lambda metric: metric.__name__)
SHAPES = pytest.mark.parametrize("shape", [(33, 47), (41, 30, 3)], ids=["gray", "color"])


def case(shape: tuple[int, ...], seed: int = 0) -> tuple[Array, Array, Array]:
    """An estimate, a truth, and a mask that has holes and leaves some windows empty."""
    rng = np.random.default_rng(seed)
    mask = rng.random(shape[:2]) > 0.3
    mask[:22, :23] = False
    return rng.random(shape) * 3, rng.random(shape), mask


@METRICS
@SHAPES
@pytest.mark.parametrize("seed", range(3))
def test_scores_equal_the_plain_loops(metric: Metric, shape: tuple[int, ...], seed: int) -> None:
    estimate, truth, mask = case(shape, seed)
    expected = getattr(slow, metric.__name__)(estimate, truth, mask)
    assert metric(estimate, truth, mask) == pytest.approx(expected, rel=1e-9)
    assert 0.01 < expected < 1, "the case says something"


@METRICS
@SHAPES
@pytest.mark.parametrize("scale", [1.0, 0.25, 7.3])
def test_the_truth_is_perfect_at_any_scale(metric: Metric, shape: tuple[int, ...], scale: float) -> None:
    _, truth, mask = case(shape)
    assert metric(truth * scale, truth, mask) == pytest.approx(0, abs=1e-12)


@METRICS
@SHAPES
def test_the_scale_of_an_estimate_does_not_matter(metric: Metric, shape: tuple[int, ...]) -> None:
    estimate, truth, mask = case(shape)
    assert metric(estimate * 1e-4, truth, mask) == pytest.approx(metric(estimate, truth, mask), rel=1e-9)


@METRICS
@SHAPES
def test_what_lies_outside_the_mask_does_not_matter(metric: Metric, shape: tuple[int, ...]) -> None:
    estimate, truth, mask = case(shape)
    expected = metric(estimate, truth, mask)
    estimate[~mask], truth[~mask] = np.nan, np.inf
    assert metric(estimate, truth, mask) == expected


@METRICS
def test_float32_scores_as_float64(metric: Metric) -> None:
    estimate, truth, mask = (a.astype(np.float32) if a.dtype == float else a for a in case((41, 30, 3)))
    expected = metric(estimate.astype(np.float64), truth.astype(np.float64), mask)
    assert metric(estimate, truth, mask) == pytest.approx(expected, rel=1e-12)


def test_mse_has_one_scale_for_all_channels() -> None:
    # Gray: the best multiple of (1, 1) for (1, 2) is 1.5, which misses both by a half.
    one = np.ones((1, 2))
    assert mse(one, np.array([[1.0, 2.0]]), one > 0) == pytest.approx(0.25)
    # Color: the best multiple of (1, 1, 1) for (1, 2, 3) is 2, and not one for each channel.
    assert mse(np.ones((1, 1, 3)), np.array([[[1.0, 2.0, 3.0]]]), one[:, :1] > 0) == pytest.approx(2 / 3)


def test_lmse_scales_each_window_by_itself() -> None:
    # Windows begin at columns 0, 10 and 20. The first and last are perfect; the middle one sees ones and twos, which
    # 0.6 scales best: 200 pixels are wrong by 0.4 and 200 by 0.2, of 3 windows of 400 ones.
    truth, estimate = np.ones((20, 40)), np.ones((20, 40))
    estimate[:, 20:] = 2
    assert lmse(estimate, truth, truth > 0) == pytest.approx((200 * 0.16 + 200 * 0.04) / 1200)
    # With the columns of the twos masked, nothing is wrong.
    assert lmse(estimate, truth, estimate < 2) == 0


def test_lmse_scores_channels_alone_and_then_takes_their_mean() -> None:
    # Red: zero where the truth is one, which no scale mends: 1. Green and blue: wrong in scale only: 0. The channels'
    # brightness does not weigh them.
    truth = np.ones((20, 20, 3)) * np.array([1.0, 10.0, 100.0])
    estimate = np.ones((20, 20, 3)) * np.array([0.0, 1.0, 1.0])
    assert lmse(estimate, truth, np.ones((20, 20), bool)) == pytest.approx(1 / 3)


def test_an_estimate_of_nothing_has_a_local_error_of_one() -> None:
    _, truth, mask = case((41, 30, 3))
    assert lmse(np.zeros_like(truth), truth, mask) == 1
    assert mse(np.zeros_like(truth), truth, mask) == pytest.approx(np.mean(truth[mask] ** 2))


def test_windows_of_the_local_error_lie_wholly_inside() -> None:
    # Of 29 columns the last nine are in no window.
    truth, estimate = np.ones((20, 29)), np.ones((20, 29))
    estimate[:, 20:] = 5
    assert lmse(estimate, truth, truth > 0) == 0


def test_dssim_of_a_single_pixel_is_as_worked_out() -> None:
    # In a window with one value x of weight g, the mean is g x, the variance (g - g²) x². White scaled to fit the
    # truth (0.2, 0.4, 0.9) is 0.5.
    g = 1 / sum(math.exp(-i * i / 4.5) for i in range(-5, 6)) ** 2
    c1, c2, x = 0.0001, 0.0009, 0.5
    expected = 0.0
    for y in (0.2, 0.4, 0.9):
        means = (2 * g * g * x * y + c1) / (g * g * (x * x + y * y) + c1)
        spreads = (2 * (g - g * g) * x * y + c2) / ((g - g * g) * (x * x + y * y) + c2)
        expected += (1 - means * spreads) / 2 / 3
    assert dssim(np.ones((1, 1, 3)), np.array([[[0.2, 0.4, 0.9]]]), np.ones((1, 1), bool)) == pytest.approx(expected)


def test_dssim_does_not_change_with_cropping_what_is_masked() -> None:
    estimate, truth, mask = case((41, 30, 3))
    mask[:23], mask[:, :4] = False, False
    expected = dssim(estimate, truth, mask)
    assert dssim(estimate[23:, 4:], truth[23:, 4:], mask[23:, 4:]) == pytest.approx(expected, rel=1e-12)


@METRICS
def test_what_cannot_be_compared_is_refused(metric: Metric) -> None:
    estimate, truth, mask = case((41, 30, 3))
    bad = truth.copy()
    bad[-1, -1] = np.nan
    mask[-1, -1] = True
    for wrong, said in [
        ((estimate, truth, np.zeros_like(mask)), "mask is empty"),
        ((estimate, truth, mask.astype(np.uint8)), "booleans"),
        ((estimate, truth, mask[:-1]), "truth has shape"),
        ((estimate, truth[..., :2], mask), "truth has shape"),
        ((estimate[..., 0], truth, mask), "estimate has shape"),
        ((bad, truth, mask), "the estimate has values"),
        ((estimate, bad, mask), "the truth has values"),
    ]:
        with pytest.raises(ValueError, match=said):
            metric(*wrong)


def test_a_local_error_without_any_truth_is_refused() -> None:
    one = np.ones((25, 29))
    with pytest.raises(ValueError, match="needs 20 pixels each way"):
        lmse(one[:19], one[:19], one[:19] > 0)
    with pytest.raises(ValueError, match="zero in every window"):
        lmse(one, one, np.indices(one.shape)[1] >= 20)


def test_scores_have_their_names_and_take_the_light_s_color_off() -> None:
    reflectance, true_reflectance, mask = case((41, 30, 3))
    shading, true_shading, _ = case((41, 30), seed=1)
    scores = mit_scores(reflectance, shading, true_reflectance, true_shading, mask)
    assert scores == {
        "mse/reflectance": mse(reflectance, true_reflectance, mask),
        "mse/shading": mse(shading, true_shading, mask),
        "lmse/reflectance": lmse(reflectance, true_reflectance, mask),
        "lmse/shading": lmse(shading, true_shading, mask),
        "dssim/reflectance": dssim(reflectance, true_reflectance, mask),
        "dssim/shading": dssim(shading, true_shading, mask),
    }
    warm = shading[..., None] * np.array([1.2, 1.0, 0.5])
    assert mit_scores(reflectance, warm, true_reflectance, true_shading, mask) == pytest.approx(scores)


def test_means_are_arithmetic_and_geometric() -> None:
    scores = [{"mse/shading": 1.0, "lmse/shading": 0.0}, {"mse/shading": 4.0, "lmse/shading": 0.5}]
    means = {"mse/shading": 2.5, "lmse/shading": 0.25, "geometric/mse/shading": 2.0, "geometric/lmse/shading": 0.0}
    assert mean_scores(scores) == pytest.approx(means)
    with pytest.raises(ValueError, match="no scores"):
        mean_scores([])
    with pytest.raises(ValueError, match="different scores"):
        mean_scores([*scores, {"mse/shading": 1.0}])


def write_object(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("diffuse", "reflectance", "shading", "mask"):
        picture = rng.random((5, 7, 3)) if name in ("diffuse", "reflectance") else rng.random((5, 7))
        if name == "mask":
            picture = np.where(picture > 0.5, 65024 / 65535, 0)  # as the set has it
        write_image(folder / f"{name}.png", picture.astype(np.float32), encoding="linear", bits=16)


def test_an_object_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_object(tmp_path)
    truth = load_mit_truth(tmp_path)
    rng = np.random.default_rng(0)
    for values, shape in [(truth.image, (5, 7, 3)), (truth.reflectance, (5, 7, 3)), (truth.shading, (5, 7))]:
        np.testing.assert_allclose(values, rng.random(shape), atol=1e-5)
        assert values.dtype == np.float32
    np.testing.assert_array_equal(truth.mask, rng.random((5, 7)) > 0.5)


def test_an_object_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    write_object(tmp_path)
    write_image(tmp_path / "mask.png", np.ones((5, 8), np.float32), encoding="linear", bits=16)
    with pytest.raises(ValueError, match="differ in size"):
        load_mit_truth(tmp_path)
    (tmp_path / "mask.png").unlink()
    with pytest.raises(ImageError, match=r"mask\.png"):
        load_mit_truth(tmp_path)


def test_scoring_needs_neither_torch_nor_openimageio() -> None:
    code = """import sys
sys.modules.update(torch=None, OpenImageIO=None)  # importing them now fails
import numpy as np
from unlit.evaluate.mit import mit_scores, mean_scores
assert "skimage" not in sys.modules
one = np.ones((25, 25, 3))
print(mean_scores([mit_scores(one, one, one, one[..., 0], one[..., 0] > 0)]))"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.data
def test_the_truth_of_a_real_object_is_perfect_and_its_input_is_not(shared_data: Path) -> None:
    truth = load_mit_truth(shared_data / "mit-intrinsic" / "cup1")
    assert truth.image.shape == (384, 317, 3)
    perfect = mit_scores(3 * truth.reflectance, truth.shading, truth.reflectance, truth.shading, truth.mask)
    assert perfect == pytest.approx(dict.fromkeys(perfect, 0.0), abs=1e-9)
    as_it_is = mit_scores(truth.image, np.ones_like(truth.shading), truth.reflectance, truth.shading, truth.mask)
    assert min(as_it_is.values()) > 0.005
