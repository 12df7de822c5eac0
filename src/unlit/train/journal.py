"""What a run leaves to read: numbers, messages and pictures in its folder, progress on stderr.

`metrics.jsonl` has a JSON object a line, `log.txt` the messages, `sheets/` pictures, and `tensorboard/` the numbers
again where tensorboard is installed. A run that was stopped and resumed leaves the same lines as one that never was.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unlit.losses.energy import LossTerms
from unlit.model.decomposition import Decomposition
from unlit.train.durable import clear_leftovers, replace_durably
from unlit.train.progress import Progress, progress
from unlit.train.rate import Rate, time_left
from unlit.train.sheet import write_sheet


class Journal:
    """The journal of one run, kept by one process. The others have a `NullJournal`."""

    def __init__(
        self,
        folder: Path,
        *,
        steps: int,
        quiet: bool = False,
        sheet_every: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep the journal of a run of `steps` steps in `folder`, with a sheet every `sheet_every` steps (0: none)."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._steps, self._sheet_every, self._clock = folder, steps, sheet_every, clock
        self._frame_rate, self._step_rate = Rate(clock=clock), Rate(clock=clock)
        self._started, self._seconds_before = clock(), 0.0
        self._metrics, self._log = folder / "metrics.jsonl", folder / "log.txt"
        self._total: float | None = None
        self._progress: Progress = progress(steps, quiet=quiet, clock=clock)
        self._board: Any = None
        self._is_board_tried = False
        self._purge_step: int | None = None

    def resume_at(self, step: int) -> None:
        """Forget what was recorded after `step` steps, and a last line that was torn; seconds go on counting.

        To be called before the first step, with 0 too: a run may have been stopped before its first checkpoint.
        """
        clear_leftovers(self._folder)
        written = self._metrics.read_bytes() if self._metrics.exists() else b""
        lines = [line for line in map(_parsed, written.split(b"\n")) if line and line["step"] <= step]
        # Replaced whole: whoever is killed here must not lose the lines that were good.
        replace_durably(self._metrics, "".join(_line(line) for line in lines).encode())
        self._seconds_before = max((line.get("seconds") or 0.0 for line in lines), default=0.0)
        self._purge_step = step + 1

    def advance(self, step: int, frames: int) -> None:
        """Count a step done, the `step`-th from 1, over `frames` frames, and show it."""
        self._frame_rate.add(frames)
        self._step_rate.add(1)
        total = "" if self._total is None else f"  total {self._total:.4g}"
        rate = self._frame_rate.value()
        speed = "" if rate is None else f"  {rate:.{0 if rate >= 10 else 1}f} frames/s"
        left = time_left(self._steps - step, self._step_rate.value())
        self._progress.update(step, f"step {step}/{self._steps}{total}{speed}  {left} left")

    def record(
        self, step: int, *, epoch: float, terms: Mapping[str, float], learning_rate: float, skipped: int = 0
    ) -> None:
        """Write a line: what `terms` says (see `numbers`), speed, memory, time, and how many steps were skipped."""
        self._total = terms.get("total")
        line: dict[str, Any] = {"step": step, "epoch": epoch, **terms, "learning_rate": learning_rate}
        line |= {"frames_per_second": self._frame_rate.value(), "memory_mb": _memory_mb()}
        line |= {"seconds": self._seconds_before + self._clock() - self._started, "skipped": skipped}
        self._write(line)

    def record_scores(self, step: int, scores: Mapping[str, float]) -> None:
        """Write a line of scores on data that is not trained on."""
        self._write({"step": step, **scores})

    def sheet_is_due(self, step: int) -> bool:
        """Whether a sheet should be made after `step` steps: every so often, and at the end."""
        return self._sheet_every > 0 and (step % self._sheet_every == 0 or step == self._steps)

    def sheet(self, step: int, frames: Tensor, decomposition: Decomposition) -> None:
        """Write `sheets/step-<step>.png`: a few of `frames` (m, 3, h, w), linear, with reflectance and shading."""
        path = self._folder / "sheets" / f"step-{step:08d}.png"
        try:
            path.parent.mkdir(exist_ok=True)
            write_sheet(path, frames, decomposition)
        except (OSError, ValueError) as error:  # a picture less is no reason to stop training
            self.say(f"no sheet: {error}")

    def say(self, text: str) -> None:
        """Show a message, unless quiet, and keep it in `log.txt` with the time."""
        self.note(text)
        self._progress.say(text.encode(errors="backslashreplace").decode())  # names of files need not be text

    def note(self, text: str) -> None:
        """Keep a message in `log.txt` with the time."""
        text = text.encode(errors="backslashreplace").decode()
        with suppress(OSError):  # a full disk is no reason to keep the message from the screen, or to stop
            _append(self._log, f"{datetime.now().astimezone().isoformat(' ', 'seconds')}  {text}\n")

    def sync(self) -> None:
        """Return when the disk has every line. Before a checkpoint is saved: it must not outlive its numbers."""
        with self._metrics.open("ab") as file:
            os.fsync(file.fileno())

    def close(self) -> None:
        """Show where training ended. The journal is not used after that."""
        self._progress.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        _append(self._metrics, _line(line))
        for name, value in line.items():
            if name != "step" and value is not None and (board := self._opened_board()) is not None:
                board.add_scalar(name, value, line["step"])

    def _opened_board(self) -> Any:
        """Return TensorBoard's writer, or None. Opened late: `resume_at` says from where on to write."""
        if not self._is_board_tried:
            self._is_board_tried = True
            try:
                from torch.utils.tensorboard import SummaryWriter

                self._board = SummaryWriter(str(self._folder / "tensorboard"), purge_step=self._purge_step)
            except ImportError:
                pass
            except Exception as error:  # it breaks in many ways beside a newer NumPy or protobuf
                self.say(f"going on without TensorBoard, which is broken: {error}")
        return self._board


class NullJournal(Journal):
    """Keeps nothing and shows nothing, for the processes that are not the first."""

    def __init__(self) -> None:
        """Open no file."""

    def resume_at(self, step: int) -> None:
        """Do nothing."""

    def advance(self, step: int, frames: int) -> None:
        """Do nothing."""

    def record(
        self, step: int, *, epoch: float, terms: Mapping[str, float], learning_rate: float, skipped: int = 0
    ) -> None:
        """Do nothing."""

    def record_scores(self, step: int, scores: Mapping[str, float]) -> None:
        """Do nothing."""

    def sheet_is_due(self, step: int) -> bool:
        """Never."""
        return False

    def sheet(self, step: int, frames: Tensor, decomposition: Decomposition) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def sync(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def numbers(terms: LossTerms) -> dict[str, float]:
    """Return the terms by name. All come from the device at once: each transfer waits for all work before it."""
    names = [field.name for field in fields(terms)]
    return dict(zip(names, torch.stack([getattr(terms, name).detach() for name in names]).tolist(), strict=True))


def _append(path: Path, text: str) -> None:
    """Add to a file and close it, so that the text is there for readers at once and survives the process."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _line(line: Mapping[str, Any]) -> str:
    """Return a line of `metrics.jsonl`: JSON has no NaN and no infinity, so these become null."""
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()}
    return json.dumps(finite, allow_nan=False) + "\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Return the object in a line, or None where a stopped machine left something else."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) and isinstance(parsed.get("step"), int) else None


def _memory_mb() -> float:
    """Return the most memory that was in use so far: the GPU's where there is one, else the process's."""
    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated() / 2**20
    unit = 1 if sys.platform == "darwin" else 2**10  # macOS counts bytes, Linux kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
