from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from unlit.model.decomposition import Decomposition
from unlit.predict.exact import (
    BRIGHT,
    SHADING_SHARE,
    brightness_excess,
    lost_light,
    residual,
    shading_coefficients,
)
from unlit.predict.guided import applied


def logs(h: int = 24, w: int = 36, seed: int = 0) -> torch.Tensor:
    return -3 * torch.rand(3, h, w, generator=torch.Generator().manual_seed(seed))


def answer(log_image: torch.Tensor, log_shading: torch.Tensor, missed: float | torch.Tensor = 0.0) -> Decomposition:
    """The answer of a network that leaves `missed` unexplained everywhere."""
    color = torch.tensor([[0.1, 0.0, -0.1]])
    log_reflectance = log_image - log_shading - color[0, :, None, None] - missed
    return Decomposition(log_reflectance[None], log_shading[None], color)


def test_the_residual_is_what_the_parts_leave_unexplained() -> None:
    log_image = logs()
    said = answer(log_image, logs(seed=1)[:1], missed=0.25)
    torch.testing.assert_close(residual(log_image, said), torch.full((1, 24, 36), 0.25))


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_the_share_is_the_minimum_that_the_module_states(share: float) -> None:
    """Of one pixel, by a general minimiser: |r − r̂|² + 3 (1/λ − 1)(s − ŝ)² with r + s + c = i."""
    rng = np.random.default_rng(0)
    i, drawn_r, drawn_s, c = rng.normal(size=3), rng.normal(size=3), rng.normal(), rng.normal(size=3)

    def cost(s: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        return float(((i - s[0] - c - drawn_r) ** 2).sum() + 3 * (1 / share - 1) * (s[0] - drawn_s) ** 2)

    found = minimize(cost, [0.0]).x[0]
    assert found == pytest.approx(drawn_s + share * (i - drawn_r - drawn_s - c).mean(), abs=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_an_even_residual_is_shared_as_stated(share: float) -> None:
    log_image = logs()
    log_shading = torch.full((1, 24, 36), -0.5)
    found = applied(shading_coefficients(log_image, answer(log_image, log_shading, missed=0.4), share), log_image)
    torch.testing.assert_close(found, torch.full_like(found, -0.5 + 0.4 * share), atol=2e-4, rtol=0)


@pytest.mark.parametrize("size", [(24, 36), (31, 47), (1, 1), (1, 9), (8, 1)])
def test_a_residual_that_changes_slowly_is_shared_where_it_is(size: tuple[int, int]) -> None:
    ramp = torch.linspace(-0.5, 0.5, size[1]).expand(1, *size)
    log_image = torch.full((3, *size), -1.0)
    said = answer(log_image, torch.zeros(1, *size), missed=ramp)
    found = applied(shading_coefficients(log_image, said, 0.5), log_image)
    torch.testing.assert_close(found[..., 5:-5], 0.5 * ramp[..., 5:-5], atol=5e-3, rtol=0)
    assert float(found.mean()) == pytest.approx(float(0.5 * ramp.mean()), abs=5e-3)  # the edges, too


def test_texture_that_the_network_has_not_drawn_is_reflectance() -> None:
    """Its reflectance is flat, its shading smooth; the picture's grain is in neither, and must not darken the light."""
    grain = 0.2 * (torch.rand(1, 40, 60, generator=torch.Generator().manual_seed(0)) - 0.5)
    log_image = (-1 + grain).expand(3, -1, -1)
    said = Decomposition(torch.full((1, 3, 40, 60), -0.6), torch.full((1, 1, 40, 60), -0.4), torch.zeros(1, 3))
    found = applied(shading_coefficients(log_image, said), log_image)
    assert found.std() < 0.1 * grain.std()


def test_the_shading_grows_until_nearly_all_surfaces_reflect_less_than_white() -> None:
    log_image = logs()
    coefficients = torch.zeros(4, 24, 36)
    coefficients[3] = -4.0  # so dark a light would need surfaces brighter than white
    color = torch.tensor([0.1, 0.0, -0.1])
    coefficients[3] += brightness_excess(log_image, coefficients, color)
    reflected = (log_image - coefficients[3] - color[:, None, None]).amax(0)
    assert 0 <= (reflected > 0).float().mean() <= 1 - BRIGHT + 1e-6
    assert reflected.max() > -0.01  # and no further


def test_dark_surfaces_stay_dark() -> None:
    assert brightness_excess(logs() - 3, torch.zeros(4, 24, 36), torch.zeros(3)) == 0


def test_clipped_and_black_pixels_are_flagged_but_not_in_light_without_end() -> None:
    image = np.full((2, 3, 3), 0.5, np.float32)
    image[0, 0, 1], image[1, 2] = 1.0, 0.0
    expected = np.array([[True, False, False], [False, False, True]])
    assert (lost_light(image) == expected).all()
    image[0, 1] = 7.0
    assert (lost_light(image) == [[False] * 3, [False, False, True]]).all()


def test_the_shares_are_from_zero_to_one() -> None:
    assert 0 < SHADING_SHARE < 1
