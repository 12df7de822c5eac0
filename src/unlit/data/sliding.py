"""Part of a large set on the training device: while the run goes on, sequences that come take the places of others.

Of n sources the device holds h. Batch k of K sees h of them from number floor(k (n − h) / (K − 1)) on, so that the run
begins with the first and ends with the last. What a batch sees depends on its number alone: runs go on at any step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from unlit.data.augment import seeded
from unlit.data.dataset import Source
from unlit.data.sequence import SequenceError

_CHOICE = 3
"""First number of the seeds for which sequences a batch has."""

T = TypeVar("T")


class Sliding(Generic[T]):
    """What `read` makes of the sources that are held; None for those that cannot be used."""

    def __init__(
        self,
        sources: Sequence[Source],
        read: Callable[[Source], T | None],
        *,
        held: int,
        batches: int,
        sequences: int,
        seed: int,
    ) -> None:
        self._sources, self._read, self._held, self._batches = sources, read, held, batches
        self._sequences, self._seed = sequences, seed
        self._kept: dict[int, T] = {}
        self._until = 0

    def first(self, batch: int) -> int:
        """Return the number of the first source that a batch may see."""
        last = max(self._batches - 1, 1)
        return (len(self._sources) - self._held) * min(batch, last) // last

    def batch(self, number: int) -> list[T]:
        """Return `sequences` of those that are held at a batch, all different where there are enough."""
        first = self.first(number)
        if first + self._held < self._until:  # back to an earlier batch: what it saw is gone
            self._kept.clear()
            self._until = first
        for k in [k for k in self._kept if k < first]:
            del self._kept[k]  # before others are read: there may be no room for both
        for k in range(max(self._until, first), first + self._held):
            made = self._read(self._sources[k])
            if made is not None:
                self._kept[k] = made
        self._until = first + self._held
        if not self._kept:
            raise SequenceError(f"none of {self._held} sequences in a row can be used; look at what was skipped")
        kept, draw = list(self._kept.values()), seeded(self._seed, _CHOICE, number)
        order = draw.permutation(len(kept)).tolist()
        order += draw.integers(len(kept), size=max(0, self._sequences - len(kept))).tolist()
        return [kept[k] for k in order[: self._sequences]]
