"""Saves checkpoints in processes that a test kills: it imports torch once, then forks for each line of stdin.

A line is a JSON object: `folder`, `steps` (a list, or null for all numbers from `first` on), `value` (what the tensors
hold; the step itself where null), `keep`, and `stop_at`: the process ends, as if killed, before that many operations on
files were done. For each line it prints the process, the steps that were saved, and the end.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from unlit.train.checkpoint import Checkpoint, save_checkpoint

KILLED = 137
_OPERATIONS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.scandir"}


def checkpoint(step: int, value: float | None = None, size: int = 1000) -> Checkpoint:
    """A checkpoint whose tensors all hold `value`, or its step."""
    values = torch.full((size,), float(step if value is None else value))
    groups = [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0]}]
    optimizer = {"state": {0: {"step": torch.tensor(float(step)), "exp_avg": values}}, "param_groups": groups}
    return Checkpoint(step, {"weight": values.clone()}, optimizer, {"weight": values.clone()}, {"step": step})


def end_before_operation(count: int) -> None:
    """End this process before its `count`-th operation on files from now on."""
    left = itertools.count(count, -1)

    def hook(event: str, _: tuple[Any, ...]) -> None:
        if event in _OPERATIONS and next(left) == 1:
            os._exit(KILLED)

    sys.addaudithook(hook)


def say(word: str, number: int) -> None:
    """Print a line in one write: two processes share the pipe, and either may be killed in between."""
    os.write(1, f"{word} {number}\n".encode())


def run(command: dict[str, Any]) -> None:
    """Save as the command says."""
    if command["stop_at"] is not None:
        end_before_operation(command["stop_at"])
    for step in command["steps"] or itertools.count(command["first"]):
        save_checkpoint(Path(command["folder"]), checkpoint(step, command["value"]), keep=command["keep"])
        say("saved", step)


def main() -> None:
    """Fork for each line."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line))
            os._exit(0)
        say("child", child)
        _, status = os.waitpid(child, 0)
        say("ended", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
