"""Being ended, at any moment and in any way: nothing hangs, nobody stays behind, nothing half-written is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.prepare.clips import clip, write_folder

SIZE = (72, 96)
SCRIPT = """
import os, sys, time
from pathlib import Path

import unlit.prepare.workers as workers
from unlit.prepare.collection import prepare
from unlit.prepare.pipeline import Outcome, prepare_source
from unlit.prepare.settings import PrepareSettings
from unlit.prepare.writing import appearing

notes, what = Path(sys.argv[1]), sys.argv[2]

def slowed(job, progress):
    (notes / f"begun-{job.source.name}").write_text(str(os.getpid()))
    if job.source.name == "good":
        return prepare_source(job, progress)
    if what == "results":  # one large answer after the other
        return Outcome(refused="x" * 3_000_000, is_final=True)
    while what == "news":  # as many as there can be
        progress(0, None, str(time.monotonic()))
    if what == "writing":
        with appearing(job.out / "sequences" / job.source.name):
            time.sleep(1000)
    time.sleep(1000)

workers.prepare_source = slowed  # in the processes too, since they begin by reading this file

class Listener:
    def begin(self, names, skipped): pass
    def update(self, name, done, total, what): pass
    def finish(self, name, outcome): pass

if __name__ == "__main__":
    result = prepare([Path(p) for p in sys.argv[4:]], Path(sys.argv[3]), PrepareSettings(), Listener(), workers=2)
    print(*result.problems, sep="\\n")
"""


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    return [write_folder(tmp_path / "sources" / name, clip(6, SIZE, seed=k)) for k, name in enumerate(("a", "b"))]


@contextmanager
def running(tmp_path: Path, what: str, places: list[Path]) -> Iterator[subprocess.Popen[str]]:
    """A run with two workers, as a terminal has it: a group of its own, so that the test is not signalled itself."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "script.py", tmp_path, what, tmp_path / "set", *places]
    pipe = subprocess.PIPE
    process = subprocess.Popen(list(map(str, command)), start_new_session=True, text=True, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def workers_at_work(tmp_path: Path, count: int = 2) -> list[int]:
    """The processes, once so many have begun."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        begun = [path.read_text() for path in tmp_path.glob("begun-*")]
        if len([text for text in begun if text]) >= count:
            return sorted({int(text) for text in begun})
        time.sleep(0.01)
    raise AssertionError("the workers do not begin")


def is_running(pid: int) -> bool:
    """Whether a process is there, and no mere entry that nobody has asked for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def check_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 8
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids if is_running(pid)]


def hidden(tmp_path: Path) -> list[str]:
    sequences = tmp_path / "set" / "sequences"
    return [path.name for path in sequences.iterdir() if path.name.startswith(".")] if sequences.is_dir() else []


@pytest.mark.parametrize("what", ["news", "writing"])
def test_ctrl_c_ends_workers_whatever_they_are_at(tmp_path: Path, places: list[Path], what: str) -> None:
    with running(tmp_path, what, places) as process:
        pids = workers_at_work(tmp_path)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to all of them
        process.communicate(timeout=12)
    assert process.returncode != 0
    check_gone(pids)
    assert not hidden(tmp_path)


def test_ctrl_c_ends_workers_that_are_sending_large_results(tmp_path: Path) -> None:
    """A pool that reads the half of a message waits for the other half for ever."""
    places = [write_folder(tmp_path / "sources" / f"v{k}", clip(2, (8, 8))) for k in range(60)]
    with running(tmp_path, "results", places) as process:
        pids = workers_at_work(tmp_path, 4)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=12)
    assert process.returncode != 0
    check_gone(pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_end_is_as_clean_as_ctrl_c(tmp_path: Path, places: list[Path], number: signal.Signals) -> None:
    with running(tmp_path, "writing", places) as process:
        pids = workers_at_work(tmp_path)
        os.kill(process.pid, number)
        process.communicate(timeout=12)
    assert process.returncode == 128 + number
    check_gone(pids)
    assert not hidden(tmp_path)


def test_workers_do_not_outlive_a_run_that_was_killed(tmp_path: Path, places: list[Path]) -> None:
    with running(tmp_path, "writing", places) as process:
        pids = workers_at_work(tmp_path)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=12)
    check_gone(pids)
    assert not hidden(tmp_path)


def test_a_worker_that_is_killed_costs_its_own_source_only(tmp_path: Path, places: list[Path]) -> None:
    good = write_folder(tmp_path / "sources" / "good", clip(6, SIZE, seed=5))
    with running(tmp_path, "sleeping", [*places, good]) as process:
        for pid in workers_at_work(tmp_path):
            os.kill(pid, signal.SIGKILL)
        said, wrong = process.communicate(timeout=30)
    assert process.returncode == 0, wrong
    assert said.count("was ended from outside") == 2
    assert (tmp_path / "set" / "sequences" / "good" / "sequence.json").is_file()
