"""What `unlit decompose` does: every photograph and video that it is given, one line for each that cannot be done.

Nothing heavy is imported at the top: while torch is on its way, which takes longer than many a photograph, a first file
is read already.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlit.image_io import Encoding, FailedImageError, check_image
from unlit.image_io.encoding import by_option
from unlit.predict.camera import is_camera_file
from unlit.predict.files import PHOTO_SUFFIXES, Job, find_jobs
from unlit.predict.results import check_free, checked_bits, checked_encoding, planned, planned_video
from unlit.predict.source import Photo, opened

if TYPE_CHECKING:
    from rich.progress import Progress

    from unlit.predict.network import Precision
    from unlit.predict.results import Format
    from unlit.predict.small import Small

    Early = Future[tuple[Photo, Small]]

DONE, FAILED, WRONG = 0, 1, 2
"""Exit codes."""


@dataclass(frozen=True)
class Options:
    """What the command line says of every file alike; the fields are described there."""

    format: Format
    encoding: Encoding | None
    bits: int | None
    layers: bool
    preview: bool
    input_encoding: Encoding | None
    exact: bool
    weights: Path | None
    device: str
    size: int
    detail: int | None
    precision: Precision
    compiled: bool
    force: bool
    quiet: bool


def decompose_sources(sources: Sequence[Path], out: Path, options: Options, *, recursive: bool) -> int:
    """Decompose all that `sources` name into `out`, and return the exit code."""
    if not sources:
        raise ValueError("there is nothing to decompose; name photographs, videos or folders of them")
    _check_folder(out)
    checked_bits(options.format, options.bits, layers=options.layers)
    checked_encoding(options.format, options.encoding, layers=options.layers)
    if options.weights is not None and not options.weights.exists():
        raise ValueError(f"{options.weights}: does not exist; check the name, or leave --weights out")
    found, wrong = find_jobs(sources, out, recursive=recursive)
    jobs = [*_possible(found, options, wrong)]
    photos = [job for job in jobs if not job.is_video]
    reading = _being_read(photos[0], options) if len(photos) == 1 else {}
    outcome = _Outcome(options.quiet)
    for error in wrong:
        outcome.tell(error)
    if jobs:
        _decompose(jobs, options, outcome, reading)
    outcome.say(_ending(found, out, outcome.done))
    return outcome.code


def _possible(jobs: list[Job], options: Options, wrong: list[ValueError]) -> Iterator[Job]:
    """Yield the jobs but for those that are known to fail, before torch and the network are loaded in vain."""
    for job in jobs:
        try:
            if not options.force:
                check_free(_results(job, options))
            # Of many in a folder some will do; a file that is named alone, or with an odd suffix, may well be none.
            is_doubtful = len(jobs) == 1 or job.source.suffix.lower() not in PHOTO_SUFFIXES
            if is_doubtful and not (job.is_video or is_camera_file(job.source)):
                check_image(job.source)
            yield job
        except ValueError as error:
            wrong.append(error)


def _results(job: Job, options: Options) -> list[Path]:
    """Return the files that must not be there yet; what a photograph's JSON file says is known only to the network."""
    if job.is_video:
        return planned_video(job.folder, job.stem)
    return planned(job.folder, job.stem, options.format, layers=options.layers, with_preview=options.preview)[:-1]


def _ending(jobs: list[Job], out: Path, done: int) -> str:
    if len(jobs) > 1:
        return f"{done} of {len(jobs)} done: {out}"
    return f"{jobs[0].folder / jobs[0].stem}.unlit.json says what was written" if jobs and done else ""


def _being_read(job: Job, options: Options) -> dict[Path, Future[Photo]]:
    """Begin to read the only photograph, in a thread of its own."""
    pool = ThreadPoolExecutor(1)
    reading = {job.source: pool.submit(opened, job.source, options.input_encoding)}
    pool.shutdown(wait=False)
    return reading


def _made_small(reading: dict[Path, Future[Photo]], options: Options) -> dict[Path, Early]:
    """Begin to make small what is being read, in a thread of its own, while weights are loaded.

    Only when torch is there: a thread that imports it after another was interrupted at that ends in a crash.
    """
    from unlit.predict.small import small_picture

    def begun(waiting: Future[Photo]) -> tuple[Photo, Small]:
        photo = waiting.result()
        return photo, small_picture(photo.pixels, photo.alpha, options.size, options.detail)

    pool = ThreadPoolExecutor(1)
    early = {source: pool.submit(begun, waiting) for source, waiting in reading.items()}
    pool.shutdown(wait=False)
    return early


def _decompose(jobs: list[Job], options: Options, outcome: _Outcome, reading: dict[Path, Future[Photo]]) -> None:
    # Threads that wait for one another sleep: on a busy machine those that turn in circles take the other's time.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with _uncollected():
        from unlit.predict.many import Saving, decompose_files
        from unlit.predict.predictor import Predictor

    early = _made_small(reading, options)
    predictor = Predictor(
        options.weights,
        device=options.device,
        size=options.size,
        detail=options.detail,
        precision=options.precision,
        compiled=options.compiled,
    )
    saving = Saving(options.format, options.encoding, options.bits, options.layers, options.preview, options.force)
    photos, videos = ([job for job in jobs if job.is_video == kind] for kind in (False, True))
    with _progress(options.quiet) as bar:
        task = bar.add_task("photographs", total=len(photos), visible=bool(photos))

        def told(_: Job, error: Exception | None) -> None:
            bar.advance(task)
            if error is None:
                outcome.done += 1
            else:
                outcome.tell(error, bar)

        decompose_files(
            predictor,
            photos,
            saving,
            told,
            input_encoding=options.input_encoding,
            exact=options.exact,
            early=early,
        )
        for job in videos:
            _decompose_video(job, predictor, options, outcome, bar)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Import without looking for garbage again and again, of which there is none: a tenth of torch's time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _decompose_video(job: Job, predictor: Any, options: Options, outcome: _Outcome, bar: Progress) -> None:
    from unlit.predict.video import decompose_video

    task = bar.add_task(job.source.name.replace("[", r"\["), total=None)
    try:
        decompose_video(
            predictor,
            job.source,
            job.folder,
            job.stem,
            force=options.force,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        outcome.done += 1
    except (ValueError, OSError, RuntimeError) as error:
        outcome.tell(error, bar)


class _Outcome:
    """Says what goes wrong, one line each, and remembers how the command is to end."""

    def __init__(self, quiet: bool) -> None:
        self.code, self.done = DONE, 0
        self._quiet = quiet

    def tell(self, error: BaseException, bar: Progress | None = None) -> None:
        """Say what was wrong with one file."""
        is_wrong = isinstance(error, ValueError) and not isinstance(error, FailedImageError)
        self.code = max(self.code, WRONG) if is_wrong else FAILED if self.code == DONE else self.code
        text = by_option((str(error) or type(error).__name__).splitlines()[0], "--input-encoding")
        self._print(f"unlit: {text}" if is_wrong else f"unlit: failed: {text}", bar)

    def say(self, text: str) -> None:
        """Say something that is not wrong, if it is something."""
        if text and not self._quiet:
            print(text, file=sys.stderr)

    def _print(self, text: str, bar: Progress | None) -> None:
        if bar is not None and not self._quiet:
            bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr)


def _progress(quiet: bool) -> Progress:
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True, quiet=quiet), transient=True)


def _check_folder(out: Path) -> None:
    """Refuse, before any work, a place where results cannot go."""
    existing = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ValueError(f"{existing} is not a folder; choose another place for the results")
    if not os.access(existing, os.W_OK):
        raise ValueError(f"{existing} may not be written to; choose another place for the results")
