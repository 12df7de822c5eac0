"""How much gets done in a second, and how long the rest will take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable


class Rate:
    """Things done a second, over the last `window` seconds."""

    def __init__(self, window: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._window = window
        self._clock = clock
        self._done: deque[tuple[float, float]] = deque()

    def add(self, count: float) -> None:
        """Count things done just now. The first call only starts the clock: nobody knows how long those took."""
        now = self._clock()
        self._done.append((now, count))
        # The oldest entry is a mark of time only; two are kept, so that slow work has a rate too.
        while len(self._done) > 2 and now - self._done[1][0] >= self._window:
            self._done.popleft()

    def value(self) -> float | None:
        """Return things a second, or None as long as there is no time to divide by."""
        if len(self._done) < 2:
            return None
        elapsed = self._done[-1][0] - self._done[0][0]
        if elapsed <= 0:
            return None
        return (sum(count for _, count in self._done) - self._done[0][1]) / elapsed


def time_left(remaining: float, rate: float | None) -> str:
    """Return how long `remaining` things take at `rate` a second: "3:20" (m:ss), "2:03:20", or "?"."""
    if not rate:
        return "?"
    minutes, seconds = divmod(round(remaining / rate), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
