from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.reference import lattice as reference
from unlit.pairwise import embedding
from unlit.pairwise.embedding import chunks, corner_axes, lifted, located

DIMENSIONS = range(1, 7)


def random_points(d: int, spread: float = 3.0, n: int = 2000) -> Tensor:
    return spread * torch.randn(n, d, generator=torch.Generator().manual_seed(d), dtype=torch.float64)


def points_on_faces(d: int, n: int = 2000) -> Tensor:
    """Vertices, middles of edges and of larger faces, where several simplices meet."""
    halves = torch.randint(-9, 10, (n, d + 1), generator=torch.Generator().manual_seed(d)).double() / 2
    return reference.features_at(halves - halves.mean(1, keepdim=True))


def corners(features: Tensor) -> Tensor:
    """Coordinates (colors, d + 1, n) of the corners of the simplices that hold the points: the walk around them."""
    d = features.shape[1]
    place = located(features)
    walk = [(d + 1) * place.cell.long()]
    for axis in corner_axes(place.rank):
        walk.append(walk[-1] + 1 - (d + 1) * torch.nn.functional.one_hot(axis, d + 1).T)
    return torch.stack(walk)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_lift_is_onto_the_hyperplane_and_stretches_every_distance_alike(d: int) -> None:
    features = random_points(d, n=50)
    points = lifted(features)
    torch.testing.assert_close(points.sum(0), torch.zeros(50).double(), rtol=0, atol=1e-12)
    stretch = torch.cdist(points.T, points.T) / torch.cdist(features, features)
    off_diagonal = stretch[~torch.eye(50, dtype=torch.bool)]
    expected = torch.full_like(off_diagonal, math.sqrt(2 / 3) * (d + 1))
    torch.testing.assert_close(off_diagonal, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_lift_turns_space_as_the_reference_does(d: int) -> None:
    features = random_points(d, n=50)
    torch.testing.assert_close(lifted(features).T / (d + 1), reference.cell_coordinates(features))


@pytest.mark.parametrize("spread", [1.0, 1e4])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_weights_sum_to_one_and_are_not_negative(d: int, spread: float) -> None:
    """On a face a weight is zero, up to the last digit."""
    for features in (random_points(d, spread), points_on_faces(d), torch.zeros(1, d).double()):
        weights = located(features).weights
        torch.testing.assert_close(weights.sum(0), torch.ones(len(features)).double(), rtol=0, atol=1e-14)
        assert float(weights.min()) >= -1e-14


@pytest.mark.parametrize("spread", [1.0, 1e4])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_weighted_corners_reproduce_the_lifted_point(d: int, spread: float) -> None:
    for features in (random_points(d, spread), points_on_faces(d)):
        weighted = (corners(features) * located(features).weights[:, None]).sum(0)
        torch.testing.assert_close(weighted, lifted(features), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_a_weight_is_the_hat_of_its_corner(d: int) -> None:
    for features in (random_points(d), points_on_faces(d)):
        offset = (lifted(features) - corners(features)) / (d + 1)
        torch.testing.assert_close(located(features).weights, reference.hat(offset.transpose(1, 2)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_a_simplex_has_one_corner_of_each_color_on_the_hyperplane(d: int) -> None:
    for features in (random_points(d), points_on_faces(d), random_points(d, 1e4)):
        vertices = corners(features)
        assert not vertices.sum(1).any()
        for color, vertex in enumerate(vertices):
            assert bool((vertex % (d + 1) == color).all())


@pytest.mark.parametrize("d", DIMENSIONS)
def test_ranks_are_an_order_of_the_coordinates(d: int) -> None:
    for features in (random_points(d), points_on_faces(d)):
        rank = located(features).rank.sort(0).values
        assert torch.equal(rank, torch.arange(d + 1, dtype=torch.int8)[:, None].expand_as(rank))


def test_chunks_cover_all_points_once_and_stay_small_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "CHUNK", 7)
    for n in (0, 1, 6, 7, 8, 30):
        parts = list(chunks(n, torch.device("cpu")))
        assert [i for part in parts for i in range(n)[part]] == list(range(n))
        assert all(0 < part.stop - part.start <= 7 for part in parts)
    assert list(chunks(30, torch.device("meta"))) == [slice(0, 30)]
