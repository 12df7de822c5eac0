from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from unlit.model.decomposition import Decomposition
from unlit.predict.predictor import Predictor
from unlit.predict.scales import merged


def answer(log_shading: Tensor) -> Decomposition:
    """An answer whose parts all say the same."""
    return Decomposition(log_shading.expand(1, 3, -1, -1), log_shading, torch.full((1, 3), float(log_shading.mean())))


def noise(h: int, w: int, seed: int = 0) -> Tensor:
    return torch.randn(1, 1, h, w, generator=torch.Generator().manual_seed(seed))


def test_what_is_broad_comes_from_the_small_look_and_what_is_fine_from_the_large_one() -> None:
    broad = interpolate(noise(3, 4), (24, 32), mode="bicubic")
    fine = 0.1 * noise(96, 128, 1) + 5.0  # wrong by much, but broadly
    found = merged(answer(broad), answer(fine))
    assert found.log_shading.shape == (1, 1, 96, 128)
    small = interpolate(found.log_shading, (24, 32), mode="bilinear", antialias=True)
    assert (small - broad).abs().mean() < 0.05
    kept = found.log_shading - interpolate(broad, (96, 128), mode="bilinear")
    assert (kept - (fine - 5)).abs().mean() < 0.05
    torch.testing.assert_close(found.log_reflectance[:, :1], found.log_shading)
    torch.testing.assert_close(found.light_color, answer(broad).light_color)


def test_two_looks_of_one_size_are_one() -> None:
    both = answer(noise(24, 32))
    torch.testing.assert_close(merged(both, both).log_shading, both.log_shading)


def test_a_predictor_looks_twice_where_the_photograph_has_the_pixels(weights: Path) -> None:
    image = np.random.default_rng(0).uniform(0, 1, (200, 300, 3)).astype(np.float32)
    once, twice = (Predictor(weights, device="cpu", size=96, detail=d) for d in (None, 192))
    one, other = (p.decompose(image, encoding="linear") for p in (once, twice))
    assert not np.array_equal(one.gray_shading, other.gray_shading)
    np.testing.assert_allclose(other.recompose(), image, rtol=1e-5)
    np.testing.assert_allclose(one.light_color, other.light_color, rtol=1e-2)
    little = image[:40, :60]
    one, other = (p.decompose(little, encoding="linear") for p in (once, twice))
    np.testing.assert_array_equal(one.gray_shading, other.gray_shading)


@pytest.mark.parametrize(("size", "detail"), [(96, 96), (192, 96), (96, 5000)])
def test_a_second_look_is_larger(weights: Path, size: int, detail: int) -> None:
    with pytest.raises(ValueError, match="detail must be"):
        Predictor(weights, device="cpu", size=size, detail=detail)
