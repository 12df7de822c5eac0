"""Datasets: which sequences there are to learn from, and how each is read.

A dataset is any of: a prepared folder (`dataset.json`), a folder of shards, the MIT set as it is distributed, a folder
of folders of frames, or one such folder. Sequences stay whole. What cannot be used is named and counted, and the rest
goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor

from unlit.data.sequence import Sequence, SequenceError, load_sequence
from unlit.data.shards import ShardReader, holds_shards
from unlit.data.truth import Truth, load_truth
from unlit.image_io import WRITABLE_SUFFIXES, Encoding, read_image

if TYPE_CHECKING:
    import os

VERSION = 1
MIT_LIGHTS = "light*"
"""The MIT set has one picture for each lamp; the others of a folder are other pictures of the object, or truth."""

MIT_PICTURE = "diffuse.png"
"""The object without highlights, in ordinary light: what methods are given, and no truth."""

MIT_LIGHTS_AND_INPUT = "[ld]i[gf]*"
"""The lamps and `diffuse`, the picture whose shading is known."""

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@dataclass(frozen=True)
class Item:
    """A sequence as it is trained on."""

    sequence: Sequence
    truth: Truth | None = None
    one_light: bool = False
    """Each frame has one lamp of the same room, so that sums of frames are frames."""
    picture: Tensor | None = None
    """(3, h, w), linear: the same view in ordinary light, where it is wanted and there."""


@dataclass(frozen=True)
class Skipped:
    """A sequence, or a frame of one, that is not used, and why."""

    name: str
    reason: str


class Source(Protocol):
    """Where one sequence comes from."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def split(self) -> Split:
        """What it is for."""

    def read(self) -> Item:
        """Return the sequence; SequenceError or ImageError where that cannot be."""


@dataclass(frozen=True)
class MemorySource:
    """A sequence that is in memory already."""

    item: Item
    split: Split = "train"

    @property
    def name(self) -> str:
        """The sequence's."""
        return self.item.sequence.name

    def read(self) -> Item:
        """Return it."""
        return self.item


@dataclass(frozen=True)
class FolderSource:
    """A sequence in a folder of its own, or in a shard."""

    name: str
    folder: Path
    split: Split = "train"
    pattern: str = "*"
    encoding: Encoding | None = None
    """Of the frames, where their files do not say."""
    one_light: bool = False
    with_truth: bool = False
    picture: str | None = None
    """The file of a picture in ordinary light, where that is wanted."""
    reader: ShardReader | None = None
    """Where the folder is packed into a shard."""

    def read(self) -> Item:
        """Read frames that can be read, and the truth where it is wanted and known."""
        with self._folder() as folder:
            sequence = load_sequence(
                folder, pattern=self.pattern, encoding=self.encoding, min_frames=1, skip_unreadable=True
            )
            sequence = replace(sequence, name=self.name)
            size = (sequence.frames.shape[2], sequence.frames.shape[3])
            truth = load_truth(folder, sequence.frame_names, size) if self.with_truth else None
            one_light = self.one_light or _says_one_light(folder)
            picture = self._read_picture(folder, size)
        if len(sequence.frames) < 2 and truth is None:
            left_out = f" ({len(sequence.dropped)} left out)" if sequence.dropped else ""
            raise SequenceError(f"{self.name}: has a single frame{left_out}; a sequence needs 2")
        return Item(sequence, truth, one_light, picture)

    def _read_picture(self, folder: Path, size: tuple[int, int]) -> Tensor | None:
        if self.picture is None or not (folder / self.picture).is_file():
            return None
        pixels = read_image(folder / self.picture, encoding=self.encoding).pixels
        if pixels.shape[:2] != size:
            raise SequenceError(f"{folder / self.picture}: differs in size from the frames; copy the folder again")
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()

    def _folder(self) -> AbstractContextManager[Path]:
        return self.reader.folder(self.name) if self.reader else nullcontext(self.folder)


def _says_one_light(folder: Path) -> bool:
    """Return whether `sequence.json` says that each frame has one lamp."""
    path = folder / "sequence.json"
    return path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("one_light") is True


@dataclass(frozen=True)
class Dataset:
    """Sources of sequences, those that were refused at once, and where it all lies."""

    sources: tuple[Source, ...]
    skipped: tuple[Skipped, ...] = ()
    place: str = "memory"

    def part(self, split: Split) -> Dataset:
        """Return the sources that are for `split`."""
        return replace(self, sources=tuple(s for s in self.sources if s.split == split))

    @property
    def fingerprint(self) -> str:
        """A hash of names and sizes of all files: a run is resumed with the set that it began with."""
        return hashlib.sha256(
            "\n".join(_stamp(source) for source in self.sources).encode(errors="surrogateescape")
        ).hexdigest()[:16]


def _stamp(source: Source) -> str:
    """Return the name of a sequence, and what files it has where it has a folder of its own."""
    if not isinstance(source, FolderSource) or source.reader is not None:
        return source.name
    files = sorted(p for p in source.folder.rglob("*") if p.is_file())
    return "\n".join([source.name, *(f"{p.relative_to(source.folder)} {p.stat().st_size}" for p in files)])


def dataset_of(sequences: Iterable[Sequence], *, one_light: bool = False) -> Dataset:
    """Return sequences that are in memory as a dataset."""
    return Dataset(tuple(MemorySource(Item(s, None, one_light)) for s in sequences))


def open_dataset(
    path: str | os.PathLike[str],
    *,
    with_truth: bool = False,
    encoding: Encoding | None = None,
    one_light: bool = False,
    with_picture: bool = False,
) -> Dataset:
    """Return the dataset at `path`, without reading its pictures yet; see the module's head for what it may be.

    `encoding` is that of frames whose files do not say. `one_light` says that each frame has one lamp. `with_picture`
    reads what the MIT set has besides, each object in ordinary light.
    """
    path = Path(path)
    if not path.is_dir():
        raise SequenceError(f"{path}: is not a folder; give the folder of a dataset")
    skipped: tuple[Skipped, ...] = ()
    if (path / "dataset.json").is_file():
        found = _prepared(path, with_truth)
    elif holds_shards(path):
        reader = ShardReader(path)
        found = [FolderSource(name, path, with_truth=with_truth, reader=reader) for name in reader.names]
        skipped = tuple(Skipped("shards", damage) for damage in reader.damaged)
    elif _is_sequence(path):
        found = [_plain(path, with_truth)]
    else:
        found = [_plain(p, with_truth) for p in sorted(path.iterdir()) if p.is_dir() and not p.name.startswith(".")]
    if not found:
        why = f" ({skipped[0].reason})" if skipped else ""
        raise SequenceError(f"{path}: has no sequences{why}; give a prepared dataset, or a folder of folders of frames")
    stated = [replace(s, encoding=s.encoding or encoding, one_light=s.one_light or one_light) for s in found]
    if with_picture:
        stated = [replace(s, picture=MIT_PICTURE) if s.pattern == MIT_LIGHTS else s for s in stated]
    return Dataset(tuple(stated), skipped, str(path))


def _is_sequence(folder: Path) -> bool:
    return (folder / "sequence.json").is_file() or any(
        p.suffix.lower() in (*WRITABLE_SUFFIXES, ".bmp") for p in folder.iterdir() if p.is_file()
    )


def _plain(folder: Path, with_truth: bool) -> FolderSource:
    """Return a folder of frames; one of the MIT set is known by its files."""
    if (folder / "light01.png").is_file() and (folder / "mask.png").is_file():
        pattern = MIT_LIGHTS_AND_INPUT if with_truth else MIT_LIGHTS
        return FolderSource(folder.name, folder, "train", pattern, "linear", one_light=True, with_truth=with_truth)
    return FolderSource(folder.name, folder, with_truth=with_truth)


def _prepared(path: Path, with_truth: bool) -> list[FolderSource]:
    """Return the sequences that `dataset.json` names."""
    file = path / "dataset.json"
    try:
        stated: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if stated["version"] != VERSION:
            wrong = f"has version {stated['version']!r}, and only {VERSION} is known"
            raise SequenceError(f"{file}: {wrong}; update unlit or prepare the dataset again")
        return [_stated(path, entry, with_truth) for entry in stated["sequences"]]
    except SequenceError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
        what = f"lacks or misstates {error}" if isinstance(error, KeyError) else str(error)
        raise SequenceError(f"{file}: is damaged ({what}); prepare the dataset again") from error


def _stated(path: Path, entry: dict[str, Any], with_truth: bool) -> FolderSource:
    folder = Path(str(entry["folder"]))
    if folder.is_absolute() or ".." in folder.parts:
        raise SequenceError(f"{path / 'dataset.json'}: {folder} lies outside the dataset; name folders inside it")
    split = entry.get("split", "train")
    if split not in SPLITS:
        raise SequenceError(f"{path / 'dataset.json'}: split {split!r} is none of {', '.join(SPLITS)}; correct it")
    return FolderSource(str(entry["name"]), path / folder, split, with_truth=with_truth)


def stated_size(source: Source) -> tuple[int, int] | None:
    """Return the size (h, w) that a sequence's folder states, or None where its pictures must be asked."""
    if not isinstance(source, FolderSource) or source.reader is not None:
        return None
    try:
        stated = json.loads((source.folder / "sequence.json").read_text(encoding="utf-8"))["size"]
        h, w = int(stated["height"]), int(stated["width"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return (h, w) if h > 0 and w > 0 else None
