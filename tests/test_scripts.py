"""The scripts that people run: examples and benchmarks still run, on little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(ROOT / script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_the_demo_writes_its_sheet_and_says_where(tmp_path: Path) -> None:
    said = run("examples/tiny_world.py", "--out", tmp_path, "--steps", 2)
    assert str(tmp_path / "sheet.png") in said
    assert (tmp_path / "sheet.png").stat().st_size > 10_000
    assert "no network" in said


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
