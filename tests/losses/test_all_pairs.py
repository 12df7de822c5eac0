from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.reference import pairs as reference
from unlit.losses.all_pairs import all_pairs_sq_distance


def random_case(m: int = 5, dtype: torch.dtype = torch.float64, seed: int = 0) -> list[Tensor]:
    g = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(m, 3, 6, 7, generator=g, dtype=dtype) for _ in range(2))
    p, q = (torch.rand(m, 1, 6, 7, generator=g, dtype=dtype) for _ in range(2))
    return [x, y, p * (p > 0.3), q * (q > 0.3)]


@pytest.mark.parametrize("m", [1, 2, 5, 8])
def test_value_and_gradients_equal_the_double_sum(m: int) -> None:
    fast, slow = ([t.clone().requires_grad_() for t in random_case(m)] for _ in range(2))
    a, b = all_pairs_sq_distance(*fast), reference.all_pairs_sq_distance(*slow)
    a.backward()
    b.backward()
    torch.testing.assert_close(a, b, rtol=1e-10, atol=0)
    for mine, theirs in zip(fast, slow, strict=True):
        assert theirs.grad is not None
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-10, atol=1e-10 * float(theirs.grad.abs().max()))


def test_gradient_is_right_to_second_order() -> None:
    inputs = [t[:2, :2, :2, :2].clone().requires_grad_() for t in random_case(2)]
    torch.autograd.gradcheck(all_pairs_sq_distance, inputs)
    torch.autograd.gradgradcheck(all_pairs_sq_distance, inputs)


def test_the_formula_as_the_paper_prints_it_is_wrong() -> None:
    """The printed cross term, 2 Σ_{P²Y} Σ_{Q²X}, agrees with the definition only where P = Q or X = Y."""
    x, y, p, q = random_case()
    p2, q2 = p**2, q**2
    squares = q2.sum(0) * (p2 * x**2).sum(0) + p2.sum(0) * (q2 * y**2).sum(0)
    printed = (squares - 2 * (p2 * y).sum(0) * (q2 * x).sum(0)).sum()
    right = reference.all_pairs_sq_distance(x, y, p, q)
    assert abs(float(printed / right - 1)) > 0.01
    torch.testing.assert_close(all_pairs_sq_distance(x, y, p, q), right)


def test_float32_keeps_its_digits_on_a_dark_still_scene() -> None:
    """Log-values of −6 ± 0.001: without the common mean, the expanded square has lost most of them."""
    g = torch.Generator().manual_seed(1)
    x, y = (-6 + 0.001 * torch.randn(16, 3, 12, 12, generator=g, dtype=torch.float64) for _ in range(2))
    p, q = (torch.rand(16, 1, 12, 12, generator=g, dtype=torch.float64) for _ in range(2))
    x, y, p, q = (t.float().double() for t in (x, y, p, q))
    exact = [t.clone().requires_grad_() for t in (x, y)]
    single = [t.float().requires_grad_() for t in (x, y)]
    value = reference.all_pairs_sq_distance(exact[0], exact[1], p, q)
    quick = all_pairs_sq_distance(single[0], single[1], p.float(), q.float())
    value.backward()
    quick.backward()
    assert abs((quick.double() / value).item() - 1) < 1e-5
    for mine, theirs in zip(single, exact, strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert float((mine.grad.double() - theirs.grad).norm() / theirs.grad.norm()) < 1e-5


def test_pixels_without_weight_do_not_matter() -> None:
    x, y, p, q = random_case()
    before = all_pairs_sq_distance(x, y, p, q)
    x, y = torch.where(p == 0, 50.0, x), torch.where(q == 0, -50.0, y)
    torch.testing.assert_close(all_pairs_sq_distance(x, y, p, q), before)


def test_nothing_weighs_nothing() -> None:
    x, y, p, q = random_case()
    assert float(all_pairs_sq_distance(x, y, 0 * p, 0 * q)) == 0


def test_frames_may_come_in_any_order() -> None:
    x, y, p, q = random_case()
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(all_pairs_sq_distance(x[order], y, p[order], q), all_pairs_sq_distance(x, y, p, q))


@pytest.mark.parametrize("shape", [(), (1, 1, 1, 1), (1, 1, 6, 7), (6, 7), (5, 3, 6, 7), (5, 1, 1, 1)])
def test_weights_that_broadcast_count_for_every_frame(shape: tuple[int, ...]) -> None:
    x, y, _, _ = random_case()
    weight = torch.rand(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    full = weight.expand(5, weight.shape[1] if weight.ndim == 4 else 1, 6, 7)
    expected = reference.all_pairs_sq_distance(x, y, full, full)
    torch.testing.assert_close(all_pairs_sq_distance(x, y, weight, weight), expected)


def test_weights_may_be_integers_and_values_half_precision() -> None:
    x, y, p, q = random_case()
    counts = [(255 * (weight > 0)).to(torch.uint8) for weight in (p, q)]
    expected = reference.all_pairs_sq_distance(x, y, counts[0].double(), counts[1].double())
    torch.testing.assert_close(all_pairs_sq_distance(x, y, counts[0], counts[1]), expected)
    half = all_pairs_sq_distance(x.half(), y.half(), p.half(), q.half())
    assert half.dtype == torch.float32
    torch.testing.assert_close(half.double(), reference.all_pairs_sq_distance(x, y, p, q), rtol=1e-2, atol=0)


def test_values_that_are_not_numbers_do_not_matter_without_weight() -> None:
    x, y, p, q = random_case()
    before = all_pairs_sq_distance(x, y, p, q)
    x, y = torch.where(p == 0, torch.nan, x), torch.where(q == 0, torch.inf, y)
    torch.testing.assert_close(all_pairs_sq_distance(x, y, p, q), before)
