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

from torch import Tensor
from torch.nn.functional import interpolate

from unlit.data.sequence import Sequence, SequenceError, load_sequence
from unlit.data.settings import DataSettings
from unlit.data.shards import ShardReader, holds_shards
from unlit.data.truth import Truth, load_truth
from unlit.image_io import WRITABLE_SUFFIXES, Encoding, ImageError

if TYPE_CHECKING:
    import os

VERSION = 1
MIT_LIGHTS = "light*"
"""The MIT set has one picture for each lamp; the others of a folder are other pictures of the object, or truth."""

LANDSCAPE, PORTRAIT, SQUARE = (256, 384), (384, 256), (256, 256)
ASPECT = 1.2247
"""The root of 1.5: wider pictures than this become landscape, narrower ones than its inverse portrait (the release)."""

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@dataclass(frozen=True)
class Item:
    """A sequence as it is trained on."""

    sequence: Sequence
    truth: Truth | None = None
    one_light: bool = False
    """Each frame has one lamp of the same room, so that sums of frames are frames."""


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
        if len(sequence.frames) < 2 and truth is None:
            left_out = f" ({len(sequence.dropped)} left out)" if sequence.dropped else ""
            raise SequenceError(f"{self.name}: has a single frame{left_out}; a sequence needs 2")
        return Item(sequence, truth, one_light)

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
        """A hash of the sequences' names in order: a run is resumed with the set that it began with."""
        return hashlib.sha256("\n".join(source.name for source in self.sources).encode()).hexdigest()[:16]


def dataset_of(sequences: Iterable[Sequence], *, one_light: bool = False) -> Dataset:
    """Return sequences that are in memory as a dataset."""
    return Dataset(tuple(MemorySource(Item(s, None, one_light)) for s in sequences))


def open_dataset(path: str | os.PathLike[str], *, with_truth: bool = False) -> Dataset:
    """Return the dataset at `path`, without reading its pictures yet; see the module's head for what it may be."""
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
    return Dataset(tuple(found), skipped, str(path))


def _is_sequence(folder: Path) -> bool:
    return (folder / "sequence.json").is_file() or any(
        p.suffix.lower() in (*WRITABLE_SUFFIXES, ".bmp") for p in folder.iterdir() if p.is_file()
    )


def _plain(folder: Path, with_truth: bool) -> FolderSource:
    """Return a folder of frames; one of the MIT set is known by its files."""
    if (folder / "light01.png").is_file() and (folder / "mask.png").is_file():
        return FolderSource(folder.name, folder, "train", MIT_LIGHTS, "linear", one_light=True, with_truth=with_truth)
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


def unclipped(item: Item) -> Item:
    """Return the item with the pixels masked that a camera clipped: some channel is white to the last bit.

    Here, before anything is resized or made darker: afterwards they look like any other. Floats beyond white are light.
    """
    mask = item.sequence.mask & (item.sequence.frames != 1).all(1, keepdim=True)
    if not bool(mask.any()):
        raise SequenceError(f"{item.sequence.name}: every valid pixel is clipped; take darker frames")
    return replace(item, sequence=replace(item.sequence, mask=mask))


def paper_size(h: int, w: int) -> tuple[int, int]:
    """Return the size to which the paper resizes a picture of h x w: by its aspect, one of three."""
    if w / h > ASPECT:
        return LANDSCAPE
    return PORTRAIT if h / w > ASPECT else SQUARE


def training_size(h: int, w: int, settings: DataSettings) -> tuple[int, int]:
    """Return the size at which a picture of h x w is kept for training."""
    if settings.window is None:
        return paper_size(h, w)
    shrink = min(1.0, settings.longest / max(h, w))
    return max(1, round(h * shrink)), max(1, round(w * shrink))


def stated_size(source: Source) -> tuple[int, int] | None:
    """Return the size (h, w) that a sequence's folder states, or None where its pictures must be asked."""
    if not isinstance(source, FolderSource) or source.reader is not None:
        return None
    try:
        stated = json.loads((source.folder / "sequence.json").read_text(encoding="utf-8"))["size"]
        return int(stated["height"]), int(stated["width"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def sized(item: Item, settings: DataSettings) -> Item:
    """Return the item at the size at which it is kept for training."""
    h, w = item.sequence.frames.shape[2:]
    size = training_size(h, w, settings)
    if size == (h, w):
        return item
    mask = resized(item.sequence.mask.float(), size) > 1 - 1e-3  # a pixel counts only if all that it covers does
    if not bool(mask.any()):
        raise SequenceError(f"{item.sequence.name}: its valid pixels are too scattered to be made smaller; skip it")
    keep = mask.flatten(1).any(1)
    if int(keep.sum()) < 2 and item.truth is None:
        raise SequenceError(f"{item.sequence.name}: a single frame has valid pixels left when made smaller; skip it")
    names = tuple(n for n, kept in zip(item.sequence.frame_names, keep.tolist(), strict=True) if kept)
    dropped = (*item.sequence.dropped, *(name for name in item.sequence.frame_names if name not in names))
    frames = resized(item.sequence.frames, size)[keep]
    sequence = replace(item.sequence, frames=frames, mask=mask[keep], frame_names=names, dropped=dropped)
    truth = None if item.truth is None else item.truth.frames(keep).resized(size)
    return Item(sequence, truth, item.one_light)


def resized(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Return images (m, c, h, w) of another size: means over areas where they shrink, else linear in between."""
    h, w = images.shape[-2:]
    if h >= size[0] and w >= size[1]:
        return interpolate(images, size, mode="area")
    return interpolate(images, size, mode="bilinear", align_corners=False, antialias=True)


def read_usable(source: Source, settings: DataSettings) -> Item | Skipped:
    """Return a source's item at its training size, or why it cannot be used."""
    try:
        return sized(unclipped(source.read()), settings)
    except (SequenceError, ImageError, OSError) as error:
        return Skipped(source.name, str(error))


def places_of(item: Item) -> Tensor:
    """Return (n, 2) on the CPU: rows and columns where at least one frame is valid."""
    return item.sequence.mask.any(0)[0].cpu().nonzero()
