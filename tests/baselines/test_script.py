"""The script that measures the baselines still runs, on little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from unlit.image_io import write_image

ROOT = Path(__file__).parents[2]


def write_object(folder: Path, seed: int) -> None:
    """An object of 24 x 30 pixels in the set's layout."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    reflectance, shading = rng.random((24, 30, 3), dtype=np.float32), rng.random((24, 30, 1), dtype=np.float32)
    pictures = {"reflectance": reflectance, "shading": shading.repeat(3, axis=-1), "diffuse": reflectance * shading}
    for name, pixels in {**pictures, "mask": np.ones_like(reflectance)}.items():
        write_image(folder / f"{name}.png", pixels, encoding="linear")


def test_the_script_scores_and_chooses(tmp_path: Path) -> None:
    for seed in range(3):
        write_object(tmp_path / "data" / f"object{seed}", seed)
    script = [sys.executable, str(ROOT / "benchmarks/baselines.py"), "--data", str(tmp_path / "data")]
    for more, rows in (
        (["--methods", "constant-shading", "retinex-color"], ["constant-shading", "retinex-color"]),
        (["--choose", "retinex-gray"], [*(f"without object{k}" for k in range(3)), "all", "left out", "all"]),
    ):
        subprocess.run([*script, *more, "--json", str(tmp_path / "r.json")], check=True, capture_output=True)
        assert [row["what"] for row in json.loads((tmp_path / "r.json").read_text())["rows"]] == rows
