from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import unlit
from unlit.data.sequence import SequenceError
from unlit.losses.energy import energy
from unlit.losses.settings import EnergySettings
from unlit.sequence.solve import SETTINGS, _bright, reflectance_of, solved_sequence


def plate(m: int = 5, h: int = 24, w: int = 32, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Frames (m, 3, h, w) of painted squares, each under its own smooth light, and the paint (3, h, w)."""
    g = torch.Generator().manual_seed(seed)
    paint = 0.1 + 0.8 * torch.rand(3, h // 8, w // 8, generator=g)
    paint = paint.repeat_interleave(8, 1).repeat_interleave(8, 2)
    x = torch.linspace(-1, 1, w)
    tilt = torch.linspace(-1, 1, m)[:, None, None, None]
    return paint * torch.exp(0.6 * tilt * x) * 0.5, paint


def test_the_paint_is_found_under_changing_light() -> None:
    frames, paint = plate()
    solved = solved_sequence(frames, torch.ones_like(frames[:, :1], dtype=torch.bool))
    guess = solved.reflectance[0]
    factor = (guess * paint).sum() / guess.square().sum()
    error = (factor * guess - paint).square().mean() / paint.square().mean()
    lit = (
        frames[0] * (frames[0] * paint).sum() / frames[0].square().sum() - paint
    ).square().mean() / paint.square().mean()
    assert error < 0.02 < lit


def test_a_darker_recording_of_the_same_has_the_same_reflectance() -> None:
    frames, _ = plate()
    mask = torch.ones_like(frames[:, :1], dtype=torch.bool)
    bright, dark = solved_sequence(frames, mask), solved_sequence(0.2 * frames, mask)
    torch.testing.assert_close(bright.log_reflectance, dark.log_reflectance, rtol=0, atol=2e-2)
    torch.testing.assert_close(bright.recompose() * 0.2, dark.recompose(), rtol=2e-2, atol=0)


def test_more_steps_never_raise_the_energy() -> None:
    frames, _ = plate()
    mask = torch.rand(frames[:, :1].shape, generator=torch.Generator().manual_seed(1)) > 0.1
    settings = replace(SETTINGS, scale=0.0)
    totals = [
        energy(frames, mask, solved_sequence(frames, mask, steps=k), settings=settings).total for k in (1, 5, 20, 80)
    ]
    assert all(later <= earlier * (1 + 1e-4) for earlier, later in pairwise(totals))


def test_the_gradient_vanishes_at_the_answer() -> None:
    frames, _ = plate(3, 16, 16)
    mask = torch.ones_like(frames[:, :1], dtype=torch.bool)
    frames = frames.double() / _bright(frames.amax(1).reshape(-1))  # so that the exposure is left as it is
    settings = EnergySettings(scale=0.0)
    first, last = (solved_sequence(frames, mask, settings, steps=k) for k in (1, 400))
    sizes = []
    for solved in (first, last):
        s = solved.log_shading.detach().requires_grad_()
        total = energy(
            frames, mask, unlit.Decomposition(solved.log_reflectance, s, solved.light_color), settings=settings
        )
        sizes.append(torch.autograd.grad(total.total, s)[0].norm())
    assert sizes[1] < 1e-3 * sizes[0]


def test_every_frame_has_the_same_reflectance_and_the_product_is_the_frame() -> None:
    frames, _ = plate()
    result = unlit.decompose_sequence(
        unlit.Sequence(frames, torch.ones_like(frames[:, :1], dtype=torch.bool), "plate"), steps=10
    )
    assert result.reflectance.shape == (24, 32, 3)
    assert result.shadings.shape == (5, 24, 32, 3)
    np.testing.assert_allclose(result.recompose(), frames.permute(0, 2, 3, 1).numpy(), rtol=1e-5)


def test_frames_larger_than_the_size_keep_their_own_size_and_detail() -> None:
    frames, paint = plate(5, 48, 64)
    result = unlit.decompose_sequence(
        unlit.Sequence(frames, torch.ones_like(frames[:, :1], dtype=torch.bool), "plate"), size=32
    )
    assert result.reflectance.shape == (48, 64, 3)
    np.testing.assert_allclose(result.recompose(), frames.permute(0, 2, 3, 1).numpy(), rtol=1e-5)
    edges = np.abs(np.diff(np.log(result.reflectance[..., 0]), axis=1))
    truth = np.abs(np.diff(np.log(paint[0].numpy()), axis=1)) > 0.3
    assert edges[truth].min() > 4 * np.quantile(edges[~truth], 0.9)


def test_pixels_never_valid_get_a_guess_and_not_a_hole() -> None:
    frames, _ = plate(3, 16, 16)
    mask = torch.ones_like(frames[:, :1], dtype=torch.bool)
    mask[:, :, 4:6, 4:6] = False
    solved = solved_sequence(frames, mask, steps=5)
    assert torch.isfinite(reflectance_of(frames, mask, solved, mask)).all()
    result = unlit.decompose_sequence(unlit.Sequence(frames, mask, "hole"), steps=5, size=8)
    assert np.isfinite(result.shadings).all()


def test_black_frames_give_finite_pictures() -> None:
    frames = torch.zeros(2, 3, 12, 12)
    result = unlit.decompose_sequence(
        unlit.Sequence(frames, torch.ones(2, 1, 12, 12, dtype=torch.bool), "night"), steps=5
    )
    assert np.isfinite(result.reflectance).all()
    assert (result.shadings == 0).all()


def test_valid_pixels_too_scattered_for_the_size_are_refused() -> None:
    frames, _ = plate(3, 16, 16)
    mask = torch.zeros_like(frames[:, :1], dtype=torch.bool)
    mask[:, :, ::2, ::2] = True
    with pytest.raises(SequenceError, match="raise size"):
        unlit.decompose_sequence(unlit.Sequence(frames, mask, "dust"), size=8)


@pytest.mark.data
def test_a_real_object_loses_its_shading(shared_data: Path) -> None:
    """On an MIT object the reflectance comes nearer to the truth than any of the lights' pictures or their median."""
    folder = shared_data / "mit-intrinsic" / "frog1"
    sequence = unlit.load_sequence(folder, encoding="linear", pattern="light*")
    small = torch.nn.functional.interpolate(sequence.frames, scale_factor=0.25, mode="area")
    mask = torch.nn.functional.interpolate(sequence.mask.float(), scale_factor=0.25, mode="area") > 0.99
    truth = torch.from_numpy(unlit.read_image(folder / "reflectance.png", encoding="linear").pixels).permute(2, 0, 1)
    truth = torch.nn.functional.interpolate(truth[None], scale_factor=0.25, mode="area")[0]

    def error(guess: Tensor) -> float:
        a, b = guess[:, mask.any(0)[0]], truth[:, mask.any(0)[0]]
        return float(((a * b).sum() / a.square().sum() * a - b).square().sum() / b.square().sum())

    ours = error(solved_sequence(small, mask).reflectance[0])
    assert ours < 0.7 * min(error(small.median(0).values), *(error(frame) for frame in small))


@pytest.mark.parametrize(("h", "w", "steps", "size"), [(16, 16, 400, 384), (1, 50, 100, 384), (24, 32, 100, 8)])
def test_more_steps_than_needed_do_no_harm(h: int, w: int, steps: int, size: int) -> None:
    paint = 0.1 + 0.8 * torch.rand(1, 3, h, w, generator=torch.Generator().manual_seed(0))
    frames = paint * torch.tensor([1.0, 0.5, 0.7])[:, None, None, None]
    sequence = unlit.Sequence(frames, torch.ones(3, 1, h, w, dtype=torch.bool), "s")
    few, many = (unlit.decompose_sequence(sequence, steps=k, size=size).reflectance for k in (60, steps))
    assert many.min() > 0.02
    np.testing.assert_allclose(many, few, rtol=0.2)


def test_all_but_the_brightest_hundredth_is_below_one_at_any_size() -> None:
    frames, _ = plate(4, 48, 64)
    sequence = unlit.Sequence(frames, torch.ones(4, 1, 48, 64, dtype=torch.bool), "plate")
    for size in (16, 384):
        brightest = unlit.decompose_sequence(sequence, steps=10, size=size).reflectance.max(axis=-1)
        assert 0.985 <= (brightest <= 1.0001).mean() <= 1


def test_dark_sequences_keep_their_digits_in_png(tmp_path: Path) -> None:
    frames, _ = plate(3, 16, 16)
    mask = torch.ones(3, 1, 16, 16, dtype=torch.bool)
    dark = unlit.decompose_sequence(unlit.Sequence(1e-5 * frames, mask, "dark"), steps=5)
    dark.save(tmp_path)
    scale = json.loads((tmp_path / "dark.unlit.json").read_text())["files"]["0001.shading.png"]["scale"]
    shading = unlit.read_image(tmp_path / "0001.shading.png").pixels * np.float32(scale)
    assert np.isclose(shading, dark.shadings[0], rtol=2e-3).mean() > 0.99


def test_a_masked_background_looks_as_in_the_frames_and_not_brighter() -> None:
    """As around an object: black in the frames, never valid, so nothing says what it is."""
    frames, _ = plate(3, 48, 48)
    mask = torch.zeros(3, 1, 48, 48, dtype=torch.bool)
    mask[:, :, 12:36, 12:36] = True
    for size in (24, 384):
        sequence = unlit.Sequence(torch.where(mask, frames, 0), mask, "object")
        reflectance = unlit.decompose_sequence(sequence, steps=20, size=size).reflectance
        assert reflectance[:8].max() < 0.1 * reflectance[16:32, 16:32].mean()


def test_pictures_of_another_format_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    frames, _ = plate(2, 8, 8)
    result = unlit.decompose_sequence(unlit.Sequence(frames, frames[:, :1] > 0, "plate"), steps=1)
    with pytest.raises(SequenceError, match="png, tiff, exr"):
        result.save(tmp_path / "out", format="jpg")  # type: ignore[arg-type]  # what is tested
    assert not (tmp_path / "out").exists()
