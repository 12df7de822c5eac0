"""Scenes rendered in their order, by this process or by several others, ahead of whoever reads them in that order.

Most of a scene's time is the host's: shapes are packed, textures are launched piece by piece. So even one GPU renders
several times as many scenes if several processes ask it to. Which process renders a scene does not change it, but for
the digits that `Rendering.half` leaves out on the way.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from typing import Any

import torch

from unlit.data.dataset import Item, Split
from unlit.data.loader import in_half
from unlit.data.sequence import Sequence, SequenceError
from unlit.data.truth import Truth
from unlit.processes import signals_held
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
    half: bool = False
    """Processes send 16-bit floats: enough for whoever keeps no more, and half of the way for what they send."""

    def of(self, numbers: range) -> Iterator[Made]:
        """Yield the scenes of `numbers`, rendered here."""
        for world in bases(numbers, self.size, self.samples, self.device):
            try:
                yield world_item(world, self.split)
            except SequenceError as error:
                yield error

    def in_processes(self, numbers: range, count: int) -> Iterator[Made]:
        """Yield the same, rendered by `count` processes, each every n-th scene. Close the generator to end them."""
        workers: list[_Worker] = []
        try:
            for k in range(count):
                workers.append(_Worker(self, numbers[k::count]))
            for k, number in enumerate(numbers):
                yield workers[k % count].made(number, workers)
        finally:
            for worker in workers:
                worker.end()


class Shelf:
    """The scenes of a range of numbers, which are mostly asked for in their order."""

    def __init__(self, seeds: range, rendering: Rendering, processes: int = 0) -> None:
        """Take note; nothing is rendered before the first scene is asked for. Few scenes need no other processes."""
        self.seeds, self.rendering = seeds, rendering
        self._processes = min(processes, len(seeds) // GROUP)  # by groups a process renders
        self._next = -1
        self._made: Iterator[Made] = iter(())

    def read(self, number: int) -> Item:
        """Return the scene of a number; SequenceError where next to nothing can be seen in it."""
        if number != self._next:
            rest, count = range(number, self.seeds.stop), self._processes
            self._made = self.rendering.in_processes(rest, count) if count > 1 else self.rendering.of(rest)
        self._next = -1  # whatever fails, the next to ask begins anew
        made = next(self._made)
        self._next = number + 1
        if self._next == self.seeds.stop:
            self._made = iter(())  # the processes end with what they gave
        if isinstance(made, SequenceError):
            raise made
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is being rendered: other processes begin anew, and by themselves."""
        return {**vars(self), "_processes": 0, "_next": -1, "_made": iter(())}


class _Worker:
    """A process that renders, and what came from it before it was asked for.

    Each has a pipe of its own, and nothing is shared: one that dies leaves no lock behind. Who has sent a scene goes on
    with the next, and waits with that until somebody reads.
    """

    def __init__(self, rendering: Rendering, numbers: range) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy CUDA's state
        self._pipe, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_render, args=(rendering, numbers, theirs), daemon=True)
        try:
            with signals_held():  # for good: a run that is told to end saves first, and reads on until then
                self._process.start()
        except OSError as error:
            raise RuntimeError(f"no process to render scenes can be started ({error}); lower data.workers") from error
        theirs.close()  # or the end of the process would not be seen
        # At the end of the program Python would ask it to end, which it does not hear.
        self._killing = Finalize(None, self._process.kill, exitpriority=1)
        self._waiting: dict[int, Made] = {}
        self._left = len(numbers)

    def made(self, number: int, all_of_them: list[_Worker]) -> Made:
        """Return a scene of this process; while it is waited for, take what others have, so that they go on."""
        while number not in self._waiting:
            wanted = [worker for worker in all_of_them if worker._left and len(worker._waiting) < GROUP]
            ready = wait([worker._pipe for worker in wanted])
            for worker in wanted:
                if worker._pipe in ready:
                    worker._take()
        return self._waiting.pop(number)

    def _take(self) -> None:
        try:
            number, sent = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):  # the latter in the midst of a scene
            self._process.join()
            code = self._process.exitcode
            why = ", for want of memory? Lower data.workers" if code == -signal.SIGKILL else "; see what it said above"
            # No SequenceError: that would leave out a scene, and the run could not be repeated.
            raise RuntimeError(f"a process that renders scenes has ended (exit code {code}){why}") from None
        self._left -= 1
        self._waiting[number] = SequenceError(sent) if isinstance(sent, str) else _item(sent)

    def end(self) -> None:
        """End the process at once."""
        self._killing()
        self._pipe.close()
        self._process.join()


def _render(rendering: Rendering, numbers: range, pipe: Connection) -> None:
    """Send the scenes of `numbers` one by one: what a process does."""
    torch.set_num_threads(1)
    with suppress(BrokenPipeError):  # the one that reads was killed
        for number, made in zip(numbers, rendering.of(numbers), strict=True):
            sent = str(made) if isinstance(made, SequenceError) else _arrays(made, half=rendering.half)
            pipe.send_bytes(pickle.dumps((number, sent), protocol=pickle.HIGHEST_PROTOCOL))


def _arrays(item: Item, *, half: bool) -> dict[str, Any]:
    """Return an item as NumPy's arrays: through a pipe, since shared memory is small on many machines."""
    item = in_half(item) if half else item
    sequence, truth = item.sequence, item.truth
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    parts = {"frames": sequence.frames, "mask": sequence.mask[:1]}  # which is the same for all frames
    parts |= {"reflectance": truth.reflectance, "shading": truth.shading}
    return {"name": sequence.name, "names": sequence.frame_names, **{k: v.cpu().numpy() for k, v in parts.items()}}


def _item(sent: dict[str, Any]) -> Item:
    frames, reflectance, shading = (
        torch.from_numpy(sent[name]).float() for name in ("frames", "reflectance", "shading")
    )
    mask = torch.from_numpy(sent["mask"])
    k = len(frames)
    sequence = Sequence(frames, mask.expand(k, -1, -1, -1).contiguous(), sent["name"], sent["names"])
    return Item(sequence, Truth(reflectance, shading, torch.ones(k, dtype=torch.bool)), one_light=True)
