"""The term of solved sequences, against plain loops and by what it should not see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.reference import solved as reference
from unlit.losses.solved import solved_term
from unlit.losses.solved_settings import SolvedSettings
from unlit.model.decomposition import Decomposition

N, H, W = 2, 11, 13
SETTINGS = SolvedSettings(weight=1.0)


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class World:
    """Frames of gray light whose answer is known, and an answer."""

    frames: Tensor
    mask: Tensor
    reflectance: Tensor
    log_reflectance: Tensor
    log_shading: Tensor
    light_color: Tensor

    def term(self, settings: SolvedSettings = SETTINGS) -> Tensor:
        found = Decomposition(self.log_reflectance, self.log_shading, self.light_color)
        return solved_term(self.frames, self.mask, found, self.reflectance, settings)


def answered(n: int = N) -> World:
    """A world whose answer is right."""
    reflectance, shading = 0.1 + 0.8 * rand(n, 3, H, W, seed=1), 0.1 + rand(n, 1, H, W, seed=2)
    mask = rand(n, 1, H, W, seed=3) > 0.2
    return World(reflectance * shading, mask, reflectance, reflectance.log(), shading.log(), torch.zeros(n, 3))


def guessed(n: int = N) -> World:
    """A world whose answer is a guess; some of the truth is unknown, some pixels are black or dark."""
    world = answered(n)
    reflectance, frames = world.reflectance.clone(), world.frames.clone()
    reflectance[0, :, 2, 3:6] = 0
    reflectance[0, 1, 4, 4] = 0
    frames[:, :, 7, 7:9] = 0
    frames[:, 2, 8, :4] = 1e-6
    noise = [rand(*part.shape, seed=5) - 0.5 for part in (world.log_reflectance, world.log_shading)]
    color = rand(n, 3, seed=6) - 0.5
    return World(frames, world.mask, reflectance, noise[0] - 1, noise[1], color)


def gradients(term: Tensor, parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(term, parts)


@pytest.mark.parametrize("emphasis", [0.0, 1.0, 2.0])
@pytest.mark.parametrize(("gradient", "reconstruction"), [(0.5, 0.1), (0.0, 1.0), (1.0, 0.0)])
def test_value_and_gradient_equal_the_loops(emphasis: float, gradient: float, reconstruction: float) -> None:
    world = guessed()
    parts = [part.clone().requires_grad_() for part in (world.log_reflectance, world.log_shading, world.light_color)]
    found = replace(world, log_reflectance=parts[0], log_shading=parts[1], light_color=parts[2])
    weights: dict[str, Any] = {"emphasis": emphasis, "gradient": gradient, "reconstruction": reconstruction}
    fast = found.term(replace(SETTINGS, **weights))
    double = [part.detach().double().requires_grad_() for part in parts]
    slow = reference.solved(
        world.frames.double(), world.mask, double[0], double[1], double[2], world.reflectance.double(), **weights
    )
    assert fast.item() == pytest.approx(slow.item(), rel=1e-4)
    needed = slice(None) if reconstruction else slice(2)  # without it nothing depends on the light's color
    for one, other in zip(gradients(fast, tuple(parts[needed])), gradients(slow, tuple(double[needed])), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4 * other.abs().max().item())


def test_the_term_is_zero_at_the_answer_and_positive_elsewhere() -> None:
    world = answered()
    assert world.term().item() == pytest.approx(0, abs=1e-5)
    for name in ("log_reflectance", "log_shading"):
        part = getattr(world, name)
        assert replace(world, **{name: part + 0.1 * rand(*part.shape, seed=9)}).term() > 1e-3


def test_each_frame_may_have_a_scale_of_its_own() -> None:
    world = guessed()
    scale = torch.tensor([0.7, -2.0]).reshape(N, 1, 1, 1)
    other = replace(world, log_reflectance=world.log_reflectance + scale, log_shading=world.log_shading - scale)
    assert other.term().item() == pytest.approx(world.term().item(), rel=1e-4)
    # Of reflectance and shading on their own, where the product does not count.
    alone = replace(SETTINGS, reconstruction=0.0)
    for name in ("log_reflectance", "log_shading"):
        moved = replace(world, **{name: getattr(world, name) + scale})
        assert moved.term(alone).item() == pytest.approx(world.term(alone).item(), rel=1e-4)
        assert moved.term().item() > world.term().item() + 0.05


def test_one_scale_for_all_channels_so_that_colors_count() -> None:
    world = answered()
    tint = torch.tensor([0.3, 0, -0.3]).reshape(1, 3, 1, 1)
    tinted = replace(world, log_reflectance=world.log_reflectance + tint).term(replace(SETTINGS, reconstruction=0.0))
    assert tinted.item() == pytest.approx(tint.square().mean().item(), rel=1e-3)


def test_the_color_of_the_light_counts_only_in_the_product() -> None:
    world = answered()
    colored = replace(world, light_color=torch.tensor([0.2, 0, -0.2]).expand(N, 3))
    assert colored.term(replace(SETTINGS, reconstruction=0.0)).item() == pytest.approx(0, abs=1e-5)
    assert colored.term().item() == pytest.approx(SETTINGS.reconstruction * 0.08 / 3, rel=1e-3)


def test_masked_black_and_unknown_pixels_do_not_matter() -> None:
    world = guessed()
    before = world.term().item()
    invalid = ~world.mask | (world.reflectance <= 0).any(1, keepdim=True) | (world.frames.amax(1, keepdim=True) <= 1e-4)
    assert invalid.any(0).any()
    noise = 5 * rand(N, 3, H, W, seed=11)
    changed = replace(
        world,
        log_reflectance=torch.where(invalid, noise, world.log_reflectance),
        log_shading=torch.where(invalid, -noise[:, :1], world.log_shading),
        frames=torch.where(~world.mask, noise, world.frames),
    )
    assert changed.term().item() == pytest.approx(before, rel=1e-5)
    broken = replace(world, frames=torch.where(world.mask, world.frames, torch.nan))
    assert broken.term().item() == pytest.approx(before, rel=1e-5)
    unknown = torch.where(~world.mask, 0, world.reflectance)
    assert replace(world, reflectance=unknown).term().item() == pytest.approx(before, rel=1e-5)


def test_pixels_that_do_not_count_have_no_gradient_and_all_others_a_finite_one() -> None:
    world = guessed()
    world.frames[1] = 0  # a frame that is black altogether
    log_reflectance = world.log_reflectance.clone().requires_grad_()
    log_shading = world.log_shading.clone().requires_grad_()
    color = world.light_color.clone().requires_grad_()
    term = replace(world, log_reflectance=log_reflectance, log_shading=log_shading, light_color=color).term()
    for slope in gradients(term, (log_reflectance, log_shading, color)):
        assert torch.isfinite(slope).all()
        assert (slope[1] == 0).all()
    slope = gradients(
        replace(world, log_reflectance=log_reflectance, log_shading=log_shading).term(), (log_reflectance,)
    )[0]
    assert (slope[0][:, ~world.mask[0, 0]] == 0).all()
    assert (slope[0] != 0).any()


def test_without_emphasis_all_valid_pixels_count_alike_and_with_it_bright_ones_count_more() -> None:
    plain = SolvedSettings(weight=1.0, emphasis=0.0, gradient=0.0, reconstruction=0.0)
    world = answered(1)
    off = rand(1, 3, H, W, seed=12)
    valid = off[0][:, world.mask[0, 0]]
    guess = replace(world, log_reflectance=world.log_reflectance + off)
    assert guess.term(plain).item() == pytest.approx(valid.var(correction=0).item(), rel=1e-4)
    bright = (world.reflectance.mean(1, keepdim=True) > 0.55).float()
    at_bright = replace(world, log_reflectance=world.log_reflectance + bright * off)
    at_dark = replace(world, log_reflectance=world.log_reflectance + (1 - bright) * off)
    strong = replace(plain, emphasis=4.0)
    assert at_bright.term(strong) / at_dark.term(strong) > 2 * at_bright.term(plain) / at_dark.term(plain)


def test_nothing_valid_gives_zero_and_a_gradient_of_zero() -> None:
    world = guessed()
    log_reflectance = world.log_reflectance.clone().requires_grad_()
    for empty in (
        replace(world, mask=torch.zeros_like(world.mask)),
        replace(world, reflectance=torch.zeros_like(world.reflectance)),
        replace(world, frames=torch.zeros_like(world.frames)),
    ):
        term = replace(empty, log_reflectance=log_reflectance).term()
        assert term.item() == 0
        assert (gradients(term, (log_reflectance,))[0] == 0).all()


def test_the_mean_is_over_frames() -> None:
    world = guessed()
    each = [World(*(part[k : k + 1] for part in vars(world).values())).term().item() for k in range(N)]
    assert world.term().item() == pytest.approx(sum(each) / N, rel=1e-5)


def test_the_term_is_float32_even_where_the_network_is_not() -> None:
    world = guessed()
    half = replace(
        world,
        log_reflectance=world.log_reflectance.bfloat16(),
        log_shading=world.log_shading.bfloat16(),
        light_color=world.light_color.bfloat16(),
    )
    with torch.autocast("cpu", torch.bfloat16):
        term = half.term()
    assert term.dtype == torch.float32
    assert term.item() == pytest.approx(world.term().item(), rel=0.02)


def test_a_picture_of_one_row_has_a_term_too() -> None:
    world = World(*(part[:, :, :1] if part.ndim == 4 else part for part in vars(answered()).values()))
    assert world.term().item() == pytest.approx(0, abs=1e-5)
