"""The Triton kernels against plain torch. On a machine without a GPU: TRITON_INTERPRET=1 with Triton installed."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import DEVICE, INTERPRETED, needs_kernels
from unlit.pairwise import construction
from unlit.pairwise.bistochastic import ROUNDS, TOLERANCE
from unlit.pairwise.features import pixel_features
from unlit.pairwise.filtering import TorchFilter
from unlit.pairwise.lattice import PermutohedralLattice
from unlit.pairwise.packing import Packing, distinct
from unlit.pairwise.settings import FeatureScales

pytestmark = [pytest.mark.gpu, needs_kernels]


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
    steps = torch.tensor(vertices.steps(construction.axis_steps(d)))
    fast = kernels.corners(simplices.to(DEVICE), packing, vertices)
    assert torch.equal(fast.cpu(), construction._corners(simplices, packing, steps, vertices))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("m", "h", "w"), [(1, 1, 1), (2, 7, 1), (1, 1, 9), (3, 12, 17)])
def test_features_of_pixels_are_those_of_plain_torch(m: int, h: int, w: int, masked: bool) -> None:
    from unlit.pairwise import feature_kernels as kernels

    frames = torch.rand(m, 3, h, w, generator=torch.Generator().manual_seed(0)).sub_(0.1).to(DEVICE)  # some below zero
    frames[0, :, 0, 0] = 0  # black has no color
    scales = FeatureScales(0.2, 0.05, 0.3)
    pixels = torch.arange(0, m * h * w, 3, device=DEVICE) if masked else None
    expected = pixel_features(frames, scales).permute(0, 2, 3, 1).reshape(-1, 5)
    assert kernels.fits(frames)
    found = kernels.point_features(frames, pixels, scales)
    torch.testing.assert_close(found, expected if pixels is None else expected[pixels], rtol=1e-6, atol=1e-6)


def test_features_of_other_frames_are_left_to_plain_torch() -> None:
    from unlit.pairwise import feature_kernels as kernels

    assert not kernels.fits(torch.zeros(1, 3, 2, 2, dtype=torch.float64))
    assert not kernels.fits(torch.zeros(1, 1, 2, 2))
    assert not kernels.fits(torch.zeros(0, 3, 2, 2))


@pytest.mark.parametrize("n", [1, 255, 256, 1000])
def test_points_are_laid_out_so_that_lanes_read_side_by_side(n: int) -> None:
    from unlit.pairwise.filtering_kernels import RUN, RUNS, laid_out

    order = torch.arange(n)
    found = laid_out(order)
    assert torch.equal(found.sort().values, order)
    for first in range(0, n - RUN * RUNS + 1, RUN * RUNS):  # a lane's points are one run of the order
        lanes = found[first : first + RUN * RUNS].reshape(RUN, RUNS).T
        assert torch.equal(lanes.reshape(-1), order[first : first + RUN * RUNS])
