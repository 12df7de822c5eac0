"""What the user names becomes sources: videos, folders of pictures or of such folders, text files that list them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path

from unlit.prepare.settings import PrepareSettings
from unlit.prepare.source import PICTURE_SUFFIXES, Source, SourceError, picture_time
from unlit.video_io import VIDEO_SUFFIXES

_LIST_SUFFIXES = (".txt", ".list")


class EmptyFolderError(SourceError):
    """A folder has nothing to prepare."""


@dataclass(frozen=True)
class Refusal:
    """What cannot be prepared, or not wholly: one line each."""

    place: Path
    reason: str


Found = Iterator["Source | Refusal"]


@dataclass
class _Search:
    """What is the same for all places: the settings, the dataset's own folder, folders that were entered."""

    settings: PrepareSettings
    out: Path | None
    entered: set[Path] = field(default_factory=set)


def find_sources(
    places: Iterable[Path], settings: PrepareSettings, out: Path | None = None
) -> tuple[list[Source], list[Refusal]]:
    """Return the sources in `places`, under names that are each theirs alone, and what is none.

    `out` is the folder of the dataset that they are for: what lies in it is no source.
    """
    found: dict[tuple[Path, ...], Source] = {}
    refused: list[Refusal] = []
    for place in places:
        search = _Search(settings, None if out is None else out.resolve())
        for one in _guarded(place, lambda p=place, s=search: _sources(p, s)):  # type: ignore[misc]  # mypy loses p, s
            if isinstance(one, Refusal):
                refused.append(one)
            else:  # named twice is prepared once
                found.setdefault(tuple(path.resolve() for path in one.files), one)
    return _named_apart(list(found.values())), refused


def _guarded(place: Path, find: Callable[[], Found]) -> Found:
    """Yield what `find` finds, and as the last what was wrong."""
    try:
        yield from find()
    except SourceError as error:
        yield Refusal(place, str(error))
    except OSError as error:
        yield Refusal(place, f"{place}: cannot be read ({error.strerror}); check its name and permissions")


def _sources(place: Path, search: _Search) -> Found:
    if not place.exists():
        raise SourceError(f"{place}: does not exist; check the name")
    if search.out is not None and place.resolve().is_relative_to(search.out):
        raise SourceError(f"{place}: lies in the dataset that is being written; give what that was made from")
    if place.is_dir():
        yield from _in_folder(place, search)
    elif not place.is_file():
        raise SourceError(f"{place}: is neither a file nor a folder; give a video or a folder of pictures")
    elif place.suffix.lower() in _LIST_SUFFIXES:
        yield from _listed(place, search)
    elif place.suffix.lower() in PICTURE_SUFFIXES:
        raise SourceError(f"{place}: is a single picture; give the folder of all frames of its view")
    else:  # whatever its suffix: FFmpeg knows by its content
        yield Source(_plain(place.stem), place)


def _in_folder(folder: Path, search: _Search) -> Found:
    """Yield the pictures of a folder as one source; where it has none, its videos and its folders' sources."""
    search.entered.add(folder.resolve())
    entries = sorted((p for p in folder.iterdir() if not p.name.startswith(".")), key=natural_order)
    pictures = [p for p in entries if p.suffix.lower() in PICTURE_SUFFIXES and p.is_file()]
    if pictures:
        yield _of_pictures(folder, pictures, search.settings)
        return
    found = [one for place in entries for one in _inside(place, search)]
    if not found:
        raise EmptyFolderError(f"{folder}: has neither pictures nor videos; give the folder that holds the frames")
    yield from found


def _inside(place: Path, search: _Search) -> Found:
    """Yield what is in a folder's folder, or its video; beside those there may be anything."""
    if place.is_dir():
        if place.resolve() not in search.entered | {search.out}:  # links may lead round in a circle
            yield from _guarded(place, lambda: _if_any(place, search))
    elif place.suffix.lower() in VIDEO_SUFFIXES and place.is_file():
        yield Source(_plain(place.stem), place)


def _if_any(folder: Path, search: _Search) -> Found:
    try:
        yield from _in_folder(folder, search)
    except EmptyFolderError:
        return


def _of_pictures(place: Path, pictures: list[Path], settings: PrepareSettings) -> Source:
    """Return pictures as a source, masks beside them as masks."""
    masks = {p.with_suffix("").name: p for p in pictures if p.stem == "mask" or p.stem.endswith("_mask")}
    frames = [p for p in pictures if p.stem not in masks]
    if len(frames) < 2:
        raise SourceError(f"{place}: has {len(frames)} picture(s); a sequence needs {settings.min_frames}")
    if settings.order == "time":
        frames = _by_time(place, frames)
    beside = tuple(masks.get(f"{p.stem}_mask", masks.get("mask")) for p in frames) if masks else ()
    # The release of BigTime keeps the frames of `0001` in `0001/data`.
    folder = place.resolve() if place.is_dir() else place.with_suffix("")
    name = folder.parent.name if folder.name == "data" and place.is_dir() else folder.name
    return Source(_plain(name), place, tuple(frames), beside)


def _by_time(place: Path, frames: list[Path]) -> list[Path]:
    times = {path: picture_time(path) for path in frames}
    without = [path.name for path, time in times.items() if time is None]
    if without:
        raise SourceError(f"{place}: {without[0]} has no time in its EXIF data; use --order name")
    return sorted(frames, key=lambda path: (times[path] or 0.0, natural_order(path)))


def _listed(file: Path, search: _Search) -> Found:
    """Yield what a text file lists, a path a line: its pictures as one source, folders and videos each as theirs."""
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise SourceError(f"{file}: is not a text file (UTF-8); list one path a line") from error
    paths = [file.parent / line for line in lines if line and not line.startswith("#")]
    if not paths:
        raise SourceError(f"{file}: lists nothing; list one path a line")
    pictures = [path for path in paths if path.suffix.lower() in PICTURE_SUFFIXES and _is_file(path)]
    if pictures:
        beside = {p for path in pictures for p in path.parent.glob(f"{escape(path.stem)}_mask.*") if p not in pictures}
        yield from _guarded(file, lambda: iter([_of_pictures(file, [*pictures, *sorted(beside)], search.settings)]))
    for path in paths:
        if path not in pictures:
            yield from _guarded(path, lambda path=path: _of_a_line(file, path, search))  # type: ignore[misc]  # as above


def _of_a_line(file: Path, path: Path, search: _Search) -> Found:
    if "\0" in str(path) or not path.exists():
        line = str(path).replace("\0", "\\0")
        raise SourceError(f"{file}: lists {line}, which does not exist; paths start from the list's own folder")
    if path.suffix.lower() in _LIST_SUFFIXES and path.is_file():
        raise SourceError(f"{file}: lists {path}, which is a list itself; name all lists on the command line")
    yield from _sources(path, search)


def _is_file(path: Path) -> bool:
    return "\0" not in str(path) and path.is_file()


def natural_order(path: Path) -> list[tuple[int, str]]:
    """Return a key that sorts runs of digits by their number."""
    return [(int(run), "") if run.isdecimal() else (-1, run) for run in re.split(r"(\d+)", path.name)]


def _plain(name: str) -> str:
    """Return a name that can be a folder's anywhere."""
    printable = os.fsencode(name).decode(errors="replace")
    return re.sub(r"[^\w.+-]+", "-", printable).strip(".- ") or "source"


def _named_apart(sources: list[Source]) -> list[Source]:
    """Return the sources with the name of the folder above put before names that several have."""
    names = [source.name for source in sources]
    named, taken = [], set()
    for source in sources:
        name = source.name
        if names.count(name) > 1:
            name = _plain(f"{source.place.resolve().parent.name}-{name}")
        base, k = name, 2
        while name.lower() in taken:
            name, k = f"{base}-{k}", k + 1
        taken.add(name.lower())
        named.append(replace(source, name=name))
    return named
