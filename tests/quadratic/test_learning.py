"""What is learned, and by what loss; and how one picture is decomposed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.quadratic.objects import ball, picture_of
from tests.reference.quadratic import finite_difference
from unlit.evaluate.mit import mit_scores
from unlit.quadratic.comparing import errors
from unlit.quadratic.decompose import decomposed
from unlit.quadratic.learning import SHARES, Sample, departure, loss_of, sample_of
from unlit.quadratic.network import QuadraticNet
from unlit.quadratic.weights import Weights


def true_sample(seed: int = 0, side: int = 40) -> Sample:
    """A picture with its true reflectance."""
    thing = ball(seed, side)
    lit = thing.mask & (picture_of(seed, side).max(-1) > 0)
    return sample_of(picture_of(seed, side), lit, thing.reflectance.mean(-1).astype(np.float32))


def test_the_errors_are_those_that_methods_are_scored_by() -> None:
    rng = np.random.default_rng(0)
    mask = ball(0, 50).mask
    found, wanted = (rng.random((4, 50, 50)) * mask for _ in range(2))
    said = mit_scores(found[:3].transpose(1, 2, 0), found[3], wanted[:3].transpose(1, 2, 0), wanted[3], mask)
    mine = errors(torch.from_numpy(found), torch.from_numpy(wanted), torch.from_numpy(mask))
    for name, value in zip(("mse", "lmse", "dssim"), mine.tolist(), strict=True):
        assert value == pytest.approx((said[f"{name}/reflectance"] + said[f"{name}/shading"]) / 2, rel=1e-6)


def test_what_is_wanted_has_no_error_at_any_scale() -> None:
    wanted = true_sample().wanted
    valid = wanted[3] > 0
    assert errors(2 * wanted, wanted, valid).max() < 1e-6
    assert errors(wanted[:, :12, :9], wanted[:, :12, :9], valid[:12, :9]).max() < 1e-6  # smaller than a window


def test_what_is_wanted_is_the_picture_split_by_its_reflectance() -> None:
    sample, thing = true_sample(), ball(0, 40)
    scale = sample.wanted[:3] * sample.wanted[3] / sample.image.clamp_min(1e-9)
    bright = (sample.scene.view.light.min(0) > 0.02) & sample.scene.valid
    inside = scale[:, torch.from_numpy(bright)]
    assert float(inside.std() / inside.mean()) < 1e-3
    assert sample.scene.valid.sum() <= thing.mask.sum()


def test_the_gradient_of_the_loss_is_that_of_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unlit.quadratic.learning.TOLERANCE", 1e-11)
    monkeypatch.setattr("unlit.quadratic.learning.ROUNDS", 2000)
    sample, weights = true_sample(side=26), Weights().double()
    loss_of(sample, weights).backward()
    for parameter, index in ((weights.paint[0], (1,)), (weights.sure[1], (3,)), (weights.group, (2, 0)),
                             (weights.anchor, (0,)), (weights.anchor, (2,))):  # fmt: skip
        assert parameter.grad is not None
        slope = finite_difference(lambda: loss_of(sample, weights), parameter, index, 1e-4)
        assert float(parameter.grad[index]) == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_learning_lowers_the_loss_of_a_picture_and_of_another_of_its_kind() -> None:
    weights, sample, other = Weights(), true_sample(0), true_sample(1)
    before = [float(loss_of(s, weights).detach()) for s in (sample, other)]
    optimizer = torch.optim.Adam(weights.parameters(), 0.1)
    for _ in range(12):
        optimizer.zero_grad()
        loss_of(sample, weights).backward()
        optimizer.step()
    after = [float(loss_of(s, weights).detach()) for s in (sample, other)]
    assert after[0] < 0.8 * before[0]
    assert after[1] < before[1]
    assert len(SHARES) == 3


def test_the_departure_is_from_the_start() -> None:
    start, weights = Weights(), Weights()
    assert departure(weights, start).item() == 0
    with torch.no_grad():
        weights.anchor[2] += 3
        weights.group[0, 0] -= 1
    departure(weights, start).backward()
    assert float(departure(weights, start).detach()) == pytest.approx(10)
    assert weights.anchor.grad is not None
    assert float(weights.anchor.grad[2]) == pytest.approx(6)
    assert start.anchor.grad is None


def test_a_picture_whose_reflectance_is_known_nowhere_is_refused() -> None:
    image, mask = picture_of(0), ball(0).mask
    with pytest.raises(ValueError, match="no valid pixel whose reflectance is known"):
        sample_of(image, mask, np.zeros(mask.shape, np.float32))


def test_a_decomposition_is_the_picture_gray_and_zero_outside() -> None:
    thing, image = ball(), picture_of(0)
    reflectance, shading = decomposed(image, thing.mask, Weights())
    assert reflectance.dtype == shading.dtype == np.float32
    assert np.abs(reflectance * shading[..., None] - image)[thing.mask].max() < 1e-5
    assert np.all(shading[~thing.mask] == 0)
    assert np.all(reflectance[~thing.mask] == 0)
    assert reflectance.max() == pytest.approx(1)
    lit = thing.mask & (image.min(-1) > 0.02)
    truth = np.log(thing.reflectance.mean(-1))
    assert np.std((np.log(reflectance.mean(-1), where=lit, out=np.zeros(lit.shape)) - truth)[lit]) < np.std(
        (np.log(image.mean(-1), where=lit, out=np.zeros(lit.shape)) - truth)[lit]
    )


def test_a_decomposition_does_not_depend_on_brightness_nor_on_what_lies_outside() -> None:
    thing, image = ball(), picture_of(0)
    plain = decomposed(image, thing.mask, Weights())
    around = np.where(thing.mask[..., None], 7 * image, 123.0).astype(np.float32)
    other = decomposed(around, thing.mask, Weights())
    assert np.allclose(plain[0], other[0], atol=1e-4)
    assert np.allclose(7 * plain[1], other[1], rtol=1e-3)


@pytest.mark.parametrize("light", [0.0, 1e-3])
def test_a_dark_picture_is_decomposed_too(light: float) -> None:
    image = np.full((12, 10, 3), light, np.float32)
    reflectance, shading = decomposed(image, np.ones((12, 10), np.bool_), Weights())
    assert np.isfinite(reflectance).all()
    assert np.allclose(reflectance * shading[..., None], image)


def test_what_is_no_picture_is_refused() -> None:
    image, mask = picture_of(0), ball(0).mask
    with pytest.raises(ValueError, match="mask is empty"):
        decomposed(image, np.zeros_like(mask), Weights())
    with pytest.raises(ValueError, match="NaN or infinite"):
        decomposed(np.full_like(image, np.nan), mask, Weights())


def test_it_answers_like_a_network_and_leaves_black_out() -> None:
    image = torch.from_numpy(picture_of(0).transpose(2, 0, 1).copy())[None].clamp(0, 1)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        found = QuadraticNet()(image)
    assert found.log_shading.shape == (1, 1, 40, 40)
    assert bool(found.log_reflectance.isfinite().all())
    assert torch.all(found.light_color == 0)
    black = QuadraticNet()(torch.zeros(1, 3, 8, 8))
    assert torch.all(black.log_shading == 0)
