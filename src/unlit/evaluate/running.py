"""A benchmark run: every case read once, given to every method, and scored; what cannot be is named and counted.

Pictures are let go as soon as they are scored: only numbers stay, and small copies of the best and the worst cases.
"""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unlit.evaluate.benchmark import Benchmark, Case, Method, Outcome, Split, checked_split
from unlit.evaluate.methods import NetworkMethod, method_of
from unlit.evaluate.results_folder import ResultEncoding
from unlit.evaluate.thumbnail import Row, row_of

if TYPE_CHECKING:
    from unlit.evaluate.unfinished import Unfinished

SHOWN = 4
"""So many of the best and of the worst cases are kept to be looked at."""

MOST_PROCESSES = 1024

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Trial:
    """What came of one method on one case."""

    outcome: Outcome | None
    """None where it was skipped."""
    reason: str
    """Why it was; else empty."""
    resized: bool = False
    seconds: float = 0.0
    """That the method took."""
    row: Row | None = None


@dataclass
class MethodResult:
    """What came of one method, gathered case by case."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    resized: list[str] = field(default_factory=list)
    seconds: float = 0.0
    rows: list[tuple[float, str, Row]] = field(default_factory=list)
    """The best and the worst so far, by their main score, best first."""

    def add(self, case_id: str, trial: Trial, main_key: str, *, lower_is_better: bool) -> None:
        """Take in a trial."""
        if trial.outcome is None:
            self.skipped[case_id] = trial.reason
            return
        self.outcomes[case_id] = trial.outcome
        self.seconds += trial.seconds
        if trial.resized:
            self.resized.append(case_id)
        if main_key in trial.outcome.scores and trial.row is not None:
            self.rows.append((trial.outcome.scores[main_key], case_id, trial.row))
            self.rows.sort(key=lambda row: (row[0] if lower_is_better else -row[0], row[1]))
            if len(self.rows) > 2 * SHOWN:
                del self.rows[SHOWN]

    @property
    def count(self) -> int:
        """Of the cases that were taken in."""
        return len(self.outcomes) + len(self.skipped)

    def totals(self, benchmark: Benchmark, weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Return the scores (k,) of the whole set for weights (k, n); none where nothing was scored."""
        return benchmark.totals(list(self.outcomes.values()), weights) if self.outcomes else {}

    def scores(self, benchmark: Benchmark) -> dict[str, float]:
        """Return the scores of the whole set; those that cannot be told are left out."""
        totals = self.totals(benchmark, np.ones((1, len(self.outcomes))))
        return {key: float(value[0]) for key, value in totals.items() if np.isfinite(value[0])}


@dataclass(frozen=True)
class RunSettings:
    """How methods are made and their results taken."""

    encoding: ResultEncoding | None = None
    """Of results in folders."""
    device: str = "auto"
    """For networks."""
    resize: bool = False
    """Take results of another size, where the protocol does."""


def run_benchmark(
    benchmark: Benchmark,
    methods: Mapping[str, str],
    settings: RunSettings | None = None,
    *,
    processes: int = 1,
    progress: Progress | None = None,
    unfinished: Unfinished | None = None,
) -> dict[str, MethodResult]:
    """Return what comes of methods, by name, on all cases of a benchmark.

    `methods` are as the command line has them (`methods.py`). `unfinished` has the first cases of an interrupted run,
    and keeps what is found. ValueError where a method is none, or where the set is empty.
    """
    settings = settings or RunSettings()
    if not 1 <= processes <= MOST_PROCESSES:
        raise ValueError(f"{processes} processes cannot be; give 1, or as many as there are cores")
    for stated in methods.values():
        method = method_of(stated, encoding=settings.encoding, device=settings.device)
        if isinstance(method, NetworkMethod):
            method.load()  # a file that is no network is better known now than said of every picture
    if settings.resize and not benchmark.resizes:
        raise ValueError(f"{benchmark.name}: its protocol knows no resizing; leave --resize out")
    ids = list(benchmark.ids)
    if not ids:
        raise ValueError(f"{benchmark.place}: has nothing for {benchmark.name}; give the folder that the set lies in")
    results = unfinished.results if unfinished else {name: MethodResult() for name in methods}
    before = unfinished.count if unfinished else 0
    try:
        for done, (case_id, trials) in enumerate(_trials(benchmark, ids[before:], methods, settings, processes), 1):
            for name, trial in trials.items():
                results[name].add(case_id, trial, benchmark.main_key, lower_is_better=benchmark.lower_is_better)
            if unfinished:
                unfinished.note()
            if progress:
                progress(before + done, len(ids))
    finally:
        if unfinished:
            unfinished.write()
    return results


_Trials = tuple[str, dict[str, Trial]]


def _trials(
    benchmark: Benchmark, ids: list[str], methods: Mapping[str, str], settings: RunSettings, processes: int
) -> Iterator[_Trials]:
    """Yield what comes of each case, in order."""
    if processes < 2:
        _begin(benchmark, dict(methods), settings)
        yield from map(_tried_case, ids)
        return
    # Not forked: a fork of a process in which torch has threads can hang.
    context = multiprocessing.get_context("spawn")
    start = partial(_begin, benchmark, dict(methods), settings)
    with ProcessPoolExecutor(processes, mp_context=context, initializer=start) as pool:
        yield from pool.map(_tried_case, ids)


_state: dict[str, Any] = {}
"""What a process works with: made once, since a method may be a network to load."""


def _begin(benchmark: Benchmark, methods: dict[str, str], settings: RunSettings) -> None:
    options: dict[str, Any] = {"encoding": settings.encoding, "device": settings.device, "parts": benchmark.needs}
    made = {name: method_of(stated, **options) for name, stated in methods.items()}
    _state.update(benchmark=benchmark, methods=made, settings=settings)


def _tried_case(case_id: str) -> _Trials:
    benchmark: Benchmark = _state["benchmark"]
    try:
        case = benchmark.read(case_id)
    except Exception as error:  # whatever is wrong with one case, the others are still done, and this one is named
        return case_id, dict.fromkeys(_state["methods"], Trial(None, _reason(error, case_id)))
    return case_id, {n: tried(benchmark, case, m, _state["settings"]) for n, m in _state["methods"].items()}


def tried(benchmark: Benchmark, case: Case, method: Method, settings: RunSettings) -> Trial:
    """Return what comes of a method on a case; whatever it raises is the reason for skipping it."""
    start = time.perf_counter()
    try:
        given = [method(picture) for picture in case.pictures]
        seconds = time.perf_counter() - start
        splits = [
            checked_split(split, picture, benchmark.needs, resize=settings.resize)
            for split, picture in zip(given, case.pictures, strict=True)
        ]
        outcome = benchmark.score(case, splits)
        odd = [key for key, value in outcome.scores.items() if not np.isfinite(value)]
        if odd:
            raise ValueError(f"{case.id}: {odd[0]} is no finite number; look at the result")
    except Exception as error:  # as above
        return Trial(None, _reason(error, case.id))
    return Trial(outcome, "", _is_resized(given, case), seconds, row_of(case, splits))


def _is_resized(given: list[Split], case: Case) -> bool:
    sizes = [(p.image.shape[:2], part) for p, split in zip(case.pictures, given, strict=True) for part in split]
    return any(part is not None and part.shape[:2] != size for size, part in sizes)


def _reason(error: Exception, case_id: str) -> str:
    """Return one line that says what was wrong and with which case.

    What is no ValueError was not foreseen, and says what it is.
    """
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
    return text if re.search(rf"(^|/){re.escape(case_id)}\b", text) else f"{case_id}: {text}"
