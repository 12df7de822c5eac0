"""How every benchmark measures and reports: medians with their spread, peak memory, the machine and the commit."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one call: the median of several, and the distance between their quartiles."""

    median_ms: float
    spread_ms: float
    calls: int


def timed(call: Callable[[], Any], device: torch.device, calls: int = 7, warm_up: int = 2) -> Timing:
    """Return how long `call` takes, waiting for the device before and after each."""
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(calls):
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        times.append(1000 * (time.perf_counter() - start))
    quartiles = statistics.quantiles(times, n=4) if calls > 1 else [times[0]] * 3
    return Timing(statistics.median(times), quartiles[2] - quartiles[0], calls)


def peak_memory_mb(call: Callable[[], Any], device: torch.device) -> float | None:
    """Return by how many MB memory grows at most while `call` runs, beyond what is held before; None if unknown."""
    gc.collect()
    if device.type == "cuda":
        _wait(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        _wait(device)
        return (torch.cuda.max_memory_allocated(device) - before) / 1e6
    try:
        ctypes.CDLL(None).malloc_trim(0)  # give back what earlier calls left, or it would not be counted again
        Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the highest memory so far
        before_kb = _status_kb("VmRSS")
        call()
        return (_status_kb("VmHWM") - before_kb) / 1e3
    except (OSError, AttributeError):
        return None


def report(name: str, rows: list[dict[str, Any]], device: torch.device, json_file: Path | None) -> None:
    """Print the rows as a table, and write them with the machine and the commit where asked."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, *[[_shown(row.get(key)) for key in columns] for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
    if json_file:
        record = {"benchmark": name, "commit": _commit(), "machine": _machine(device), "rows": rows}
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(record, indent=1) + "\n")


def timing_row(name: str, timing: Timing, **more: Any) -> dict[str, Any]:
    """Return a row of the report."""
    return {"what": name, **asdict(timing), **more}


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _status_kb(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def _commit() -> str:
    if "UNLIT_COMMIT" in os.environ:  # for a machine that has the files without their history
        return os.environ["UNLIT_COMMIT"]
    try:
        command = ["git", "--no-optional-locks", "describe", "--always", "--dirty"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()


def _machine(device: torch.device) -> dict[str, Any]:
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "device": gpu or _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _cpu_name() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")), "CPU")
