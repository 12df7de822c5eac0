from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unlit.pairwise.features import pixel_features
from unlit.pairwise.settings import FeatureScales


def random_frames(m: int = 2, h: int = 4, w: int = 5, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(m, 3, h, w, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("scales", [None, FeatureScales(), FeatureScales(0.3, 0.5, 2.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_features_are_intensity_chromaticity_and_position_each_by_its_scale(
    dtype: torch.dtype, scales: FeatureScales | None
) -> None:
    frames = random_frames(dtype=dtype)
    features = pixel_features(frames, scales)
    assert features.dtype == dtype
    assert features.shape == (2, 5, 4, 5)
    by_intensity, by_color, by_position = (0.3, 0.5, 2.0) if scales and scales.intensity == 0.3 else (0.12, 0.025, 0.1)
    for i in range(2):
        for y in range(4):
            for x in range(5):
                red, green, blue = frames[i, :, y, x].tolist()
                total = red + green + blue
                place = [x / (by_position * math.hypot(4, 5)), y / (by_position * math.hypot(4, 5))]
                expected = [total / 3 / by_intensity, red / total / by_color, green / total / by_color, *place]
                torch.testing.assert_close(features[i, :, y, x], torch.tensor(expected, dtype=dtype))


def test_brightness_moves_intensity_alone() -> None:
    frames = 0.2 + 0.1 * random_frames()
    dim, bright = pixel_features(frames), pixel_features(3 * frames)
    torch.testing.assert_close(bright[:, 0], 3 * dim[:, 0])
    torch.testing.assert_close(bright[:, 1:], dim[:, 1:])


def test_a_larger_picture_of_the_same_view_spans_the_same_positions() -> None:
    small, large = (pixel_features(random_frames(h=h, w=2 * h))[0, 3:] for h in (10, 40))
    torch.testing.assert_close(large[:, ::4, ::4], small)


def test_black_and_single_pixels_have_finite_features() -> None:
    assert bool(torch.isfinite(pixel_features(torch.zeros(1, 3, 3, 3))).all())
    assert not pixel_features(torch.zeros(1, 3, 1, 1)).any()
