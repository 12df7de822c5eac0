import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from OpenImageIO import ImageBuf, ImageBufAlgo

from unlit.color import LOG_FLOOR, chromaticity, floored_log, intensity, linear_to_srgb, luminance, srgb_to_linear

Array = NDArray[np.floating[Any]]

light = st.floats(-8, 8, width=32)


def rgb(seed: int = 0) -> Array:
    """A picture (5, 4, 3) with black, white and values beyond both."""
    picture = np.random.default_rng(seed).uniform(-0.2, 1.5, (5, 4, 3))
    picture[0, 0], picture[0, 1] = 0, 1
    return picture


@given(light)
def test_the_srgb_curve_and_its_inverse_undo_each_other(value: float) -> None:
    # The standard's rounded constants leave a step of 3e-8 where the two pieces meet.
    there_and_back = srgb_to_linear(linear_to_srgb(np.array(value, dtype=np.float64)))
    assert there_and_back == pytest.approx(value, rel=1e-6, abs=1e-7)


def test_the_curve_follows_the_standard() -> None:
    values = np.linspace(0, 1, 1001)
    by_the_standard = [v * 12.92 if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055 for v in values]
    np.testing.assert_allclose(linear_to_srgb(values), by_the_standard, rtol=1e-12)


def test_the_curve_keeps_black_and_white_and_mirrors_negative_values() -> None:
    values = np.array([0.0, 1.0])
    np.testing.assert_allclose(linear_to_srgb(values), values, atol=1e-12)
    np.testing.assert_array_equal(linear_to_srgb(-rgb()), -linear_to_srgb(rgb()))
    np.testing.assert_array_equal(srgb_to_linear(-rgb()), -srgb_to_linear(rgb()))


def test_the_curve_agrees_with_openimageio() -> None:
    values = np.random.default_rng(1).random((16, 16, 3), dtype=np.float32)
    theirs = ImageBufAlgo.colorconvert(ImageBuf(values), "lin_rec709_scene", "srgb_rec709_scene").get_pixels()
    assert theirs is not None
    assert np.abs(linear_to_srgb(values) - theirs).max() < 2e-5  # their power is a fast approximation


@pytest.mark.parametrize("function", [srgb_to_linear, linear_to_srgb, floored_log, luminance, intensity, chromaticity])
def test_arrays_and_tensors_give_the_same_numbers(function: Callable[[Any], Any]) -> None:
    of_tensor = function(torch.from_numpy(rgb()))
    assert isinstance(of_tensor, torch.Tensor)
    np.testing.assert_allclose(of_tensor.numpy(), function(rgb()), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("function", [srgb_to_linear, linear_to_srgb, floored_log, luminance, intensity, chromaticity])
def test_single_precision_stays_single(function: Callable[[Any], Any]) -> None:
    assert function(rgb().astype(np.float32)).dtype == np.float32
    assert function(torch.from_numpy(rgb()).float()).dtype == torch.float32


@pytest.mark.parametrize("function", [luminance, intensity, chromaticity])
def test_the_channel_axis_may_lie_anywhere(function: Callable[..., Any]) -> None:
    last, third_from_last = function(rgb()), function(rgb().transpose(2, 0, 1)[None], axis=-3)
    np.testing.assert_allclose(third_from_last[0].transpose(1, 2, 0), last, rtol=1e-12)


@pytest.mark.parametrize("function", [srgb_to_linear, linear_to_srgb, floored_log, chromaticity])
@pytest.mark.parametrize("value", [0.0, 0.0031308, 0.04045, LOG_FLOOR, 1.0, -0.5])
def test_gradients_are_finite_at_the_edges(function: Callable[[Any], Any], value: float) -> None:
    values = torch.full((2, 3), value, dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(function(values).sum(), values)
    assert torch.isfinite(slopes).all()


def test_the_curve_has_its_own_slope_at_black() -> None:
    black = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(linear_to_srgb(black), black)
    assert slope.item() == pytest.approx(12.92)


def test_gradients_are_those_of_the_values() -> None:
    values = torch.tensor([-0.7, -0.01, -0.001, 0.001, 0.02, 0.3, 1.2], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(srgb_to_linear, values)
    assert torch.autograd.gradcheck(linear_to_srgb, values)
    assert torch.autograd.gradcheck(floored_log, values)


def test_logs_are_floored_and_otherwise_logs() -> None:
    np.testing.assert_array_equal(floored_log(np.array([-1.0, 0.0, LOG_FLOOR / 2])), np.log(LOG_FLOOR))
    np.testing.assert_allclose(floored_log(np.array([LOG_FLOOR, 0.5, 3.0])), np.log([LOG_FLOOR, 0.5, 3.0]))
    assert floored_log(np.array(0.01), floor=0.1) == pytest.approx(np.log(0.1))


def test_gray_has_its_own_value_as_luminance_and_intensity() -> None:
    gray = np.full((2, 2, 3), 0.3)
    np.testing.assert_allclose(luminance(gray), 0.3)
    np.testing.assert_allclose(intensity(gray), 0.3)


def test_green_is_brighter_than_red_and_red_than_blue() -> None:
    red, green, blue = luminance(np.eye(3))[:, 0]
    assert green > red > blue


@given(light.map(abs), st.floats(0.01, 100))
def test_chromaticity_does_not_depend_on_brightness(value: float, scale: float) -> None:
    color = np.array([0.2 + value, 0.5, 0.1])
    np.testing.assert_allclose(chromaticity(scale * color), chromaticity(color), rtol=1e-9)
    assert chromaticity(color).sum() == pytest.approx(1)


def test_chromaticity_of_black_and_of_negative_light_stays_between_zero_and_one() -> None:
    colors = np.array([[0, 0, 0], [0.5, -0.25, -0.25], [-1, -1, -1], [1e-30, 0, 0]], dtype=np.float32)
    shares = chromaticity(colors)
    assert shares.min() >= 0
    assert shares.max() <= 1
    np.testing.assert_array_equal(shares[1], [1, 0, 0])


def test_arrays_do_not_load_torch() -> None:
    program = "import sys, numpy, unlit.color as c; c.linear_to_srgb(numpy.ones(3)); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
