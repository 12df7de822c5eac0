from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.reference import paint as reference
from unlit.predict.paint import SHARE, lightness_correction, paint_correction


def random(*size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", [(7, 9), (1, 1), (1, 5)])
@pytest.mark.parametrize("spread", [0.05, 0.2, 3.0])
def test_the_grid_is_the_mean_over_all_pixels_by_their_likeness(size: tuple[int, int], spread: float) -> None:
    gray = -1 + 4 * spread * random(1, *size).double()
    logs = gray + spread * random(3, *size, seed=1).double()
    slow = reference.paint_correction(logs.numpy())
    np.testing.assert_allclose(paint_correction(logs)[0].numpy(), slow, atol=1e-9)


def test_one_paint_in_uneven_light_becomes_more_even() -> None:
    left_of_light = 0.2 * random(1, 30, 40)
    logs = torch.tensor([-0.5, -1.0, -2.0])[:, None, None] + left_of_light
    after = logs + paint_correction(logs)
    assert after.mean(0).std() < 0.7 * left_of_light.std()
    assert after.mean() == pytest.approx(float(logs.mean()), abs=0.01)


def test_two_paints_keep_apart_by_lightness_or_by_hue() -> None:
    """Two halves of a picture: twice as bright, or as bright in another color."""
    for other in ((0.69, 0.69, 0.69), (0.3, 0.0, -0.3)):
        logs = torch.full((3, 20, 20), -1.0)
        logs[:, :, 10:] += torch.tensor(other)[:, None, None]
        torch.testing.assert_close(paint_correction(logs), torch.zeros(1, 20, 20), atol=0.03, rtol=0)


def test_places_do_not_matter() -> None:
    logs = -1 + 0.2 * random(3, 12, 20)
    order = torch.randperm(240, generator=torch.Generator().manual_seed(0))
    mixed = paint_correction(logs.flatten(1)[:, order].reshape(3, 12, 20))
    torch.testing.assert_close(mixed.flatten(), paint_correction(logs).flatten()[order])


def test_the_scale_of_the_whole_does_not_matter() -> None:
    logs = -1 + 0.2 * random(3, 12, 20)
    torch.testing.assert_close(paint_correction(logs - 1.7), paint_correction(logs), atol=1e-4, rtol=0)


def test_few_digits_are_enough_and_extremes_stay_finite() -> None:
    logs = -2 + random(3, 40, 60)
    logs[:, :3] = -30.0
    logs[0, 3:5] = 25.0
    few, many = paint_correction(logs), paint_correction(logs.double())
    assert few.dtype == torch.float32
    torch.testing.assert_close(few.double(), many, atol=1e-3, rtol=0)


def test_large_even_surfaces_are_summed_without_loss() -> None:
    """Hundreds of thousands of equal shares: float32 would round each as it is added."""
    logs = torch.full((3, 600, 900), -2.1)
    logs[:, :, 450:] = -2.13
    logs[0, :, 300:] += 0.013
    logs[:, 0, 0] = -2.7
    torch.testing.assert_close(paint_correction(logs).double(), paint_correction(logs.double()), atol=1e-5, rtol=0)


def test_every_other_pixel_of_a_large_picture_says_the_same() -> None:
    light = torch.nn.functional.interpolate(random(1, 1, 6, 8), (256, 384), mode="bicubic")[0]
    logs = (0.4 * random(3, 4, 6, seed=3) - 1).repeat_interleave(64, 1).repeat_interleave(64, 2) + 0.15 * light
    fewer = paint_correction(logs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unlit.predict.paint.MANY", logs.numel())
        all_asked = paint_correction(logs)
    assert all_asked.std() > 0.02
    torch.testing.assert_close(fewer, all_asked, atol=0.01, rtol=0)


def test_a_color_that_nobody_was_asked_for_stays() -> None:
    logs = torch.full((3, 256, 384), -1.0)
    logs[0, 1, 1] = 1.0
    assert float(paint_correction(logs)[0, 1, 1].abs()) < 1e-3


def test_strong_colors_are_drawn_together_over_larger_differences_than_gray() -> None:
    two_tones = torch.full((3, 20, 30), -1.0)
    two_tones[:, :, 15:] -= 0.6
    red = two_tones + torch.tensor([0.4, -0.8, -0.8])[:, None, None]
    gray_drawn, red_drawn = (float(paint_correction(logs)[0, 0, 20]) for logs in (two_tones, red))
    assert gray_drawn < 0.02
    assert red_drawn > 0.1


def test_pixels_are_drawn_most_of_the_way_to_their_paint() -> None:
    logs = torch.tensor([-0.5, -1.0, -2.0])[:, None, None] + 0.1 * random(1, 30, 40)
    whole = paint_correction(logs)
    assert float(whole.abs().max()) > 0.02
    torch.testing.assert_close(lightness_correction(logs), SHARE * whole)
