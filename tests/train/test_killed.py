"""Processes that are killed while they save: the last complete checkpoint is always whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.train.saver import KILLED, checkpoint
from unlit.train.checkpoint import (
    Checkpoint,
    best_checkpoint,
    latest_checkpoint,
    load_checkpoint,
    mark_best,
    save_checkpoint,
)

ROOT = Path(__file__).parents[2]
KILLS = 40


class Saver:
    """The process of `tests/train/saver.py`."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "tests.train.saver"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def start(
        self,
        folder: Path,
        steps: list[int] | None = None,
        *,
        first: int = 1,
        value: float | None = None,
        keep: int = 2,
        stop_at: int | None = None,
    ) -> None:
        command = {"folder": str(folder), "steps": steps, "first": first, "value": value, "keep": keep}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command | {"stop_at": stop_at}) + "\n")

    def line(self) -> tuple[str, int]:
        assert self.process.stdout is not None
        word, number = self.process.stdout.readline().split()
        return word, int(number)

    def outcome(self) -> tuple[int, int]:
        """The last step that was reported as saved (0: none), and the exit code."""
        saved = 0
        while (line := self.line())[0] != "ended":
            saved = line[1] if line[0] == "saved" else saved
        return saved, line[1]


@pytest.fixture(scope="module")
def saver() -> Iterator[Saver]:
    saver = Saver()
    yield saver
    assert saver.process.stdin is not None
    assert saver.process.stdout is not None
    saver.process.stdin.close()
    assert saver.process.wait(30) == 0
    saver.process.stdout.close()


def loaded_latest(folder: Path) -> Checkpoint:
    path = latest_checkpoint(folder, warn=pytest.fail)
    assert path is not None
    return load_checkpoint(path)


def value_of(found: Checkpoint) -> float:
    """The one value that all its tensors hold."""
    tensors = [found.model["weight"], found.optimizer["state"][0]["exp_avg"], (found.ema or {})["weight"]]
    value = tensors[0][0]
    assert all(torch.equal(tensor, value.expand(1000)) for tensor in tensors)
    return float(value)


def hidden(folder: Path) -> list[Path]:
    return list(folder.glob(".*"))


def test_killed_at_any_time_the_last_saved_checkpoint_is_whole(saver: Saver, tmp_path: Path) -> None:
    generator = random.Random(0)
    reached = 0
    for k in range(KILLS):
        saver.start(tmp_path, first=reached + 1)
        begun: dict[str, int] = {}
        while "child" not in begun or (k % 2 and "saved" not in begun):  # every other time, not before one is saved
            begun |= [saver.line()]
        time.sleep(generator.uniform(0, 0.1))
        os.kill(begun["child"], signal.SIGKILL)
        saved, code = saver.outcome()
        assert code == -signal.SIGKILL
        reached = max(reached, saved, begun.get("saved", 0))
        if reached:
            found = loaded_latest(tmp_path)
            assert found.step >= reached
            assert value_of(found) == found.step == found.state["step"]
            reached = found.step
    assert reached >= KILLS // 2


def test_killed_before_any_operation_on_files_nothing_is_lost(saver: Saver, tmp_path: Path) -> None:
    for stop_at in range(1, 1000):
        folder = tmp_path / str(stop_at)
        for step in (1, 2, 3):
            save_checkpoint(folder, checkpoint(step), keep=2)
            if step == 1:
                mark_best(folder, 1)
        saver.start(folder, [4], stop_at=stop_at)
        saved, code = saver.outcome()
        found = loaded_latest(folder)
        assert found.step in ((3, 4) if code == KILLED else (4,))
        assert value_of(found) == found.step
        assert saved <= found.step
        assert load_checkpoint(best_checkpoint(folder) or folder).step == 1
        save_checkpoint(folder, checkpoint(5), keep=2)
        assert not hidden(folder), "the next save clears up"
        assert len(list(folder.glob("step-*"))) == 3
        if code == 0:
            break
    assert code == 0
    assert stop_at > 20


def test_killed_while_replacing_the_only_checkpoint_one_of_both_is_whole(saver: Saver, tmp_path: Path) -> None:
    found_values = []
    for stop_at in range(1, 1000):
        folder = tmp_path / str(stop_at)
        save_checkpoint(folder, checkpoint(7, value=1.0), keep=1)
        saver.start(folder, [7], value=2.0, keep=1, stop_at=stop_at)
        _, code = saver.outcome()
        found = loaded_latest(folder)
        assert found.step == 7
        found_values.append(value_of(found))
        save_checkpoint(folder, checkpoint(7, value=3.0), keep=1)
        assert value_of(loaded_latest(folder)) == 3.0
        assert [path.name for path in folder.iterdir()] == ["step-00000007"]
        if code == 0:
            break
    assert code == 0
    # The old one first, then the new one; never back.
    assert found_values == sorted(found_values)
    assert set(found_values) == {1.0, 2.0}
