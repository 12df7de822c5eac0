from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.prepare.clips import clip, write_folder


def test_ctrl_c_ends_all_processes_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    """As a terminal does it: the signal reaches the process and its workers alike."""
    frames = clip(8, (96, 128))
    places = [write_folder(tmp_path / name, frames * 30) for name in ("a", "b")]
    command = [
        sys.executable,
        "-m",
        "unlit",
        "prepare",
        *map(str, places),
        "--out",
        str(tmp_path / "set"),
        "--workers",
        "2",
    ]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "set" / ".lock").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.5)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 1
    assert "unlit: interrupted" in said
    sequences = tmp_path / "set" / "sequences"
    assert not [path for path in (sequences.iterdir() if sequences.exists() else ()) if path.name.startswith(".")]
