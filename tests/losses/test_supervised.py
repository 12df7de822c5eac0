from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.reference import supervised as reference
from unlit.data.judgements import Judgements
from unlit.data.truth import Truth
from unlit.losses.linear_truth import linear_truth_term
from unlit.losses.supervised import (
    Targets,
    direct_intrinsics_term,
    judgement_term,
    shading_class_term,
    supervised_terms,
    truth_gradient_term,
    truth_term,
)
from unlit.losses.supervised_settings import EDGE, MARGIN, SupervisedSettings
from unlit.model.decomposition import Decomposition

M, H, W = 2, 13, 12
WEIGHTS = ("judgements", "shading_classes", "truth", "truth_gradient", "truth_linear")
ALL = SupervisedSettings(judgements=1, shading_classes=2, truth=3, truth_gradient=5, truth_linear=7)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_logs(c: int = 3, seed: int = 1) -> Tensor:
    return torch.randn(M, c, H, W, generator=generator(seed), dtype=torch.float64)


def random_mask(seed: int = 2) -> Tensor:
    return torch.rand(M, 1, H, W, generator=generator(seed)) > 0.2


def random_light(seed: int = 3) -> Tensor:
    """Linear light (m, 3, h, w), here and there unknown, and somewhere without blue."""
    light = torch.rand(M, 3, H, W, generator=generator(seed), dtype=torch.float64)
    light[:, :, 3:5, 2:4] = 0
    light[:, 2, 6] = 0
    return light


def random_classes(seed: int = 4) -> Tensor:
    return torch.tensor([0, 1, 2, 2, 2, 100], dtype=torch.uint8)[torch.randint(6, (H, W), generator=generator(seed))]


def random_judgements(n: int = 30, j: int = 60, seed: int = 5) -> Judgements:
    g = generator(seed)
    pairs, darker = torch.randint(n, (j, 2), generator=g), torch.randint(3, (j,), generator=g)
    return Judgements(torch.rand(n, 2, generator=g), pairs, darker, 0.1 + torch.rand(j, generator=g))


def parts(judgements: Judgements) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return judgements.points, judgements.pairs, judgements.darker, judgements.weight


def random_decomposition() -> Decomposition:
    color = torch.randn(M, 3, generator=generator(6), dtype=torch.float64)
    return Decomposition(random_logs(), random_logs(1, 7), color)


def random_truth() -> Truth:
    valid = torch.tensor([True, False])
    return Truth(random_light()[0], random_light(8), valid, random_judgements(), random_classes())


def settings_with(name: str, value: float) -> SupervisedSettings:
    changes: dict[str, Any] = {name: value}
    return SupervisedSettings(**changes)


Term = Callable[[Tensor], Tensor]
CASES: dict[str, tuple[int, Term, Term]] = {
    "judgements": (
        3,
        lambda r: judgement_term(r, *parts(random_judgements()), mask=random_mask()),
        lambda r: reference.judgements(r, *parts(random_judgements()), MARGIN, random_mask()),
    ),
    "classes": (
        1,
        # Edges of a size that some places have and others have not.
        lambda s: shading_class_term(0.2 * s, random_classes(), mask=random_mask(), edge=1.0),
        lambda s: reference.shading_classes(0.2 * s, random_classes(), random_mask(), 1.0),
    ),
    "classes in a small window": (
        1,
        lambda s: shading_class_term(s, random_classes(), mask=random_mask(), edge=2.0, window=3),
        lambda s: reference.shading_classes(s, random_classes(), random_mask(), 2.0, 3),
    ),
    "truth": (
        3,
        lambda r: truth_term(r, random_light(), random_mask()),
        lambda r: reference.truth(r, random_light(), random_mask()),
    ),
    "gradient": (
        3,
        lambda r: truth_gradient_term(r, random_light(), random_mask()),
        lambda r: reference.truth_gradient(r, random_light(), random_mask()),
    ),
    "linear": (
        3,
        lambda r: linear_truth_term(r, random_light(), random_mask(), window=4),
        lambda r: reference.linear_truth(r, random_light(), random_mask(), 4),
    ),
    "linear without windows": (
        3,
        lambda r: linear_truth_term(r, random_light(), random_mask()),
        lambda r: reference.linear_truth(r, random_light(), random_mask(), 32),
    ),
    "direct": (
        3,
        lambda r: direct_intrinsics_term(r, random_light(), random_mask()),
        lambda r: (
            reference.truth(r, random_light(), random_mask(), 0.5)
            + reference.truth_gradient(r, random_light(), random_mask(), 1, True)
        ),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_terms_and_their_gradients_equal_plain_loops(name: str, dtype: torch.dtype) -> None:
    channels, fast, slow = CASES[name]
    mine, theirs = (random_logs(channels).to(kind).requires_grad_() for kind in (dtype, torch.float64))
    value, expected = fast(mine), slow(theirs)
    assert value.shape == ()
    assert value.item() > 0.01
    tolerance = 1e-5 if dtype == torch.float32 else 1e-11
    torch.testing.assert_close(value.double(), expected, rtol=tolerance, atol=0)
    gradients = [torch.autograd.grad(v, t)[0].double() for v, t in ((value, mine), (expected, theirs))]
    torch.testing.assert_close(*gradients, rtol=10 * tolerance, atol=tolerance * float(gradients[1].abs().max()))


def test_one_reflectance_without_frames_is_judged_as_one_frame() -> None:
    r = random_logs()[0]
    said = parts(random_judgements())
    assert torch.equal(judgement_term(r, *said), judgement_term(r[None], *said))


def test_judgements_that_are_met_cost_nothing_and_those_that_are_not_do() -> None:
    r = torch.zeros(1, 3, 4, 4, dtype=torch.float64)
    r[..., 0, 0] = -MARGIN
    dark, light, other = [0.1, 0.1], [0.6, 0.6], [0.9, 0.9]
    points, one = torch.tensor([dark, light, other]), torch.ones(1)
    cost = {
        (pair, label): float(judgement_term(r, points, torch.tensor([pair]), torch.tensor([label]), one))
        for pair in ((0, 1), (1, 0), (1, 2))
        for label in (0, 1, 2)
    }
    for met in (((0, 1), 1), ((1, 0), 2), ((1, 2), 0)):
        assert cost.pop(met) == pytest.approx(0, abs=1e-20)
    assert cost[(0, 1), 0] == pytest.approx(MARGIN**2)
    assert cost[(1, 0), 1] == cost[(0, 1), 2] == pytest.approx((2 * MARGIN) ** 2)
    assert cost[(1, 2), 1] == cost[(1, 2), 2] == pytest.approx(MARGIN**2)


def test_the_margin_is_what_whdr_calls_darker_after_gamma_encoding() -> None:
    assert math.exp(MARGIN) ** (1 / 2.2) == pytest.approx(1.1)


def test_a_sure_judgement_counts_more_and_all_scores_may_be_scaled() -> None:
    r = random_logs()
    points, pairs, darker, weight = parts(random_judgements())
    value = judgement_term(r, points, pairs, darker, weight)
    torch.testing.assert_close(judgement_term(r, points, pairs, darker, 7 * weight), value)
    worst = max(range(60), key=lambda k: float(judgement_term(r, points, pairs[[k]], darker[[k]], weight[[k]])))
    surer = weight.clone()
    surer[worst] *= 10
    assert judgement_term(r, points, pairs, darker, surer) > value


@pytest.mark.parametrize("hidden", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_judgements_give_zero_and_a_gradient_of_zero(hidden: bool, dtype: torch.dtype) -> None:
    said = random_judgements() if hidden else random_judgements(5, 0)
    mask = torch.full((M, 1, H, W), not hidden)
    r = random_logs().to(dtype).requires_grad_()
    value = judgement_term(r, *parts(said), mask=mask)
    (gradient,) = torch.autograd.grad(value, r)
    assert value.item() == 0
    assert not gradient.any()
    none = (torch.zeros(0, 2), torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0))
    assert judgement_term(r, *none).item() == 0


def test_points_on_the_last_edge_belong_to_the_last_pixel() -> None:
    r = random_logs()
    edge, inside = torch.tensor([[1.0, 1.0], [0.5, 0.5]]), torch.tensor([[0.999, 0.999], [0.5, 0.5]])
    said = torch.tensor([[0, 1]]), torch.tensor([0]), torch.ones(1)
    assert torch.equal(judgement_term(r, edge, *said), judgement_term(r, inside, *said))


def test_flat_shading_where_it_is_smooth_costs_nothing_whatever_its_level() -> None:
    classes = torch.full((H, W), 2, dtype=torch.uint8)
    levels = torch.tensor([-3.0, 2.0]).reshape(2, 1, 1, 1).expand(2, 1, H, W)
    assert shading_class_term(levels, classes).item() == 0
    assert shading_class_term(levels + 0.1 * torch.arange(W), classes).item() > 1e-3


def test_an_edge_may_lie_anywhere_in_its_window_but_must_be_there() -> None:
    classes = torch.full((20, 20), 100, dtype=torch.uint8)
    classes[10, 10] = 1
    for column, found in ((4, False), (5, True), (14, True), (15, False)):
        s = torch.zeros(1, 1, 20, 20, dtype=torch.float64)
        s[..., column + 1 :] = 2 * EDGE  # a step between this column and the next
        assert (shading_class_term(s, classes).item() == 0) is found, column
        classes[10, 10] = 0
        assert (shading_class_term(s, classes).item() == 0) is found, column
    assert shading_class_term(torch.zeros(1, 1, 20, 20), classes).item() == pytest.approx(EDGE**2)


def test_pixels_of_which_nothing_is_said_may_have_any_shading() -> None:
    s = random_logs(1).requires_grad_()
    value = shading_class_term(s, torch.full((H, W), 100, dtype=torch.uint8))
    assert value.item() == 0
    assert not torch.autograd.grad(value, s)[0].any()


def test_the_truth_costs_nothing_at_any_scale_of_each_frame() -> None:
    truth, mask = random_light().clamp_min(1e-3), random_mask()
    scales = torch.tensor([-50.0, 3.0], dtype=torch.float64).reshape(M, 1, 1, 1)
    for estimate in (truth.log(), truth.log() + scales):
        assert truth_term(estimate, truth, mask).item() < 1e-25
        assert truth_gradient_term(estimate, truth, mask).item() < 1e-12
        assert abs(linear_truth_term(estimate, truth, mask, window=4).item()) < 1e-12
    assert direct_intrinsics_term(truth.log(), truth, mask).item() < 1e-25
    # Half of a wrong scale counts, as Direct Intrinsics has it.
    wrong = direct_intrinsics_term(truth.log() + 0.3, truth, mask).item()
    assert wrong == pytest.approx(0.5 * 0.3**2)


def test_other_estimates_do_not_come_cheaper_for_their_scale() -> None:
    truth, mask, estimate = random_light().clamp_min(1e-3), random_mask(), random_logs()
    scales = torch.tensor([-5.0, 3.0], dtype=torch.float64).reshape(M, 1, 1, 1)
    for term in (truth_term, truth_gradient_term, partial(linear_truth_term, window=4)):
        torch.testing.assert_close(term(estimate + scales, truth, mask), term(estimate, truth, mask))
        torch.testing.assert_close(term(estimate, 3 * truth, mask), term(estimate, truth, mask))
    assert direct_intrinsics_term(estimate + scales, truth, mask) > direct_intrinsics_term(estimate, truth, mask) + 1


def test_the_scale_far_off_costs_no_digits_of_float32() -> None:
    truth, mask = random_light().float(), random_mask()
    estimate = (truth.clamp_min(1e-4).log() + 1e-3 * random_logs()).float()
    expected = truth_term(estimate.double(), truth.double(), mask).item()
    assert truth_term(estimate + 8, truth, mask).item() == pytest.approx(expected, rel=1e-2)


def test_what_is_masked_or_unknown_may_hold_anything() -> None:
    mask, said = random_mask(), random_judgements()
    for junk in (7.0, math.nan, math.inf):
        truth = random_light()
        r, s = (torch.where(mask, t, junk).requires_grad_() for t in (random_logs(), random_logs(1)))
        pairs = (
            (judgement_term(r, *parts(said), mask=mask), judgement_term(random_logs(), *parts(said), mask=mask)),
            (
                shading_class_term(s, random_classes(), mask=mask, edge=2.0),
                shading_class_term(random_logs(1), random_classes(), mask=mask, edge=2.0),
            ),
            (truth_term(r, truth, mask), truth_term(random_logs(), truth, mask)),
            (truth_gradient_term(r, truth, mask), truth_gradient_term(random_logs(), truth, mask)),
            (linear_truth_term(r, truth, mask, window=4), linear_truth_term(random_logs(), truth, mask, window=4)),
        )
        for changed, unchanged in pairs:
            torch.testing.assert_close(changed, unchanged)
        gradients = torch.autograd.grad(torch.stack([changed for changed, _ in pairs]).sum(), (r, s))
        assert all(bool(torch.isfinite(g).all()) and not g[~mask.expand_as(g)].any() for g in gradients)


def test_black_truth_is_unknown_and_a_missing_channel_is_not() -> None:
    mask = torch.ones(M, 1, H, W, dtype=torch.bool)
    unknown, blueless, known = random_logs(), random_logs(), random_logs()
    unknown[:, :, 3:5, 2:4] += 1
    blueless[:, 2, 6] += 1
    for term in (truth_term, truth_gradient_term, direct_intrinsics_term, linear_truth_term):
        torch.testing.assert_close(term(unknown, random_light(), mask), term(known, random_light(), mask))
        assert not torch.isclose(term(blueless, random_light(), mask), term(known, random_light(), mask))


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (5, 1), (2, 3)])
def test_terms_and_gradients_are_finite_for_flat_black_and_tiny_pictures(size: tuple[int, int]) -> None:
    for valid in (True, False):
        for light in (0.0, 1e-30, 0.5):
            for classes in (0, 1, 2, 100):
                r, s, color = torch.zeros(1, 3, *size), torch.zeros(1, 1, *size), torch.zeros(1, 3)
                for t in (r, s, color):
                    t.requires_grad_()
                known = Truth(
                    torch.full((3, *size), light),
                    torch.full((1, 3, *size), light),
                    torch.tensor([True]),
                    Judgements(torch.rand(2, 2), torch.tensor([[0, 1]]), torch.tensor([1]), torch.ones(1)),
                    torch.full(size, classes, dtype=torch.uint8),
                )
                terms = supervised_terms(Decomposition(r, s, color), torch.full((1, 1, *size), valid), known, ALL)
                assert 0 <= terms["total"].item() < math.inf
                for gradient in torch.autograd.grad(terms["total"], (r, s, color)):
                    assert bool(torch.isfinite(gradient).all())


def test_the_total_is_the_weighted_sum_of_the_terms() -> None:
    d, mask, known = random_decomposition(), random_mask(), random_truth()
    terms = supervised_terms(d, mask, known, ALL)
    assert set(terms) == {"judgements", "shading_classes", "truth", "truth_gradient", "truth_linear", "total"}
    expected = sum(getattr(ALL, name) * value for name, value in terms.items() if name != "total")
    torch.testing.assert_close(terms["total"], expected)


@pytest.mark.parametrize("direct", [True, False])
def test_reflectance_of_all_frames_and_shading_of_some_are_compared_with_the_truth(direct: bool) -> None:
    d, mask, known = random_decomposition(), random_mask(), random_truth()
    assert known.reflectance is not None
    assert known.shading is not None
    terms = supervised_terms(d, mask, known, replace(ALL, direct=direct))
    first = mask.clone()
    first[1] = False
    pairs = ((d.log_reflectance, known.reflectance, mask), (d.log_light, known.shading, first))
    if direct:
        expected = sum(direct_intrinsics_term(*pair) for pair in pairs)
        torch.testing.assert_close(terms["truth"] + terms["truth_gradient"], expected)
    else:
        torch.testing.assert_close(terms["truth"], sum(truth_term(*pair) for pair in pairs))
        torch.testing.assert_close(terms["truth_gradient"], sum(truth_gradient_term(*pair) for pair in pairs))
        torch.testing.assert_close(terms["truth_linear"], sum(linear_truth_term(*pair) for pair in pairs))


def test_pixels_far_apart_are_compared_where_more_scales_are_asked_for() -> None:
    d, mask, known = random_decomposition(), torch.ones(M, 1, H, W, dtype=torch.bool), random_truth()
    assert known.reflectance is not None
    truth = replace(known, shading=None, shading_valid=None)
    for scales in (1, 3):
        terms = supervised_terms(d, mask, truth, replace(ALL, truth_scales=scales))
        expected = reference.truth_gradient(d.log_reflectance, known.reflectance.expand(M, -1, -1, -1), mask, scales)
        torch.testing.assert_close(terms["truth_gradient"], expected)


@pytest.mark.parametrize("scales", [0, -1, 17])
def test_a_number_of_scales_without_sense_is_refused(scales: int) -> None:
    with pytest.raises(ValueError, match="truth_scales must be from 1 to 16"):
        SupervisedSettings(truth_scales=scales)


def test_margin_and_edge_are_those_of_the_settings() -> None:
    d, mask, known = random_decomposition(), random_mask(), random_truth()
    terms = supervised_terms(d, mask, known, replace(ALL, margin=1.5, edge=9.5))
    said, classes = random_judgements(), random_classes()
    expected = judgement_term(d.log_reflectance, *parts(said), 1.5, mask=mask)
    torch.testing.assert_close(terms["judgements"], expected)
    expected = shading_class_term(d.log_shading, classes, mask=mask, edge=9.5)
    torch.testing.assert_close(terms["shading_classes"], expected)


def test_terms_without_weight_or_truth_are_left_out() -> None:
    d, mask, known = random_decomposition(), random_mask(), random_truth()
    for name in WEIGHTS:
        assert set(supervised_terms(d, mask, known, settings_with(name, 2))) == {name, "total"}
    nothing = supervised_terms(d, mask, Truth(), ALL)
    assert set(nothing) == {"total"}
    assert nothing["total"].item() == 0
    shading = supervised_terms(d, mask, Truth(shading=known.shading, shading_valid=known.shading_valid), ALL)
    assert set(shading) == {"truth", "truth_gradient", "truth_linear", "total"}


def test_gray_light_leaves_its_color_out() -> None:
    d, mask, known = random_decomposition(), random_mask(), random_truth()
    white = replace(d, light_color=torch.zeros_like(d.light_color))
    gray = supervised_terms(d, mask, known, ALL, colored_light=False)["total"]
    torch.testing.assert_close(gray, supervised_terms(white, mask, known, ALL)["total"])
    assert not torch.isclose(gray, supervised_terms(d, mask, known, ALL)["total"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_losses_are_float32_under_autocast_and_for_a_network_of_fewer_digits(dtype: torch.dtype) -> None:
    d, mask, known = random_decomposition(), random_mask(), random_truth()
    fewer = Decomposition(*(t.to(dtype) for t in vars(d).values()))
    full = Decomposition(*(t.float() for t in vars(fewer).values()))
    known = replace(known, reflectance=random_light()[0].float(), shading=random_light(8).float())
    expected = supervised_terms(full, mask, known, ALL)
    with torch.autocast("cpu", torch.bfloat16):
        terms = supervised_terms(fewer, mask, known, ALL)
    for name, value in terms.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, expected[name])


def test_no_term_is_computed_under_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    def spy(log_estimate: Tensor, *_: Any, **__: Any) -> Tensor:
        assert not torch.is_autocast_enabled("cpu")
        return log_estimate.sum()

    monkeypatch.setattr("unlit.losses.supervised.truth_term", spy)
    with torch.autocast("cpu", torch.bfloat16):
        supervised_terms(random_decomposition(), random_mask(), random_truth(), SupervisedSettings(truth=1))


def test_what_is_known_of_other_frames_is_refused() -> None:
    d, mask, known = random_decomposition(), random_mask(), random_truth()
    wrong: dict[str, Targets] = {
        "reflectance": Truth(random_light()[0, :, 1:]),
        "shading": Truth(shading=random_light()[:1], shading_valid=torch.ones(1, dtype=torch.bool)),
        "shading_classes": Truth(shading_classes=random_classes()[:1]),
    }
    for name, targets in wrong.items():
        with pytest.raises(ValueError, match=f"^{name} must be"):
            supervised_terms(d, mask, targets, ALL)
    with pytest.raises(ValueError, match=r"^mask must be"):
        supervised_terms(d, mask[:1], known, ALL)


@pytest.mark.parametrize("name", [*WEIGHTS, "margin", "edge"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_settings_without_sense_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be finite and not negative"):
        settings_with(name, value)


def test_nothing_is_supervised_unless_asked_for() -> None:
    assert not SupervisedSettings().any
    assert not SupervisedSettings(direct=True, margin=1, edge=1).any
    for name in WEIGHTS:
        assert settings_with(name, 0.1).any


def test_settings_do_not_load_torch() -> None:
    code = "import sys; import unlit.losses.supervised_settings; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
