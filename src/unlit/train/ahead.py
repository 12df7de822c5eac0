"""The next batch and its pairs, made while the network still works on the last.

Building the lattice asks the device several times how much it found, and each question waits for all work before it on
the same stream. On a stream of its own it waits for itself alone, and the network runs on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from unlit.data.batch import Batch
from unlit.losses.batch import batch_pairwise
from unlit.losses.settings import EnergySettings
from unlit.pairwise.pairwise import Pairwise


@dataclass(frozen=True)
class Prepared:
    """A batch with its pairs."""

    batch: Batch
    pairwise: Pairwise | None
    """None where they are not needed, or no pixel of the batch is valid."""
    is_empty: bool = False
    """Whether no pixel of the batch is valid."""


class Ahead:
    """Take a batch, launch the work on it, then `start` the next."""

    def __init__(self, batches: Iterator[Batch], settings: EnergySettings | None, device: torch.device) -> None:
        """Make batches ready on `device`, with the pairs that the energy's `settings` ask for; None: without pairs."""
        self._batches, self._settings = batches, settings
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._device = device
        self._next: Prepared | None = None
        self._last_done: torch.cuda.Event | None = None

    def take(self) -> Prepared:
        """Return the next batch; work launched after this waits for it."""
        if self._next is None:
            self.start()
        assert self._next is not None
        if self._side is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._side)
        prepared, self._next = self._next, None
        return prepared

    def start(self) -> None:
        """Begin with the batch after the one that was taken last."""
        if self._side is None:
            self._next = self._prepared()
            return
        # The memory of the batch before the last is free to be used again, but only when the work on it is done.
        done, self._last_done = self._last_done, torch.cuda.Event()
        self._last_done.record(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._side):
            if done is not None:
                self._side.wait_event(done)
            self._next = self._prepared()

    def _prepared(self) -> Prepared:
        batch = next(self._batches)
        with torch.no_grad():
            if not bool(batch.mask.any()):
                return Prepared(batch, None, is_empty=True)
            if self._settings is None:
                return Prepared(batch, None)
            return Prepared(batch, batch_pairwise(batch.frames, batch.mask, self._settings))
