"""How fast the network learns at each step."""

from __future__ import annotations

import math
from typing import Literal, get_args

Final = Literal["steps", "cosine"]

PAPER_HALVE_AT = (1 / 3, 2 / 3)
"""The paper halves at 8 and 16 of 24 epochs."""


def learning_rate(
    step: int,
    *,
    base: float,
    steps: int,
    halve_at: tuple[float, ...] = PAPER_HALVE_AT,
    warm_up: int = 0,
    final: Final = "steps",
) -> float:
    """Return the learning rate of step `step`, counted from 0, of `steps`.

    It climbs in a straight line over the first `warm_up` steps and is `base` at step `warm_up`. Then, with "steps", it
    is halved at each of the fractions `halve_at` of all steps; with "cosine" it falls along half a wave, to zero where
    the steps end, and `halve_at` does not count.
    """
    _check(step, base, steps, halve_at, warm_up, final)
    climbed = min(1.0, (step + 1) / (warm_up + 1))  # never zero: the first step should count
    if final == "cosine":
        done = (step - warm_up) / max(1, steps - warm_up)
        return base * climbed * 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, done))))
    # Rounded, since a third of the steps need not be a number that floats can hold.
    halvings = sum(step >= round(fraction * steps) for fraction in halve_at)
    return base * climbed * 0.5**halvings


def _check(step: int, base: float, steps: int, halve_at: tuple[float, ...], warm_up: int, final: str) -> None:
    if step < 0 or steps < 1 or warm_up < 0:
        raise ValueError(f"step {step} of {steps} with a warm-up of {warm_up}: none may be negative, nor steps zero")
    if not (math.isfinite(base) and base > 0):
        raise ValueError(f"the base learning rate must be positive, not {base}")
    if not all(0 < fraction < 1 for fraction in halve_at):
        raise ValueError(f"halve_at must be fractions between 0 and 1, not {halve_at}")
    if final not in get_args(Final):
        raise ValueError(f"final must be one of {', '.join(get_args(Final))}, not {final!r}")


def is_due(step: int, every: int) -> bool:
    """Return whether something that is done every so many steps, 0 for never, is due after `step` of them."""
    return every > 0 and step % every == 0
