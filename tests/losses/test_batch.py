from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from unlit.losses.batch import batch_energy, batch_pairwise, tall
from unlit.losses.energy import LossTerms, energy
from unlit.losses.settings import EnergySettings
from unlit.model.decomposition import Decomposition
from unlit.pairwise.settings import Factor, PairwiseSettings


def example(b: int, m: int, h: int, w: int, seed: int = 0) -> tuple[Tensor, Tensor, Decomposition]:
    g = torch.Generator().manual_seed(seed)
    frames = torch.rand(b, m, 3, h, w, generator=g)
    mask = torch.rand(b, m, 1, h, w, generator=g) > 0.2
    parts = (torch.randn(b * m, c, h, w, generator=g) for c in (3, 1))
    log_reflectance, log_shading = (part.requires_grad_() for part in parts)
    color = torch.randn(b * m, 3, generator=g).requires_grad_()
    return frames, mask, Decomposition(log_reflectance, log_shading, color)


def part(decomposition: Decomposition, k: int, m: int) -> Decomposition:
    names = ("log_reflectance", "log_shading", "light_color")
    return Decomposition(*(getattr(decomposition, name)[k * m : (k + 1) * m] for name in names))


def values(terms: LossTerms) -> dict[str, float]:
    return {field.name: getattr(terms, field.name).item() for field in fields(terms)}


def test_one_sequence_has_its_own_energy() -> None:
    frames, mask, decomposition = example(1, 4, 20, 24)
    assert values(batch_energy(frames, mask, decomposition)) == values(energy(frames[0], mask[0], decomposition))


@pytest.mark.parametrize("factor", ["paper", "release"])
@pytest.mark.parametrize("reflectance", ["dense", "local"])
@pytest.mark.parametrize("size", [(17, 24), (16, 16), (33, 9)])
def test_equal_sequences_have_the_energy_of_one_and_half_of_its_gradient_each(
    size: tuple[int, int], reflectance: str, factor: Factor
) -> None:
    pairwise = PairwiseSettings(reflectance="local" if reflectance == "local" else "dense", shading_factor=factor)
    settings = EnergySettings(pairwise=pairwise)
    frames, mask, one = example(1, 3, *size)
    alone = energy(frames[0], mask[0], one, None, settings)
    leaves = (one.log_reflectance, one.log_shading, one.light_color)
    expected = torch.autograd.grad(alone.total, leaves)
    twice = Decomposition(*(torch.cat([leaf, leaf]).detach().requires_grad_() for leaf in leaves))
    both = batch_energy(frames.expand(2, -1, -1, -1, -1), mask.expand(2, -1, -1, -1, -1), twice, None, settings)
    for name, value in values(both).items():
        assert value == pytest.approx(values(alone)[name], rel=1e-4), name
    found = torch.autograd.grad(both.total, (twice.log_reflectance, twice.log_shading, twice.light_color))
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(got, torch.cat([wanted, wanted]) / 2, rtol=1e-3, atol=1e-6)


def test_a_batch_is_the_mean_of_its_sequences_where_all_pixels_are_valid() -> None:
    frames, mask, decomposition = example(3, 4, 24, 16)
    mask = torch.ones_like(mask)
    together = values(batch_energy(frames, mask, decomposition))
    alone = [values(energy(frames[k], mask[k], part(decomposition, k, 4))) for k in range(3)]
    for name, value in together.items():
        assert value == pytest.approx(sum(one[name] for one in alone) / 3, rel=1e-4), name


def test_sequences_of_a_batch_do_not_see_one_another() -> None:
    frames, mask, decomposition = example(2, 3, 16, 16)
    other = torch.cat([frames[:1], torch.rand_like(frames[1:])])
    for a, b in ((frames, other), (other, frames)):
        first, second = (batch_pairwise(f, mask) for f in (a, b))
        for level, (one, two) in enumerate(zip(first.shading, second.shading, strict=True)):
            for near, far in zip(one, two, strict=True):
                rows = 16 // 2**level - near.offset[0]
                torch.testing.assert_close(near.weight[:, :, :rows], far.weight[:, :, :rows])
    assert batch_energy(frames, mask, decomposition).total != batch_energy(other, mask, decomposition).total


def test_what_is_masked_does_not_matter() -> None:
    frames, mask, decomposition = example(2, 3, 12, 16)
    hidden = torch.where(mask, frames, torch.nan)
    assert values(batch_energy(hidden, mask, decomposition)) == values(batch_energy(frames, mask, decomposition))


def test_without_colored_light_the_color_does_not_count() -> None:
    frames, mask, decomposition = example(2, 3, 12, 16)
    settings = EnergySettings(colored_light=False)
    other = replace(decomposition, light_color=torch.randn(6, 3))
    assert values(batch_energy(frames, mask, decomposition, None, settings)) == values(
        batch_energy(frames, mask, other, None, settings)
    )


def test_the_tall_picture_keeps_every_scale_apart() -> None:
    high = tall(torch.ones(3, 2, 1, 13, 5), 8)
    assert high.shape == (2, 1, 3 * 24, 5)
    for step in (1, 2, 4, 8):
        rows = high[0, 0, ::step, 0].tolist()
        each = 24 // step
        assert all(rows[k * each : (k + 1) * each] == rows[:each] for k in range(3))
        assert rows[each - 1] == 0, "a masked row lies between two sequences at every scale"


def test_few_digits_are_made_many_before_light_and_color_are_added() -> None:
    frames, mask, decomposition = example(2, 3, 12, 16)
    names = ("log_reflectance", "log_shading", "light_color")
    short = Decomposition(*(getattr(decomposition, name).detach().bfloat16() for name in names))
    long = Decomposition(*(getattr(short, name).float() for name in names))
    assert values(batch_energy(frames, mask, short)) == values(batch_energy(frames, mask, long))


@pytest.mark.parametrize("b", [1, 2])
def test_pairs_are_not_built_where_neither_smoothness_counts(b: int) -> None:
    frames, mask, decomposition = example(b, 3, 20, 24)
    settings = EnergySettings(reflectance=0, shading=0)
    pairs = batch_pairwise(frames, mask, settings)
    assert (pairs.dense, pairs.local, pairs.shading) == (None, None, [])
    found = values(batch_energy(frames, mask, decomposition, pairs, settings))
    for name, value in values(batch_energy(frames, mask, decomposition, None, EnergySettings())).items():
        if name in ("reflectance", "shading"):
            assert found[name] == 0
        elif name != "total":
            assert found[name] == pytest.approx(value)


@pytest.mark.parametrize("b", [1, 2])
@pytest.mark.parametrize("settings", [EnergySettings(reflectance=0), EnergySettings(shading=0)])
def test_pairs_that_were_not_built_are_refused_where_they_count(b: int, settings: EnergySettings) -> None:
    frames, mask, decomposition = example(b, 3, 20, 24)
    nothing = batch_pairwise(frames, mask, EnergySettings(reflectance=0, shading=0))
    with pytest.raises(ValueError, match="build it by these settings"):
        batch_energy(frames, mask, decomposition, nothing, settings)
