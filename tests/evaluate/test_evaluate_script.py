"""The benchmark of the evaluation still runs, on little."""

from __future__ import annotations

import json
from pathlib import Path

from tests.test_scripts import run


def test_the_benchmark_reports_time_and_memory_of_both_sets(tmp_path: Path) -> None:
    run("benchmarks/evaluate.py", "--images", 3, "--json", tmp_path / "r.json")
    record = json.loads((tmp_path / "r.json").read_text())
    assert [row["what"].split(",")[0] for row in record["rows"]] == ["iiw", "saw"]
    assert all(row["seconds"] > 0 and row["processor_seconds"] > 0 for row in record["rows"])
