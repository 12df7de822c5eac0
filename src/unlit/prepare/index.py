"""What a prepared dataset holds and where it came from: `dataset.json`, and what is kept beside it for later runs."""

from __future__ import annotations

import fcntl
import io
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlit.prepare.camera import cameras, splits
from unlit.prepare.pipeline import Outcome
from unlit.prepare.report import page
from unlit.prepare.source import Source, printable
from unlit.prepare.writing import VERSION, clear_leftovers, write_json, write_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEPT = ".prepared"
"""Folder for sections of the report and fields of views."""


def place_of(source: Source) -> str:
    """Return where a source lies, from wherever it was named, as it is written down."""
    return printable(source.place.resolve())


@dataclass(frozen=True)
class Entry:
    """A source in `dataset.json`."""

    name: str
    place: str
    fingerprint: str
    sequences: tuple[str, ...] = ()
    frames: tuple[int, int] = (0, 0)
    """Looked at, kept."""
    refused: str | None = None
    is_final: bool = False
    warnings: tuple[str, ...] = ()


@dataclass
class Index:
    """A dataset's folder and what is in it."""

    out: Path
    entries: dict[str, Entry] = field(default_factory=dict)
    cameras: dict[str, str] = field(default_factory=dict)
    """Of each sequence."""
    splits: dict[str, str] = field(default_factory=dict)
    """Of each sequence."""

    @classmethod
    def opened(cls, out: Path) -> Index:
        """Return what a folder holds, or an empty index for a new one. ValueError where it is something else."""
        file = out / "dataset.json"
        index = cls(out)
        if not file.is_file():
            strange = [p for p in out.iterdir() if p.name[0] != "." and p.name != "sequences"] if out.is_dir() else []
            if strange:
                raise ValueError(f"{out}: is not empty, and no dataset is in it; choose another folder")
            return index
        try:
            stated = json.loads(file.read_text(encoding="utf-8"))
            for entry in stated["sources"]:
                known = Entry(**entry)
                index.entries[known.name] = known
            for one in stated["sequences"]:
                index.cameras[one["name"]], index.splits[one["name"]] = one["camera"], one["split"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{file}: was not written by `unlit prepare` ({error!r}); choose another folder"
            ) from error
        return index

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the folder: two runs at once would each forget what the other did."""
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            file = (self.out / ".lock").open("w")
        except OSError as error:
            raise ValueError(f"{self.out}: cannot be written to ({error.strerror}); choose another place") from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ValueError(f"{self.out}: another process is preparing here; wait for it") from error
            for folder in (self.out, self.out / "sequences", self.out / _KEPT):
                clear_leftovers(folder)
            yield

    def is_done(self, source: Source, fingerprint: str) -> bool:
        """Return whether a source was prepared with this fingerprint, and all of it is still there."""
        known = self.entries.get(source.name)
        if known is None or known.fingerprint != fingerprint or not known.is_final:
            return False
        return all((self.folder(name) / "sequence.json").is_file() for name in known.sequences)

    def folder(self, name: str) -> Path:
        """Return where a sequence lies."""
        return self.out / "sequences" / name

    def add(self, source: Source, fingerprint: str, outcome: Outcome) -> None:
        """Note what became of a source; the dataset on disk says so when this returns."""
        before = self.entries.get(source.name)
        if before is not None and outcome.refused and not outcome.is_final:
            # The disk was full, say: what an earlier run made of the source is still there, and is better than nothing.
            self.entries[source.name] = replace(before, refused=outcome.refused, is_final=False)
            self.write()
            return
        (self.out / _KEPT).mkdir(exist_ok=True)
        for name, packed in zip(outcome.sequences, outcome.fields, strict=True):
            self._save_field(name, packed)
        write_text(self._section(source.name), outcome.section)
        self.entries[source.name] = Entry(
            source.name,
            place_of(source),
            fingerprint,
            outcome.sequences,
            outcome.counts,
            outcome.refused,
            outcome.is_final,
            outcome.warnings,
        )
        self.write()
        for name in set(before.sequences if before else ()) - set(outcome.sequences):
            shutil.rmtree(self.folder(name), ignore_errors=True)

    def take_back(self, source: Source, outcome: Outcome) -> None:
        """Remove what was made of a source and could not be noted."""
        for name in outcome.sequences:
            shutil.rmtree(self.folder(name), ignore_errors=True)
            (self.out / _KEPT / f"{name}.npy").unlink(missing_ok=True)
        self._section(source.name).unlink(missing_ok=True)
        self.entries.pop(source.name, None)

    def lost(self) -> list[str]:
        """Forget sequences that somebody removed, and return a line for each source that had them."""
        lines = []
        for entry in list(self.entries.values()):
            there = tuple(name for name in entry.sequences if (self.folder(name) / "sequence.json").is_file())
            if len(there) < len(entry.sequences):
                gone = ", ".join(sorted(set(entry.sequences) - set(there)))
                lines.append(f"{entry.place}: {gone} of it is gone from the dataset; give it again to prepare it anew")
                self.entries[entry.name] = replace(entry, sequences=there, fingerprint="")
        return lines

    def divide(self, *, validation: float, test: float) -> None:
        """Say of every sequence which camera it comes from and what it is for."""
        source_of = {name: entry.name for entry in self.entries.values() for name in entry.sequences}
        names = sorted(source_of)
        fields = {name: packed for name in names if (packed := self._load_field(name)) is not None}
        self.cameras = cameras(names, source_of, fields, self.cameras)
        known = {self.cameras[name]: split for name, split in self.splits.items() if name in self.cameras}
        self.splits = splits(self.cameras, known, validation=validation, test=test)
        self.write()

    def write(self) -> None:
        """Write `dataset.json`."""
        sequences = [
            {
                "name": name,
                "folder": f"sequences/{name}",
                "split": self.splits.get(name, "train"),
                "camera": self.cameras.get(name, entry.name),
            }
            for entry in self.entries.values()
            for name in entry.sequences
        ]
        sources = [asdict(entry) for entry in self.entries.values()]
        write_json(self.out / "dataset.json", {"version": VERSION, "sequences": sequences, "sources": sources})

    @property
    def report(self) -> Path:
        """Where the report page lies."""
        return self.out / "report.html"

    def write_report(self) -> None:
        """Write the report page."""
        sections = [
            self._section(name).read_text(encoding="utf-8") for name in self.entries if self._section(name).is_file()
        ]
        sources: list[dict[str, Any]] = [asdict(entry) for entry in self.entries.values()]
        write_text(self.report, page(f"Prepared: {self.out.name}", sources, sections, self.splits))

    def _section(self, source: str) -> Path:
        return self.out / _KEPT / f"{source}.html"

    def _save_field(self, name: str, packed: NDArray[np.int8]) -> None:
        content = io.BytesIO()  # on a full disk np.save does not say why it failed
        np.save(content, packed, allow_pickle=False)
        (self.out / _KEPT / f"{name}.npy").write_bytes(content.getvalue())

    def _load_field(self, name: str) -> NDArray[np.int8] | None:
        try:
            packed: NDArray[np.int8] = np.load(self.out / _KEPT / f"{name}.npy", allow_pickle=False)
        except (OSError, ValueError):  # it only helps to know a camera again
            return None
        return packed
