"""Pairs of pixels against the truth: equal to plain loops, and what the term wants of a network."""

import math

import pytest
import torch

from tests.reference import supervised as reference
from unlit.losses.supervised_settings import MARGIN, SupervisedSettings
from unlit.losses.truth_pairs import STEP, truth_pairs_term

M, H, W = 2, 11, 13


def random_colors(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 0.02 + torch.rand(M, 3, H, W, generator=generator, dtype=torch.float64)


def random_mask() -> torch.Tensor:
    return torch.rand(M, 1, H, W, generator=torch.Generator().manual_seed(3)) > 0.2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("margin", [0.1, MARGIN, 1.0])
def test_value_and_gradient_equal_plain_loops(dtype: torch.dtype, margin: float) -> None:
    truth, mask = random_colors(0), random_mask()
    truth[:, :, 4:6, 2:9] = 0  # unknown
    mine, theirs = (random_colors(1).log().to(kind).requires_grad_() for kind in (dtype, torch.float64))
    value = truth_pairs_term(mine, truth.to(dtype), mask, margin)
    expected = reference.truth_pairs(theirs, truth, mask, margin, (6,), STEP)
    assert expected.item() > 0.01
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-7)
    slope, wanted = torch.autograd.grad(value, mine)[0], torch.autograd.grad(expected, theirs)[0]
    torch.testing.assert_close(slope.double(), wanted, rtol=1e-4, atol=1e-7)


def test_pairs_far_apart_are_compared_where_the_picture_is_large_enough() -> None:
    generator = torch.Generator().manual_seed(5)
    truth, estimate = (0.1 + torch.rand(1, 3, 21, 26, generator=generator, dtype=torch.float64) for _ in range(2))
    mask = torch.ones(1, 1, 21, 26, dtype=torch.bool)
    value = truth_pairs_term(estimate.log(), truth, mask)
    expected = reference.truth_pairs(estimate.log(), truth, mask, MARGIN, (6, 18), STEP)
    torch.testing.assert_close(value, expected)
    assert value.item() != pytest.approx(reference.truth_pairs(estimate.log(), truth, mask, MARGIN, (6,), STEP).item())


def test_the_truth_loses_nothing_at_any_scale_of_a_frame() -> None:
    truth, mask = random_colors(0), random_mask()
    scales = torch.tensor([-3.0, 2.0], dtype=torch.float64).reshape(M, 1, 1, 1)
    assert truth_pairs_term(truth.log() + scales, truth, mask).item() < 1e-12


def test_one_reflectance_serves_all_frames() -> None:
    truth, mask, estimate = random_colors(0), random_mask(), random_colors(1).log()
    once = truth_pairs_term(estimate, truth[0], mask)
    torch.testing.assert_close(once, truth_pairs_term(estimate, truth[:1].expand(M, -1, -1, -1), mask))


def test_what_is_masked_may_hold_anything() -> None:
    truth, mask, estimate = random_colors(0), random_mask(), random_colors(1).log()
    expected = truth_pairs_term(estimate, truth, mask)
    for junk in (math.nan, math.inf):
        spoiled = torch.where(mask, estimate, junk).requires_grad_()
        value = truth_pairs_term(spoiled, torch.where(mask, truth, junk), mask)
        torch.testing.assert_close(value, expected)
        assert bool(torch.isfinite(torch.autograd.grad(value, spoiled)[0]).all())
    assert truth_pairs_term(estimate, truth, torch.zeros_like(mask)).item() == 0


def test_who_is_unsure_does_best_to_say_what_is_likelier() -> None:
    # Two scenes look the same: in `different` of ten the right half is darker by three margins, else it is equal.
    mask = torch.ones(10, 1, 8, 16, dtype=torch.bool)
    for different, said in ((7, 1.5), (3, 1 / 1.5)):
        truth = torch.full((10, 3, 8, 16), 0.8, dtype=torch.float64)
        truth[:different, :, :, 8:] *= math.exp(-3 * MARGIN)
        losses = []
        for step in torch.linspace(0, 3, 61, dtype=torch.float64):
            estimate = torch.zeros(10, 3, 8, 16, dtype=torch.float64)
            estimate[..., 8:] -= step * MARGIN
            losses.append(truth_pairs_term(estimate, truth, mask))
        best = 0.05 * int(torch.stack(losses).argmin())
        assert best == pytest.approx(said, abs=0.06)


def test_a_margin_of_nothing_is_refused() -> None:
    SupervisedSettings(margin=0.0)
    with pytest.raises(ValueError, match="give a margin"):
        SupervisedSettings(truth_pairs=1.0, margin=0.0)
