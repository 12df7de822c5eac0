"""Jobs in processes of their own, each with a pipe to the one that shares them out.

No queue and no lock is common to the processes. One that dies at any moment, of Ctrl-C or for want of memory, may hold
a common lock or leave half a message, and all others would wait for it forever; of a pipe it leaves only the end.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from unlit.prepare.pipeline import Job, Outcome, prepare_source
from unlit.processes import HELD, signals_held

Update = Callable[[str, int, int | None, str], None]
"""Told of a source by its name how many steps are done, of how many, and what is being done."""

_PATIENCE = 5.0
"""Seconds in which a process that was told to end may put away what is half-written."""
_TELL_EVERY = 0.1
"""Seconds between two notes on how a job goes."""


def in_processes(jobs: Sequence[Job], count: int, update: Update) -> Iterator[tuple[Job, Outcome]]:
    """Yield each job's outcome as it comes, from `count` processes; close the generator to end them."""
    left = deque(jobs)
    workers: list[_Worker] = []
    try:
        while left or workers:
            while left and len(workers) < count:
                workers.append(_Worker(left.popleft()))
            ready = wait([worker.pipe for worker in workers])
            for worker in [worker for worker in workers if worker.pipe in ready]:
                job, news = worker.job, worker.news()
                if not isinstance(news, Outcome):
                    update(job.source.name, *news)
                    continue
                if not (left and worker.begin(left[0])):
                    workers.remove(worker)
                    worker.dismiss()
                else:
                    left.popleft()
                yield job, news
    finally:
        _end(workers)


class _Worker:
    """A process and the job it is at."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")  # a forked process would share locks that threads may hold
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.job = job
        with signals_held():
            self.process.start()
        theirs.close()  # so that the pipe ends when the process does
        self.begin(job)

    def begin(self, job: Job) -> bool:
        """Give it a job and return whether it took it."""
        self.job = job
        with suppress(OSError):
            self.pipe.send(job)
            return True
        return False

    def news(self) -> Outcome | tuple[int, int | None, str]:
        """Return what it tells next."""
        try:
            news: Outcome | tuple[int, int | None, str] = self.pipe.recv()
        except (EOFError, OSError):
            wrong = "the process that prepared it was ended from outside, perhaps for want of memory"
            return Outcome(refused=f"{self.job.source.place}: {wrong}; try again with --workers 1")
        return news

    def dismiss(self) -> None:
        """Let it end: there is nothing left to do."""
        self.pipe.close()
        self.process.join(_PATIENCE)
        _end([self])


def _end(workers: Sequence[_Worker]) -> None:
    """End processes at once, where they have not ended by themselves."""
    try:
        for worker in workers:
            worker.process.terminate()
        deadline = time.monotonic() + _PATIENCE
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
    finally:  # of a second Ctrl-C too
        for worker in workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let being told to end be an exception, as Ctrl-C is, so that what is half-written is removed."""
    if threading.current_thread() is not threading.main_thread():  # signals are somebody else's
        yield
        return
    before = {number: signal.signal(number, _leave) for number in HELD if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _: Any) -> None:
    sys.exit(128 + number)  # as a shell has it


def _work(pipe: Connection) -> None:
    """Do jobs in a process, as they come, until nobody gives any."""
    for number in HELD:  # Ctrl-C reaches all processes of a terminal: the first tells the others to end
        signal.signal(number, _leave if number == signal.SIGTERM else signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            job: Job = pipe.recv()
            pipe.send(prepare_source(job, _Teller(pipe)))


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, however that was: nobody waits for results."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_PATIENCE)
        os._exit(1)


class _Teller:
    """Passes on how a job goes, not too often."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._next, self._last = pipe, 0.0, ""

    def __call__(self, done: int, total: int | None, what: str) -> None:
        now = time.monotonic()
        if now >= self._next or what != self._last:
            self._next, self._last = now + _TELL_EVERY, what
            self._pipe.send((done, total, what))
