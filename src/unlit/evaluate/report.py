"""The report of a benchmark run: numbers for machines and for people, plots, and sheets to look at.

`report.json` is a promise to users: {"benchmark", "command", "commit", "data", "methods": {NAME: {"scores": {KEY:
number}, "images": {ID: {KEY: number}}, "skipped": {ID: reason}}}}. All else stands in files beside it:
`intervals.json`, `images.csv`, `report.md`, plots, and for SAW `curves.json`.
"""

from __future__ import annotations

import csv
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import unlit
from unlit.evaluate.benchmark import Benchmark
from unlit.evaluate.bootstrap import DRAWS, LEVEL, SEED, bootstrap_intervals
from unlit.evaluate.curves import write_curves
from unlit.evaluate.methods import LONGEST_NAME
from unlit.evaluate.report_text import Table, report_text
from unlit.evaluate.running import SHOWN, MethodResult
from unlit.evaluate.sheets import write_sheet


@dataclass(frozen=True)
class Heading:
    """What a report says of itself."""

    command: str
    """That made it."""
    commit: str
    """Of unlit's source, or its version where there is no history."""
    made_here: str = ""
    """What the set says of itself where unlit made it; its figures then compare with nothing published."""


def write_report(
    folder: Path, benchmark: Benchmark, results: Mapping[str, MethodResult], heading: Heading
) -> dict[str, Any]:
    """Write all files of a report into `folder`, made if missing, and return what `report.json` holds.

    They appear when all of them are written: what fails in between leaves an earlier report as it was.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".report.{secrets.token_hex(4)}"
    try:
        unfinished.mkdir()
        record = _write_files(unfinished, benchmark, results, heading)
        # The numbers come last: whoever finds them finds all that belongs to them.
        for file in sorted(unfinished.iterdir(), key=lambda path: path.name == "report.json"):
            file.replace(folder / file.name)
    except OSError as error:
        wrong = error.strerror or str(error)
        raise OSError(f"{folder}: the report cannot be written ({wrong}); make room, or take another place") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return record


def _write_files(
    folder: Path, benchmark: Benchmark, results: Mapping[str, MethodResult], heading: Heading
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "benchmark": benchmark.name,
        "command": heading.command,
        "commit": heading.commit,
        "data": benchmark.place,
        "methods": {name: _method_record(benchmark, result) for name, result in results.items()},
    }
    _write_json(folder / "report.json", record)
    intervals = {name: _intervals(benchmark, result) for name, result in results.items()}
    facts = {"benchmark": benchmark.name, "level": LEVEL, "draws": DRAWS, "seed": SEED}
    _write_json(folder / "intervals.json", {**facts, "methods": intervals})
    _write_images(folder / "images.csv", record["methods"])
    plots = write_curves(folder, benchmark, results)
    sheets = _write_sheets(folder, benchmark, results)
    tables = {n: Table(record["methods"][n], intervals[n], r.resized, r.seconds) for n, r in results.items()}
    text = report_text(benchmark, heading, tables, plots, sheets)
    (folder / "report.md").write_text(text, encoding="utf-8")
    return record


def _method_record(benchmark: Benchmark, result: MethodResult) -> dict[str, Any]:
    images = {case_id: dict(outcome.scores) for case_id, outcome in result.outcomes.items()}
    return {"scores": result.scores(benchmark), "images": images, "skipped": dict(result.skipped)}


def _intervals(benchmark: Benchmark, result: MethodResult) -> dict[str, tuple[float, float]]:
    return bootstrap_intervals(lambda weights: result.totals(benchmark, weights), len(result.outcomes))


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _write_images(path: Path, methods: Mapping[str, Any]) -> None:
    """Write a line for each method and image."""
    keys = list(dict.fromkeys(key for m in methods.values() for scores in m["images"].values() for key in scores))
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["method", "image", *keys, "skipped"])
        for name, method in methods.items():
            for case_id, scores in method["images"].items():
                table.writerow([name, case_id, *(scores.get(key, "") for key in keys), ""])
            for case_id, reason in method["skipped"].items():
                table.writerow([name, case_id, *([""] * len(keys)), reason])


def _write_sheets(folder: Path, benchmark: Benchmark, results: Mapping[str, MethodResult]) -> dict[str, list[str]]:
    """Write the best and the worst cases of each method; where there are few, one sheet has them all."""
    written: dict[str, list[str]] = {}
    for (name, result), stem in zip(results.items(), file_names(results), strict=True):
        rows = result.rows
        parts = {"all": rows} if len(rows) < 2 * SHOWN else {"best": rows[:SHOWN], "worst": rows[SHOWN:][::-1]}
        for part, chosen in parts.items():
            if chosen:
                file = f"{stem}-{part}.png"
                write_sheet(folder / file, f"{name}, {part}: {benchmark.main_key}", chosen)
                written.setdefault(name, []).append(file)
    return written


def file_names(names: Iterable[str]) -> list[str]:
    """Return methods' names with nothing in them that a file's may not have, and no two alike."""
    found: list[str] = []
    for name in names:
        plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).lstrip(".")[:LONGEST_NAME] or "method"
        taken = {file.casefold() for file in found}  # some systems do not tell large letters from small ones
        more = (plain if k == 1 else f"{plain}-{k}" for k in count(1))
        found.append(next(file for file in more if file.casefold() not in taken))
    return found


def commit() -> str:
    """Return the commit of unlit's own source, or its version where it lies in no repository of its own."""
    if "UNLIT_COMMIT" in os.environ:  # for a machine that has the files without their history
        return os.environ["UNLIT_COMMIT"]
    package = Path(unlit.__file__).parent
    try:
        top, described = (
            # Without locks: asking for changes would otherwise write the index, under another's hands.
            subprocess.run(
                ["git", "--no-optional-locks", "-C", str(package), *words], capture_output=True, text=True, check=True
            ).stdout
            for words in (("rev-parse", "--show-toplevel"), ("describe", "--always", "--dirty"))
        )
    except (OSError, subprocess.CalledProcessError):
        return f"unlit {unlit.__version__}"
    # Somebody else's repository, with unlit installed inside it, is not meant.
    own = Path(top.strip()) / "src" / "unlit" == package
    return described.strip() if own else f"unlit {unlit.__version__}"
