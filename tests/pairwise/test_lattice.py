"""The lattice against brute force, against its own definition, and at the edges.

Shapes: n points, d features, k channels.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from tests.reference import lattice as reference
from tests.reference import pairs
from unlit.image_io import Encoding, read_image
from unlit.losses.reflectance import dense_reflectance_term
from unlit.pairwise import construction, embedding
from unlit.pairwise.bistochastic import ROUNDS
from unlit.pairwise.features import pixel_features
from unlit.pairwise.filtering import SciPyFilter, TorchFilter, best_filter, gain
from unlit.pairwise.lattice import PermutohedralLattice
from unlit.pairwise.packing import Packing
from unlit.pairwise.pairwise import dense_pairs

DIMENSIONS = range(1, 7)
TYPES = [torch.float32, torch.float64]

SEQUENCES = [
    "webcams/chamonix",
    "webcams/courbevoie",
    "webcams/frankfurt",
    "webcams/panorama",
    "mit-intrinsic/apple",
    "mit-intrinsic/dinosaur",
    "lights-uw/cat",
    "lights-uw/rock",
]


def random_points(n: int, d: int, spread: float = 1.5, seed: int = 0) -> Tensor:
    """Normally distributed features (n, d): with a spread of 1 to 2 as crowded as those of an image."""
    return spread * torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_values(n: int, k: int = 3, seed: int = 1) -> Tensor:
    """Values (n, k) in [0, 1], as an image's are."""
    return torch.rand(n, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def lattice_vector(d: int, reach: int, seed: int = 0) -> Tensor:
    """Features (1, d) of a vertex at most about `reach` cells from zero."""
    k = torch.randint(-reach, reach + 1, (1, d + 1), generator=torch.Generator().manual_seed(seed)).double()
    return reference.features_at(k - k.mean())


def real_sequence(folder: Path, h: int, w: int, m: int = 3) -> tuple[Tensor, Tensor]:
    """Frames (m, 3, h, w) spread over a sequence, reduced by means, and their mask."""
    files = sorted(file for pattern in ("*.jpg", "light*.png", "[0-9]*.png") for file in folder.glob(pattern))
    encoding: Encoding = "linear" if files[0].name.startswith("light") else "srgb"
    pictures = [read_image(file, encoding=encoding).pixels for file in files[:: len(files) // m][:m]]
    frames = torch.cat([reduced(torch.from_numpy(p).permute(2, 0, 1)[None], h, w) for p in pictures])
    mask = torch.ones(m, 1, h, w, dtype=torch.bool)
    if (folder / "mask.png").is_file():
        valid = torch.from_numpy(read_image(folder / "mask.png", encoding="linear").pixels.max(-1))
        mask &= reduced(valid[None, None], h, w) >= 0.5
    return frames, mask


def reduced(pictures: Tensor, h: int, w: int) -> Tensor:
    return adaptive_avg_pool2d(pictures, (h, w))


def at_valid_pixels(values: Tensor, mask: Tensor) -> Tensor:
    """Values (m, k, h, w) as rows (n, k) of the valid pixels."""
    return values.permute(0, 2, 3, 1)[mask[:, 0]]


def correlation_error_and_scale(features: Tensor, values: Tensor) -> tuple[float, float, float]:
    """Of the filter with brute force: their correlation, the error after one global scale, and that scale."""
    fast = PermutohedralLattice(features).filter(values).double()
    slow = pairs.gaussian(features.double()) @ values.double()
    scale = (fast * slow).sum() / fast.square().sum()
    correlation = torch.corrcoef(torch.stack([fast.flatten(), slow.flatten()]))[0, 1]
    return float(correlation), float((scale * fast - slow).norm() / slow.norm()), float(scale)


# Against brute force


@pytest.mark.parametrize("spread", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_random_points_are_filtered_as_by_brute_force(d: int, spread: float) -> None:
    """Positive values, as images have. In 6 dimensions 2,500 points of spread 2 are few and far between."""
    correlation, error, scale = correlation_error_and_scale(random_points(2500, d, spread), random_values(2500))
    assert correlation >= 0.97
    assert error <= (0.12 if d < 6 else 0.15)
    assert 0.95 <= scale <= 1.2


def test_signed_noise_is_filtered_as_by_brute_force_up_to_the_nature_of_the_lattice() -> None:
    """The kernel varies a little with the place. Where values nearly cancel that shows: by 10 to 17 % for d = 5."""
    correlation, error, _ = correlation_error_and_scale(random_points(2500, 5), random_values(2500) - 0.5)
    assert correlation >= 0.97
    assert error <= 0.2


@pytest.mark.data
@pytest.mark.parametrize("name", SEQUENCES)
def test_real_pictures_are_filtered_as_by_brute_force(shared_data: Path, name: str) -> None:
    """In 1 to 5 dimensions of the features themselves, and in 6 with the frame's number as one more."""
    frames, mask = real_sequence(shared_data / name, 30, 40)
    number = 0.7 * torch.arange(3.0).reshape(3, 1, 1, 1).expand_as(mask)
    features = at_valid_pixels(torch.cat([pixel_features(frames), number], dim=1), mask)
    for d in DIMENSIONS:
        correlation, error, scale = correlation_error_and_scale(features[:, :d], at_valid_pixels(frames, mask))
        assert correlation >= 0.97
        assert error <= 0.12
        assert 0.95 <= scale <= 1.35


@pytest.mark.parametrize("d", range(1, 6))
def test_dense_points_get_the_gaussian_itself_and_no_multiple_of_it(d: int) -> None:
    features = 7 * (random_values(50_000, d) - 0.5)
    middle = features.norm(dim=1).argsort()[:200]
    fast = PermutohedralLattice(features).filter(torch.ones(len(features), 1))[middle]
    slow = torch.exp(-0.5 * torch.cdist(features[middle], features).square()).sum(1)
    assert abs(float(fast.mean() / slow.mean()) - 1) < 0.02


# Against its definition


@pytest.mark.parametrize(("d", "n"), [(1, 12), (2, 30), (3, 30), (4, 20), (5, 12), (6, 8)])
def test_the_filter_is_the_one_of_the_definition(d: int, n: int) -> None:
    for spread in (0.3, 1.2):
        features = random_points(n, d, spread, seed=d)
        w = PermutohedralLattice(features).filter(torch.eye(n))
        torch.testing.assert_close(w, reference.filter_matrix(features), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("d", [2, 5])
def test_vertices_are_the_occupied_ones_and_the_bridges(d: int) -> None:
    features = random_points(25, d, 2.0)
    occupied = {v for point in reference.cell_coordinates(features) for v in reference.corners(point)}
    assert PermutohedralLattice(features).vertex_count == len(reference.vertices(occupied))


@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_gain_is_a_ratio_of_integrals(d: int) -> None:
    assert math.isclose(gain(d), reference.gain(d), rel_tol=1e-12)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_filter_is_symmetric(d: int, dtype: torch.dtype) -> None:
    lattice = PermutohedralLattice(random_points(1000, d).to(dtype))
    x, y = (random_values(1000, 1, seed).to(dtype) for seed in (1, 2))
    there, back = (float((a.double() * lattice.filter(b).double()).sum()) for a, b in ((x, y), (y, x)))
    assert abs(there / back - 1) < 1e-6
    w = PermutohedralLattice(random_points(200, d).to(dtype)).filter(torch.eye(200))
    assert float((w - w.T).abs().max() / w.max()) < 1e-6


@pytest.mark.parametrize("dtype", TYPES)
def test_compressed_rows_and_plain_torch_are_one_filter(dtype: torch.dtype) -> None:
    structure = PermutohedralLattice(random_points(500, 5).to(dtype)).structure
    assert type(best_filter(structure)) is SciPyFilter
    fast, plain = SciPyFilter(structure), TorchFilter(structure)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for k in (1, 3):
        values = random_values(500, k).to(dtype)
        torch.testing.assert_close(fast(values), plain(values), rtol=tolerance, atol=0)
    scales = [f.bistochastic(25, 1e-6).scale for f in (fast, plain)]
    torch.testing.assert_close(scales[0], scales[1], rtol=10 * tolerance, atol=0)


def test_the_gradient_is_right_to_second_order() -> None:
    lattice = PermutohedralLattice(random_points(7, 2))
    values = random_values(7, 2).requires_grad_()
    torch.autograd.gradcheck(lattice.filter, (values,))
    torch.autograd.gradgradcheck(lattice.filter, (values,))


# Bistochastic scale and dense term on real sequences


@pytest.mark.data
@pytest.mark.parametrize("name", SEQUENCES)
def test_rows_of_real_sequences_sum_to_one_after_scaling(shared_data: Path, name: str) -> None:
    frames, mask = real_sequence(shared_data / name, 60, 80)
    lattice = PermutohedralLattice(at_valid_pixels(pixel_features(frames), mask))
    scale = lattice.bistochastic_scale()[:, None]
    assert bool((scale > 0).all())
    torch.testing.assert_close(scale * lattice.filter(scale), torch.ones_like(scale), rtol=0, atol=1e-4)


@pytest.mark.data
@pytest.mark.parametrize(("h", "w"), [(8, 12), (16, 24), (32, 48)])
@pytest.mark.parametrize("name", SEQUENCES)
def test_the_dense_term_of_real_sequences_is_close_to_the_exact_one(
    shared_data: Path, name: str, h: int, w: int
) -> None:
    frames, mask = real_sequence(shared_data / name, h, w)
    exact = pairs.bistochastic(pairs.gaussian(at_valid_pixels(pixel_features(frames), mask).double()), rounds=40)
    dense = dense_pairs(frames, mask)
    noise = torch.randn(frames.shape, generator=torch.Generator().manual_seed(0))
    for log_reflectance in (frames.clamp_min(1e-4).log(), noise, noise[:, :1].expand_as(noise), 1e-3 * noise - 6):
        slow = pairs.dense_reflectance(exact, at_valid_pixels(log_reflectance, mask).double())
        value = dense_reflectance_term(dense, log_reflectance).item()
        assert value >= 0
        assert abs(value / slow.item() - 1) < 0.1


# At the edges


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_one_point_keeps_its_value_up_to_its_own_weight(d: int, dtype: torch.dtype) -> None:
    lattice = PermutohedralLattice(random_points(1, d).to(dtype))
    result = lattice.filter(torch.tensor([[1.0, -2.0, 0.0]]))
    assert result.dtype == dtype
    torch.testing.assert_close(result[0] / result[0, 0], torch.tensor([1.0, -2.0, 0.0], dtype=dtype))
    assert float(result[0, 0]) > 0
    scaled = lattice.bistochastic()
    torch.testing.assert_close(scaled.scale.square() * result[0, 0], torch.ones(1, dtype=dtype))


@pytest.mark.parametrize("d", [1, 5])
def test_equal_points_all_get_the_same_sum(d: int) -> None:
    lattice = PermutohedralLattice(random_points(1, d).expand(300, d))
    single = PermutohedralLattice(random_points(1, d)).filter(torch.ones(1, 1))
    values = random_values(300)
    expected = (single * values.sum(0)).expand(300, 3)
    torch.testing.assert_close(lattice.filter(values), expected)
    scale = lattice.bistochastic_scale()[:, None]
    torch.testing.assert_close(scale * lattice.filter(scale * values), values.mean(0).expand(300, 3))


@pytest.mark.parametrize("reach", [3, 10**4])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_moving_all_points_by_a_lattice_vector_changes_nothing(d: int, reach: int) -> None:
    features, values = random_points(300, d), random_values(300)
    here, there = (PermutohedralLattice(f) for f in (features, features + lattice_vector(d, reach)))
    assert here.vertex_count == there.vertex_count
    torch.testing.assert_close(there.filter(values), here.filter(values), rtol=1e-9, atol=0)


@pytest.mark.parametrize("d", [5, 6])
def test_clusters_ten_thousand_cells_apart_have_nothing_to_do_with_one_another(d: int) -> None:
    """The cells of so wide a range need several words."""
    parts = [random_points(200, d, seed=seed) + lattice_vector(d, 10**4, seed) for seed in range(3)]
    features, values = torch.cat(parts), random_values(600)
    ranges = construction._ranges(features, torch.zeros(600, dtype=torch.long))
    assert Packing([*ranges, *[(0, d)] * d]).word_count > 1
    alone = [PermutohedralLattice(f).filter(v) for f, v in zip(parts, values.split(200), strict=True)]
    torch.testing.assert_close(PermutohedralLattice(features).filter(values), torch.cat(alone), rtol=1e-12, atol=0)


@pytest.mark.parametrize("d", [1, 3, 5])
def test_the_number_of_words_makes_no_difference(monkeypatch: pytest.MonkeyPatch, d: int) -> None:
    features, values, group = random_points(300, d), random_values(300), torch.arange(300) % 3
    expected = PermutohedralLattice(features, group).filter(values)
    monkeypatch.setattr(construction, "Packing", partial(Packing, word_bits=9))
    torch.testing.assert_close(PermutohedralLattice(features, group).filter(values), expected, rtol=1e-12, atol=0)


def test_the_size_of_the_chunks_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    features, values = random_points(300, 5), random_values(300)
    expected = PermutohedralLattice(features).filter(values)
    monkeypatch.setattr(embedding, "CHUNK", 7)
    assert torch.equal(PermutohedralLattice(features).filter(values), expected)


@pytest.mark.parametrize("d", [1, 5])
def test_points_in_another_order_give_results_in_that_order(d: int) -> None:
    features, values = random_points(400, d), random_values(400)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(2))
    mixed = PermutohedralLattice(features[order]).filter(values[order])
    torch.testing.assert_close(mixed, PermutohedralLattice(features).filter(values)[order], rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", [1, 5])
def test_groups_are_separate_lattices_to_the_last_bit(d: int, dtype: torch.dtype) -> None:
    features, values = random_points(400, d).to(dtype), random_values(400).to(dtype)
    group = torch.randint(-1, 2, (400,), generator=torch.Generator().manual_seed(3))
    together = PermutohedralLattice(features, group)
    result = together.filter(values)
    alone = {g: PermutohedralLattice(features[group == g]) for g in (-1, 0, 1)}
    assert together.vertex_count == sum(lattice.vertex_count for lattice in alone.values())
    for g, lattice in alone.items():
        assert torch.equal(result[group == g], lattice.filter(values[group == g]))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_groups_do_not_touch_at_the_bounds_of_their_range(d: int) -> None:
    """Boxes full of points up to their corners: the vertices around one group are next to another's in their words."""
    for seed in range(20):
        features = random_values(300, d, seed) * torch.tensor([3, 0.8, 0.5])[:d]
        alone = PermutohedralLattice(features).filter(torch.ones(300, 1))
        together = PermutohedralLattice(features.repeat(2, 1), torch.arange(2).repeat_interleave(300))
        torch.testing.assert_close(together.filter(torch.ones(600, 1)), alone.repeat(2, 1), rtol=1e-12, atol=0)


def test_several_sequences_may_share_one_lattice() -> None:
    frames = torch.rand(4, 3, 6, 7, generator=torch.Generator().manual_seed(0))
    mask = torch.rand(4, 1, 6, 7, generator=torch.Generator().manual_seed(1)) > 0.2
    together = dense_pairs(frames, mask, sequence=torch.tensor([0, 1, 1, 0]))
    values = random_values(int(mask.sum())).float()
    result = together.lattice.filter(values)
    number = torch.tensor([0, 1, 1, 0]).reshape(4, 1, 1, 1).expand_as(mask)[mask]
    for s, own in ((0, [0, 3]), (1, [1, 2])):
        alone = dense_pairs(frames[own], mask[own])
        torch.testing.assert_close(result[number == s], alone.lattice.filter(values[number == s]))
        torch.testing.assert_close(together.scaled.scale[number == s], alone.scaled.scale, rtol=1e-5, atol=0)


@pytest.mark.parametrize("d", [1, 2, 5, 6])
def test_float32_and_float64_agree_on_the_same_points(d: int) -> None:
    """Points are placed in float64 either way, so that only values and weights are rounded.

    Points that themselves move by rounding are another matter: where one changes its simplex, other vertices are
    occupied and other bridges built, and sparse points notice (the filter is not continuous in the features).
    """
    for spread in (1.5, 300.0):
        features, values = random_points(500, d, spread).float(), random_values(500).float()
        single = PermutohedralLattice(features).filter(values)
        double = PermutohedralLattice(features.double()).filter(values)
        assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
        torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=0)


def test_features_may_be_tracked_half_whole_or_scattered_in_memory() -> None:
    features, values = random_points(100, 3).float(), random_values(100).float()
    expected = PermutohedralLattice(features).filter(values)
    tracked = PermutohedralLattice(features.clone().requires_grad_()).filter(values)
    assert not tracked.requires_grad
    assert torch.equal(tracked, expected)
    assert torch.equal(PermutohedralLattice(features.T.contiguous().T).filter(values.T.contiguous().T), expected)
    for dtype in (torch.float16, torch.bfloat16, torch.int32):
        result = PermutohedralLattice(features.to(dtype)).filter(values)
        assert torch.equal(result, PermutohedralLattice(features.to(dtype).float()).filter(values))


def test_values_may_be_of_another_type_than_the_features_which_decide_the_result_s() -> None:
    assert PermutohedralLattice(torch.zeros(2, 2)).filter(torch.ones(2, 1, dtype=torch.float64)).dtype == torch.float32
    lattice = PermutohedralLattice(random_points(50, 2))
    values = random_values(50).float()
    assert torch.equal(lattice.filter(values), lattice.filter(values.double()))
    assert torch.equal(lattice.filter(torch.ones(50, 1, dtype=torch.bool)), lattice.filter(torch.ones(50, 1)))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3,), (2, 3, 4)])
def test_features_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"features must be \(n, d\)"):
        PermutohedralLattice(torch.zeros(shape))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_features_that_are_not_finite_are_refused(value: float) -> None:
    features = random_points(10, 3)
    features[7, 1] = value
    with pytest.raises(ValueError, match="NaN or infinite"):
        PermutohedralLattice(features)


@pytest.mark.parametrize("size", [3e9, 1e12, 1e30])
def test_features_of_more_cells_than_can_be_counted_are_refused(size: float) -> None:
    with pytest.raises(ValueError, match="too many to count; scale them down"):
        PermutohedralLattice(torch.tensor([[0.0], [size], [2 * size]], dtype=torch.float64))


@pytest.mark.parametrize("group", [torch.zeros(4, dtype=torch.long), torch.zeros(5), torch.zeros(5, 1).long()])
def test_groups_that_are_not_one_integer_for_each_point_are_refused(group: Tensor) -> None:
    with pytest.raises(ValueError, match=r"group must be \(5,\) integers"):
        PermutohedralLattice(torch.zeros(5, 2), group)


@pytest.mark.parametrize("shape", [(5,), (4, 2), (5, 2, 1)])
def test_values_that_are_not_one_row_for_each_point_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"values must be \(5, k\)"):
        PermutohedralLattice(torch.zeros(5, 2)).filter(torch.zeros(shape))


def test_many_points_in_one_place_are_added_up_without_loss() -> None:
    """A flat sky: one after the other in float32, 300,000 equal numbers would be a thousandth off."""
    features = torch.cat(
        [torch.full((300_000, 5), 0.3), torch.rand(500, 5, generator=torch.Generator().manual_seed(0))]
    )
    single, double = PermutohedralLattice(features), PermutohedralLattice(features.double())
    values = torch.full((len(features), 1), 0.1)
    torch.testing.assert_close(single.filter(values).double(), double.filter(values.double()), rtol=1e-5, atol=0)
    scaled = single.bistochastic()
    assert scaled.rounds < ROUNDS
    assert (scaled.row_sums - 1).abs().max().item() < 1e-5
