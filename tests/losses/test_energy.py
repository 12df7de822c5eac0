from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.reference import pairs as reference
from unlit.color import floored_log
from unlit.losses.energy import LossTerms, energy
from unlit.losses.reflectance import dense_reflectance_term
from unlit.losses.settings import EnergySettings
from unlit.model.decomposition import Decomposition
from unlit.pairwise.features import pixel_features
from unlit.pairwise.lattice import PermutohedralLattice
from unlit.pairwise.pairwise import DensePairs, build_pairwise
from unlit.pairwise.settings import FeatureScales, PairwiseSettings

TERMS = ("reconstruction", "consistency", "reflectance", "shading", "scale")

Kind = Literal["noise", "black", "flat", "bright", "negative"]

ANY_SETTINGS = st.builds(
    EnergySettings,
    consistency=st.floats(0, 3),
    reflectance=st.floats(0, 3),
    shading=st.floats(0, 3),
    scale=st.floats(0, 3),
    all_pairs=st.booleans(),
    colored_light=st.booleans(),
    pairwise=st.builds(
        PairwiseSettings,
        scales=st.sampled_from([FeatureScales(), FeatureScales(0.5, 0.1, 0.3)]),
        reflectance=st.sampled_from(["dense", "local"]),
        shading_scales=st.integers(1, 4),
        normalized_median=st.booleans(),
        shading_factor=st.sampled_from(["paper", "release"]),
    ),
)


def random_sequence(
    m: int = 3, h: int = 6, w: int = 7, kind: Kind = "noise", valid: float = 0.8, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Frames (m, 3, h, w), float64, and a mask of about that fraction of valid pixels, never none."""
    g = torch.Generator().manual_seed(seed)
    noise = torch.rand(m, 3, h, w, generator=g, dtype=torch.float64)
    frames = {
        "noise": noise,
        "black": 0 * noise,
        "flat": 0 * noise + 0.4,
        "bright": 50 * noise,
        "negative": noise - 0.5,  # colors outside the gamut
    }[kind]
    mask = torch.rand(m, 1, h, w, generator=g) < valid
    mask[0, 0, 0, 0] = True
    return frames, mask


def random_decomposition(m: int = 3, h: int = 6, w: int = 7, seed: int = 1) -> Decomposition:
    g = torch.Generator().manual_seed(seed)
    shapes = ((m, 3, h, w), (m, 1, h, w), (m, 3))
    return Decomposition(*(torch.randn(shape, generator=g, dtype=torch.float64) for shape in shapes))


def converted(decomposition: Decomposition, dtype: torch.dtype) -> Decomposition:
    return Decomposition(*(getattr(decomposition, f.name).to(dtype) for f in fields(decomposition)))


def by_name(terms: LossTerms) -> dict[str, Tensor]:
    return {f.name: getattr(terms, f.name) for f in fields(terms)}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Tensor, Decomposition]:
    m, h, w = draw(st.integers(1, 5)), draw(st.integers(1, 20)), draw(st.integers(1, 20))
    kind: Kind = draw(st.sampled_from(["noise", "black", "flat", "bright", "negative"]))
    valid, seed = draw(st.sampled_from([0.0, 0.3, 0.9, 1.0])), draw(st.integers(0, 99))
    return *random_sequence(m, h, w, kind, valid, seed), random_decomposition(m, h, w, seed + 1)


@given(cases(), ANY_SETTINGS, st.sampled_from([torch.float32, torch.float64]))
@settings(deadline=None, max_examples=40)
def test_terms_are_finite_scalars_that_are_not_negative_and_so_are_their_gradients_finite(
    case: tuple[Tensor, Tensor, Decomposition], chosen: EnergySettings, dtype: torch.dtype
) -> None:
    frames, mask, decomposition = case
    decomposition = converted(decomposition, dtype)
    inputs = [getattr(decomposition, f.name).requires_grad_() for f in fields(decomposition)]
    terms = by_name(energy(frames.to(dtype), mask, decomposition, settings=chosen))
    for value in terms.values():
        assert value.shape == ()
        assert value.dtype == dtype
        assert 0 <= value.item() < math.inf
    for gradient in torch.autograd.grad(terms["total"], inputs, materialize_grads=True):
        assert bool(torch.isfinite(gradient).all())


@given(cases(), ANY_SETTINGS, st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_frames_may_come_in_any_order(
    case: tuple[Tensor, Tensor, Decomposition], chosen: EnergySettings, seed: int
) -> None:
    frames, mask, d = case
    order = torch.randperm(len(frames), generator=torch.Generator().manual_seed(seed))
    mixed = Decomposition(d.log_reflectance[order], d.log_shading[order], d.light_color[order])
    before, after = (
        by_name(energy(f, k, r, settings=chosen))
        for f, k, r in ((frames, mask, d), (frames[order], mask[order], mixed))
    )
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("pairs", [PairwiseSettings(), PairwiseSettings(reflectance="local", shading_factor="paper")])
@pytest.mark.parametrize("all_pairs", [True, False])
def test_a_flat_surface_in_white_light_has_no_energy(
    all_pairs: bool, pairs: PairwiseSettings, dtype: torch.dtype
) -> None:
    frames = torch.tensor([0.2, 0.5, 0.7], dtype=dtype).reshape(1, 3, 1, 1).expand(4, 3, 9, 10)
    mask = torch.ones(4, 1, 9, 10, dtype=torch.bool)
    perfect = Decomposition(floored_log(frames), torch.zeros(4, 1, 9, 10, dtype=dtype), torch.zeros(4, 3, dtype=dtype))
    terms = by_name(energy(frames, mask, perfect, settings=EnergySettings(all_pairs=all_pairs, pairwise=pairs)))
    assert all(abs(value.item()) < 1e-12 for value in terms.values())
    darker = replace(perfect, log_reflectance=perfect.log_reflectance - 0.1)
    assert energy(frames, mask, darker).total.item() > 1e-3


def test_a_true_decomposition_reconstructs_and_is_consistent_in_any_light() -> None:
    d = random_decomposition()
    d = replace(d, log_reflectance=d.log_reflectance[:1].expand(3, 3, 6, 7))
    frames, mask = 1e3 * d.recompose(), random_sequence()[1]
    d = replace(d, log_shading=d.log_shading + math.log(1e3))
    terms = energy(frames, mask, d)
    assert terms.reconstruction.item() < 1e-20
    assert abs(terms.consistency.item()) < 1e-20
    assert energy(frames, mask, d, settings=EnergySettings(colored_light=False)).reconstruction.item() > 0.1


@pytest.mark.parametrize("seed", range(10))
def test_regions_without_likeness_may_differ_freely_and_rounding_does_not_make_that_less_than_free(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    colors = torch.tensor([[0.9, 0.1, 0.1], [0.1, 0.9, 0.1], [0.1, 0.1, 0.9]])
    region = torch.randint(3, (2, 12, 13), generator=g)
    frames = colors[region].permute(0, 3, 1, 2)
    log_reflectance = torch.randn(3, 3, generator=g)[region].permute(0, 3, 1, 2)
    d = Decomposition(log_reflectance, torch.zeros(2, 1, 12, 13), torch.zeros(2, 3))
    assert 0 <= energy(frames, torch.ones(2, 1, 12, 13, dtype=torch.bool), d).reflectance.item() < 1e-5


@pytest.mark.parametrize("rounds", [1, 3, 25])
def test_the_dense_term_is_a_sum_over_pairs_however_rough_the_scale(rounds: int) -> None:
    frames, _ = random_sequence()
    lattice = PermutohedralLattice(pixel_features(frames).permute(0, 2, 3, 1).reshape(-1, 5))
    scaled = lattice.bistochastic(rounds)
    affinity = scaled.scale[:, None] * lattice.filter(torch.eye(lattice.n)) * scaled.scale
    log_reflectance = random_decomposition().log_reflectance
    slow = reference.dense_reflectance(affinity, log_reflectance.permute(0, 2, 3, 1).reshape(-1, 3))
    pairs = DensePairs(lattice, scaled, None)
    torch.testing.assert_close(dense_reflectance_term(pairs, log_reflectance), slow, rtol=1e-10, atol=0)


@given(ANY_SETTINGS)
@settings(deadline=None, max_examples=10)
def test_the_total_is_the_weighted_sum_of_the_terms(chosen: EnergySettings) -> None:
    terms = by_name(energy(*random_sequence(), random_decomposition(), settings=chosen))
    weights = {"reconstruction": 1.0, **{name: getattr(chosen, name) for name in TERMS[1:]}}
    torch.testing.assert_close(terms["total"], sum(weights[name] * terms[name] for name in TERMS))


def test_the_weights_are_those_of_the_release() -> None:
    chosen = EnergySettings()
    assert (chosen.consistency, chosen.reflectance, chosen.shading, chosen.scale) == (1, 2, 0.5, 0.05)
    assert chosen.all_pairs
    assert chosen.colored_light
    assert chosen.pairwise == PairwiseSettings(FeatureScales(), "dense", 4, True, "release")


def test_the_scale_is_the_mean_size_of_the_log_shading_where_it_is_valid() -> None:
    d = random_decomposition()
    frames, mask = random_sequence()
    assert not mask.all()
    torch.testing.assert_close(energy(frames, mask, d).scale, d.log_shading[mask].abs().mean())


def test_gray_shading_leaves_the_color_of_the_light_out() -> None:
    frames, mask = random_sequence()
    d = random_decomposition()
    gray = EnergySettings(colored_light=False)
    white = replace(d, light_color=torch.zeros(3, 3, dtype=torch.float64))
    for mine, theirs in zip(
        by_name(energy(frames, mask, d, settings=gray)).values(),
        by_name(energy(frames, mask, white)).values(),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)
    assert energy(frames, mask, d).reconstruction.item() != energy(frames, mask, white).reconstruction.item()


def test_per_image_reconstruction_changes_that_term_alone() -> None:
    every, own = (
        by_name(energy(*random_sequence(), random_decomposition(), settings=EnergySettings(all_pairs=flag)))
        for flag in (True, False)
    )
    assert every["reconstruction"].item() != own["reconstruction"].item()
    assert all(torch.equal(every[name], own[name]) for name in TERMS[1:])


@pytest.mark.parametrize("chosen", [PairwiseSettings(), PairwiseSettings(reflectance="local", shading_scales=2)])
def test_pairs_built_outside_and_inside_are_the_same(chosen: PairwiseSettings) -> None:
    frames, mask = random_sequence()
    d, built = random_decomposition(), build_pairwise(frames, mask, chosen)
    inside = energy(frames, mask, d, settings=EnergySettings(pairwise=chosen))
    for outside in (energy(frames, mask, d, built), energy(frames, mask, d, built, EnergySettings())):
        assert all(torch.equal(value, by_name(inside)[name]) for name, value in by_name(outside).items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_losses_are_float32_under_autocast_and_for_a_network_of_fewer_digits(dtype: torch.dtype) -> None:
    frames, mask = random_sequence()
    frames, d = frames.float(), converted(random_decomposition(), dtype)
    expected = by_name(energy(frames, mask, converted(d, torch.float32)))
    with torch.autocast("cpu", torch.bfloat16):
        terms = by_name(energy(frames, mask, d))
    for name, value in terms.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, expected[name])


def test_frames_and_decomposition_may_have_different_types() -> None:
    frames, mask = random_sequence()
    d = random_decomposition()
    expected = by_name(energy(frames, mask, d))
    for f, mixed in ((frames.float(), d), (frames, converted(d, torch.float32))):
        for name, value in by_name(energy(f, mask, mixed)).items():
            torch.testing.assert_close(value.double(), expected[name], rtol=1e-4, atol=0)


def test_gradients_reach_a_decomposition_in_bfloat16() -> None:
    frames, mask = random_sequence()
    d = converted(random_decomposition(), torch.bfloat16)
    inputs = [getattr(d, f.name).requires_grad_() for f in fields(d)]
    for gradient in torch.autograd.grad(energy(frames.float(), mask, d).total, inputs):
        assert gradient.dtype == torch.bfloat16
        assert bool(torch.isfinite(gradient).all())
        assert bool(gradient.any())


def test_black_frames_have_finite_terms_and_gradients() -> None:
    frames, mask = random_sequence(kind="black")
    d = random_decomposition()
    d.log_reflectance.requires_grad_()
    terms = energy(frames, mask, d)
    (gradient,) = torch.autograd.grad(terms.total, d.log_reflectance)
    assert all(bool(torch.isfinite(value)) for value in by_name(terms).values())
    assert bool(torch.isfinite(gradient).all())
    assert terms.reconstruction.item() == 0  # black pixels weigh nothing there


@pytest.mark.parametrize("shape", [(3, 6, 7), (3, 4, 6, 7), (0, 3, 6, 7), (3, 3, 0, 7)])
def test_frames_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"frames must be \(m, 3, h, w\).*not \(" + ", ".join(map(str, shape))):
        energy(torch.zeros(shape), torch.ones(3, 1, 6, 7, dtype=torch.bool), random_decomposition())


@pytest.mark.parametrize("shape", [(3, 6, 7), (3, 3, 6, 7), (1, 1, 6, 7), (3, 1, 7, 6)])
def test_masks_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"mask must be \(3, 1, 6, 7\)"):
        energy(random_sequence()[0], torch.ones(shape, dtype=torch.bool), random_decomposition())


@pytest.mark.parametrize("shape", [(2, 6, 7), (3, 7, 6), (1, 6, 7)])
def test_a_decomposition_of_other_frames_is_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"decomposition is of .* the frames \(3, 3, 6, 7\)"):
        energy(*random_sequence(), random_decomposition(*shape))


@pytest.mark.parametrize("reflectance", ["dense", "local"])
@pytest.mark.parametrize("shape", [(1, 6, 7), (4, 6, 7), (3, 7, 6), (3, 6, 1)])
def test_pairs_of_another_sequence_are_refused(
    shape: tuple[int, int, int], reflectance: Literal["dense", "local"]
) -> None:
    other = build_pairwise(*random_sequence(*shape), PairwiseSettings(reflectance=reflectance))
    with pytest.raises(ValueError, match="pairwise is of another sequence"):
        energy(*random_sequence(), random_decomposition(), other)


def test_a_sequence_that_is_wholly_masked_is_refused() -> None:
    frames, mask = random_sequence()
    with pytest.raises(ValueError, match="every pixel of the sequence is masked"):
        energy(frames, mask & False, random_decomposition())


def test_masks_of_any_kind_of_number_mean_valid_or_not() -> None:
    frames, mask, decomposition = small_case()
    expected = energy(frames, mask, decomposition).total
    for other in (255 * mask.to(torch.uint8), 0.5 * mask.float(), -mask.int()):
        torch.testing.assert_close(energy(frames, other, decomposition).total, expected)


def test_frames_in_half_precision_give_nearly_the_energy_of_float32() -> None:
    frames, mask, decomposition = small_case()
    half, full = (energy(f, mask, decomposition) for f in (frames.half(), frames.float()))
    torch.testing.assert_close(half.reconstruction, full.reconstruction, rtol=0.02, atol=0)
    assert torch.isfinite(half.total)


def test_masked_pixels_may_hold_anything() -> None:
    frames, mask, decomposition = small_case()
    expected = energy(frames, mask, decomposition).total
    torch.testing.assert_close(energy(torch.where(mask, frames, torch.nan), mask, decomposition).total, expected)


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_weights_without_sense_are_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="shading"):
        EnergySettings(shading=weight)
    with pytest.raises(ValueError, match="intensity"):
        FeatureScales(intensity=weight)


def small_case() -> tuple[torch.Tensor, torch.Tensor, Decomposition]:
    g = torch.Generator().manual_seed(5)
    frames = 0.1 + 0.8 * torch.rand(3, 3, 10, 12, generator=g)
    mask = torch.rand(3, 1, 10, 12, generator=g) > 0.2
    reflectance, shading = (torch.randn(3, c, 10, 12, generator=g) for c in (3, 1))
    return frames, mask, Decomposition(reflectance, shading, torch.randn(3, 3, generator=g))


def test_idle_terms_left_out_change_nothing_but_themselves() -> None:
    frames, mask = random_sequence()
    found = random_decomposition()
    chosen = EnergySettings(reconstruction=0.0, scale=0.0)
    whole, lean = (by_name(energy(frames, mask, found, None, chosen, idle=idle)) for idle in (True, False))
    for name in ("reconstruction", "scale"):
        assert whole[name] > 0
        assert lean[name] == 0
    for name in ("consistency", "reflectance", "shading", "total"):
        assert torch.equal(whole[name], lean[name])
