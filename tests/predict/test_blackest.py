"""How dark a surface can be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from unlit.predict.blackest import BLACKEST, too_dark
from unlit.predict.darkness import LEAST
from unlit.predict.photo import PhotoDecomposition

Floats = NDArray[np.float32]
WHITE = np.ones(3, np.float32)


def photo(image: Floats, light: float = 0.5) -> PhotoDecomposition:
    return PhotoDecomposition(image, np.full(image.shape[:2], light, np.float32), WHITE)


def slowly_raised(reflectance: Floats) -> Floats:
    """Pixel by pixel, as it is defined."""
    out = reflectance.astype(np.float64)
    for place in np.ndindex(reflectance.shape[:2]):
        level = sum(max(0.0, float(value)) for value in out[place]) / 3
        if level < 2 * BLACKEST:
            wanted = (level**8 + BLACKEST**8) ** (1 / 8)
            factor = min(wanted / level, 2.0) if level > 0 else 2.0
            rest = max(0.0, wanted - factor * level)
            out[place] = [value if value < 0 else factor * value + rest for value in out[place]]
    return out.astype(np.float32)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10_000))
def test_it_equals_the_definition_and_the_product_is_exact(h: int, w: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    reflectance = (draw.random((h, w, 3)) ** 4 * draw.choice([0.1, 0.4, 1.0])).astype(np.float32)
    reflectance[draw.random((h, w, 3)) < 0.2] = 0
    reflectance[draw.random((h, w, 3)) < 0.05] *= -1
    found = photo(reflectance * np.float32(0.5))
    np.testing.assert_allclose(found.reflectance, slowly_raised(reflectance), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(found.recompose(), found.image, rtol=1e-5, atol=1e-37)
    assert (found.shading > 0).all()
    for part, whole in (("reflectance", found.reflectance), ("shading", found.shading)):
        rows = [found.strip(part, slice(k, k + 1)) for k in range(h)]  # type: ignore[arg-type]  # a tuple's are strings
        np.testing.assert_array_equal(np.concatenate(rows), whole)


def test_what_is_black_has_a_dark_surface_and_no_light() -> None:
    found = photo(np.zeros((2, 2, 3), np.float32))
    np.testing.assert_allclose(found.reflectance, BLACKEST)
    np.testing.assert_array_equal(found.shading, LEAST)


def test_levels_keep_their_order_and_only_dark_ones_change() -> None:
    levels = np.linspace(0, 0.2, 500, dtype=np.float32)
    found = photo(np.repeat(levels[None, :, None], 3, 2) * np.float32(0.5)).reflectance[0, :, 0]
    assert (np.diff(found) >= -1e-7).all()
    assert np.abs(np.diff(found)).max() < 1.1 * np.diff(levels).max(), "and nothing jumps"
    far = levels >= 2 * BLACKEST
    np.testing.assert_allclose(found[far], levels[far], rtol=1e-6)
    assert found.min() == pytest.approx(BLACKEST)


def test_colors_of_noise_fade_and_paints_keep_theirs_in_gray_light() -> None:
    noise = np.array([[[0.004, 0.0, 0.001]]], np.float32)
    found = photo(noise * np.float32(0.5)).reflectance[0, 0]
    assert found.max() / found.min() < 1.4
    leaf = np.array([[[0.0, 0.05, 0.01]]], np.float32)  # its level is 0.02
    dark = photo(leaf * np.float32(0.5))
    assert dark.reflectance[0, 0] == pytest.approx(leaf[0, 0] * (1 + 1.5**8) ** 0.125, rel=1e-5)
    np.testing.assert_allclose(dark.shading, dark.shading[0, 0, 0], rtol=1e-5)
    red = np.array([[[0.4, 0.0, 0.001]]], np.float32)
    np.testing.assert_allclose(photo(red * np.float32(0.5)).reflectance, red, rtol=1e-5)


def test_the_level_is_that_in_the_light_of_its_color() -> None:
    color = np.array([2.0, 1.0, 0.5], np.float32)
    image = np.float32(0.01) * color.reshape(1, 1, 3)  # a gray surface
    found = PhotoDecomposition(image, np.full((1, 1), 0.5, np.float32), color).reflectance
    np.testing.assert_allclose(found, slowly_raised(np.full((1, 1, 3), 0.02, np.float32)), rtol=1e-5)


def test_which_pixels_are_dark_is_said_by_place() -> None:
    level = np.full((2, 3), 0.9, np.float32)
    level[1, 2], level[0, 1] = 0.003, 0.6  # the second lacks one color alone
    where, found = too_dark(level, np.ones_like(level))
    assert where.tolist() == [5]
    assert found.tolist() == pytest.approx([0.001])


def test_black_channels_in_the_dark_are_noise_and_dark() -> None:
    """Both rules for one pixel: a black channel counts as what is around it, and then the surface is too dark."""
    image, around = np.array([[[0.0, 0.0004, 0.0008]]], np.float32), np.full((1, 1, 3), 0.0009, np.float32)
    found = PhotoDecomposition(image, np.full((1, 1), 0.1, np.float32), WHITE, around=around)
    assert BLACKEST < found.reflectance.mean() < 1.5 * BLACKEST
    np.testing.assert_allclose(found.recompose(), image, rtol=1e-5, atol=1e-37)
