"""Many sources at once: what is done is skipped, the rest shared out among processes, and all of it is reported."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from unlit.masks.settings import KINDS
from unlit.prepare.finding import Refusal, find_sources
from unlit.prepare.fingerprint import fingerprint
from unlit.prepare.index import Index
from unlit.prepare.pipeline import Job, Outcome, prepare_source
from unlit.prepare.settings import PrepareSettings
from unlit.prepare.source import Source
from unlit.prepare.writing import relay_masks


class Listener(Protocol):
    """Who is told how it goes."""

    def begin(self, names: Sequence[str], skipped: int) -> None:
        """These sources are to be prepared; so many others are done already."""

    def update(self, name: str, done: int, total: int | None, what: str) -> None:
        """So many steps of a source are done, of `total` where that is known."""

    def finish(self, name: str, outcome: Outcome) -> None:
        """A source is done."""


@dataclass(frozen=True)
class Result:
    """What a run did."""

    report: Path
    sequences: int
    """In the dataset, earlier runs' with them."""
    prepared: int
    """Sources that this run prepared."""
    skipped: int
    """Sources that were done already."""
    problems: tuple[str, ...]
    """What is wrong with sources, one line each."""


def prepare(
    places: Iterable[Path],
    out: Path,
    settings: PrepareSettings,
    listener: Listener,
    *,
    without: Sequence[str] = (),
    validation: float = 0.0,
    test: float = 0.0,
    force: bool = False,
    workers: int | None = None,
) -> Result:
    """Prepare the sources in `places` into the dataset `out`, which may hold others already.

    `without` names kinds of masks that are made but do not count; for sequences that are there already it is applied to
    the masks on disk. `validation` and `test` are shares of the cameras. A source that cannot be prepared is told in
    the result and does not hinder the others. ValueError where `out` cannot be a dataset's folder.
    """
    places = list(places)
    _check_shares(validation, test)
    unknown = sorted(set(without) - set(KINDS))
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no kind of mask; kinds are {', '.join(KINDS)}")
    if not places and not (out / "dataset.json").is_file():
        raise ValueError(f"{out}: has no dataset yet; name videos or folders to prepare")
    for place in places:
        if place.is_dir() and out.resolve() == place.resolve():
            raise ValueError(f"{out}: holds the sources; choose another folder for the dataset")
    index = Index.opened(out)
    with index.alone():
        sources, refused = find_sources(places, settings)
        jobs, done = _jobs(sources, index, settings, tuple(without), force, refused)
        listener.begin([job.source.name for job in jobs], len(done))
        problems = [refusal.reason for refusal in refused]
        problems += [text for source in done for text in _told_again(index, source)]
        for job, outcome in _outcomes(jobs, listener, workers):
            index.add(job.source, job.fingerprint, outcome)
            listener.finish(job.source.name, outcome)
            problems += [outcome.refused] if outcome.refused else []
            problems += outcome.warnings
        index.divide(validation=validation, test=test)
        for name in index.splits:
            relay_masks(index.folder(name), without)
        return Result(index.write_report(), len(index.splits), len(jobs), len(done), tuple(problems))


def _check_shares(validation: float, test: float) -> None:
    if not (0 <= validation <= 1 and 0 <= test <= 1 and validation + test <= 1):
        raise ValueError(f"validation and test are shares whose sum is at most 1, not {validation} and {test}")


def _told_again(index: Index, source: Source) -> list[str]:
    """Return what was wrong with a source that was done before: it still is."""
    entry = index.entries[source.name]
    return [*([entry.refused] if entry.refused else []), *entry.warnings]


def _jobs(
    sources: list[Source],
    index: Index,
    settings: PrepareSettings,
    without: tuple[str, ...],
    force: bool,
    refused: list[Refusal],
) -> tuple[list[Job], list[Source]]:
    """Return what is to be done, and the sources for which that is nothing."""
    jobs: list[Job] = []
    done: list[Source] = []
    for source in _apart_from(sources, index):
        try:
            stamp = fingerprint(source, settings)
        except OSError as error:
            reason = f"{source.place}: cannot be read ({error.strerror}); check its name and permissions"
            refused.append(Refusal(source.place, reason))
            continue
        if not force and index.is_done(source, stamp):
            done.append(source)
        else:
            jobs.append(Job(source, index.out, settings, without, stamp))
    return jobs, done


def _apart_from(sources: list[Source], index: Index) -> Iterator[Source]:
    """Yield the sources, renamed where another run gave the name to another place."""
    taken = {entry.name.lower(): entry.place for entry in index.entries.values()}
    for source in sources:
        name, k = source.name, 2
        while taken.get(name.lower(), str(source.place.resolve())) not in (
            str(source.place.resolve()),
            str(source.place),
        ):
            name, k = f"{source.name}-{k}", k + 1
        taken[name.lower()] = str(source.place.resolve())
        yield replace(source, name=name)


def _outcomes(jobs: list[Job], listener: Listener, workers: int | None) -> Iterator[tuple[Job, Outcome]]:
    """Yield each job's outcome as it comes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(workers or cores, len(jobs))
    if count <= 1:
        for job in jobs:
            name = job.source.name
            threaded = replace(job, threads=min(cores, 8))  # more would wait for one another
            yield job, prepare_source(threaded, partial(listener.update, name))
        return
    context = multiprocessing.get_context("spawn")  # a forked process would share locks that threads may hold
    told = context.Queue()
    teller = threading.Thread(target=_pass_on, args=(told, listener), daemon=True)
    teller.start()
    pool = ProcessPoolExecutor(count, context, _start, (told,))
    try:
        futures: dict[Future[Outcome], Job] = {pool.submit(_in_process, job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], _result(future, futures[future])
        pool.shutdown()
    finally:
        _end(pool)
        told.put(None)
        teller.join()


def _result(future: Future[Outcome], job: Job) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool:
        wrong = "the process that prepared it was ended from outside, perhaps for want of memory"
        return Outcome(refused=f"{job.source.place}: {wrong}; try again with --workers 1")


_told: Any = None
"""In a worker process: where to tell how it goes."""


def _start(told: Any) -> None:
    global _told  # a process of the pool is set up once, before its first job
    _told = told
    told.cancel_join_thread()  # nobody may be listening any more when this process ends
    # Ctrl-C reaches all processes of a terminal: the first tells the others to end. Ending is an exception here, so
    # that what is half-written is removed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def _in_process(job: Job) -> Outcome:
    name = job.source.name
    try:
        return prepare_source(job, lambda done, total, what: _told.put((name, done, total, what)))
    except SystemExit:  # what was half-written is removed by now; the pool would take this for a result, and go on
        os._exit(1)


def _pass_on(told: Any, listener: Listener) -> None:
    while (news := told.get()) is not None:
        listener.update(*news)


def _end(pool: ProcessPoolExecutor) -> None:
    """End a pool's processes at once, where they have not ended by themselves."""
    running = list((pool._processes or {}).values())  # there is no public way before Python 3.14
    pool.shutdown(wait=False, cancel_futures=True)
    for process in running:
        if process.is_alive():
            process.terminate()
    for process in running:
        process.join(10)
        if process.is_alive():
            process.kill()
