"""Many photographs: reading, network and writing overlap, in bounded memory, and one bad file stops no other.

Each worker takes one photograph from file to files. The network is asked through a `Batcher`, which lets whatever waits
go through together: on a GPU one pass for several photographs, while the processors read and write others.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from unlit.image_io import Encoding
from unlit.model.decomposition import Decomposition
from unlit.predict.files import Job
from unlit.predict.predictor import Predictor
from unlit.predict.results import Format
from unlit.predict.saving import save_photo
from unlit.predict.small import Small
from unlit.predict.source import Photo, opened
from unlit.processes import usable_processors

BATCH = 16
"""Photographs that go through a GPU together, at most."""

BYTES_AT_ONCE = 12_000_000
"""Of files being worked on, at most, unless one alone is larger: their pixels take some thirty times as much."""

LARGE = 4_000_000
"""Pixels from which on one photograph alone can occupy all processors."""


@dataclass(frozen=True)
class Saving:
    """How results are written: see `save_photo`."""

    format: Format = "png"
    encoding: Encoding | None = None
    bits: int | None = None
    layers: bool = False
    with_preview: bool = False
    force: bool = False


Told = Callable[[Job, Exception | None], None]
"""Called after each photograph, from one thread at a time, with what went wrong, if anything."""


def decompose_files(
    predictor: Predictor,
    jobs: Sequence[Job],
    saving: Saving,
    told: Told,
    *,
    input_encoding: Encoding | None = None,
    exact: bool = True,
    early: Mapping[Path, Future[tuple[Photo, Small]]] | None = None,
) -> None:
    """Decompose and save every photograph of `jobs`. What goes wrong with one is `told`, and the others are done.

    `early` has photographs that are being read and made small already.
    """
    if not jobs:
        return
    on_cpu = predictor.network.device.type == "cpu"
    workers = min(len(jobs), usable_processors() * (1 if on_cpu else 2))
    room = _Room(BYTES_AT_ONCE)

    def begun(source: Path) -> tuple[Photo, Small]:
        photo = opened(source, input_encoding)
        return photo, predictor.small(photo)

    def work(job: Job) -> None:
        with room.held(job.source.stat().st_size if job.source.exists() else 0):
            waiting = (early or {}).get(job.source)
            photo, small = waiting.result() if waiting else begun(job.source)
            said = batcher.said(small)
            threads = 1 if photo.pixels[..., 0].size < LARGE and workers > 1 else None
            found = predictor.finished(photo, small, said, exact=exact, threads=threads)
            save_photo(found, job.folder, job.stem, **vars(saving))

    # On a CPU several photographs at once keep the processors busier than several threads for each.
    with _torch_threads(1 if on_cpu and workers > 1 else None), Batcher(predictor) as batcher:
        pool = ThreadPoolExecutor(max(1, workers))
        try:
            running = {pool.submit(work, job): job for job in jobs}
            for done in as_completed(running):
                error = done.exception()
                if error is not None and not isinstance(error, ValueError | OSError | MemoryError | RuntimeError):
                    raise error
                told(running[done], error)
        finally:
            pool.shutdown(cancel_futures=True)


class Batcher:
    """Answers for small pictures, given by one thread that lets all that wait go through the network together.

    On a CPU, where a batch is no quicker than its pictures one by one, each caller asks the network itself.
    """

    def __init__(self, predictor: Predictor, batch: int = BATCH, *, direct: bool | None = None) -> None:
        self._predictor, self._batch = predictor, batch
        self._is_direct = predictor.network.device.type == "cpu" if direct is None else direct
        self._waiting: queue.SimpleQueue[tuple[Small, Future[Decomposition]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Batcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.put(None)
        self._thread.join()

    def said(self, small: Small) -> Decomposition:
        """Return what the network says of one picture; waits for it."""
        if self._is_direct:
            return self._predictor.said([small])[0]
        answer: Future[Decomposition] = Future()
        self._waiting.put((small, answer))
        return answer.result()

    def _serve(self) -> None:
        while (first := self._waiting.get()) is not None:
            asked = [first]
            while len(asked) < self._batch and not self._waiting.empty():
                if (another := self._waiting.get()) is None:
                    self._waiting.put(None)
                    break
                asked.append(another)
            try:
                for (_, answer), said in zip(asked, self._predictor.said([s for s, _ in asked]), strict=True):
                    answer.set_result(said)
            except Exception as error:
                for _, answer in asked:
                    answer.set_exception(error)


class _Room:
    """A number of bytes that threads share; one that needs more than all of it is let in when it is alone."""

    def __init__(self, size: int) -> None:
        self._size, self._used = size, 0
        self._changed = threading.Condition()

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Wait until there is room for `size`, and hold it."""
        size = min(size, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._used + size <= self._size)
            self._used += size
        try:
            yield
        finally:
            with self._changed:
                self._used -= size
                self._changed.notify_all()


@contextmanager
def _torch_threads(count: int | None) -> Iterator[None]:
    """Let torch use `count` threads for an operation meanwhile; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
