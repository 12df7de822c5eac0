from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.ndimage import label

from tests.baselines.pictures import patches, slope
from unlit.baselines.poisson import Steps, least_squares_sum
from unlit.baselines.retinex import color_retinex, gray_retinex
from unlit.baselines.splitting import DARK_FLOOR
from unlit.evaluate.mit import lmse, load_mit_truth, mean_scores, mit_scores

Array = NDArray[Any]
METHODS = pytest.mark.parametrize("method", [gray_retinex, color_retinex], ids=lambda method: method.__name__)
Method = Callable[[Array, Array], tuple[Array, Array]]


def mean_free(values: Array, mask: Array) -> Array:
    """The values inside the mask, each connected piece less its mean."""
    pieces = label(mask)[0][mask]
    means = np.bincount(pieces, values[mask]) / np.maximum(np.bincount(pieces), 1)
    return np.asarray(values[mask] - means[pieces])


def dense_least_squares(steps: Steps, mask: Array) -> Array:
    """The same by writing out one equation for each pair of valid neighbors."""
    rows, targets = [], []
    h, w = mask.shape
    for y in range(h):
        for x in range(w):
            for (v, u), values in (((y + 1, x), steps.down), ((y, x + 1), steps.right)):
                if v < h and u < w and mask[y, x] and mask[v, u]:
                    row = np.zeros((h, w))
                    row[v, u], row[y, x] = 1, -1
                    rows.append(row.ravel())
                    targets.append(values[y, x])
    if not rows:
        return np.zeros((h, w))
    return np.asarray(np.linalg.lstsq(np.array(rows), np.array(targets))[0].reshape(h, w))


@settings(deadline=None)
@given(h=st.integers(1, 14), w=st.integers(1, 14), share=st.floats(0.2, 1), seed=st.integers(0, 1000))
def test_the_sum_of_steps_is_the_least_squares_one_on_any_mask(h: int, w: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((h, w)) <= share
    mask[rng.integers(h), rng.integers(w)] = True
    steps = Steps(rng.normal(size=(h - 1, w)), rng.normal(size=(h, w - 1)))
    found = least_squares_sum(steps, mask)
    np.testing.assert_allclose(mean_free(found, mask), mean_free(dense_least_squares(steps, mask), mask), atol=1e-6)
    assert not found[~mask].any()
    assert found[mask].mean() == pytest.approx(0, abs=1e-12)


def test_a_long_winding_mask_is_summed_up_too() -> None:
    mask = np.ones((60, 61), bool)
    mask[:-1, 1::4] = False
    mask[1:, 3::4] = False
    values = np.random.default_rng(0).normal(size=mask.shape)
    found = least_squares_sum(Steps(np.diff(values, axis=0), np.diff(values, axis=1)), mask)
    np.testing.assert_allclose(mean_free(found, mask), mean_free(values, mask), atol=1e-4)


def test_stripes_of_color_under_a_slope_are_told_apart() -> None:
    colors = [(0.8, 0.3, 0.2), (0.2, 0.7, 0.3), (0.4, 0.4, 1.0)]
    reflectance, shading = color_retinex(patches(colors) * slope()[..., None], np.ones((30, 40), bool))
    # Only the slope's own steps across the two edges, which went with the color, are wrong: some 4 % each.
    assert np.abs(np.log(reflectance / patches(colors))).max() < 0.1
    assert np.abs(np.log(shading / slope())).max() < 0.1


def test_without_large_steps_all_is_shading() -> None:
    image = 0.9 * slope()[..., None] * np.ones(3)
    for reflectance, shading in (gray_retinex(image, slope() > 0), color_retinex(image, slope() > 0)):
        np.testing.assert_allclose(reflectance, 1, rtol=1e-5)
        np.testing.assert_allclose(shading, 0.9 * slope(), rtol=1e-5)


def test_each_threshold_tells_its_own_kind_of_step() -> None:
    full = np.ones((30, 40), bool)
    brighter = patches([(0.2, 0.2, 0.2), (0.4, 0.4, 0.4)])  # a step of log 2 = 0.69 in brightness, none in color
    tinted = patches([(0.4, 0.5, 0.4), (0.5, 0.4, 0.4)])  # none in brightness, one of √2 log 1.25 = 0.316 in color
    for image, low, high in [
        (brighter, {"threshold_gray": 0.68}, {"threshold_gray": 0.70}),
        (brighter[:, ::-1], {"threshold_gray": 0.68}, {"threshold_gray": 0.70}),
        (tinted, {"threshold_color": 0.31}, {"threshold_color": 0.32}),
    ]:
        assert np.ptp(color_retinex(image, full, **low)[1]) < 1e-5, "the step is the reflectance's"
        gray = image.mean(axis=-1) / image.max()
        shading = color_retinex(image, full, **high)[1]
        np.testing.assert_allclose(shading / shading[0, 0], gray / gray[0, 0], rtol=1e-5)
    for image in (brighter, brighter[:, ::-1]):
        assert np.ptp(gray_retinex(image, full, threshold=0.68)[1]) < 1e-5
        assert np.ptp(gray_retinex(image, full, threshold=0.70)[0]) < 1e-5


@METHODS
def test_the_product_is_the_image_and_the_largest_reflectance_is_one(method: Method) -> None:
    rng = np.random.default_rng(0)
    image, mask = rng.random((23, 31, 3)), rng.random((23, 31)) > 0.4
    image[3, :5] = 0  # darker than the floor, and black
    image[4, :5] = DARK_FLOOR / 5
    reflectance, shading = method(image, mask)
    assert reflectance.shape == (23, 31, 3)
    assert shading.shape == (23, 31)
    assert reflectance.dtype == shading.dtype == np.float32
    np.testing.assert_allclose((reflectance * shading[..., None])[mask], image[mask], rtol=1e-6)
    assert reflectance.max() == 1
    assert (shading[mask] > 0).all()
    assert not reflectance[~mask].any()
    assert not shading[~mask].any()


@METHODS
def test_what_lies_outside_the_mask_does_not_matter(method: Method) -> None:
    rng = np.random.default_rng(0)
    image, mask = rng.random((23, 31, 3)), rng.random((23, 31)) > 0.4
    expected = method(image, mask)
    image[~mask] = np.nan
    for found, wanted in zip(method(image, mask), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@METHODS
def test_pieces_that_do_not_touch_keep_one_reflectance(method: Method) -> None:
    # Nothing is known across the gap, so that the brighter half is better lit, not of a brighter surface.
    image = patches([(0.1, 0.1, 0.1), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)])
    mask = np.ones((30, 40), bool)
    mask[:, 8:12] = False
    reflectance, shading = method(image, mask)
    np.testing.assert_allclose(reflectance[mask], 1, rtol=1e-5)
    np.testing.assert_allclose(shading[mask], image[mask][:, 0], rtol=1e-5)


@METHODS
def test_one_pixel_and_black_and_darker_are_decomposed(method: Method) -> None:
    one = np.ones((1, 1), bool)
    reflectance, shading = method(np.array([[[0.2, 0.4, 0.3]]]), one)
    np.testing.assert_allclose(reflectance, [[[0.5, 1, 0.75]]], rtol=1e-6)
    np.testing.assert_allclose(shading, 0.4, rtol=1e-6)
    for light in (0.0, -0.1):
        reflectance, shading = method(np.full((4, 5, 3), light), np.ones((4, 5), bool))
        np.testing.assert_allclose(reflectance * shading[..., None], light, rtol=1e-6)
        assert (shading > 0).all()


@METHODS
def test_what_is_no_image_is_refused(method: Method) -> None:
    image, mask = np.ones((5, 6, 3)), np.ones((5, 6), bool)
    broken = image.copy()
    broken[2, 2, 1] = np.inf
    for wrong, said in [
        ((image, np.zeros_like(mask)), "mask is empty"),
        ((image, mask.astype(float)), "booleans"),
        ((image[..., 0], mask), "image has shape"),
        ((image[:4], mask), "image has shape"),
        ((broken, mask), "NaN or infinite"),
    ]:
        with pytest.raises(ValueError, match=said):
            method(*wrong)


@pytest.mark.data
def test_color_retinex_scores_on_real_objects_as_its_reference(shared_data: Path) -> None:
    # The means that the project was given for color retinex on these ten objects before this code was written.
    measured = {
        "mse/reflectance": 0.0303,
        "mse/shading": 0.0235,
        "lmse/reflectance": 0.0286,
        "lmse/shading": 0.0243,
        "dssim/reflectance": 0.123,
        "dssim/shading": 0.138,
    }
    scores = []
    for folder in sorted((shared_data / "mit-intrinsic").iterdir()):
        truth = load_mit_truth(folder)
        found = color_retinex(truth.image, truth.mask)
        scores.append(mit_scores(*found, truth.reflectance, truth.shading, truth.mask))
    means = mean_scores(scores)
    assert len(scores) == 10
    assert {key: means[key] for key in measured} == pytest.approx(measured, rel=0.03)


@pytest.mark.data
def test_the_threshold_of_gray_retinex_is_the_best_of_its_neighbors(shared_data: Path) -> None:
    errors = dict.fromkeys((0.27, None, 0.52), 0.0)
    for folder in sorted((shared_data / "mit-intrinsic").iterdir()):
        truth = load_mit_truth(folder)
        for threshold in errors:
            options = {} if threshold is None else {"threshold": threshold}
            reflectance, shading = gray_retinex(truth.image, truth.mask, **options)
            errors[threshold] += lmse(reflectance, truth.reflectance, truth.mask)
            errors[threshold] += lmse(shading, truth.shading, truth.mask)
    assert min(errors, key=errors.__getitem__) is None
