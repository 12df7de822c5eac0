"""The next batch and its pairs, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.train.world import tiny_sequence
from unlit.data.batch import Batch
from unlit.losses.batch import batch_energy, batch_pairwise
from unlit.losses.reflectance import dense_reflectance_term
from unlit.losses.settings import EnergySettings
from unlit.model.decomposition import Decomposition
from unlit.pairwise.pairwise import Pairwise
from unlit.pairwise.settings import PairwiseSettings
from unlit.train.ahead import TOLERANCE, Ahead

CPU = torch.device("cpu")
SETTINGS = EnergySettings()


def batch(seed: int, *, valid: bool = True) -> Batch:
    sequences = [tiny_sequence(seed + k, m=2, h=16, w=20) for k in range(2)]
    mask = torch.stack([sequence.mask for sequence in sequences]) & valid
    return Batch(torch.stack([s.frames for s in sequences]), mask, tuple(s.name for s in sequences))


def terms(given: Batch, pairwise: Pairwise | None) -> list[float]:
    """The energy of some fixed answer, which depends on the pairs."""
    shape = (given.count, 3, *given.frames.shape[3:])
    log_reflectance = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    found = Decomposition(log_reflectance, log_reflectance[:, :1] - 1, torch.zeros(given.count, 3))
    energy = batch_energy(given.frames, given.mask, found, pairwise, SETTINGS)
    return [float(value) for value in vars(energy).values()]


def test_batches_come_in_order_each_with_its_own_pairs() -> None:
    batches = [batch(k) for k in range(3)]
    ahead = Ahead(iter(batches), SETTINGS, CPU)
    for k, expected in enumerate(batches):
        prepared = ahead.take()
        if k < 2:
            ahead.start()
        assert prepared.batch is expected
        assert not prepared.is_empty
        assert prepared.pairwise is not None
        assert terms(expected, prepared.pairwise) == pytest.approx(
            terms(expected, batch_pairwise(expected.frames, expected.mask, SETTINGS, tolerance=TOLERANCE)), rel=1e-6
        )


def test_pairs_that_are_rough_enough_for_training_hardly_change_the_energy_or_its_slope() -> None:
    given, found = batch(5), []
    for tolerance in (TOLERANCE, 1e-8):
        pairs = batch_pairwise(given.frames, given.mask, SETTINGS, tolerance=tolerance)
        log_reflectance = given.frames.flatten(0, 1).clamp_min(1e-3).log().requires_grad_()
        assert pairs.dense is not None
        term = dense_reflectance_term(pairs.dense, log_reflectance)
        (slope,) = torch.autograd.grad(term, log_reflectance)
        found.append((float(term.detach()), slope, pairs.dense.scaled.row_sums))
    (rough, rough_slope, row_sums), (exact, slope, _) = found
    assert 1e-4 < float((row_sums - 1).abs().max()) < 2.5 * TOLERANCE  # it is rough, and not too rough
    assert rough == pytest.approx(exact, rel=1e-3)
    assert float((rough_slope - slope).norm() / slope.norm()) < 2e-3


def test_starting_is_not_needed_and_does_not_lose_a_batch() -> None:
    batches = [batch(k) for k in range(4)]
    ahead = Ahead(iter(batches), None, CPU)
    taken = []
    for k in range(4):
        taken.append(ahead.take().batch)
        if k % 2 == 0:
            ahead.start()
    assert all(one is other for one, other in zip(taken, batches, strict=True))


def test_starting_reads_one_batch_ahead_and_no_more() -> None:
    read = []

    def counted() -> Iterator[Batch]:
        for k in range(10):
            read.append(k)
            yield batch(k)

    ahead = Ahead(counted(), None, CPU)
    assert read == []
    ahead.take()
    assert read == [0]
    ahead.start()
    ahead.start()
    assert read == [0, 1]
    ahead.take()
    assert read == [0, 1]


@pytest.mark.parametrize("settings", [SETTINGS, None])
def test_a_batch_without_a_valid_pixel_is_flagged_and_has_no_pairs(settings: EnergySettings | None) -> None:
    ahead = Ahead(iter([batch(0, valid=False), batch(1)]), settings, CPU)
    empty, other = ahead.take(), ahead.take()
    assert (empty.is_empty, empty.pairwise) == (True, None)
    assert not other.is_empty


def test_no_pairs_are_built_where_no_energy_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("built")

    monkeypatch.setattr("unlit.train.ahead.batch_pairwise", never)
    prepared = Ahead(iter([batch(0)]), None, CPU).take()
    assert (prepared.pairwise, prepared.is_empty) == (None, False)


def test_the_pairs_are_those_that_the_settings_ask_for() -> None:
    local = EnergySettings(pairwise=PairwiseSettings(reflectance="local", shading_scales=1))
    pairwise = Ahead(iter([batch(0)]), local, CPU).take().pairwise
    assert pairwise is not None
    assert pairwise.dense is None
    assert pairwise.local is not None
    assert len(pairwise.shading) == 1


def test_pairs_need_no_gradient() -> None:
    given = batch(0)
    given.frames.requires_grad_()
    pairwise = Ahead(iter([given]), SETTINGS, CPU).take().pairwise
    assert pairwise is not None
    assert pairwise.dense is not None
    assert not any(value.requires_grad for value in vars(pairwise.dense).values() if isinstance(value, torch.Tensor))
