"""The benchmark of rendering still runs, on little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from unlit.worlds.render_kernel import is_available

ROOT = Path(__file__).parents[2]


def test_the_benchmark_reports_speed_noise_and_the_difference_of_the_forms(tmp_path: Path) -> None:
    if not is_available(torch.device("cpu")):
        pytest.skip("it compares with the fast form, which needs a C++ compiler, and none was found")
    command = [sys.executable, str(ROOT / "benchmarks/worlds.py"), "--json", str(tmp_path / "r.json")]
    few = ["--size", "8", "12", "--samples", "4", "--scenes", "1", "--calls", "1"]
    subprocess.run([*command, *few], check=True, cwd=ROOT, capture_output=True)
    rows = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [row["what"].split(",")[0] for row in rows[:2]] == ["seed 0", "all 1"]
    assert rows[1]["scenes_per_s"] > 0
    assert 0 < rows[2]["typical_error"] < 1
    assert rows[3]["mean_difference"] < 1e-3
