"""Black pixels in the dark: noise is not the surface's color."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from unlit.predict.darkness import BLACK, BRIGHTEST, DIM, LEAST, SEEN
from unlit.predict.photo import PhotoDecomposition

Floats = NDArray[np.float32]
NOWHERE = np.empty(0, np.intp), np.empty(0, np.float32)
WHITE = np.ones(3, np.float32)


@pytest.fixture(autouse=True, scope="module")
def any_surface_may_be_black() -> Iterator[None]:
    """What is too dark for a surface is another rule's, of `test_blackest.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unlit.predict.photo.too_dark", lambda level, gray_shading: NOWHERE)
        yield


def gray(values: list[list[float]]) -> Floats:
    return np.repeat(np.array(values, np.float32)[..., None], 3, 2)


def photo(image: Floats, light: float, around: Floats | None, white: float = 1.0) -> PhotoDecomposition:
    shading = np.full(image.shape[:2], light, np.float32)
    return PhotoDecomposition(image, shading, WHITE, around=around, exposure=white)


def test_black_in_dark_surroundings_is_noise() -> None:
    found = photo(gray([[0.0, 0.0003, 0.002, 0.003]]), 0.02, gray([[0.0009]]))
    np.testing.assert_allclose(found.reflectance[0, :, 0], np.array([0.0009, 0.0009, 0.002, 0.003]) / 0.02, rtol=1e-5)
    np.testing.assert_array_equal(found.recompose()[0, 0], 0)
    np.testing.assert_allclose(found.recompose(), found.image, rtol=1e-5)
    assert (found.shading > 0).all()
    assert found.shading[0, 1, 0] == pytest.approx(0.02 * 0.0003 / 0.0009, rel=1e-5)
    assert found.shading[0, 0, 0] == LEAST


@pytest.mark.parametrize("around", [0.0, SEEN[0], DIM[1], 0.5])
def test_black_among_black_is_paint_and_among_white_too(around: float) -> None:
    image = gray([[0.0, 0.0003]])
    found = photo(image, 0.02, gray([[around]]))
    np.testing.assert_allclose(found.reflectance, image / np.float32(0.02), rtol=1e-6)
    np.testing.assert_allclose(found.shading, 0.02, rtol=1e-6)


def test_between_them_it_changes_gradually() -> None:
    levels = np.geomspace(SEEN[0] / 2, 2 * DIM[1], 400)
    found = [float(photo(gray([[0.0]]), 0.1, gray([[a]])).reflectance[0, 0, 0]) for a in levels]
    assert max(found) == pytest.approx(BLACK / 0.1)
    assert np.abs(np.diff(found)).max() < 0.1 * max(found)


def test_what_cannot_be_seen_is_never_bright() -> None:
    found = photo(gray([[0.0]]), 0.001, gray([[0.002]]))
    assert found.reflectance.max() == pytest.approx(BRIGHTEST)
    assert np.float32(BRIGHTEST) * LEAST == 0


def test_each_pixel_and_channel_has_surroundings_of_its_own() -> None:
    around = np.zeros((2, 3, 3), np.float32)
    around[1, 2, 1] = 0.001
    found = photo(np.zeros((6, 9, 3), np.float32), 0.05, around).reflectance
    expected = np.zeros((6, 9, 3), np.float32)
    expected[3:, 6:, 1] = 0.001 / 0.05
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_is_dark_depends_on_the_exposure() -> None:
    bright = photo(gray([[0.0, 0.0005]]), 0.05, gray([[0.001]]))
    for white in (1 / 64, 8.0):
        other = photo(gray([[0.0, 0.0005 * white]]), 0.05 * white, gray([[0.001]]), white=white)
        np.testing.assert_allclose(other.reflectance, bright.reflectance, rtol=1e-5)


def test_pictures_may_lie_in_memory_in_any_order() -> None:
    image = np.zeros((4, 6, 3), np.float32)
    plain, turned = (photo(a, 0.05, gray([[0.001]])) for a in (image, np.asfortranarray(image)))
    np.testing.assert_array_equal(turned.reflectance, plain.reflectance)
    np.testing.assert_array_equal(turned.shading, plain.shading)
    assert plain.reflectance.min() > 0


def test_channels_below_zero_stay() -> None:
    image = gray([[-0.001]])
    np.testing.assert_allclose(photo(image, 0.05, gray([[0.001]])).reflectance, -0.02, rtol=1e-5)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(0, 10_000))
def test_the_product_is_exact_and_strips_have_no_seams(h: int, w: int, times: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    image = (draw.random((h, w, 3)) ** 6 * 0.02).astype(np.float32)
    image[draw.random((h, w, 3)) < 0.2] = 0
    around = (draw.random((-(-h // times), -(-w // times), 3)) * 0.01).astype(np.float32)
    found = photo(image, float(draw.choice([0.0005, 0.02, 0.5])), around)
    found = replace(found, gray_shading=np.maximum(found.gray_shading, image.max(-1)))
    np.testing.assert_allclose(found.recompose(), image, rtol=1e-5, atol=1e-37)
    assert found.reflectance.max() <= 1 + 1e-5
    for part, whole in (("reflectance", found.reflectance), ("shading", found.shading)):
        rows = [found.strip(part, slice(k, k + 1)) for k in range(h)]  # type: ignore[arg-type]  # a tuple's are strings
        np.testing.assert_array_equal(np.concatenate(rows), whole)


def test_a_raw_answer_is_left_alone() -> None:
    raw = np.full((1, 1, 3), 0.5, np.float32)
    found = replace(photo(gray([[0.0]]), 0.02, gray([[0.001]])), raw_reflectance=raw)
    np.testing.assert_allclose(found.shading, 0.02)
    np.testing.assert_array_equal(found.reflectance, raw)
