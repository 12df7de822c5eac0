"""Many sources at once: what is done is skipped, the rest shared out among processes, and all of it is reported."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from unlit.image_io import ImageError
from unlit.masks.settings import KINDS
from unlit.prepare.finding import Refusal, find_sources
from unlit.prepare.fingerprint import fingerprint
from unlit.prepare.index import Index, place_of
from unlit.prepare.pipeline import Job, Outcome, prepare_source
from unlit.prepare.settings import PrepareSettings
from unlit.prepare.source import Source, printable
from unlit.prepare.workers import ended_by_signals, in_processes
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
    sources, refused = find_sources(places, settings, out)
    if refused and not sources and not (out / "dataset.json").is_file():
        # Nothing to prepare, and nothing there: no folder is made for that.
        others = f" ({len(refused) - 1} more cannot be prepared either)" if len(refused) > 1 else ""
        raise ValueError(printable(refused[0].reason) + others)
    index = Index.opened(out)
    with ended_by_signals(), index.alone():
        jobs, done = _jobs(sources, index, settings, tuple(without), force, refused)
        listener.begin([job.source.name for job in jobs], len(done))
        problems = [printable(refusal.reason) for refusal in refused]
        problems += [text for source in done for text in _told_again(index, source)]
        with closing(_outcomes(jobs, listener, workers)) as outcomes:  # whatever happens here, processes end
            for job, outcome in outcomes:
                outcome = _noted(index, job, outcome)
                listener.finish(job.source.name, outcome)
                problems += [outcome.refused] if outcome.refused else []
                problems += outcome.warnings
        problems += index.lost()
        try:
            index.divide(validation=validation, test=test)
            for name in index.splits:
                relay_masks(index.folder(name), without)
            index.write_report()
        except (OSError, ImageError) as error:
            problems.append(_no_room(out, error))
        return Result(index.report, len(index.splits), len(jobs), len(done), tuple(problems))


def _no_room(out: Path, error: OSError | ImageError) -> str:
    cause = error.__cause__ if isinstance(error, ImageError) else error
    return f"{out}: cannot be written to ({getattr(cause, 'strerror', error)}); make room or check permissions"


def _noted(index: Index, job: Job, outcome: Outcome) -> Outcome:
    """Write down what became of a source; where there is no room even for that, it was not prepared."""
    try:
        index.add(job.source, job.fingerprint, outcome)
    except OSError as error:
        index.take_back(job.source, outcome)
        wrong = f"cannot be prepared ({index.out}: {error.strerror}); make room or check permissions"
        outcome = Outcome(refused=f"{printable(job.source.place)}: {wrong}")
        try:
            index.add(job.source, job.fingerprint, outcome)
        except OSError as again:
            raise ValueError(_no_room(index.out, again)) from again
    return outcome


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
    sources = list(_apart_from(sources, index))
    taken = _taken(sources, index)
    for source in sources:
        try:
            stamp = fingerprint(source, settings)
        except OSError as error:
            reason = f"{source.place}: cannot be read ({error.strerror}); check its name and permissions"
            refused.append(Refusal(source.place, reason))
            continue
        if not force and index.is_done(source, stamp):
            done.append(source)
        else:
            others = frozenset(name for name, owner in taken.items() if owner != source.name)
            jobs.append(Job(source, index.out, settings, without, stamp, others))
    return jobs, done


def _taken(sources: list[Source], index: Index) -> dict[str, str]:
    """Return which source each name belongs to, in lower case: its own, and those of its sequences."""
    of_sequences = {name.lower(): entry.name for entry in index.entries.values() for name in entry.sequences}
    return of_sequences | {name.lower(): name for name in [*index.entries, *(source.name for source in sources)]}


def _apart_from(sources: list[Source], index: Index) -> Iterator[Source]:
    """Yield the sources, renamed where another run gave the name to another place."""
    owners = {name: index.entries[owner].place for name, owner in _taken([], index).items()}
    names = {entry.place: entry.name for entry in index.entries.values()}
    for source in sources:
        place = place_of(source)
        name, k = names.get(place, source.name), 2
        while owners.get(name.lower(), place) != place:
            name, k = f"{source.name}-{k}", k + 1
        owners[name.lower()] = place
        yield replace(source, name=name)


def _outcomes(jobs: list[Job], listener: Listener, workers: int | None) -> Generator[tuple[Job, Outcome], None, None]:
    """Yield each job's outcome as it comes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(workers or cores, len(jobs))
    if count <= 1:
        for job in jobs:
            name = job.source.name
            threaded = replace(job, threads=min(cores, 8))  # more would wait for one another
            yield job, prepare_source(threaded, partial(listener.update, name))
        return
    yield from in_processes(jobs, count, listener.update)
