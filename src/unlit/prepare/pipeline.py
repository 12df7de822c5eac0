"""One source from its files to sequences on disk: watched, split into shots, placed, masked, written.

Two passes. The first looks at small copies of all frames and keeps none; the second reads the chosen frames only. So
memory depends on how many frames are kept and how large they are, not on how long a video is.
"""

from __future__ import annotations

import itertools
import shutil
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlit.image_io import ImageError
from unlit.masks.build import build_masks
from unlit.masks.by_hand import HandMaskError, hand_masks
from unlit.masks.semantic import SegmenterError
from unlit.prepare.placing import Placed, in_place, read_small_enough
from unlit.prepare.report import Page, sequence_section
from unlit.prepare.settings import PrepareSettings
from unlit.prepare.shot import Shot, choose_shots, runs, without_frames
from unlit.prepare.source import (
    FullFrame,
    Source,
    SourceError,
    Unreadable,
    count_estimate,
    full_frames,
    hand_place,
    printable,
    small_frames,
)
from unlit.prepare.view import Seen, Watcher
from unlit.prepare.writing import VERSION, appearing, union, write_frames, write_json, write_masks
from unlit.video_io import MissingPackageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MIN_VALID = 0.05
"""The share of a frame's pixels that must be left by its masks."""

Progress = Callable[[int, int | None, str], None]
"""Told how many steps are done, of how many where that is known, and what is being done."""


@dataclass(frozen=True)
class Job:
    """What there is to do for a source."""

    source: Source
    out: Path
    """The dataset's folder."""
    settings: PrepareSettings
    without: tuple[str, ...] = ()
    """Kinds of masks that are made but do not count."""
    fingerprint: str = ""
    taken: frozenset[str] = frozenset()
    """Names in lower case that other sources and their sequences have."""
    threads: int = 1
    """For a source that is prepared alone: decoding, placing and writing use as many."""


@dataclass(frozen=True)
class Outcome:
    """What became of a source."""

    sequences: tuple[str, ...] = ()
    refused: str | None = None
    """One line, where nothing could be made of it."""
    is_final: bool = False
    """Whether trying again would find the same: what is wrong lies in the pictures, not in the disk."""
    warnings: tuple[str, ...] = ()
    """One line each."""
    counts: tuple[int, int] = (0, 0)
    """Frames looked at, frames kept."""
    fields: tuple[NDArray[np.int8], ...] = ()
    """For each sequence its view as a field of orientations (2, h, w), to know the camera again."""
    section: str = ""
    """Its part of the report, HTML."""


def prepare_source(job: Job, progress: Progress) -> Outcome:
    """Prepare one source; what goes wrong with it is told in the outcome, in one line each."""
    outcome = _prepared(job, progress)
    refused = None if outcome.refused is None else printable(outcome.refused)
    return replace(outcome, refused=refused, warnings=tuple(map(printable, outcome.warnings)))


def _prepared(job: Job, progress: Progress) -> Outcome:
    warnings: list[str] = []
    try:
        watcher, unreadable = _watched(job, progress, warnings)
        shots, reasons = choose_shots(job.source, watcher, job.settings)
        reasons |= {item.index: f"cannot be read: {item.reason}" for item in unreadable}
        _warn_of_sizes(job, reasons, warnings)
        return _written(job, watcher, shots, reasons, warnings, progress)
    except SourceError as error:
        return Outcome(refused=str(error), is_final=True, warnings=tuple(warnings))
    except (MissingPackageError, SegmenterError) as error:
        return Outcome(refused=f"{job.source.place}: {error}", warnings=tuple(warnings))
    except (ImageError, HandMaskError, OSError, MemoryError) as error:
        cause = error.__cause__ if str(error).startswith(str(job.out)) else None  # a file that could not be written
        wrong = cause if isinstance(cause, OSError) else error
        reason = str(wrong) if isinstance(wrong, ValueError) else _in_words(job, wrong)
        return Outcome(refused=reason, warnings=tuple(warnings))
    except Exception as error:  # a fault in this program: it is told, and does not cost the other sources
        reason = f"{job.source.place}: failed ({error!r}, {_where(error)}); leave it out, and report this"
        return Outcome(refused=reason, warnings=tuple(warnings))


def _where(error: Exception) -> str:
    """Return the line that an exception comes from."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


def _in_words(job: Job, error: OSError | MemoryError) -> str:
    if isinstance(error, MemoryError):
        return f"{job.source.place}: takes more memory than is free; lower --max-megapixels or --max-frames"
    where = job.out if not error.filename or str(error.filename).startswith(str(job.out)) else error.filename
    return f"{job.source.place}: cannot be prepared ({where}: {error.strerror}); make room or check permissions"


def _watched(job: Job, progress: Progress, warnings: list[str]) -> tuple[Watcher, list[Unreadable]]:
    """Look at all frames that can be read."""
    watcher = Watcher(job.settings)
    unreadable: list[Unreadable] = []
    total = count_estimate(job.source)
    try:
        for done, frame in enumerate(small_frames(job.source, job.settings, job.threads), 1):
            if isinstance(frame, Unreadable):
                unreadable.append(frame)
                watcher.seen.append(Seen(frame.index, frame.name, None, (0, 0), reason="unreadable"))
            else:
                watcher.watch(frame)
            progress(done, total, "looking")
    except ImageError as error:  # a video that breaks off: what came before is as good as any
        if not watcher.seen:
            raise
        warnings.append(f"{error} ({len(watcher.seen)} frames before that were looked at)")
    if unreadable:
        if len(unreadable) == len(watcher.seen):
            raise SourceError(f"{job.source.place}: no frame can be read, the first since {unreadable[0].reason}")
        more = f" ({len(unreadable)} of {len(watcher.seen)} frames cannot be read)" if len(unreadable) > 1 else ""
        warnings.append(unreadable[0].reason + more)
    return watcher, unreadable


def _warn_of_sizes(job: Job, reasons: dict[int, str], warnings: list[str]) -> None:
    sizes = [reason for reason in reasons.values() if " pixels, most have " in reason]
    if sizes:
        warnings.append(
            f"{job.source.place}: {len(sizes)} frame(s) of another size are left out (the first {sizes[0]})"
        )


def _written(
    job: Job,
    watcher: Watcher,
    shots: list[Shot],
    reasons: dict[int, str],
    warnings: list[str],
    progress: Progress,
) -> Outcome:
    """Write the sequences of all shots; they appear together, when the last is whole."""
    names: list[str] = []
    fields: list[NDArray[np.int8]] = []
    page = Page()
    kept = 0
    with ExitStack() as appearance:
        for k, (shot, name) in enumerate(zip(shots, _names(job, len(shots)), strict=True)):
            progress(k, len(shots), "writing")
            try:
                written, section = _write_shot(job, watcher, shot, reasons, name, appearance)
            except SourceError as error:
                warnings.append(str(error))
                continue
            page.sections.append(section)
            names.append(name)
            fields.append(watcher.packed_field(shot.view))
            kept += written
        if not names:
            raise SourceError(warnings.pop())
    counts = (len(watcher.seen), kept)
    return Outcome(tuple(names), None, True, tuple(warnings), counts, tuple(fields), page.html())


def _names(job: Job, count: int) -> list[str]:
    """Return the names of a source's sequences: its own for one, with numbers for several, none that another has."""
    if count == 1:
        return [job.source.name]
    numbered = (f"{job.source.name}-{k}" for k in itertools.count(1))
    return list(itertools.islice((name for name in numbered if name.lower() not in job.taken), count))


def _write_shot(
    job: Job, watcher: Watcher, shot: Shot, reasons: dict[int, str], name: str, appearance: ExitStack
) -> tuple[int, str]:
    """Write the sequence of a shot; return how many frames it has, and its section of the report."""
    settings = job.settings
    frames = full_frames(job.source, [seen.index for seen in shot.kept], settings.encoding, job.threads)
    drawn = None if settings.by_hand is None else hand_place(job.source, settings.by_hand)
    if drawn is not None:
        frames = _masked_by_hand(frames, shot, drawn)
    small_enough = read_small_enough(frames, 1e6 * settings.max_megapixels)
    scale = max(small_enough[0].pixels.shape[:2]) / max(shot.kept[0].size)
    placed = in_place(small_enough, [seen.motion.scaled(scale) for seen in shot.kept], job.threads)
    del small_enough
    with ExitStack() as own:
        folder = own.enter_context(appearing(job.out / "sequences" / name))
        with ThreadPoolExecutor(1) as aside:  # masks take one core, and leave another
            written = aside.submit(write_frames, folder, placed.frames, max(1, job.threads - 1))
            masks = build_masks(placed.frames_u8, settings.masks, borders=placed.borders, by_hand=placed.invalid)
            files = written.result()
        left = _with_enough_left(job, shot, placed, masks)
        if left[0] is not shot:
            shot, placed, masks = left
            shutil.rmtree(folder / "frames")
            files = write_frames(folder, placed.frames, job.threads)
        dropped = runs(watcher, {**_elsewhere(watcher, shot, name), **reasons, **shot.reasons})
        stated = _description(job, shot, placed, masks, name)
        entries = write_masks(folder, masks, job.without, job.threads)
        stated["frames"] = [
            {"name": seen.name, "file": file, **entry, **_frame_facts(seen, placed, k)}
            for k, (seen, file, entry) in enumerate(zip(shot.kept, files, entries, strict=True))
        ]
        stated["dropped"] = dropped
        write_json(folder / "sequence.json", stated)
        appearance.push(own.pop_all())
    return len(shot.kept), sequence_section(name, watcher, shot, placed, masks, dropped)


def _elsewhere(watcher: Watcher, shot: Shot, name: str) -> dict[int, str]:
    return {seen.index: f"of another view than {name}" for seen in watcher.seen if seen.view not in (None, shot.view)}


def _masked_by_hand(frames: Iterator[FullFrame], shot: Shot, place: Path) -> Iterator[FullFrame]:
    """Yield the frames less what a person left out, before they are moved: it was drawn over them as they are."""
    left_out = hand_masks(place, [seen.name for seen in shot.kept], shot.kept[0].size)
    for frame, drawn in zip(frames, left_out, strict=True):
        yield replace(frame, valid=~drawn if frame.valid is None else frame.valid & ~drawn)


def _with_enough_left(
    job: Job, shot: Shot, placed: Placed, masks: dict[str, NDArray[np.bool_]]
) -> tuple[Shot, Placed, dict[str, NDArray[np.bool_]]]:
    """Drop frames of which the masks leave nearly nothing."""
    left = 1 - union(masks, job.without).mean((1, 2)) if masks else np.ones(len(placed.frames))
    keep = np.flatnonzero(left >= _MIN_VALID)
    if len(keep) == len(left):
        return shot, placed, masks
    if len(keep) < job.settings.min_frames:
        wrong = f"masks leave {len(keep)} of {len(left)} chosen frames, and {job.settings.min_frames} are needed"
        raise SourceError(f"{job.source.place}: {wrong}; switch kinds of masks off with --without")
    gone = {shot.kept[k].index: "nearly all of it is masked" for k in range(len(left)) if k not in keep}
    kept = replace(
        placed,
        frames=tuple(placed.frames[k] for k in keep),
        frames_u8=placed.frames_u8[keep],
        borders=placed.borders[keep],
        motions=tuple(placed.motions[k] for k in keep),
    )
    return without_frames(shot, gone), kept, {kind: mask[keep] for kind, mask in masks.items()}


def _description(
    job: Job, shot: Shot, placed: Placed, masks: dict[str, NDArray[np.bool_]], name: str
) -> dict[str, Any]:
    h, w = placed.frames_u8.shape[1:3]
    is_float = placed.frames[0].dtype == np.float32
    return {
        "version": VERSION,
        "name": name,
        "encoding": "linear" if is_float else "srgb",
        "size": {"height": h, "width": w},
        "source": {
            "place": printable(job.source.place),
            "view": shot.view,
            "begins": shot.cause,
            "frames": len(shot.frames),
        },
        "masks": {"kinds": list(masks), "without": sorted(set(job.without) & set(masks))},
        "settings": asdict(job.settings),
        "fingerprint": job.fingerprint,
    }


def _frame_facts(seen: Seen, placed: Placed, k: int) -> dict[str, Any]:
    motion = placed.motions[k]
    facts = {
        "dx": round(motion.dx, 3),
        "dy": round(motion.dy, 3),
        "zoom": round(motion.zoom, 5),
        "turn": round(motion.turn, 6),
    }
    return {"index": seen.index, "time": seen.time, "motion": facts}
