"""A benchmark run that was interrupted: what it found so far, in one file, so that another can go on from there.

`unfinished.npz` lies where the report is to be. It is written every half a minute, and when the run ends in whatever
way; it goes when the report is there. Shapes: n cases; what they counted is stacked to (n, ...).
"""

from __future__ import annotations

import hashlib
import io
import json
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlit.evaluate.benchmark import Benchmark, Outcome
from unlit.evaluate.methods import NetworkMethod, method_of
from unlit.evaluate.report import commit
from unlit.evaluate.running import MethodResult, RunSettings
from unlit.evaluate.thumbnail import Row
from unlit.train.durable import replace_durably

FILE = "unfinished.npz"
EVERY = 30.0
"""Seconds from one writing to the next."""

Arrays = dict[str, NDArray[Any]]


def check_unfinished(folder: Path, *, resume: bool, force: bool) -> None:
    """Refuse to begin anew where a run was interrupted, and to go on where none was, unless forced."""
    if resume and force:
        raise ValueError("--resume and --force contradict each other; give one of them")
    if resume and not (folder / FILE).is_file():
        raise ValueError(f"{folder}: has no run that was interrupted; leave --resume out")
    if (folder / FILE).is_file() and not (resume or force):
        raise ValueError(f"{folder}: has a run that was interrupted; say --resume to go on, or --force to begin anew")


class Unfinished:
    """The results of a run while they are gathered."""

    def __init__(
        self, folder: Path, benchmark: Benchmark, methods: Mapping[str, str], settings: RunSettings, *, resume: bool
    ) -> None:
        """Begin anew, or with what is in `folder`; ValueError where that was another run."""
        self._path = folder / FILE
        self._run = _described(benchmark, methods, settings)
        self._time = time.monotonic()
        self.results = self._read() if resume else {name: MethodResult() for name in methods}
        self.kept = self.count
        """Of the cases that the file has."""

    @property
    def count(self) -> int:
        """Of the cases of which all results are there."""
        return min(result.count for result in self.results.values())

    def note(self) -> None:
        """Write the results if the last time was long ago."""
        if time.monotonic() - self._time > EVERY:
            self.write()

    def write(self) -> None:
        """Write what is there, if it is something."""
        # Interrupted between two methods, a case is half known; then the file stays as it was.
        if not self.count or any(result.count > self.count for result in self.results.values()):
            return
        arrays: Arrays = {}
        stated = [_stated(result, f"{k}", arrays) for k, result in enumerate(self.results.values())]
        content = io.BytesIO()
        text = np.array(json.dumps({"run": self._run, "results": stated}))
        np.savez(content, allow_pickle=False, stated=text, **arrays)
        with suppress(OSError):  # a full disk costs this file, not the run
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_durably(self._path, content.getvalue())
            self.kept = self.count
        self._time = time.monotonic()

    def remove(self) -> None:
        """Remove the file: the run is done."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, MethodResult]:
        try:
            with np.load(io.BytesIO(self._path.read_bytes()), allow_pickle=False) as file:
                arrays = dict(file)
            content = json.loads(str(arrays["stated"]))
            begun: dict[str, str] = content["run"]
            found = [_result(stated, f"{k}", arrays) for k, stated in enumerate(content["results"])]
        except Exception as error:  # NumPy, zipfile and zlib have many ways of saying that a file is damaged
            raise ValueError(f"{self._path}: is damaged; say --force in place of --resume to begin anew") from error
        different = [key for key in self._run if begun.get(key) != self._run[key]]
        if different:
            key = different[0]
            wrong = f"its {key} changed from {begun.get(key)} to {self._run[key]}"
            raise ValueError(f"{self._path}: {wrong}; resume it unchanged, or say --force to begin anew")
        return dict(zip(json.loads(self._run["methods"]), found, strict=True))


def _described(benchmark: Benchmark, methods: Mapping[str, str], settings: RunSettings) -> dict[str, str]:
    """Return what must be the same for results to stand in one report."""
    return {
        "benchmark": repr(benchmark),
        # By their names: what is kept is of the first of them.
        "set": f"{len(benchmark.ids)} images, {zlib.crc32(json.dumps(list(benchmark.ids)).encode()):08x}",
        "methods": json.dumps({name: f"{stated}{_fingerprint(stated, settings)}" for name, stated in methods.items()}),
        "encoding": str(settings.encoding),
        "resizing": str(settings.resize),
        "commit": commit(),
    }


def _fingerprint(stated: str, settings: RunSettings) -> str:
    """Return what tells weights from others of their name, the package's own too: their commit may be but "dirty"."""
    method = method_of(stated, encoding=settings.encoding, device=settings.device)
    if not isinstance(method, NetworkMethod):
        return ""
    from unlit.predict.network import DEFAULT_WEIGHTS  # torch comes with it, and networks need that anyway

    weights = method.weights or DEFAULT_WEIGHTS
    if not weights.is_file():
        return ""  # what is missing is told when it is loaded
    with weights.open("rb") as file:
        return f" sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _stated(result: MethodResult, key: str, arrays: Arrays) -> dict[str, Any]:
    """Return a result's numbers for JSON, having put its arrays into `arrays`."""
    outcomes = list(result.outcomes.values())
    for name in outcomes[0].counts if outcomes else ():
        arrays[f"{key}/counts/{name}"] = np.stack([outcome.counts[name] for outcome in outcomes])
    for k, (_, _, row) in enumerate(result.rows):
        arrays |= {f"{key}/rows/{k}/{name}": picture for name, picture in row.pictures.items()}
    return {
        "scores": {case_id: dict(outcome.scores) for case_id, outcome in result.outcomes.items()},
        "counts": list(outcomes[0].counts) if outcomes else [],
        "skipped": result.skipped,
        "resized": result.resized,
        "seconds": result.seconds,
        "rows": [(score, case_id, list(row.pictures)) for score, case_id, row in result.rows],
    }


def _result(stated: Mapping[str, Any], key: str, arrays: Arrays) -> MethodResult:
    """Return what `_stated` has written down."""
    counts = {name: arrays[f"{key}/counts/{name}"] for name in stated["counts"]}
    outcomes = {
        case_id: Outcome(scores, {name: table[k] for name, table in counts.items()})
        for k, (case_id, scores) in enumerate(stated["scores"].items())
    }
    rows = [
        (score, case_id, Row({name: arrays[f"{key}/rows/{k}/{name}"] for name in names}))
        for k, (score, case_id, names) in enumerate(stated["rows"])
    ]
    return MethodResult(outcomes, stated["skipped"], stated["resized"], stated["seconds"], rows)
