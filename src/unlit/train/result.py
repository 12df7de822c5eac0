"""How a run ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class TrainingError(RuntimeError):
    """Training cannot go on."""


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    step: int
    """Steps taken."""
    steps: int
    """Steps there are."""
    checkpoint: Path
    skipped_steps: int
    skipped_sequences: int

    @property
    def is_complete(self) -> bool:
        """Whether the run came to its end; else it was asked to stop, and can be resumed."""
        return self.step == self.steps
