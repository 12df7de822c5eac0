"""The parts that the methods share: clusters, mean field, levels of regions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.reference import fields as reference
from unlit.baselines.clusters import k_means, means_of
from unlit.baselines.mean_field import DenseField
from unlit.baselines.regions import continuous_levels, least_squares_levels, neighbor_pairs


def test_mean_field_is_that_of_all_pairs_written_out() -> None:
    rng = np.random.default_rng(0)
    n, k = 60, 3
    features = rng.normal(size=(n, 2)).astype(np.float32)
    unary, cost = rng.random((n, k)).astype(np.float32), rng.random((k, k)).astype(np.float32)
    cost = 3 * (cost + cost.T)
    np.fill_diagonal(cost, 0)
    start = np.full((n, k), 1 / k, np.float32)
    found = DenseField(features).mean_field(unary, cost, start, 3)
    expected = reference.mean_field(features, unary, cost, start, 3)
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=1e-5)
    # The lattice is a Gaussian to some percent; the unary alone, without any neighbor, is far from this.
    assert np.abs(found - expected).max() < 0.05
    assert np.abs(reference.mean_field(features, unary, 0 * cost, start, 1) - expected).max() > 0.2


def test_what_is_heard_of_the_same_everywhere_is_the_same() -> None:
    features = np.random.default_rng(1).normal(size=(200, 5)).astype(np.float32)
    np.testing.assert_allclose(DenseField(features).heard(np.ones((200, 2), np.float32)), 1, rtol=1e-3)


def test_clusters_that_lie_apart_are_found() -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 4, 500)
    points = np.array([[0, 0], [5, 0], [0, 5], [5, 5]])[truth] + 0.3 * rng.normal(size=(500, 2))
    centers, labels = k_means(points, 4)
    assert len(centers) == 4
    for value in range(4):
        assert len(np.unique(labels[truth == value])) == 1
    np.testing.assert_allclose(centers, means_of(points, labels))
    nearest = np.argmin(((points[:, None] - centers) ** 2).sum(-1), axis=-1)
    np.testing.assert_array_equal(labels, nearest)


def test_there_are_no_more_clusters_than_different_points() -> None:
    centers, labels = k_means(np.array([[1.0], [2.0], [1.0], [2.0], [2.0]]), 20)
    assert len(centers) == 2
    assert labels[0] == labels[2] != labels[1] == labels[3] == labels[4]
    assert len(k_means(np.ones((7, 3)), 5).centers) == 1


@settings(deadline=None, max_examples=25)
@given(h=st.integers(1, 7), w=st.integers(1, 7), k=st.integers(1, 5), seed=st.integers(0, 1000))
def test_levels_have_the_least_sum_of_jumps(h: int, w: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    valid = rng.random((h, w)) < 0.8
    valid[0, 0] = True
    label_map, log_gray = rng.integers(0, k, (h, w)), rng.normal(size=(h, w))
    pairs = neighbor_pairs(valid)
    levels = continuous_levels(label_map[valid], pairs, log_gray[valid], np.zeros(k), 200)
    one, other = label_map[valid][pairs]
    step = (log_gray[valid][pairs[0]] - log_gray[valid][pairs[1]])[one != other]
    rows = np.eye(k)[one[one != other]] - np.eye(k)[other[one != other]]
    e = len(step)
    if e == 0:
        np.testing.assert_array_equal(levels, 0)
        return
    # As a linear program: the least Σ z with −z ≤ step − rows · t ≤ z.
    best = linprog(
        np.concatenate([np.zeros(k), np.ones(e)]),
        np.block([[rows, -np.eye(e)], [-rows, -np.eye(e)]]), np.concatenate([step, -step]),
        bounds=[(-50, 50)] * k + [(0, None)] * e,
    )  # fmt: skip
    found = reference.border_jumps(levels, label_map, valid, log_gray)
    assert best.fun is not None
    # Jumps below a thousandth count as squares, and the ties pull a little.
    assert best.fun - 1e-6 <= found <= best.fun + 2e-3 * e + 0.02 * abs(best.fun)


def test_one_light_edge_among_many_borders_is_outvoted() -> None:
    label_map = np.repeat([[0, 1]], 10, axis=0)
    log_gray = np.where(label_map == 1, 1.0, 0.0)
    log_gray[0, 1] = 4.0  # a lamp shines on this pixel
    valid = np.ones((10, 2), bool)
    levels = continuous_levels(label_map.ravel(), neighbor_pairs(valid), log_gray.ravel(), np.zeros(2), 30)
    assert levels[1] - levels[0] == pytest.approx(1, abs=2e-3)
    plain = continuous_levels(label_map.ravel(), neighbor_pairs(valid), log_gray.ravel(), np.zeros(2), 1)
    assert plain[1] - plain[0] == pytest.approx(1.3, abs=1e-3), "one round is least squares, which is the mean"


def test_what_no_border_decides_stays_where_it_was() -> None:
    one, other, step = np.array([0]), np.array([1]), np.array([2.0])
    levels = least_squares_levels(one, other, step, np.ones(1), np.array([1.0, 1.0, 7.0]))
    np.testing.assert_allclose(levels, [2, 0, 7], atol=1e-5)
