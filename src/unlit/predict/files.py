"""Which photographs and videos are meant, and what their results are called.

A file that is named is taken whatever its suffix; in a folder, files are taken by theirs. Results of earlier runs and
hidden files in a folder are left alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unlit.image_io import WRITABLE_SUFFIXES, ImageError
from unlit.predict.camera import HEIF_SUFFIXES, RAW_SUFFIXES
from unlit.video_io import VIDEO_SUFFIXES

PHOTO_SUFFIXES = frozenset((*WRITABLE_SUFFIXES, ".bmp", ".tga", ".gif", ".avif")) | RAW_SUFFIXES | HEIF_SUFFIXES
_RESULTS = ("reflectance", "shading", "preview", "unlit", "compare")
"""`<stem>.<one of these>.<ext>` is a result."""


@dataclass(frozen=True)
class Job:
    """A file and where its results go."""

    source: Path
    folder: Path
    stem: str

    @property
    def is_video(self) -> bool:
        """Whether the file is a video, by its suffix."""
        return self.source.suffix.lower() in VIDEO_SUFFIXES


def find_jobs(sources: Sequence[Path], out: Path, *, recursive: bool = False) -> tuple[list[Job], list[ValueError]]:
    """Return a job for each photograph and video, and what is wrong with the sources that give none.

    What lies in folders below a folder goes to folders of the same names below `out`. Where two files would give
    results of one name (`a.jpg` and `a.png`), theirs keep the suffix: `a.jpg.reflectance.png`.
    """
    found: dict[Path, Path] = {}
    wrong: list[ValueError] = []
    for source in sources:
        try:
            for path, folder in _expanded(source, out, recursive=recursive):
                found.setdefault(path, folder)
        except ImageError as error:
            wrong.append(error)
    # Names that differ by their letters' case alone are one name on some disks.
    uses = Counter((folder, path.stem.casefold()) for path, folder in found.items())
    jobs = [
        Job(path, folder, path.stem if uses[folder, path.stem.casefold()] == 1 else path.name)
        for path, folder in found.items()
    ]
    return [*_distinct(jobs, wrong)], wrong


def _distinct(jobs: list[Job], wrong: list[ValueError]) -> Iterator[Job]:
    """Yield the jobs but for those whose results would fall on another's: files of one name from two folders."""
    taken: dict[tuple[Path, str], Path] = {}
    for job in jobs:
        first = taken.setdefault((job.folder, job.stem.casefold()), job.source)
        if first == job.source:
            yield job
        else:
            wrong.append(ImageError(job.source, f"has the name of {first}", "give it an --out of its own"))


def _expanded(source: Path, out: Path, *, recursive: bool) -> Iterator[tuple[Path, Path]]:
    """Yield files and the folders for their results, in natural order."""
    if not source.exists():
        raise ImageError(source, "does not exist", "check the name")
    if not source.is_dir():
        yield source, out
        return
    count = 0
    for folder, below, names in os.walk(source):
        here = Path(folder)
        # Results of an earlier run may lie below the photographs.
        below[:] = sorted(n for n in below if not n.startswith(".") and not _same(here / n, out)) if recursive else []
        for name in sorted(names):
            if _is_wanted(path := here / name):
                count += 1
                yield path, out / here.relative_to(source)
    if not count:
        remedy = "give another folder" if recursive else "give another folder, or say --recursive"
        raise ImageError(source, "has no photographs or videos in it", remedy)


def _same(one: Path, other: Path) -> bool:
    return other.exists() and one.samefile(other)


def _is_wanted(path: Path) -> bool:
    if path.name.startswith(".") or Path(path.stem).suffix.removeprefix(".") in _RESULTS:
        return False
    return path.suffix.lower() in PHOTO_SUFFIXES | frozenset(VIDEO_SUFFIXES)
