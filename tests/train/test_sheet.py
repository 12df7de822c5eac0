from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from unlit.color import linear_to_srgb
from unlit.model.decomposition import Decomposition
from unlit.train.sheet import WIDTH, sheet_pixels, write_sheet

GUTTER = 4


def scene(m: int = 3, h: int = 10, w: int = 20) -> tuple[torch.Tensor, Decomposition]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((m, 3, h, w), (m, 1, h, w), (m, 3))
    d = Decomposition(*(torch.randn(shape, generator=generator) for shape in shapes))
    return d.recompose(), d


def cell(pixels: np.ndarray, i: int, j: int, h: int = 10, w: int = 20) -> np.ndarray:
    top, left = GUTTER + i * (h + GUTTER), GUTTER + j * (w + GUTTER)
    return pixels[top : top + h, left : left + w]


def test_rows_are_frames_and_columns_frame_reflectance_and_shading() -> None:
    frames, d = scene()
    pixels = sheet_pixels(frames, d)
    assert pixels.shape == (3 * 14 + 4, 3 * 24 + 4, 3)
    for j, light in enumerate((frames, d.reflectance, d.shading)):
        pictures = light.permute(0, 2, 3, 1).numpy()
        scale = 0.9 / np.percentile(pictures.max(axis=-1), 99)
        for i in range(3):
            np.testing.assert_allclose(cell(pixels, i, j), np.clip(pictures[i] * scale, 0, 1), rtol=1e-5)


def test_gutters_are_light_gray() -> None:
    frames, d = scene(m=1)
    pixels = sheet_pixels(frames, d)
    for j in range(3):
        cell(pixels, 0, j)[:] = np.nan
    gutters = pixels[np.isfinite(pixels)]
    assert gutters.size == 3 * (18 * 76 - 3 * 200)
    assert np.all(gutters == gutters[0])
    assert 0.7 < linear_to_srgb(gutters[:1])[0] < 0.9


@pytest.mark.parametrize(("m", "rows"), [(1, [0]), (4, [0, 1, 2, 3]), (10, [0, 3, 6, 9]), (29, [0, 9, 19, 28])])
def test_at_most_four_frames_are_shown_from_first_to_last(m: int, rows: list[int]) -> None:
    frames, d = scene(m)
    few = Decomposition(d.log_reflectance[rows], d.log_shading[rows], d.light_color[rows])
    np.testing.assert_array_equal(sheet_pixels(frames, d), sheet_pixels(frames[rows], few))


def test_wide_frames_are_made_smaller_and_keep_their_shape() -> None:
    frames, d = scene(2, 300, 900)
    h, w, _ = sheet_pixels(frames, d).shape
    assert WIDTH - 6 <= w <= WIDTH
    assert abs((h - 3 * GUTTER) / 2 * 3 - (w - 4 * GUTTER) / 3) <= 3
    assert sheet_pixels(*scene(1, 1, 2000)).shape == (1 + 2 * GUTTER, w, 3)


@pytest.mark.parametrize("w", [20, 1200])
def test_whatever_the_network_says_can_be_drawn(w: int) -> None:
    frames, d = scene(w=w)
    for value in (float("nan"), float("inf"), -float("inf"), 80.0, -200.0):
        pixels = sheet_pixels(
            torch.full_like(frames, value),
            Decomposition(*(torch.full_like(t, value) for t in (d.log_reflectance, d.log_shading, d.light_color))),
        )
        assert np.isfinite(pixels).all()
        assert pixels.min() >= 0
        assert pixels.max() <= 1


def test_black_frames_stay_black() -> None:
    frames, d = scene()
    assert cell(sheet_pixels(torch.zeros_like(frames), d), 0, 0).max() == 0


def test_half_precision_and_gradients_do_not_matter() -> None:
    frames, d = scene()
    d16 = Decomposition(*(t.bfloat16().requires_grad_() for t in (d.log_reflectance, d.log_shading, d.light_color)))
    np.testing.assert_allclose(sheet_pixels(frames.bfloat16(), d16), sheet_pixels(frames, d), atol=0.05)


@pytest.mark.parametrize("missing", ["", "unlit.image_io"])
def test_the_file_is_an_srgb_png_with_or_without_openimageio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
    frames, d = scene()
    write_sheet(tmp_path / "sheet.png", frames, d)
    with PIL.Image.open(tmp_path / "sheet.png") as picture:
        picture.load()
        assert picture.mode == "RGB"
        assert "srgb" in picture.info or "gamma" in picture.info
        stored = np.asarray(picture)
    expected = 255 * linear_to_srgb(sheet_pixels(frames, d))
    assert np.abs(stored - expected).max() <= 0.51
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.png"]
