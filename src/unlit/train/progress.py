"""Where training stands, on stderr: a bar with the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

LINE_EVERY = 30.0
"""Seconds between lines where stderr is not a terminal: a log of a day's run stays short."""


class Progress(Protocol):
    """What shows where training stands."""

    def update(self, step: int, text: str) -> None:
        """Show that `step` steps are done; `text` says how it goes."""

    def say(self, text: str) -> None:
        """Show a message."""

    def close(self) -> None:
        """Show where it ended, and leave the terminal as it was."""


class Nothing:
    """Shows nothing."""

    def update(self, step: int, text: str) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Lines:
    """A line on stderr every half a minute, and one at the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shown_at = clock()
        self._unshown = ""

    def update(self, step: int, text: str) -> None:
        """Show `text` if nothing was shown for a while."""
        self._unshown = text
        if self._clock() - self._shown_at >= LINE_EVERY:
            self.close()

    def say(self, text: str) -> None:
        """Show a message."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Show what was not shown yet."""
        if self._unshown:
            self.say(self._unshown)
        self._unshown = ""
        self._shown_at = self._clock()


class Bar:
    """A bar at the foot of the terminal, with the messages above it. Raises ImportError where there is no rich."""

    def __init__(self, steps: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        text = TextColumn("{task.description}", markup=False)
        self._progress: Any = RichProgress(BarColumn(), text, console=Console(stderr=True), redirect_stdout=False)
        self._task = self._progress.add_task("", total=steps)

    def update(self, step: int, text: str) -> None:
        """Move the bar."""
        self._progress.start()  # at the first step, not before: until then messages and errors have the terminal
        self._progress.update(self._task, completed=step, description=text)

    def say(self, text: str) -> None:
        """Show a message above the bar."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Leave the bar where it stands, and the cursor below it."""
        self._progress.stop()


def progress(steps: int, *, quiet: bool, clock: Callable[[], float] = time.monotonic) -> Progress:
    """Return what fits: nothing if `quiet`, a bar on a terminal, else lines."""
    if quiet:
        return Nothing()
    if sys.stderr.isatty():
        try:
            return Bar(steps)
        except ImportError:
            pass
    return Lines(clock)
