"""How much is learned from solved sequences: settings, apart from torch."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class SolvedSettings:
    """Learning the reflectance that each training sequence has by its own energy, minimised before training."""

    weight: float = 0.0
    """Of the term; 0: nothing is solved."""
    steps: int = 60
    """Conjugate gradient steps for each sequence."""
    emphasis: float = 1.0
    """Pixels count by their value to this power."""
    gradient: float = 0.5
    """Weight of the differences of neighbors."""
    reconstruction: float = 0.1
    """Weight of R · S = I."""
    alone: bool = True
    """Leave the energy itself out of training: no pairs are built, and a step takes a third of the time."""

    def __post_init__(self) -> None:
        for name in ("weight", "emphasis", "gradient", "reconstruction"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"solved.{name} must be finite and not negative, not {value}")
        if self.steps < 1:
            raise ValueError(f"solved.steps must be at least 1, not {self.steps}")
