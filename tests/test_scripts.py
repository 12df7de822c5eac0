"""The scripts that people run: examples and benchmarks still run, on little."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from unlit.image_io import write_image
from unlit.train.weights import load_weights, save_weights

ROOT = Path(__file__).parents[1]


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(ROOT / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_the_demo_writes_its_sheet_and_says_where(tmp_path: Path) -> None:
    said = run("examples/tiny_world.py", "--out", tmp_path, "--steps", 2)
    assert str(tmp_path / "sheet.png") in said
    assert (tmp_path / "sheet.png").stat().st_size > 10_000
    assert "no network" in said


def test_make_bench_runs_what_needs_nothing_but_the_package() -> None:
    line = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("BENCHMARKS :="))
    names = line.split(":=")[1].split()
    assert {"all_pairs", "dense_term"} <= set(names)
    for name in names:
        said = run(f"benchmarks/{name}.py", "--help")
        assert "--json" in said
        assert "(required)" not in said


def test_the_all_pairs_benchmark_reports_times_and_memory(tmp_path: Path) -> None:
    run("benchmarks/all_pairs.py", "--lengths", 2, "--json", tmp_path / "r.json")
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["benchmark"] == "all_pairs"
    assert {"device", "torch", "cores"} <= set(record["machine"])
    assert [row["what"] for row in record["rows"]] == ["definition, m = 2", "all pairs, m = 2"]
    assert all(row["median_ms"] > 0 for row in record["rows"])


def test_the_dense_term_benchmark_reports_each_step(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).random((3, 3, 24, 32), dtype=np.float32)
    np.save(tmp_path / "frames.npy", frames)
    run("benchmarks/dense_term.py", "--frames", tmp_path / "frames.npy", "--json", tmp_path / "r.json")
    rows = {row["what"]: row for row in json.loads((tmp_path / "r.json").read_text())["rows"]}
    parts = [
        rows[f"unlit: {part}"]["median_ms"]
        for part in ("features", "lattice", "bistochastic scale", "value and gradient")
    ]
    assert rows["unlit, in all"]["median_ms"] == sum(parts)
    for other in ("plain torch, in all", "release's way, in all"):
        assert rows[other]["times"] == rows[other]["median_ms"] / sum(parts)


def test_the_training_benchmark_reports_the_step_beside_the_network_alone(tmp_path: Path) -> None:
    small = ("--length", 2, "--size", 16, 16, "--count", 2, "--width", 0.03, "--calls", 2)
    run("benchmarks/train_step.py", *small, "--json", tmp_path / "r.json")
    rows = {row["what"]: row for row in json.loads((tmp_path / "r.json").read_text())["rows"]}
    assert set(rows) == {"network alone", "whole step", "augmentation", "pairs", "energy"}
    step, alone = rows["whole step"], rows["network alone"]
    assert step["share_of_network"] == alone["median_ms"] / step["median_ms"]
    assert step["frames_per_second"] == 2000 / step["median_ms"]
    assert step["schedule_minutes"] == step["median_ms"] * 5088 / 60000


def test_the_mit_folds_are_trained_and_scored_from_a_packed_file(tmp_path: Path) -> None:
    """On made-up objects: every object is tested once, by a network that has not seen it."""
    rng = np.random.default_rng(0)
    pictures = ("light01", "light02", "diffuse", "reflectance", "shading", "mask")
    for name in "abcdefghij":
        (tmp_path / "set" / name).mkdir(parents=True)
        surface = rng.random((24, 28, 3))
        for picture in (*pictures, *(f"light{k:02}" for k in range(3, 11))):
            gray = rng.random((24, 28, 1)) ** 0.1
            pixels = {"mask": np.ones_like(surface), "reflectance": surface, "shading": gray.repeat(3, 2)}
            write_image(
                tmp_path / "set" / name / f"{picture}.png",
                pixels.get(picture, 0.9 * surface * gray).astype(np.float32),
                encoding="linear",
                bits=16,
            )
    run("benchmarks/mit_folds.py", "--data", tmp_path / "set", "--pack", tmp_path / "set.npz")
    fields = ("train.steps=1", "data.window=32", "model.width=0.1", "solved.steps=1", "train.sequences=2")
    packed = ("benchmarks/mit_folds.py", "--data", tmp_path / "set.npz")
    recipes = ("--recipes", "mit-network", "single-scale-shading")
    run(*packed, *recipes, "--json", tmp_path / "r.json", "--set", *fields, "data.longest=16")
    results = json.loads((tmp_path / "r.objects.json").read_text())
    trained = [result for result in results if result["seed"] is not None]
    assert sorted(name for result in trained for name in result["scores"]) == sorted(2 * "abcdefghij")
    rows = json.loads((tmp_path / "r.json").read_text())["rows"]
    together = ["views, 1 networks", "views and zhao, 1 networks"]
    assert [row["variant"] for row in rows] == 2 * ["one look", "views"] + 2 * together
    assert all(0 < row["mse"] < 1 for row in rows)
    run(*packed, "--json", tmp_path / "q.json", "--set", "train.steps=1", "solved.steps=1", "data.longest=26")
    rows = json.loads((tmp_path / "q.json").read_text())["rows"]
    assert [(row["what"], row["variant"]) for row in rows] == [("mit", "untrained"), ("mit", "trained")]
    assert rows[0]["mse"] != rows[1]["mse"]


def test_the_ablations_are_trained_on_worlds_and_scored() -> None:
    out = run("benchmarks/ablations.py", "--data", "worlds:0:4:48x32:4", "--others", 4, "--seeds", 1, "--set",
              "train.steps=1", "data.window=32", "data.frames=2")  # fmt: skip
    for name in ("full energy", "per-image-reconstruction", "local-reflectance", "gray-shading"):
        assert name in out


def choose() -> Any:
    """Return the script as a module."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module("choose")
    finally:
        sys.path.pop(0)


def test_surfaces_twice_as_bright_beside_the_sky_are_found_to_be_so_whatever_the_scale() -> None:
    reflectance = torch.full((3, 4, 6), 0.2)
    reflectance[:, :2] = 1.05
    sky = torch.zeros(1, 4, 6, dtype=torch.bool)
    sky[:, :2] = True

    class Said:
        def decompose(self, frame: np.ndarray[Any, Any], encoding: str) -> SimpleNamespace:
            found = frame.copy()
            found[2:] *= 2
            return SimpleNamespace(reflectance=0.1 * found)

    place = choose().Place(reflectance[None].expand(2, -1, -1, -1), ~sky, sky, reflectance)
    brighter, error = choose().levels(Said(), [place])
    assert brighter == pytest.approx(math.log(2), abs=1e-6)
    assert error == pytest.approx(math.log(2) / 2, abs=1e-6)


def test_a_mean_of_weights_has_so_much_of_the_second_and_what_is_said_of_the_first(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.safetensors" for name in ("first", "second")]
    for file, value in zip(files, (1.0, 3.0), strict=True):
        tensors = {"weight": torch.full((2,), value, dtype=torch.float16), "count": torch.tensor(int(value))}
        save_weights(file, tensors, {"format": "unlit", "of": file.stem})
    tensors, said = load_weights(choose().mixed(*files, 0.25, tmp_path / "mean.safetensors"))
    assert torch.equal(tensors["weight"], torch.full((2,), 1.5, dtype=torch.float16))
    assert int(tensors["count"]) == 1
    assert said["of"] == "first"
