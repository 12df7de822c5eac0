from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from unlit.evaluate.benchmark import Outcome, mean_totals
from unlit.evaluate.bootstrap import bootstrap_intervals

Totals = Callable[[NDArray[np.float64]], dict[str, NDArray[np.float64]]]


def mean_of(values: NDArray[np.float64]) -> Totals:
    outcomes = [Outcome({"score": float(value)}) for value in values]
    return lambda weights: mean_totals(outcomes, weights)


def test_the_interval_of_a_mean_is_that_of_the_central_limit() -> None:
    values = np.random.default_rng(0).normal(5, 2, 400)
    low, high = bootstrap_intervals(mean_of(values), 400, draws=4000)["score"]
    error = values.std() / 20
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)


def test_images_that_agree_leave_no_doubt_and_one_image_says_nothing() -> None:
    assert bootstrap_intervals(mean_of(np.full(9, 0.25)), 9)["score"] == (0.25, 0.25)
    assert bootstrap_intervals(mean_of(np.ones(1)), 1) == {}


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(0).random(30)
    first, again, other = (bootstrap_intervals(mean_of(values), 30, seed=seed)["score"] for seed in (1, 1, 2))
    assert first == again != other


def test_each_draw_has_as_many_images_as_there_are() -> None:
    seen = []

    def totals(weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        seen.append(weights)
        return {"score": weights[:, 0]}

    bootstrap_intervals(totals, 7, draws=250)
    weights = np.concatenate(seen)
    assert weights.shape == (250, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert weights.mean(axis=0) == pytest.approx(np.ones(7), abs=0.3)


def test_draws_in_which_a_score_cannot_be_told_do_not_count() -> None:
    outcomes = [Outcome({"score": 0.5}), *(Outcome({}) for _ in range(3))]
    assert bootstrap_intervals(lambda w: mean_totals(outcomes, w), 4)["score"] == (0.5, 0.5)
    assert bootstrap_intervals(lambda w: {"score": np.full(len(w), np.nan)}, 4) == {}
