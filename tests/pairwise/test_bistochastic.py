from __future__ import annotations

from itertools import islice

import pytest
import torch
from torch import Tensor

from tests.reference import pairs as reference
from unlit.pairwise.bistochastic import ROUNDS, TOLERANCE, bistochastic, expected_rounds, step_factors
from unlit.pairwise.lattice import PermutohedralLattice


def affinity(kind: str, seed: int, n: int = 80) -> Tensor:
    """A positive symmetric matrix (n, n) without negative eigenvalues."""
    g = torch.Generator().manual_seed(seed)
    if kind == "gaussian":
        return reference.gaussian(2 * torch.randn(n, 3, generator=g, dtype=torch.float64))
    if kind == "product":
        factor = torch.rand(n, 20, generator=g, dtype=torch.float64)
        return factor @ factor.T
    if kind == "uneven":  # most points at one place, a few in a row beside it
        return reference.gaussian(torch.cat([torch.zeros(n), torch.linspace(0, 8, n // 4)])[:, None].double())
    sizes = 10 ** torch.randn(n, 1, generator=g, dtype=torch.float64)
    return sizes * reference.gaussian(torch.randn(n, 2, generator=g, dtype=torch.float64)) * sizes.T


KINDS = ["gaussian", "product", "uneven", "sizes"]


def usual_iteration(w: Tensor, tolerance: float) -> tuple[Tensor, int]:
    """N ← sqrt(N / (W N)) until no scale changes by a larger fraction, and the rounds that it took."""
    scale, rounds, change = torch.ones_like(w[0]), 0, 1.0
    while change > tolerance:
        following = torch.sqrt(scale / (w @ scale))
        change = float((following / scale - 1).abs().max())
        scale, rounds = following, rounds + 1
    return scale, rounds


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_is_the_fixed_point_of_the_usual_iteration(kind: str, seed: int) -> None:
    w = affinity(kind, seed)
    expected, _ = usual_iteration(w, 1e-14)
    scale = bistochastic(w.mv, torch.ones_like(w[0])).scale
    torch.testing.assert_close(scale, expected, rtol=5 * TOLERANCE, atol=0)
    exact = bistochastic(w.mv, torch.ones_like(w[0]), rounds=100, tolerance=1e-14).scale
    torch.testing.assert_close(exact, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, TOLERANCE])
def test_it_takes_about_as_many_rounds_as_expected(tolerance: float) -> None:
    g = torch.Generator().manual_seed(0)
    lattice = PermutohedralLattice(6 * torch.rand(4000, 5, generator=g) ** 2)
    assert abs(lattice.bistochastic(tolerance=tolerance).rounds - expected_rounds(tolerance)) <= 2


def test_more_rounds_are_expected_of_a_smaller_tolerance_and_never_none() -> None:
    expected = [expected_rounds(tolerance) for tolerance in (10.0, 1.0, 1e-2, 1e-4, 1e-6, 0.0)]
    assert expected == sorted(expected)
    assert expected[0] >= 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_fewer_rounds_than_the_usual_iteration(kind: str, seed: int) -> None:
    """Each round gains nearly a factor of 6, not 2."""
    w = affinity(kind, seed)
    for tolerance in (TOLERANCE, 1e-12):
        _, usual = usual_iteration(w, tolerance)
        assert bistochastic(w.mv, torch.ones_like(w[0]), 200, tolerance).rounds <= 0.62 * usual


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_default_rounds_are_enough_for_the_default_tolerance(dtype: torch.dtype) -> None:
    for spread in (0.2, 1.5, 4.0):
        features = spread * torch.randn(2000, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
        result = PermutohedralLattice(features).bistochastic()
        assert result.rounds < ROUNDS
        assert float((result.row_sums - 1).abs().max()) <= 2.01 * TOLERANCE
        assert result.scale.dtype == dtype


def test_row_sums_and_rounds_are_those_of_the_scale_given_back() -> None:
    w = affinity("gaussian", 0)
    calls = []

    def filtering(values: Tensor) -> Tensor:
        calls.append(values.clone())
        return w @ values

    for rounds in (1, 2, 5, 100):
        calls.clear()
        result = bistochastic(filtering, torch.ones_like(w[0]), rounds, 1e-9)
        assert result.rounds == len(calls) <= rounds
        assert torch.equal(result.scale, calls[-1])
        torch.testing.assert_close(result.row_sums, result.scale * (w @ result.scale))
    assert len(calls) < 100


def test_it_goes_on_until_the_tolerance_is_met_and_no_further() -> None:
    w = affinity("gaussian", 1)
    for tolerance in (10 ** (-k / 4) for k in range(8, 40)):
        enough = bistochastic(w.mv, torch.ones_like(w[0]), 100, tolerance)
        assert float(enough.row_sums.log().abs().max()) <= 2 * tolerance
        fewer = bistochastic(w.mv, torch.ones_like(w[0]), enough.rounds - 1, tolerance)
        assert fewer.rounds == enough.rounds - 1
        assert float(fewer.row_sums.log().abs().max()) > 2 * tolerance


def test_a_filter_that_is_bistochastic_already_takes_one_round() -> None:
    result = bistochastic(lambda values: values.mean().expand_as(values).clone(), torch.ones(9))
    assert result.rounds == 1
    assert torch.equal(result.scale, torch.ones(9))


def test_steps_are_those_of_the_chebyshev_iteration() -> None:
    """On a linear problem x ← x + step with eigenvalues e in [1, 2] the error after k steps is T_k(3 − 2e) / T_k(3)."""
    e = torch.linspace(1, 2, 11, dtype=torch.float64)
    error, step = torch.ones_like(e), torch.zeros_like(e)
    before, now = torch.ones_like(e), 3 - 2 * e
    scale_before, scale_now = 1.0, 3.0
    for a, b in islice(step_factors(), 1, 8):
        step = a * step - b * e * error
        error = error + step
        torch.testing.assert_close(error, now / scale_now)
        before, now = now, 2 * (3 - 2 * e) * now - before
        scale_before, scale_now = scale_now, 6 * scale_now - scale_before


@pytest.mark.parametrize("rounds", [0, -1])
def test_no_rounds_are_refused(rounds: int) -> None:
    with pytest.raises(ValueError, match=f"rounds must be at least 1, not {rounds}"):
        bistochastic(lambda values: values.clone(), torch.ones(3), rounds)
    with pytest.raises(ValueError, match="rounds must be at least 1"):
        PermutohedralLattice(torch.zeros(3, 2)).bistochastic_scale(rounds)
