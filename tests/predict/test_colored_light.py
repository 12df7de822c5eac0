"""Light whose color is not the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.reference import colored_light as slow
from unlit.model.decomposition import Decomposition
from unlit.predict.colored_light import MOST, add_own_color, by_light, color_share
from unlit.predict.full_size import gray_shading
from unlit.predict.photo import PhotoDecomposition

Array = NDArray[np.float64]
LIGHT = np.array([1.1, 1.0, 1 / 1.1], np.float32)
PLAIN = np.ones(3)


def pictures(h: int, w: int, seed: int = 0) -> tuple[Array, Array]:
    """A photograph and what a network might say of its reflectance, linear, with strong colors among them."""
    draw = np.random.default_rng(seed)
    return draw.random((h, w, 3)) ** 3 + 1e-4, draw.random((h, w, 3)) ** 2 + 1e-3


def said(reflectance: Array, light: Array = PLAIN) -> Decomposition:
    logs = torch.from_numpy(np.log(reflectance)).permute(2, 0, 1)[None]
    return Decomposition(logs, torch.zeros_like(logs[:, :1]), torch.from_numpy(np.log(light)).to(logs)[None])


@pytest.mark.parametrize("size", [(6, 7), (1, 1), (1, 5), (4, 1)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-10)])
def test_the_share_is_the_definitions(size: tuple[int, int], dtype: torch.dtype, tolerance: float) -> None:
    image, reflectance = pictures(*size)
    answer = said(reflectance, LIGHT.astype(np.float64))
    answer = Decomposition(*(part.to(dtype) for part in vars(answer).values()))
    found = color_share(torch.from_numpy(np.log(image)).permute(2, 0, 1).to(dtype), answer)
    expected = slow.color_share(image, [float(v) for v in LIGHT], reflectance)
    np.testing.assert_allclose(found.numpy(), expected, atol=tolerance)
    assert 0 < expected.max() <= MOST


def test_the_shading_is_the_definitions() -> None:
    image, _ = pictures(5, 6)
    image[0, 0] = 0
    image[0, 1] = [-0.1, 0.5, 0.2]
    share, gray = np.random.default_rng(1).random((5, 6)) * MOST, np.random.default_rng(2).random((5, 6)) + 0.1
    shading = (gray[..., None] * LIGHT).astype(np.float32)
    add_own_color(shading, *by_light(image.astype(np.float32), LIGHT), share.astype(np.float32))
    for y in range(5):
        for x in range(6):
            expected = slow.shading(gray[y, x], image[y, x].tolist(), share[y, x], LIGHT.tolist())
            np.testing.assert_allclose(shading[y, x], expected, rtol=1e-5)


def test_a_blue_that_the_network_takes_for_light_is_light() -> None:
    blue = np.broadcast_to(np.array([0.2, 0.4, 0.9]), (8, 9, 3))
    white = np.broadcast_to(np.array([0.8, 0.8, 0.8]), (8, 9, 3))
    logs = torch.from_numpy(np.log(blue)).permute(2, 0, 1)
    assert color_share(logs, said(white)).min() == pytest.approx(MOST)
    assert color_share(logs, said(blue)).max() == pytest.approx(0, abs=1e-6), "and paint is paint"
    gray = torch.log(torch.full((3, 8, 9), 0.3, dtype=torch.float64))
    assert color_share(gray, said(blue)).max() == 0, "what is gray has no color to share"


def photo(image: Array, share: float | None, seed: int = 0) -> PhotoDecomposition:
    pixels = image.astype(np.float32)
    draw = np.random.default_rng(seed)
    coefficients = draw.normal(0, 0.2, (4, 3, 4)).astype(np.float32)
    gray = gray_shading(pixels, coefficients, LIGHT)
    small = None if share is None else (share * draw.random((3, 4))).astype(np.float32)
    return PhotoDecomposition(pixels, gray, LIGHT, color_share=small)


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0, MOST), st.integers(0, 10_000))
def test_the_product_is_exact_and_no_reflectance_above_one(h: int, w: int, share: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    image = draw.random((h, w, 3)) ** draw.integers(1, 9) * draw.choice([1e-4, 1.0, 30.0])
    image[draw.random((h, w)) < 0.1] = 0
    image[draw.random((h, w, 3)) < 0.1] = 0
    found = photo(image, share, seed)
    np.testing.assert_allclose(found.recompose(), found.image, rtol=1e-5, atol=1e-30)
    assert found.reflectance.max() <= 1 + 1e-5
    assert np.isfinite(found.shading).all()
    assert (found.shading > 0).all()


def test_strips_have_no_seams() -> None:
    image, _ = pictures(23, 17)
    found = photo(image, 0.9)
    rows = [found.strip("reflectance", slice(k, k + 1)) for k in range(23)]
    np.testing.assert_array_equal(np.concatenate(rows), found.reflectance)
    some = found.strip("shading", slice(None, None, 5))
    np.testing.assert_array_equal(some, found.shading[::5])


def test_without_a_share_the_light_has_one_color() -> None:
    image = np.maximum(pictures(6, 8)[0], 0.3)  # no surface so dark that its light has a color of its own
    plain, none = photo(image, None), photo(image, 0.0)
    np.testing.assert_allclose(none.shading, plain.shading, rtol=1e-6)
    ratios = plain.shading / plain.gray_shading[..., None]
    np.testing.assert_allclose(ratios, np.broadcast_to(LIGHT, ratios.shape), rtol=1e-6)
