"""What an update does with the gradients."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace

import pytest
import torch
from torch import nn

from unlit.config import Config, ModelSettings
from unlit.recipes import smoke
from unlit.train.learner import Learner

CPU = torch.device("cpu")


def config(clip: float) -> Config:
    return replace(smoke(), train=replace(smoke().train, clip=clip, average=0.0))


def small_compact(*, fixed: bool) -> Config:
    train = replace(smoke().train, average=0.0, fixed_statistics=fixed)
    return replace(smoke(), model=ModelSettings(network="compact", width=0.25, attention=True), train=train)


def given_gradients(learner: Learner, size: float, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    for parameter in learner.network.parameters():
        # Laid out in memory as the parameter is: so autograd leaves them, and the optimizer expects them.
        parameter.grad = torch.empty_like(parameter).normal_(0, size, generator=g)


@pytest.mark.parametrize("clip", [0.0, 0.1, 1.0, 1e9])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 10.0])
def test_gradients_are_clipped_by_their_common_norm(clip: float, size: float) -> None:
    learner, plain = Learner(config(clip), CPU), Learner(config(clip), CPU)
    train = learner.config.train
    optimizer = torch.optim.Adam(
        plain.network.parameters(), lr=train.learning_rate, betas=train.betas, weight_decay=train.weight_decay
    )
    for step in range(3):
        given_gradients(learner, size * (step + 1), step)
        given_gradients(plain, size * (step + 1), step)
        nn.utils.clip_grad_norm_(plain.network.parameters(), clip or math.inf)
        optimizer.step()
        assert not learner.update(step)
    for (name, one), other in zip(learner.network.named_parameters(), plain.network.parameters(), strict=True):
        moments = (learner.optimizer.state[one]["exp_avg"], optimizer.state[other]["exp_avg"])
        torch.testing.assert_close(*moments, rtol=1e-4, atol=1e-5 * float(moments[1].abs().max()), msg=name)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3 * train.learning_rate, msg=name)


@pytest.mark.parametrize("clip", [0.0, 1.0])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_changes_nothing(clip: float, wrong: float) -> None:
    learner = Learner(config(clip), CPU)
    given_gradients(learner, 1.0, 0)
    assert not learner.update(0)
    before = {name: value.clone() for name, value in learner.network.state_dict().items()}
    moments = [state["exp_avg"].clone() for state in learner.optimizer.state.values()]
    given_gradients(learner, 1.0, 1)
    next(p for p in learner.network.parameters() if p.grad is not None).grad[0].fill_(wrong)  # type: ignore[index]  # it has one
    assert learner.update(1)
    assert all(torch.equal(value, before[name]) for name, value in learner.network.state_dict().items())
    assert all(torch.equal(s["exp_avg"], m) for s, m in zip(learner.optimizer.state.values(), moments, strict=True))
    given_gradients(learner, 1.0, 2)
    assert not learner.update(2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch by its own compiler
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_compiled_or_not_the_network_is_shown_the_same() -> None:
    plain, compiled = (
        Learner(replace(config(0.0), train=replace(config(0.0).train, compile=c)), CPU) for c in (False, True)
    )
    for shape in ((1, 3, 3, 16, 24), (2, 2, 3, 24, 16)):
        frames = torch.rand(shape, generator=torch.Generator().manual_seed(0))
        shown, expected = compiled._seen(frames), plain._seen(frames)
        torch.testing.assert_close(shown, expected, rtol=1e-6, atol=1e-7)
        assert shown.stride() == expected.stride()


@pytest.mark.parametrize(("attention", "dynamic"), [(False, None), (True, False)])
def test_attention_is_compiled_for_each_size(
    attention: bool, dynamic: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch 2.13 cannot compile its gradient for any size, and asks for that by itself from the second on."""
    asked = []

    def noted(function: object, **how: object) -> object:
        asked.append(how)
        return function

    monkeypatch.setattr(torch, "compile", noted)
    plain = config(0.0)
    model = replace(plain.model, network="compact", width=0.25, attention=attention)
    learner = Learner(replace(plain, model=model, train=replace(plain.train, compile=True)), CPU)
    assert learner.compiled() is learner.network
    assert asked == [{"dynamic": dynamic}] * 2


@pytest.mark.parametrize("fixed", [False, True])
def test_statistics_stay_where_they_are_to_and_all_else_learns(fixed: bool) -> None:
    learner = Learner(small_compact(fixed=fixed), CPU)
    before = {name: value.clone() for name, value in learner.network.state_dict().items()}
    frames = torch.rand(1, 2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    for step in range(2):
        with learner.evaluating():
            learner.network(torch.rand(1, 3, 64, 64))  # what is only looked at changes neither
        found = learner.decomposed(learner.network, frames)
        (found.log_reflectance.square().mean() + found.log_shading.square().mean()).backward()
        learner.update(step)
    after = learner.network.state_dict()
    statistics = [name for name in before if name.endswith(("running_mean", "running_var"))]
    assert statistics
    assert all(torch.equal(before[name], after[name]) is fixed for name in statistics)
    assert not torch.equal(before["head.weight"], after["head.weight"])


def test_with_fixed_statistics_what_is_said_of_a_picture_does_not_depend_on_others() -> None:
    learner = Learner(small_compact(fixed=True), CPU)
    nn.init.normal_(learner.network.get_parameter("head.weight"))
    pictures = torch.rand(1, 2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    both = learner.decomposed(learner.network, pictures).log_reflectance
    alone = learner.decomposed(learner.network, pictures[:, :1]).log_reflectance
    torch.testing.assert_close(both[:1], alone, rtol=1e-5, atol=1e-5)
