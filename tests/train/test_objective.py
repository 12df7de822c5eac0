from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from unlit.config import Config
from unlit.data.batch import Batch
from unlit.data.truth import Truth
from unlit.losses.settings import EnergySettings
from unlit.losses.supervised_settings import SupervisedSettings
from unlit.model.decomposition import Decomposition
from unlit.pairwise.pairwise import Pairwise
from unlit.train.objective import objective

NONE = EnergySettings(reconstruction=0.0, consistency=0.0, reflectance=0.0, shading=0.0, scale=0.0)
CONFIG = Config(energy=NONE, supervised=SupervisedSettings(truth=1.0, truth_gradient=0.5))


def batch(b: int = 3, m: int = 2, *, valid: float = 1.0) -> Batch:
    draw = torch.Generator().manual_seed(1)
    truths = tuple(
        Truth(
            torch.rand(3, 16, 16, generator=draw) + 0.1,
            torch.rand(m, 3, 16, 16, generator=draw) + 0.1,
            torch.ones(m, dtype=torch.bool),
        )
        for _ in range(b)
    )
    mask = torch.rand(b, m, 1, 16, 16, generator=draw) <= valid
    return Batch(torch.rand(b, m, 3, 16, 16, generator=draw), mask, tuple(map(str, range(b))), truths)


def answer(given: Batch) -> Decomposition:
    draw = torch.Generator().manual_seed(2)
    n, size = given.count, given.frames.shape[3:]
    return Decomposition(
        torch.randn(n, 3, *size, generator=draw), torch.randn(n, 1, *size, generator=draw), torch.zeros(n, 3)
    )


def one_by_one(given: Batch, found: Decomposition) -> float:
    """The mean of what each sequence has alone."""
    totals, m = [], given.frames.shape[1]
    for k, truth in enumerate(given.truths):
        part = slice(k * m, (k + 1) * m)
        alone = Batch(given.frames[k : k + 1], given.mask[k : k + 1], given.names[k : k + 1], (truth,))
        mine = Decomposition(found.log_reflectance[part], found.log_shading[part], found.light_color[part])
        totals.append(objective(alone, None, mine, CONFIG)["supervised"].item())
    return sum(totals) / len(totals)


def test_truths_of_several_sequences_together_are_the_mean_of_each_alone() -> None:
    given = batch()
    found = answer(given)
    assert objective(given, None, found, CONFIG)["total"].item() == pytest.approx(one_by_one(given, found), rel=1e-5)


def test_together_sequences_count_by_their_valid_pixels() -> None:
    given = batch(2)
    mask = given.mask.clone()
    mask[1, ..., 4:] = False
    given = replace(given, mask=mask)
    found = answer(given)
    together = objective(given, None, found, CONFIG)["supervised"].item()
    first, second = (
        objective(
            Batch(given.frames[k : k + 1], given.mask[k : k + 1], ("a",), given.truths[k : k + 1]),
            None,
            Decomposition(*(v[2 * k : 2 * k + 2] for v in vars(found).values())),
            replace(CONFIG, supervised=SupervisedSettings(truth=1.0)),
        )["supervised"].item()
        for k in range(2)
    )
    only_truth = objective(given, None, found, replace(CONFIG, supervised=SupervisedSettings(truth=1.0)))
    # Four times as many pixels of the first are valid; reflectance and shading alike.
    assert only_truth["supervised"].item() == pytest.approx((4 * first + second) / 5, rel=1e-5)
    assert together > only_truth["supervised"].item()


def test_where_one_truth_is_missing_the_others_still_count() -> None:
    given = batch(2)
    found = answer(given)
    partial = replace(given, truths=(given.truths[0], None))
    alone = Batch(given.frames[:1], given.mask[:1], ("a",), given.truths[:1])
    first = Decomposition(*(v[:2] for v in vars(found).values()))
    expected = objective(alone, None, first, CONFIG)["supervised"].item() / 2
    assert objective(partial, None, found, CONFIG)["supervised"].item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("config", [CONFIG, replace(CONFIG, energy=replace(NONE, consistency=0.3))])
@pytest.mark.parametrize("known", ["nothing", "reflectance", "shading"])
def test_every_part_of_the_answer_has_a_gradient_whatever_is_known(config: Config, known: str) -> None:
    """Several processes wait for every parameter's, and what is captured takes one for every part."""
    given = batch(2)
    truths = {
        "nothing": None,
        "reflectance": Truth(reflectance=given.frames[0, 0]),
        "shading": Truth(shading=given.frames[0], shading_valid=torch.ones(2, dtype=torch.bool)),
    }
    given = replace(given, truths=(truths[known],) * 2)
    parts = [values.requires_grad_() for values in vars(answer(given)).values()]
    pairwise = Pairwise(None, None, []) if config.energy.any else None
    objective(given, pairwise, Decomposition(*parts), config)["total"].backward()
    assert all(part.grad is not None and part.grad.isfinite().all() for part in parts)
