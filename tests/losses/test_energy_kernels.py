"""The whole energy by kernels against the energy term by term. Where these run: see test_loss_kernels.py."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from tests.kernels import DEVICE, INTERPRETED, needs_cuda, needs_kernels
from unlit.losses.energy import LossTerms, energy, plain_energy
from unlit.losses.settings import EnergySettings
from unlit.model.decomposition import Decomposition
from unlit.pairwise.neighbors import OFFSETS, PackedPairs, sizes_at_scales
from unlit.pairwise.pairwise import Pairwise, build_pairwise, dense_pairs
from unlit.pairwise.settings import PairwiseSettings

pytestmark = [pytest.mark.gpu, needs_kernels]

NAMES = ("reconstruction", "consistency", "reflectance", "shading", "scale")


def weighing(name: str, weight: float) -> EnergySettings:
    """The default settings with one other weight."""
    return EnergySettings(**{name: weight})  # type: ignore[arg-type]  # names of weights only


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def pairs_of(frames: Tensor, mask: Tensor, monkeypatch: pytest.MonkeyPatch) -> Pairwise:
    """Dense pairs by kernels, also where these are interpreted, and neighbors with random weights."""
    from unlit.pairwise.filtering_kernels import TritonFilter

    m, _, h, w = frames.shape
    with monkeypatch.context() as patch:
        patch.setattr("unlit.pairwise.lattice.best_filter", TritonFilter)
        dense = dense_pairs(torch.where(mask, frames, 0), mask, tolerance=1e-2)
    pixels = sum(rows * columns for rows, columns in sizes_at_scales(h, w, 2))
    weights = random(len(OFFSETS) * m * pixels, seed=6).abs()
    shading = PackedPairs(weights, torch.full((2, len(OFFSETS)), m * h * w, device=DEVICE), (m, h, w))
    return Pairwise(dense, None, shading)


def scene(m: int, h: int, w: int, masked: float = 0.3) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Frames with a few black pixels and NaN where they are masked, the mask, and a decomposition."""
    frames = 0.4 + 0.01 * random(m, 3, h, w, seed=4)
    mask = (torch.rand(m, 1, h, w, generator=torch.Generator().manual_seed(3)) >= masked).to(DEVICE)
    mask[..., -1, -1] = True
    frames[0, :, 0, 0] = 0
    parts = [random(m, 3, h, w, seed=5) - 3, random(m, 1, h, w, seed=7) - 1, 0.2 * random(m, 3, seed=8)]
    return torch.where(mask, frames, torch.nan), mask, parts


def found(terms: LossTerms, parts: list[Tensor]) -> list[Tensor]:
    """The terms, and three times the total's gradients; zero where nothing depends on a part."""
    gradients = torch.autograd.grad(3 * terms.total, parts, allow_unused=True)
    values = [getattr(terms, name).detach() for name in (*NAMES, "total")]
    return values + [torch.zeros_like(p) if g is None else g for g, p in zip(gradients, parts, strict=True)]


def both(
    frames: Tensor, mask: Tensor, parts: list[Tensor], pairwise: Pairwise, settings: EnergySettings | None = None
) -> tuple[list[Tensor], list[Tensor]]:
    """What the kernels say and what plain torch says."""
    from unlit.losses import energy_kernels as kernels

    settings = settings or EnergySettings()
    parts = [part.detach().requires_grad_() for part in parts]
    assert kernels.fits(frames, mask, Decomposition(*parts), pairwise, settings)
    total, terms = kernels.energy(frames, mask, Decomposition(*parts), pairwise, settings)
    mine = found(LossTerms(**dict(zip(NAMES, terms.unbind(), strict=True)), total=total), parts)
    return mine, found(plain_energy(frames, mask, Decomposition(*parts), pairwise, settings, idle=False), parts)


def assert_close(mine: list[Tensor], theirs: list[Tensor], tolerance: float = 2e-5) -> None:
    for a, b in zip(mine, theirs, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        torch.testing.assert_close(a.double(), b.double(), rtol=tolerance, atol=tolerance * float(b.abs().max()))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("m", "h", "w", "masked"), [(1, 1, 5, 0), (2, 9, 1, 0.3), (5, 7, 10, 0.3), (3, 6, 8, 0)])
def test_values_and_gradients_equal_plain_torch(
    m: int, h: int, w: int, masked: float, layout: torch.memory_format, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames, mask, parts = scene(m, h, w, masked)
    parts[0] = parts[0].contiguous(memory_format=layout)
    assert_close(*both(frames, mask, parts, pairs_of(frames, mask, monkeypatch)))


def test_weights_count(monkeypatch: pytest.MonkeyPatch) -> None:
    frames, mask, parts = scene(3, 5, 7)
    pairwise = pairs_of(frames, mask, monkeypatch)
    for name in NAMES:
        assert_close(*both(frames, mask, parts, pairwise, weighing(name, 7.0)))


def test_gray_light_has_a_color_that_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    frames, mask, parts = scene(3, 5, 7)
    mine, theirs = both(frames, mask, parts, pairs_of(frames, mask, monkeypatch), EnergySettings(colored_light=False))
    assert not mine[-1].any()
    assert_close(mine, theirs)


def test_what_a_network_says_in_few_digits_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are rounded to as few digits, once."""
    frames, mask, parts = scene(3, 5, 7)
    parts = [part.bfloat16() for part in parts]
    mine, theirs = both(frames, mask, parts, pairs_of(frames, mask, monkeypatch))
    assert_close(mine[:6], theirs[:6])
    assert_close(mine[6:], theirs[6:], 1e-2)


def test_masked_values_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    frames, mask, parts = scene(3, 6, 7)
    pairwise = pairs_of(frames, mask, monkeypatch)
    other = [torch.where(mask, parts[0], torch.nan), parts[1], parts[2]]
    mine, _ = both(frames, mask, other, pairwise)
    assert_close(mine, both(frames, mask, parts, pairwise)[0], 0)


def test_float32_keeps_its_digits_where_frames_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consistency is a small difference of large numbers there."""
    frames, mask, parts = scene(6, 5, 7)
    parts[0] = -6 + 0.001 * parts[0]
    pairwise = pairs_of(frames, mask, monkeypatch)
    mine, _ = both(frames, mask, parts, pairwise)
    exact = plain_energy(frames.double(), mask, Decomposition(*(p.double() for p in parts)), pairwise, EnergySettings())
    assert abs(float(mine[1] / exact.consistency) - 1) < 1e-4


def test_repetitions_agree_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    frames, mask, parts = scene(2, 9, 12) if INTERPRETED else scene(9, 256, 384)
    pairwise = pairs_of(frames, mask, monkeypatch)
    first, again = (both(frames, mask, parts, pairwise)[0] for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_what_the_kernels_do_not_take_is_left_to_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    from unlit.losses.energy_kernels import fits

    frames, mask, parts = scene(3, 5, 7)
    pairwise, settings, given = pairs_of(frames, mask, monkeypatch), EnergySettings(), Decomposition(*parts)
    assert fits(frames, mask, given, pairwise, settings)
    assert not fits(frames.double(), mask, given, pairwise, settings)
    assert not fits(frames, mask, Decomposition(parts[0].double(), *parts[1:]), pairwise, settings)
    assert not fits(frames, mask, given, replace(pairwise, dense=None), settings)
    assert not fits(frames, mask, given, replace(pairwise, shading=list(pairwise.shading)), settings)
    assert not fits(frames, mask, given, pairwise, replace(settings, all_pairs=False))
    assert not any(fits(frames, mask, given, pairwise, weighing(name, 0.0)) for name in NAMES)


@needs_cuda
def test_a_gpu_that_learns_takes_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    from unlit.losses import energy_kernels as kernels

    kernel = Mock(wraps=kernels.energy)
    monkeypatch.setattr(kernels, "energy", kernel)
    frames, mask, parts = scene(5, 40, 36)
    frames = torch.where(mask, frames, 0)
    pairwise = build_pairwise(frames, mask, PairwiseSettings())
    values = []
    for idle in (False, True):
        inputs = [part.detach().requires_grad_() for part in parts]
        values.append(found(energy(frames, mask, Decomposition(*inputs), pairwise, idle=idle), inputs))
    assert kernel.call_count == 1
    assert_close(values[0], values[1], 1e-4)
    with torch.no_grad():
        energy(frames, mask, Decomposition(*parts), pairwise, idle=False)
    assert kernel.call_count == 1
