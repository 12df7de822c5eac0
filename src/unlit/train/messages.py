"""What a run says: on the screen at once, and in its journal, which is opened later than the first messages come."""

from __future__ import annotations

import sys

from unlit.train.journal import Journal


class Messages:
    """Says texts through the journal where there is one; else shows them, where `shown`, and keeps them for it."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._early: list[str] = []
        self._journal: Journal | None = None

    def say(self, text: str) -> None:
        """Show a message at once, also before there is a journal to keep it in."""
        if self._journal is not None:
            self._journal.say(text)
            return
        self._early.append(text)
        if self._shown:
            print(text, file=sys.stderr, flush=True)

    def open(self, journal: Journal, first: str) -> None:
        """Note in the journal what was said before it, say `first`, and go on through it."""
        for text in self._early:
            journal.note(text)
        journal.say(first)
        self._journal = journal
