from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_of_preparing_reports_rates_and_memory(tmp_path: Path) -> None:
    small = ("--frames", "48", "--size", "96", "128", "--json", str(tmp_path / "r.json"))
    subprocess.run([sys.executable, str(ROOT / "benchmarks" / "prepare.py"), *small], check=True, cwd=ROOT)
    rows = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert [row["frames"] for row in rows] == [12, 48, 96]
    for row in rows:
        assert row["frames_per_second"] == row["frames"] / row["wall_s"] > 0
        assert 0 < row["peak_mb"] < 1500
        assert row["core_ms"] > 0
