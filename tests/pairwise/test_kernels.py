"""The Triton kernels against plain torch. On a machine without a GPU: TRITON_INTERPRET=1 with Triton installed."""

from __future__ import annotations

import os

import pytest
import torch

from unlit.pairwise import construction
from unlit.pairwise.bistochastic import ROUNDS, TOLERANCE
from unlit.pairwise.filtering import TorchFilter, has_kernels
from unlit.pairwise.lattice import PermutohedralLattice
from unlit.pairwise.packing import Packing, distinct

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (has_kernels() and (INTERPRETED or torch.cuda.is_available())),
        reason="needs Triton and a CUDA device (or TRITON_INTERPRET=1)",
    ),
]


def points(n: int, d: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    return (4 * torch.rand(n, d, generator=g, dtype=torch.float64)).to(DEVICE, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 6])
def test_points_are_located_as_by_plain_torch(d: int, dtype: torch.dtype) -> None:
    from unlit.pairwise import construction_kernels as kernels

    features = points(1001, d, dtype)
    group = torch.randint(-2, 3, (1001,), device=DEVICE)
    packing = Packing([*construction._ranges(features, group), *[(0, d)] * d])
    codes, weights = kernels.located(features, group, packing)
    expected, expected_weights = construction._located(features.cpu(), group.cpu(), packing)
    assert torch.equal(codes.cpu(), expected)
    torch.testing.assert_close(weights.cpu(), expected_weights, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 3, 11])
def test_the_filter_equals_plain_torch(k: int, dtype: torch.dtype) -> None:
    from unlit.pairwise.filtering_kernels import TritonFilter

    lattice = PermutohedralLattice(points(3000, 5, dtype))
    values = torch.randn(3000, k, device=DEVICE, dtype=dtype)
    fast, plain = TritonFilter(lattice.structure), TorchFilter(lattice.structure)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-11
    torch.testing.assert_close(fast(values), plain(values), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bistochastic_scale_equals_that_of_plain_torch(dtype: torch.dtype) -> None:
    from unlit.pairwise.filtering_kernels import TritonFilter

    structure = PermutohedralLattice(points(3000, 5, dtype)).structure
    fast, plain = (f(structure).bistochastic(ROUNDS, TOLERANCE) for f in (TritonFilter, TorchFilter))
    torch.testing.assert_close(fast.scale, plain.scale, rtol=1e-5, atol=0)
    torch.testing.assert_close(fast.row_sums, torch.ones_like(fast.row_sums), rtol=0, atol=3 * TOLERANCE)


@pytest.mark.parametrize("size", [0.0, 1e-20, 1e20])
def test_values_of_any_size_are_summed(size: float) -> None:
    from unlit.pairwise.filtering_kernels import TritonFilter

    lattice = PermutohedralLattice(points(500, 3, torch.float32))
    values = size * torch.randn(500, 2, device=DEVICE)
    result, expected = (f(lattice.structure)(values) for f in (TritonFilter, TorchFilter))
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5 * size)


def test_repetitions_agree_to_the_last_bit() -> None:
    features = points(20_000 if INTERPRETED else 300_000, 5, torch.float32)
    values = torch.randn(len(features), 3, device=DEVICE)
    lattice, again = PermutohedralLattice(features), PermutohedralLattice(features)
    first = lattice.filter(values)
    assert all(torch.equal(first, other.filter(values)) for other in (lattice, again, lattice))
    assert torch.equal(lattice.bistochastic_scale(), again.bistochastic_scale())


@pytest.mark.parametrize("d", [1, 2, 5, 6])
def test_corners_of_simplices_are_those_of_plain_torch(d: int) -> None:
    from unlit.pairwise import construction_kernels as kernels

    features = points(2000, d, torch.float64) - 2
    group = torch.randint(-2, 3, (2000,), device=DEVICE)
    group_range, *cells = construction._ranges(features, group)
    packing = Packing([group_range, *cells, *[(0, d)] * d])
    vertices = Packing([group_range, *[((d + 1) * low - 3 * d, (d + 1) * high + 3 * d) for low, high in cells]])
    simplices = distinct(construction._located(features.cpu(), group.cpu(), packing)[0]).rows
    steps = vertices.steps(construction._axis_steps(d))
    fast = kernels.corners(simplices.to(DEVICE), packing, steps.to(DEVICE), vertices)
    assert torch.equal(fast.cpu(), construction._corners(simplices, packing, steps, vertices))
