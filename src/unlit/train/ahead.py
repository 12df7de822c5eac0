"""The next batch and its pairs, made while the network still works on the last.

Building the lattice asks the device several times how much it found, and each question waits for all work before it on
the same stream. On a stream of its own it waits for itself alone, and the network runs on meanwhile. Launching that
work takes the host as long as launching the network's, so a thread of its own does it: torch lets go of the
interpreter while it launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch

from unlit.data.batch import Batch
from unlit.losses.batch import batch_pairwise
from unlit.losses.settings import EnergySettings
from unlit.pairwise.pairwise import Pairwise

TOLERANCE = 1e-2
"""Of the dense pairs' row sums. The term compares with the sums that are reached, so it is a sum of squares however
rough they are; its gradient changes by less than a thousandth, while bfloat16 rounds by four (docs/trials-speed.md)."""


@dataclass(frozen=True)
class Prepared:
    """A batch with its pairs."""

    batch: Batch
    pairwise: Pairwise | None
    """None where they are not needed, or no pixel of the batch is valid."""
    is_empty: bool = False
    """Whether no pixel of the batch is valid."""

    @property
    def has_pairs(self) -> bool:
        """Whether there are pairs that the energy compares."""
        return self.pairwise is not None and (self.pairwise.dense is not None or bool(self.pairwise.shading))


class Ahead:
    """Take a batch, `start` the next, and launch the work on the one that was taken; or launch, then start.

    Started first, the next is made during all of that work; but both threads then launch at once, and one of them may
    be capturing (`train/captured.py`), which nobody should disturb.
    """

    def __init__(self, batches: Iterator[Batch], settings: EnergySettings | None, device: torch.device) -> None:
        """Make batches ready on `device`, with the pairs that the energy's `settings` ask for; None: without pairs."""
        self._batches, self._settings = batches, settings
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._thread = ThreadPoolExecutor(1) if self._side is not None else None
        self._device = device
        self._next: Future[Prepared] | None = None
        self._held: Prepared | None = None
        self._done: torch.cuda.Event | None = None

    def take(self) -> Prepared:
        """Return the next batch; work launched after this waits for it."""
        if self._next is None:
            self.start()
        assert self._next is not None
        prepared, self._next = self._next.result(), None
        if self._side is not None:
            main = torch.cuda.current_stream(self._device)
            # The memory of the last batch is free to be used for the next, but only when the work on it is done.
            self._done = torch.cuda.Event()
            self._done.record(main)
            main.wait_stream(self._side)
        self._held = prepared  # and not the last any more: whatever the caller does, it was held until now
        return prepared

    def start(self) -> None:
        """Begin with the batch after the one that was taken last, unless that was done."""
        if self._next is not None:
            return
        if self._thread is None:
            self._next = Future()
            self._next.set_result(self._prepared())
            return
        self._next = self._thread.submit(self._prepared_aside, self._done)

    def close(self) -> None:
        """Let the thread end; a batch that nobody takes is forgotten."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def _prepared_aside(self, done: torch.cuda.Event | None) -> Prepared:
        assert self._side is not None
        with torch.cuda.device(self._device), torch.cuda.stream(self._side):
            if done is not None:
                self._side.wait_event(done)
            return self._prepared()

    def _prepared(self) -> Prepared:
        batch = next(self._batches)
        with torch.no_grad():
            if not bool(batch.mask.any()):
                return Prepared(batch, None, is_empty=True)
            if self._settings is None:
                return Prepared(batch, None)
            pairs = batch_pairwise(batch.frames, batch.mask, self._settings, tolerance=TOLERANCE)
            return Prepared(batch, pairs)
