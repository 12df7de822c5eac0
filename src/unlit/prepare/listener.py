"""How a run of `unlit prepare` shows on stderr: bars with the time left on a terminal, elsewhere a line a source."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from unlit.prepare.pipeline import Outcome


class Shown:
    """Shows all sources together, and each that is being prepared. A context: it leaves the terminal clean."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=self._console, transient=True)
        self._all = self._progress.add_task("sources", total=None)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        if self._console.is_terminal:  # elsewhere a bar would only be printed once, at the end
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, names: Sequence[str], skipped: int) -> None:
        """Show how much there is to do."""
        self._progress.update(self._all, total=len(names))
        if skipped:
            self._say(f"{skipped} source(s) done already; --force prepares them again")

    def update(self, name: str, done: int, total: int | None, what: str) -> None:
        """Move a source's bar."""
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(escape(name), total=total)
        self._progress.update(self._tasks[name], completed=done, total=total, description=f"{escape(name)}, {what}")

    def finish(self, name: str, outcome: Outcome) -> None:
        """Say what became of a source."""
        if name in self._tasks:
            self._progress.remove_task(self._tasks[name])
            del self._tasks[name]
        self._progress.advance(self._all)
        looked, kept = outcome.counts
        if not outcome.refused:
            count = len(outcome.sequences)
            into = "" if count == 1 else f" in {count} sequences"
            self._say(f"{name}: {kept} of {looked} frames{into}")

    def _say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
