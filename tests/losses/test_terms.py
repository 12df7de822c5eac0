from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.reference import pairs as reference
from unlit.losses.consistency import consistency_term
from unlit.losses.reconstruction import reconstruction_term
from unlit.losses.reflectance import dense_reflectance_term, local_reflectance_term
from unlit.losses.shading import shading_term
from unlit.pairwise.features import pixel_features
from unlit.pairwise.neighbors import OFFSETS, color_affinity, neighbor_pairs, paired
from unlit.pairwise.pairwise import build_pairwise, dense_pairs
from unlit.pairwise.settings import PairwiseSettings


def scene(
    m: int = 4, h: int = 9, w: int = 8, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Frames (m, 3, h, w) of a patchy surface under drifting light, and a mask with holes."""
    g = torch.Generator().manual_seed(seed)
    surface = 0.1 + 0.8 * torch.rand(1, 3, (h + 3) // 4, (w + 3) // 4, generator=g, dtype=dtype)
    surface = surface.repeat_interleave(4, 2).repeat_interleave(4, 3)[..., :h, :w]
    ramp = torch.linspace(0.2, 1, w, dtype=dtype).reshape(1, 1, 1, w)
    light = ramp ** torch.rand(m, 1, 1, 1, generator=g, dtype=dtype) * (
        0.5 + torch.rand(m, 1, 1, 1, generator=g, dtype=dtype)
    )
    frames = surface * light * (1 + 0.05 * torch.randn(m, 3, h, w, generator=g, dtype=dtype)).clamp_min(0.5)
    return frames, torch.rand(m, 1, h, w, generator=g) > 0.2


def logs(m: int = 4, c: int = 3, h: int = 9, w: int = 8, seed: int = 1) -> Tensor:
    return torch.randn(m, c, h, w, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_reconstruction_equals_the_double_sum_over_frames() -> None:
    frames, mask = scene()
    r, light = logs(), logs(seed=2)
    torch.testing.assert_close(
        reconstruction_term(frames, mask, r, light),
        reference.reconstruction(frames, mask, r, light),
        rtol=1e-10,
        atol=0,
    )


def test_per_image_reconstruction_is_the_diagonal_of_the_double_sum() -> None:
    frames, mask = scene()
    r, light = logs(), logs(seed=2)
    mine = reconstruction_term(frames, mask, r, light, all_pairs=False)
    singles = [reference.reconstruction(*(t[i : i + 1] for t in (frames, mask, r, light))) for i in range(4)]
    counts = mask.sum((1, 2, 3))
    torch.testing.assert_close(mine, sum(s * c for s, c in zip(singles, counts, strict=True)) / counts.sum())


def test_consistency_equals_the_double_sum_over_frames() -> None:
    _, mask = scene()
    torch.testing.assert_close(consistency_term(mask, logs()), reference.consistency(mask, logs()), rtol=1e-10, atol=0)


def test_consistency_of_one_frame_is_zero_and_so_is_its_gradient() -> None:
    r = logs(m=1).requires_grad_()
    value = consistency_term(torch.ones(1, 1, 9, 8, dtype=torch.bool), r)
    value.backward()
    assert value.item() == 0
    assert r.grad is not None
    assert float(r.grad.abs().max()) == 0


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("m", [3, 4])
def test_shading_equals_loops_over_scales_neighbors_and_pixels(release: bool, m: int) -> None:
    frames, mask = scene(m, 11, 10)
    s = logs(m, 1, 11, 10)
    pairs = build_pairwise(frames, mask, PairwiseSettings(shading_factor="release" if release else "paper"))
    slow = reference.shading(frames, mask, s, release=release)
    assert math.isclose(float(shading_term(pairs.shading, s)), slow, rel_tol=1e-9)


def test_one_scale_of_shading_is_the_first_of_four() -> None:
    frames, mask = scene()
    pairs = build_pairwise(frames, mask, PairwiseSettings(shading_scales=1))
    s = logs(c=1)
    assert math.isclose(
        float(shading_term(pairs.shading, s)), reference.shading(frames, mask, s, scales=1), rel_tol=1e-9
    )


def test_local_reflectance_equals_its_sum() -> None:
    frames, mask = scene()
    pairs = build_pairwise(frames, mask, PairwiseSettings(reflectance="local"))
    assert pairs.dense is None
    assert pairs.local is not None
    r, total = logs(), torch.zeros((), dtype=torch.float64)
    for offset in OFFSETS:
        weight = color_affinity(frames, offset, PairwiseSettings().scales)
        valid = torch.logical_and(*paired(mask, offset))
        total += (weight * valid * torch.sub(*paired(r, offset)).square()).sum() / valid.sum() / 12
    torch.testing.assert_close(local_reflectance_term(pairs.local, r), total)


def test_dense_reflectance_is_close_to_the_exact_bistochastic_form() -> None:
    frames, mask = scene(3, 16, 20)
    features = pixel_features(frames).permute(0, 2, 3, 1).reshape(-1, 5)[mask.reshape(-1)]
    exact = reference.bistochastic(reference.gaussian(features))
    pairs = dense_pairs(frames, mask)
    for seed in range(3):
        r = logs(3, 3, 16, 20, seed)
        slow = reference.dense_reflectance(exact, r.permute(0, 2, 3, 1).reshape(-1, 3)[mask.reshape(-1)])
        assert abs(float(dense_reflectance_term(pairs, r) / slow) - 1) < 0.1


@pytest.mark.parametrize("masked", [True, False])
def test_first_and_second_derivatives_of_dense_reflectance_are_those_of_its_value(masked: bool) -> None:
    frames, mask = scene(2, 4, 5)
    pairs = dense_pairs(frames, mask if masked else torch.ones_like(mask))
    r = logs(2, 3, 4, 5).requires_grad_()
    torch.autograd.gradcheck(lambda t: dense_reflectance_term(pairs, t), (r,))
    torch.autograd.gradgradcheck(lambda t: dense_reflectance_term(pairs, t), (r,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dense_reflectance_is_never_negative_and_zero_for_one_color(dtype: torch.dtype) -> None:
    frames, mask = scene(3, 12, 12, dtype)
    pairs = dense_pairs(frames, mask)
    for shift, spread in ((0.0, 1.0), (-6.0, 1e-3), (-6.0, 0.0), (3.0, 1e-6)):
        r = (shift + spread * logs(3, 3, 12, 12)).to(dtype)
        value = float(dense_reflectance_term(pairs, r))
        assert 0 <= value <= 1.01 * spread**2 * float(logs(3, 3, 12, 12).square().mean()) + 1e-12


def test_masked_pixels_have_no_say_in_any_term() -> None:
    frames, mask = scene()
    changed = torch.where(mask, frames, 0.9 * torch.ones_like(frames))
    r, s = logs(), logs(c=1)
    for settings in (PairwiseSettings(), PairwiseSettings(reflectance="local")):
        values = []
        for f, shift in ((frames, 0.0), (changed, 7.0)):
            pairs = build_pairwise(f, mask, settings)
            r2, s2 = (torch.where(mask, t, t + shift) for t in (r, s))
            smooth = (
                dense_reflectance_term(pairs.dense, r2)
                if pairs.dense
                else local_reflectance_term(pairs.local or [], r2)
            )
            values.append(
                (
                    reconstruction_term(f, mask, r2, s2),
                    consistency_term(mask, r2),
                    smooth,
                    shading_term(pairs.shading, s2),
                )
            )
        for before, after in zip(*values, strict=True):
            torch.testing.assert_close(before, after)


def test_a_mask_that_hides_everything_is_refused_by_the_dense_pairs() -> None:
    frames, mask = scene()
    with pytest.raises(ValueError, match="every pixel"):
        dense_pairs(frames, mask & False)


def test_pairs_without_valid_pixels_count_as_zero() -> None:
    pair = neighbor_pairs(torch.zeros(2, 1, 3, 3, dtype=torch.bool), (0, 1), torch.ones(2, 1, 3, 2))
    assert float(shading_term([[pair]], torch.rand(2, 1, 3, 3))) == 0
