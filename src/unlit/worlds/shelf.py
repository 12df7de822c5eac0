"""Scenes rendered in their order, by this process or by several others, ahead of whoever reads them in that order.

Most of a scene's time is the host's: shapes are packed, textures are launched piece by piece. So even one GPU renders
several times as many scenes if several processes ask it to. Which process renders a scene does not change it.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from unlit.data.dataset import Item, Split
from unlit.data.sequence import Sequence, SequenceError
from unlit.data.truth import Truth
from unlit.worlds.bases import GROUP, bases
from unlit.worlds.item import world_item

Made = Item | SequenceError
"""A scene, or why it is left out."""


@dataclass(frozen=True)
class Rendering:
    """How scenes are rendered, and what for."""

    split: Split
    size: tuple[int, int]
    """(h, w)."""
    samples: int
    device: str

    def of(self, numbers: range) -> Iterator[Made]:
        """Yield the scenes of `numbers`, rendered here."""
        for world in bases(numbers, self.size, self.samples, self.device):
            try:
                yield world_item(world, self.split)
            except SequenceError as error:
                yield error

    def in_processes(self, numbers: range, count: int) -> Iterator[Made]:
        """Yield the same, rendered by `count` processes, each every n-th scene. Close the generator to end them."""
        workers = [_Worker(self, numbers[k::count]) for k in range(count)]
        try:
            for k, number in enumerate(numbers):
                yield workers[k % count].made(number, workers)
        finally:
            for worker in workers:
                worker.process.terminate()
                worker.pipe.close()
            for worker in workers:
                worker.process.join()


class Shelf:
    """The scenes of a range of numbers, which are mostly asked for in their order."""

    def __init__(self, seeds: range, rendering: Rendering, processes: int = 0) -> None:
        """Take note; nothing is rendered before the first scene is asked for. Few scenes need no other processes."""
        self.seeds, self.rendering = seeds, rendering
        self._processes = min(processes, len(seeds) // GROUP)
        self._next = -1
        self._made: Iterator[Made] = iter(())

    def read(self, number: int) -> Item:
        """Return the scene of a number; SequenceError where next to nothing can be seen in it."""
        if number != self._next:
            rest, count = range(number, self.seeds.stop), self._processes
            self._made = self.rendering.in_processes(rest, count) if count > 1 else self.rendering.of(rest)
        self._next = number + 1
        made = next(self._made)
        if isinstance(made, SequenceError):
            raise made
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is being rendered: other processes begin anew, and by themselves."""
        return {**vars(self), "_processes": 0, "_next": -1, "_made": iter(())}


class _Worker:
    """A process that renders, and what came from it before it was asked for.

    Each has a pipe of its own, and nothing is shared: one that dies leaves no lock behind. Who has sent a scene goes on
    with the next, and waits with that until somebody reads; so little is ahead of the reader.
    """

    def __init__(self, rendering: Rendering, numbers: range) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy CUDA's state
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_render, args=(rendering, numbers, theirs), daemon=True)
        self.process.start()
        theirs.close()  # or the end of the process would not be seen
        self._waiting: dict[int, Made] = {}
        self._left = len(numbers)

    def made(self, number: int, all_of_them: list[_Worker]) -> Made:
        """Return a scene of this process; while it is waited for, take what the others have so that they go on."""
        while number not in self._waiting:
            ready = wait([worker.pipe for worker in all_of_them if worker._left])
            for worker in all_of_them:
                if worker.pipe in ready:
                    worker._take()
        return self._waiting.pop(number)

    def _take(self) -> None:
        try:
            number, sent = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode
            raise RuntimeError(
                f"a process that renders scenes has ended ({code}); for want of memory? Lower data.workers"
            ) from None
        self._left -= 1
        self._waiting[number] = SequenceError(sent) if isinstance(sent, str) else _item(sent)


def _render(rendering: Rendering, numbers: range, pipe: Connection) -> None:
    """Send the scenes of `numbers` one by one: what a process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the one that reads ends the others
    torch.set_num_threads(1)
    with suppress(BrokenPipeError):  # the one that reads was killed
        for number, made in zip(numbers, rendering.of(numbers), strict=True):
            sent = str(made) if isinstance(made, SequenceError) else _arrays(made)
            pipe.send_bytes(pickle.dumps((number, sent), protocol=pickle.HIGHEST_PROTOCOL))


def _arrays(item: Item) -> dict[str, Any]:
    """Return an item as NumPy's arrays: through a pipe, since shared memory is small on many machines."""
    sequence, truth = item.sequence, item.truth
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    parts = {"frames": sequence.frames, "mask": sequence.mask[:1]}  # which is the same for all frames
    parts |= {"reflectance": truth.reflectance, "shading": truth.shading}
    return {"name": sequence.name, "names": sequence.frame_names, **{k: v.cpu().numpy() for k, v in parts.items()}}


def _item(sent: dict[str, Any]) -> Item:
    frames, mask, reflectance, shading = (
        torch.from_numpy(sent[name]) for name in ("frames", "mask", "reflectance", "shading")
    )
    k = len(frames)
    sequence = Sequence(frames, mask.expand(k, -1, -1, -1).contiguous(), sent["name"], sent["names"])
    return Item(sequence, Truth(reflectance, shading, torch.ones(k, dtype=torch.bool)), one_light=True)
