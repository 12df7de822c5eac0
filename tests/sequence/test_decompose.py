from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from unlit.image_io import read_image
from unlit.sequence.decompose import SequenceDecomposition


def evening(lamps: float) -> SequenceDecomposition:
    """A gray wall in mild light, on which a share `lamps` of the pixels is two hundred times as bright."""
    rng = np.random.default_rng(0)
    shadings = rng.uniform(0.5, 1.5, (2, 40, 50, 1)).astype(np.float32).repeat(3, -1)
    shadings[1].reshape(-1, 3)[: int(2 * lamps * 2000)] = 200
    return SequenceDecomposition("evening", ("a", "b"), np.full((40, 50, 3), 0.5, np.float32), shadings)


def saved(result: SequenceDecomposition, folder: Path, frame: str) -> tuple[NDArray[np.float32], dict[str, float]]:
    """Write PNGs, and return a frame's shading as the file has it, linear, and what the JSON file says of it."""
    result.save(folder)
    about = json.loads((folder / "evening.unlit.json").read_text())["files"][f"{frame}.shading.png"]
    return read_image(folder / f"{frame}.shading.png").pixels, about


def test_a_few_bright_pixels_do_not_leave_the_shading_black(tmp_path: Path) -> None:
    light, about = saved(evening(0.02), tmp_path, "b")
    assert np.median(light) > 0.1  # 0.35, encoded
    assert about["cut_off"] == pytest.approx(0.04)


def test_what_is_not_cut_off_is_the_shading_by_the_stated_scale(tmp_path: Path) -> None:
    result = evening(0.02)
    for index, frame in enumerate("ab"):
        light, about = saved(result, tmp_path, frame)
        whole = result.shadings[index] <= about["scale"]
        assert whole.mean() == pytest.approx(1 - about["cut_off"])
        np.testing.assert_allclose(light[whole] * about["scale"], result.shadings[index][whole], rtol=2e-3)


def test_even_light_loses_a_thousandth_at_most(tmp_path: Path) -> None:
    _, about = saved(evening(0), tmp_path, "b")
    assert 1.4 < about["scale"] < 1.5
    assert about["cut_off"] <= 2e-3


def test_an_object_before_black_is_scaled_by_its_own_light(tmp_path: Path) -> None:
    result = evening(0)
    result.shadings[:, :, 10:] = 0
    _, about = saved(result, tmp_path, "b")
    assert 1.4 < about["scale"] < 1.5


def test_floats_keep_the_brightest_light(tmp_path: Path) -> None:
    evening(0.02).save(tmp_path, format="exr")
    about = json.loads((tmp_path / "evening.unlit.json").read_text())["files"]["b.shading.exr"]
    assert about == {"scale": 1.0, "cut_off": 0.0}
    assert read_image(tmp_path / "b.shading.exr").pixels.max() == 200
