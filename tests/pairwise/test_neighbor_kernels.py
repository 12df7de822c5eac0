"""The weights of shading's pairs by Triton against plain torch. Without a GPU: TRITON_INTERPRET=1, Triton installed."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor

from tests.kernels import DEVICE, INTERPRETED, needs_cuda, needs_kernels
from unlit.pairwise.neighbors import OFFSETS, PackedPairs, at_scale, paired
from unlit.pairwise.pairwise import _pairs_at_scale, build_pairwise
from unlit.pairwise.settings import Factor, FeatureScales, PairwiseSettings

DIAGONAL = 9.0


@pytest.fixture
def small_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks for the interpreter, to which sorting a row that is only padding costs as much as any."""
    if INTERPRETED:
        from unlit.pairwise import neighbor_kernels as kernels

        monkeypatch.setattr(kernels, "TILE", 32)


def sequence(m: int, h: int, w: int, seed: int = 0, valid: float = 0.75) -> tuple[Tensor, Tensor]:
    """Frames (m, 3, h, w), nearly gray and dark, and a mask with holes: no factor of a weight is always 0 or 1."""
    g = torch.Generator().manual_seed(seed)
    surface = 0.05 + 0.15 * torch.rand(1, 1, h, w, generator=g)
    light = 1 + 0.3 * torch.rand(m, 1, h, w, generator=g)
    tint = 1 + 0.03 * torch.rand(m, 3, h, w, generator=g)
    mask = torch.rand(m, 1, h, w, generator=g) < valid
    return (surface * light * tint * mask).to(DEVICE), mask.to(DEVICE)


def assert_as_plain(frames: Tensor, mask: Tensor, settings: PairwiseSettings | None = None) -> PackedPairs:
    """Plain torch has float64, and so is right where the kernel's digits may be few."""
    from unlit.pairwise import neighbor_kernels as kernels

    settings = settings or PairwiseSettings(shading_scales=1)
    fast = kernels.shading_pairs(frames, mask, settings, DIAGONAL)
    assert len(fast) == settings.shading_scales
    for level, pairs in enumerate(fast):
        plain = _pairs_at_scale(frames.double(), mask, level, settings, DIAGONAL)
        for mine, theirs in zip(pairs, plain, strict=True):
            assert mine.offset == theirs.offset
            assert int(mine.count) == int(theirs.count)
            torch.testing.assert_close(mine.weight.double(), theirs.weight, rtol=2e-4, atol=2e-5)
    return fast


@pytest.mark.gpu
@needs_kernels
@pytest.mark.usefixtures("small_programs")
class TestKernels:
    @pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
    def test_weights_and_counts_equal_plain_torch(self, m: int) -> None:
        frames, mask = sequence(m, 4, 5, seed=m)
        mask[:, :, 1, 1] = False  # a place that no frame shows
        fast = assert_as_plain(frames * mask, mask)
        assert len({round(float(v), 4) for v in fast[0][0].weight.flatten()}) > 3  # not all 0 or 1

    @pytest.mark.skipif(INTERPRETED, reason="takes the interpreter minutes")
    @pytest.mark.parametrize("m", [7, 8, 31, 32, 64, 65, 128])
    def test_weights_of_longer_and_larger_sequences_equal_plain_torch(self, m: int) -> None:
        assert_as_plain(*sequence(m, 37, 53, seed=m), PairwiseSettings())

    @pytest.mark.parametrize("normalized", [True, False])
    @pytest.mark.parametrize("factor", ["paper", "release"])
    def test_every_setting_reaches_the_weights(self, factor: Factor, normalized: bool) -> None:
        scales = FeatureScales(intensity=0.05, chromaticity=0.01, position=0.2)
        settings = PairwiseSettings(scales, "dense", 3, normalized, factor)
        assert_as_plain(*sequence(2, 5, 6), settings)

    @pytest.mark.parametrize(("h", "w"), [(1, 1), (1, 5), (5, 1), (9, 2), (2, 9)])
    def test_pictures_of_any_size_have_all_their_pairs_at_every_scale(self, h: int, w: int) -> None:
        assert_as_plain(*sequence(2, h, w), PairwiseSettings())

    def test_black_and_negative_colors_weigh_as_in_plain_torch(self) -> None:
        frames, mask = sequence(3, 3, 4)
        frames[:, :, 0] = 0
        # Neighbors whose tints would differ more if negative channels counted, or the sum of channels had no floor.
        frames[:, :, 1, :2] = torch.tensor([[0.1, 0.1], [-0.002, -0.004], [0.1, 0.1]], device=DEVICE)
        frames[:, :, 2, :2] = torch.tensor([[2e-9, 1.9e-9], [1e-9, 1e-9], [0.0, 0.0]], device=DEVICE)
        assert_as_plain(frames, torch.ones_like(mask))

    def test_frames_and_mask_may_lie_in_memory_as_they_like(self) -> None:
        frames, mask = sequence(2, 3, 4)
        assert_as_plain(frames.contiguous(memory_format=torch.channels_last), mask.mT.contiguous().mT)

    def test_pairs_without_a_neighbor_or_a_valid_pixel_are_zero_in_memory(self) -> None:
        frames, mask = sequence(2, 3, 4)
        fast = assert_as_plain(frames, mask)
        total = sum(float(pair.weight.sum()) for pair in fast[0])
        assert float(fast.weights.sum()) == pytest.approx(total, rel=1e-6)

    def test_sequences_too_long_or_of_other_numbers_are_left_to_plain_torch(self) -> None:
        from unlit.pairwise import neighbor_kernels as kernels

        assert kernels.fits(torch.rand(kernels.MOST_FRAMES, 3, 1, 1))
        assert not kernels.fits(torch.rand(kernels.MOST_FRAMES + 1, 3, 1, 1))
        assert not kernels.fits(torch.rand(2, 3, 1, 1, dtype=torch.float64))
        assert not kernels.fits(torch.rand(2, 3, 0, 1))


@pytest.mark.gpu
@needs_cuda
def test_pairs_on_a_gpu_are_packed_where_the_kernel_takes_the_frames() -> None:
    frames, mask = sequence(3, 8, 9)
    assert isinstance(build_pairwise(frames, mask).shading, PackedPairs)
    assert not isinstance(build_pairwise(frames.double(), mask).shading, PackedPairs)


def packed(m: int = 2, h: int = 7, w: int = 5, levels: int = 3) -> PackedPairs:
    numbers = len(OFFSETS) * m * sum(at_scale(torch.empty(h, w), level).numel() for level in range(levels))
    return PackedPairs(torch.arange(float(numbers)), torch.arange(levels * 4).reshape(levels, 4), (m, h, w))


def test_packed_pairs_lie_at_their_first_pixel() -> None:
    pairs, start = packed(), 0
    for level, at_one_scale in enumerate(pairs):
        rows, columns = at_scale(torch.empty(7, 5), level).shape
        for number, pair in enumerate(at_one_scale):
            block = pairs.weights[start : start + 2 * rows * columns].reshape(2, 1, rows, columns)
            assert pair.offset == OFFSETS[number]
            assert torch.equal(pair.weight, paired(block, pair.offset)[0])
            assert int(pair.count) == 4 * level + number
            start += 2 * rows * columns
    assert start == len(pairs.weights)


def test_packed_pairs_are_a_list_of_lists_and_can_be_copied() -> None:
    pairs = packed()
    assert type(pairs[:2]) is list
    copy = deepcopy(pairs)
    assert isinstance(copy, PackedPairs)
    assert torch.equal(copy.weights, pairs.weights)
    assert torch.equal(copy[2][3].weight, pairs[2][3].weight)
