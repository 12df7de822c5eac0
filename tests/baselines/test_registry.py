from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.baselines.pictures import patches, scale_free_error, slope
from unlit.baselines.registry import BASELINES, SEQUENCE_BASELINES

Array = NDArray[Any]


def on_one(name: str, image: Array, mask: Array | None) -> tuple[Array, Array]:
    """Apply a method; one for sequences sees the image under three exposures."""
    if name in BASELINES:
        return BASELINES[name](image, mask)
    return SEQUENCE_BASELINES[name](np.stack([image * k for k in (1, 0.8, 0.6)]), mask, image)


EVERY = pytest.mark.parametrize("name", [*BASELINES, *SEQUENCE_BASELINES])
TOLD_APART = pytest.mark.parametrize("name", ["retinex-color", "zhao", "garces", "bell"])


def test_the_names_are_these() -> None:
    assert set(BASELINES) == {
        "constant-shading", "constant-reflectance", "retinex-gray", "retinex-color", "zhao", "garces", "bell",
    }  # fmt: skip
    assert set(SEQUENCE_BASELINES) == {"weiss", "weiss-retinex"}


def test_the_names_cost_nothing() -> None:
    code = "import sys, unlit.baselines.registry; assert not {'torch', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@EVERY
def test_the_product_is_the_image_inside_the_mask_and_nothing_is_outside(name: str) -> None:
    rng = np.random.default_rng(0)
    image, mask = rng.random((23, 31, 3), dtype=np.float32), rng.random((23, 31)) > 0.3
    image[3, :9] = 0  # black
    image[4, :9] = 1e-5
    image[5, :9, 1] = 0
    reflectance, shading = on_one(name, image, mask)
    assert reflectance.shape == shading.shape == image.shape
    assert reflectance.dtype == shading.dtype == np.float32
    np.testing.assert_allclose((reflectance * shading)[mask], image[mask], rtol=1e-5)
    assert reflectance.max() == 1
    assert (reflectance >= 0).all()
    assert not reflectance[~mask].any()
    assert not shading[~mask].any()


@EVERY
def test_what_lies_outside_the_mask_does_not_matter(name: str) -> None:
    rng = np.random.default_rng(1)
    image, mask = rng.random((20, 17, 3), dtype=np.float32), rng.random((20, 17)) > 0.4
    expected = on_one(name, image, mask)
    image[~mask] = np.nan
    for found, wanted in zip(on_one(name, image, mask), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@EVERY
def test_the_same_image_always_gives_the_same_result(name: str) -> None:
    image = np.random.default_rng(2).random((20, 17, 3), dtype=np.float32)
    for first, second in zip(on_one(name, image, None), on_one(name, image, None), strict=True):
        np.testing.assert_array_equal(first, second)


@EVERY
@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (2, 2)])
def test_images_one_pixel_wide_are_split(name: str, size: tuple[int, int]) -> None:
    image = np.random.default_rng(3).random((*size, 3), dtype=np.float32) + 0.1
    reflectance, shading = on_one(name, image, None)
    np.testing.assert_allclose(reflectance * shading, image, rtol=1e-5)


@EVERY
@pytest.mark.parametrize("light", [0.0, 0.4, 1.0])
def test_images_of_one_gray_are_split_evenly(name: str, light: float) -> None:
    image = np.full((8, 11, 3), light, np.float32)
    reflectance, shading = on_one(name, image, None)
    np.testing.assert_allclose(reflectance * shading, image, rtol=1e-5, atol=1e-7)
    assert np.ptp(reflectance) < 1e-5
    assert np.ptp(shading) < 1e-5


@EVERY
def test_gray_images_and_light_beyond_white_are_split(name: str) -> None:
    gray = np.random.default_rng(4).random((20, 17, 1), dtype=np.float32).repeat(3, axis=-1)
    for image in (gray, 1000 * gray):
        reflectance, shading = on_one(name, image, None)
        np.testing.assert_allclose(reflectance * shading, image, rtol=1e-5)


@EVERY
def test_what_is_no_image_is_refused(name: str) -> None:
    image, mask = np.ones((5, 6, 3), np.float32), np.ones((5, 6), bool)
    broken = image.copy()
    broken[2, 2, 1] = np.inf
    for wrong, wrong_mask, said in [
        (image, np.zeros_like(mask), "mask is empty"),
        (image, mask.astype(float), "booleans"),
        (image[:4], mask, "image has shape"),
        (broken, None, "NaN or infinite"),
    ]:
        with pytest.raises(ValueError, match=said):
            on_one(name, wrong, wrong_mask)


@TOLD_APART
def test_stripes_of_color_under_a_slope_are_told_apart(name: str) -> None:
    truth, light = patches([(0.8, 0.3, 0.2), (0.2, 0.7, 0.3), (0.4, 0.4, 1.0)], 48, 60), slope(48, 60)
    reflectance, shading = BASELINES[name]((truth * light[..., None]).astype(np.float32))
    allowed = 0.25 * scale_free_error(truth * light[..., None], truth)
    assert scale_free_error(reflectance, truth) < allowed
    assert scale_free_error(shading[..., 0], light) < allowed


def test_the_constant_rows_are_what_they_say() -> None:
    rng = np.random.default_rng(5)
    image, mask = rng.random((6, 7, 3), dtype=np.float32), rng.random((6, 7)) > 0.3
    reflectance, shading = BASELINES["constant-shading"](image, mask)
    np.testing.assert_allclose(reflectance[mask], image[mask] / image[mask].max(), rtol=1e-6)
    assert np.ptp(shading[mask]) == 0
    reflectance, shading = BASELINES["constant-reflectance"](image, mask)
    assert (reflectance[mask] == 1).all()
    np.testing.assert_array_equal(shading[mask], image[mask])


def test_an_empty_sequence_is_refused() -> None:
    for method in SEQUENCE_BASELINES.values():
        with pytest.raises(ValueError, match="no frames"):
            method(np.zeros((0, 4, 5, 3)))
