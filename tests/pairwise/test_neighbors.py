from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.reference import pairs as reference
from unlit.pairwise.features import pixel_features
from unlit.pairwise.neighbors import (
    OFFSETS,
    at_scale,
    color_affinity,
    dense_affinity,
    median_over_frames,
    neighbor_pairs,
    paired,
    shading_weight,
)
from unlit.pairwise.pairwise import build_pairwise, dense_pairs
from unlit.pairwise.settings import SCALES, Factor, FeatureScales, PairwiseSettings

SETTINGS = FeatureScales()


def sequence(m: int = 3, h: int = 5, w: int = 6, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Frames (m, 3, h, w), nearly gray and dark, and a mask with holes.

    So neighbors differ little by their features and much by their logs: no factor of a weight is always 0 or 1.
    """
    g = torch.Generator().manual_seed(seed)
    surface = 0.05 + 0.15 * torch.rand(1, 1, h, w, generator=g, dtype=torch.float64)
    light = 1 + 0.3 * torch.rand(m, 1, h, w, generator=g, dtype=torch.float64)
    tint = 1 + 0.03 * torch.rand(m, 3, h, w, generator=g, dtype=torch.float64)
    return surface * light * tint, torch.rand(m, 1, h, w, generator=g) > 0.2


def weights_by_pair(weight: Tensor, offset: tuple[int, int]) -> Iterator[tuple[int, int, int, float]]:
    """Yield frame, row and column of p, and the weight of the pair."""
    left = max(-offset[1], 0)
    for i, y, x in np.ndindex(weight.shape[0], *weight.shape[2:]):
        yield i, y, x + left, float(weight[i, 0, y, x])


@pytest.mark.parametrize("factor", ["paper", "release"])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("offset", OFFSETS)
def test_weights_equal_loops_over_frames_and_pixels(
    offset: tuple[int, int], m: int, normalized: bool, factor: Factor
) -> None:
    frames, mask = sequence(m)
    weight = shading_weight(frames, mask, offset, SETTINGS, normalized_median=normalized, factor=factor, pixel=0.05)
    weight = neighbor_pairs(mask, offset, weight).weight
    slow = reference.shading_weights(
        frames, mask, offset, normalized=normalized, release=factor == "release", pixel=0.05
    )
    for i, y, x, mine in weights_by_pair(weight, offset):
        assert math.isclose(mine, slow[i][y][x] or 0.0, rel_tol=1e-9, abs_tol=1e-15)
    assert len({round(v, 6) for *_, v in weights_by_pair(weight, offset)}) > 5  # not all 0 or 1


@pytest.mark.parametrize("factor", ["paper", "release"])
def test_each_scale_has_the_weights_of_the_picture_reduced_by_its_step(factor: Factor) -> None:
    frames, mask = sequence(3, 17, 20)
    pairwise = build_pairwise(frames, mask, PairwiseSettings(shading_factor=factor))
    assert len(pairwise.shading) == SCALES
    for level, pairs in enumerate(pairwise.shading):
        step = 2**level
        small, small_mask = frames[:, :, ::step, ::step], mask[:, :, ::step, ::step]
        assert [pair.offset for pair in pairs] == list(OFFSETS)
        for pair in pairs:
            slow = reference.shading_weights(
                small, small_mask, pair.offset, release=factor == "release", pixel=step / math.hypot(17, 20)
            )
            for i, y, x, mine in weights_by_pair(pair.weight, pair.offset):
                assert math.isclose(mine, slow[i][y][x] or 0.0, rel_tol=1e-9, abs_tol=1e-15)
            assert int(pair.count) == sum(v is not None for plane in slow for row in plane for v in row)


@pytest.mark.parametrize("factor", ["paper", "release"])
@pytest.mark.parametrize("offset", OFFSETS)
def test_p_and_q_exchanged_have_the_same_weight(offset: tuple[int, int], factor: Factor) -> None:
    """As the four offsets that are left out would have it."""
    frames, mask = sequence(4)
    weight = neighbor_pairs(mask, offset, shading_weight(frames, mask, offset, SETTINGS, factor=factor)).weight
    opposite = (-offset[0], -offset[1])
    slow = reference.shading_weights(frames, mask, opposite, release=factor == "release")
    for i, y, x, mine in weights_by_pair(weight, offset):
        assert math.isclose(mine, slow[i][y + offset[0]][x + offset[1]] or 0.0, rel_tol=1e-9, abs_tol=1e-15)


def test_the_normalized_median_forgives_small_changes_of_large_differences() -> None:
    frames, mask = sequence()
    for offset in OFFSETS:
        with_it, without = (
            shading_weight(frames, mask, offset, SETTINGS, normalized_median=flag) for flag in (True, False)
        )
        assert bool((with_it >= without).all())
        assert bool((with_it > without).any())


def test_a_pair_that_keeps_its_difference_weighs_most_in_frames_without_an_edge_of_light() -> None:
    frames, _ = sequence(1, 1, 2)
    frames = frames * torch.tensor([1.0, 0.5, 0.8, 1.2, 0.9]).reshape(5, 1, 1, 1)  # the same light on both
    frames[3, :, :, 1] *= 0.3  # in frame 3, q is in shadow
    weight = shading_weight(frames, torch.ones(5, 1, 1, 2, dtype=torch.bool), (0, 1), SETTINGS).flatten()
    steady = weight[[0, 1, 2, 4]]
    torch.testing.assert_close(steady, steady[:1].expand(4))
    assert 0 <= float(weight[3]) < 1e-3 * float(steady[0])


def test_steady_light_leaves_the_factor_alone() -> None:
    """v_med is 1 where nothing changes: 1 − W is left as in the paper, 1 + 12 (1 − W) as in the release."""
    frames, mask = sequence(1)
    frames, mask = frames.expand(3, -1, -1, -1), torch.ones_like(mask).expand(3, -1, -1, -1)
    for offset in OFFSETS:
        alike = color_affinity(frames, offset, SETTINGS)
        torch.testing.assert_close(shading_weight(frames, mask, offset, SETTINGS), 1 + 12 * (1 - alike))
        near = dense_affinity(frames, offset, SETTINGS, 0.02 * math.hypot(*offset))
        printed = shading_weight(frames, mask, offset, SETTINGS, factor="paper", pixel=0.02)
        torch.testing.assert_close(printed, 1 - near)


@pytest.mark.parametrize("offset", OFFSETS)
def test_the_dense_affinity_is_the_gaussian_of_the_features(offset: tuple[int, int]) -> None:
    frames, _ = sequence()
    difference = torch.sub(*paired(pixel_features(frames), offset))
    expected = torch.exp(-0.5 * difference.square().sum(1, keepdim=True))
    distance = math.hypot(*offset) / math.hypot(5, 6)
    torch.testing.assert_close(dense_affinity(frames, offset, SETTINGS, distance), expected)


@pytest.mark.parametrize("m", range(1, 8))
def test_the_median_is_that_of_the_valid_frames(m: int) -> None:
    g = torch.Generator().manual_seed(m)
    values = torch.randn(m, 1, 6, 7, generator=g, dtype=torch.float64)
    valid = torch.rand(m, 1, 6, 7, generator=g) > 0.4
    median = median_over_frames(values, valid)
    assert median.shape == (1, 1, 6, 7)
    for y in range(6):
        for x in range(7):
            column = values[:, 0, y, x][valid[:, 0, y, x]].numpy()
            assert float(median[0, 0, y, x]) == pytest.approx(np.median(column) if len(column) else 0.0, rel=1e-15)


@pytest.mark.parametrize(("h", "w"), [(4, 5), (2, 2), (1, 6), (6, 1), (1, 1)])
def test_every_pair_of_the_eight_neighbors_is_there_once(h: int, w: int) -> None:
    pixels = torch.arange(h * w).reshape(1, 1, h, w)
    mine = []
    for offset in OFFSETS:
        p, q = (ends.flatten().tolist() for ends in paired(pixels, offset))
        mine += [frozenset(pair) for pair in zip(p, q, strict=True)]
    places = [(y, x) for y in range(h) for x in range(w)]
    expected = {
        frozenset((a[0] * w + a[1], b[0] * w + b[1]))
        for a in places
        for b in places
        if max(abs(a[0] - b[0]), abs(a[1] - b[1])) == 1
    }
    assert len(mine) == len(set(mine))
    assert set(mine) == expected


def test_a_pair_is_p_and_the_pixel_offset_from_it() -> None:
    y, x = torch.meshgrid(torch.arange(4), torch.arange(5), indexing="ij")
    for offset in OFFSETS:
        for values, step in ((y, offset[0]), (x, offset[1])):
            p, q = paired(values, offset)
            assert bool((q - p == step).all())


def test_scales_take_every_second_pixel_again_and_again() -> None:
    values = torch.arange(90.0).reshape(1, 1, 9, 10)
    assert torch.equal(at_scale(values, 0), values)
    for level in range(3):
        assert torch.equal(at_scale(values, level + 1), at_scale(values, level)[..., ::2, ::2])


@pytest.mark.parametrize("reflectance", ["dense", "local"])
@pytest.mark.parametrize(("h", "w"), [(1, 1), (1, 5), (5, 1)])
def test_pictures_without_some_neighbors_have_fewer_pairs_and_no_nan(
    h: int, w: int, reflectance: Literal["dense", "local"]
) -> None:
    frames, _ = sequence(3, h, w)
    mask = torch.ones(3, 1, h, w, dtype=torch.bool)
    pairwise = build_pairwise(frames, mask, PairwiseSettings(reflectance=reflectance))
    counts = [int(pair.count) for pair in pairwise.shading[0]]
    assert counts == [3 * h * (w - 1), 3 * (h - 1) * w, 0, 0]
    for pair in [pair for pairs in [*pairwise.shading, pairwise.local or []] for pair in pairs]:
        assert pair.weight.numel() == int(pair.count)
        assert bool(torch.isfinite(pair.weight).all())


def test_pairs_with_a_masked_pixel_weigh_nothing_and_are_not_counted() -> None:
    mask = torch.ones(1, 1, 3, 3, dtype=torch.bool)
    mask[0, 0, 1, 1] = False
    for offset in OFFSETS:
        p, q = paired(mask, offset)
        pairs = neighbor_pairs(mask, offset, torch.ones(1, 1, *p.shape[2:]))
        assert torch.equal(pairs.weight > 0, p & q)
        assert int(pairs.count) == p.numel() - 2


def test_every_setting_reaches_the_pairs() -> None:
    frames, mask = sequence()
    wide = FeatureScales(0.5, 0.2, 0.4)
    dense = build_pairwise(frames, mask, PairwiseSettings(scales=wide, normalized_median=False, shading_scales=2))
    assert dense.dense is not None
    assert torch.equal(dense.dense.scaled.scale, dense_pairs(frames, mask, wide).scaled.scale)
    assert not torch.equal(dense.dense.scaled.scale, dense_pairs(frames, mask).scaled.scale)
    assert len(dense.shading) == 2
    for pair in dense.shading[0]:
        weight = shading_weight(frames, mask, pair.offset, wide, normalized_median=False)
        assert torch.equal(pair.weight, neighbor_pairs(mask, pair.offset, weight).weight)
    local = build_pairwise(frames, mask, PairwiseSettings(scales=wide, reflectance="local"))
    for pair in local.local or []:
        weight = color_affinity(frames, pair.offset, wide)
        assert torch.equal(pair.weight, neighbor_pairs(mask, pair.offset, weight).weight)


@pytest.mark.parametrize("reflectance", ["dense", "local"])
def test_pairs_are_constant_even_of_frames_that_carry_gradients(reflectance: Literal["dense", "local"]) -> None:
    frames, mask = sequence()
    pairwise = build_pairwise(frames.requires_grad_(), mask, PairwiseSettings(reflectance=reflectance))
    for pair in [pair for pairs in [*pairwise.shading, pairwise.local or []] for pair in pairs]:
        assert not pair.weight.requires_grad


def test_settings_that_mean_nothing_are_refused() -> None:
    for wrong, message in (
        ({"shading_scales": 0}, "shading_scales must be from 1 to 16, not 0"),
        ({"reflectance": "sparse"}, "'dense' or 'local', not 'sparse'"),
        ({"shading_factor": "none"}, "'paper' or 'release', not 'none'"),
    ):
        with pytest.raises(ValueError, match=message):
            PairwiseSettings(**wrong)
