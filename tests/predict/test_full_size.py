from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from unlit.predict.full_size import DARK, STRIP_VALUES, gray_shading, strips
from unlit.predict.guided import linear_coefficients
from unlit.predict.small import small_picture

WHITE = np.ones(3, np.float32)


def picture(h: int, w: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(0, 1, (h, w, 3)).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70), st.integers(1, 50), st.integers(1, 20), st.integers(1, 20), st.integers(1, 3000))
def test_strips_and_threads_change_nothing(h: int, w: int, small_h: int, small_w: int, strip_values: int) -> None:
    image = picture(h, w)
    coefficients = np.random.default_rng(1).normal(0, 1, (4, small_h, small_w)).astype(np.float32)
    whole = gray_shading(image, coefficients, WHITE, threads=1, strip_values=10**9)
    cut = gray_shading(image, coefficients, WHITE, threads=3, strip_values=strip_values)
    assert whole.tobytes() == cut.tobytes()


@pytest.mark.parametrize(("h", "w", "small"), [(37, 53, (11, 17)), (8, 8, (8, 8)), (1, 9, (1, 3)), (5, 1, (2, 1))])
def test_coefficients_are_interpolated_as_torch_does_between_pixel_centers(
    h: int, w: int, small: tuple[int, int]
) -> None:
    coefficients = np.random.default_rng(1).normal(0, 0.3, (4, *small)).astype(np.float32)
    image = picture(h, w)
    grown = interpolate(torch.from_numpy(coefficients)[None], (h, w), mode="bilinear", align_corners=False)[0].numpy()
    logs = np.log(np.maximum(image, 1e-4)).transpose(2, 0, 1)
    expected = np.exp((grown[:3] * logs).sum(0) + grown[3])
    np.testing.assert_allclose(gray_shading(image, coefficients, WHITE), np.maximum(expected, image.max(-1)), rtol=2e-4)


def test_rows_are_covered_once() -> None:
    for h, w, values in ((100, 7, 50), (1, 1000, 10), (64, 64, 10**9)):
        seen = np.concatenate([np.arange(h)[part] for part in strips(h, w, values)])
        assert (seen == np.arange(h)).all()


def carried(image: NDArray[np.float32], shading: NDArray[np.float32], size: int = 96) -> NDArray[np.float32]:
    """The true shading made small, as a perfect network would say it, and carried back."""
    small = small_picture(image, None, size)
    h, w = small.light.shape[1:]
    said = interpolate(torch.from_numpy(shading)[None, None], (h, w), mode="bilinear", antialias=True)[0].log()
    coefficients = linear_coefficients(small.light.clamp_min(1e-4).log(), said).numpy()
    return gray_shading(image, coefficients, WHITE)


def test_an_edge_of_the_reflectance_leaves_no_halo_in_the_shading() -> None:
    image = np.full((400, 600, 3), 0.7, np.float32)
    image[:, 300:] = (0.1, 0.05, 0.2)
    found = carried(image, np.ones((400, 600), np.float32))
    assert np.abs(found - 1).max() < 1e-3


def test_an_edge_of_the_shading_is_as_sharp_as_the_photograph_and_leaves_no_halo_in_the_reflectance() -> None:
    shading = np.where(np.arange(600) < 300, 1.0, 0.2)[None].repeat(400, 0).astype(np.float32)
    image = shading[..., None] * np.array([0.7, 0.5, 0.3], np.float32)
    reflectance = image[..., 0] / carried(image, shading)
    assert np.abs(np.log(reflectance / 0.7)).max() < 0.05  # bilinear enlargement: 0.8


def test_both_edges_crossing_keep_their_own_side() -> None:
    shading = np.where(np.arange(600) < 300, 1.0, 0.3)[None].repeat(400, 0).astype(np.float32)
    surface = np.where(np.arange(400)[:, None, None] < 200, [0.7, 0.5, 0.3], [0.2, 0.4, 0.6]).astype(np.float32)
    found = carried(shading[..., None] * surface, shading)
    error = np.abs(np.log(found / shading))
    assert np.quantile(error, 0.99) < 0.05
    assert error.max() < 0.5


def test_no_surface_reflects_more_than_all_light() -> None:
    image = 3 * picture(20, 30)
    dark = np.full((4, 5, 7), -2.0, np.float32)
    color = np.array([1.2, 1.0, 0.8], np.float32)
    shading = gray_shading(image, dark, color)
    assert (image / (shading[..., None] * color)).max() <= 1 + 1e-6


def test_what_is_all_but_black_is_no_surface_in_deep_shadow() -> None:
    """The answer takes all of the light for shading: one reflectance, were it not for what is noise."""
    levels = np.array([0.2, 1.01 * DARK, DARK / 3, DARK / 10, 0.0], np.float32)
    image = np.repeat(levels[None, :, None], 3, axis=2)
    all_light = np.zeros((4, 1, 5), np.float32)
    all_light[:3], all_light[3] = 1 / 3, 0.7
    shading = gray_shading(image, all_light, WHITE)
    reflectance = image[..., 0] / shading
    expected = math.exp(-0.7) * np.array([1, 1, 1 / 3, 1 / 10, 0])
    np.testing.assert_allclose(reflectance[0], expected, rtol=1e-4)
    assert (shading > 0).all()


def test_a_wild_answer_still_gives_finite_light() -> None:
    wild = np.full((4, 5, 7), 1e6, np.float32)
    for sign in (1, -1):
        shading = gray_shading(picture(20, 30), sign * wild, WHITE)
        assert np.isfinite(shading).all()
        assert (shading > 0).all()


def test_memory_is_that_of_the_result_and_a_few_strips() -> None:
    image = np.broadcast_to(np.float32(0.5), (4000, 1500, 3))
    coefficients = np.zeros((4, 20, 30), np.float32)
    tracemalloc.start()
    shading = gray_shading(image, coefficients, WHITE, threads=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < shading.nbytes + 2 * 10 * 4 * STRIP_VALUES


def test_exposure_only_scales_the_light() -> None:
    image, coefficients = picture(20, 30), np.random.default_rng(1).normal(0, 0.3, (4, 5, 7)).astype(np.float32)
    one, four = (gray_shading(s * image, coefficients, WHITE, exposure=s) for s in (1.0, 4.0))
    np.testing.assert_allclose(four, 4 * one, rtol=1e-6)
