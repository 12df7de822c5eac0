from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.reference import guided as reference
from unlit.predict.guided import MISFIT_FLOOR, applied, linear_coefficients, window_mean


def picture(h: int, w: int, seed: int = 0) -> torch.Tensor:
    return -3 * torch.rand(3, h, w, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", [(9, 12), (1, 1), (1, 7), (5, 2)])
@pytest.mark.parametrize(("radius", "ridge"), [(1, 1e-3), (2, 1e-2), (4, 0.1)])
def test_the_fast_form_is_the_regression_in_each_window(size: tuple[int, int], radius: int, ridge: float) -> None:
    guide, target = picture(*size).double(), picture(*size, seed=1)[:1].double()
    slow = reference.linear_coefficients(guide.numpy(), target.numpy(), radius, ridge, MISFIT_FLOOR)
    np.testing.assert_allclose(linear_coefficients(guide, target, radius, ridge).numpy(), slow, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("spread", [0.0, 1e-4, 1e-2])
def test_few_digits_are_enough_where_the_colors_go_together(spread: float) -> None:
    """A gray thing with black edges: one direction of the guide varies by much, the others by nearly nothing."""
    guide = torch.where(picture(20, 30)[:1] < -2, -9.0, -0.5) + spread * picture(20, 30, 1)
    target = 0.5 * guide[:1] + 0.1 * picture(20, 30, 2)[:1]
    few = applied(linear_coefficients(guide, target), guide)
    many = applied(linear_coefficients(guide.double(), target.double()), guide.double())
    assert (few - many).abs().max() < 1e-4
    assert (few - target).abs().max() < 1


def test_what_is_linear_in_the_guide_comes_back_at_any_size() -> None:
    """A shadow edge: log S rises with log I by the same amount, so that it is as sharp as the photograph's own."""
    guide = torch.zeros(3, 24, 36)
    guide[:, :, 18:] = -1.5
    target = guide[:1] - 0.3
    found = linear_coefficients(guide, target)
    assert (applied(found, guide) - target).abs().max() < 0.01


def test_a_constant_stays_constant_whatever_the_picture_shows() -> None:
    found = applied(linear_coefficients(picture(20, 30), torch.full((1, 20, 30), -0.7)), picture(20, 30, 2))
    assert (found + 0.7).abs().max() < 1e-4


def test_window_means_are_cut_off_at_the_edge() -> None:
    values = picture(6, 5)[None]
    found = window_mean(values, 2)
    torch.testing.assert_close(found[0, :, 0, 0], values[0, :, :3, :3].mean((1, 2)))
    torch.testing.assert_close(found[0, :, 3, 4], values[0, :, 1:6, 2:5].mean((1, 2)))
    torch.testing.assert_close(window_mean(values, 9), values.mean((2, 3), keepdim=True).expand_as(values))
