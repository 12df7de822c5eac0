"""Sequences packed into WebDataset shards, and any one of them taken out again. shard_writing.py has the format."""

from __future__ import annotations

import errno
import json
import os
import re
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import IO
from urllib.parse import unquote_to_bytes

from unlit.data.sequence import Sequence, SequenceError, load_sequence
from unlit.data.shard_writing import DESCRIPTION, INDEX, VERSION, stated_name_and_files, write_shards
from unlit.image_io import ImageError

__all__ = ["ShardReader", "holds_shards", "write_shards"]

_AGAIN = "copy the shard again, or pack the sequences again"
_PATTERN = "unlit-*.tar"
_DAMAGE = (tarfile.TarError, OSError, EOFError, ValueError, ArithmeticError, LookupError, RecursionError, MemoryError)
"""What tarfile raises for headers that lie, besides what files raise."""


@dataclass(frozen=True)
class _Place:
    """Where a sequence lies: from byte `offset` to byte `end` of a shard."""

    shard: str
    key: str
    offset: int
    end: int
    crc32: int | None = None
    """Of the contents of its files, one after the other; None where no `shards.json` states it."""


def _inside(member_name: str) -> PurePath:
    """Return the path inside the sequence's folder that a member's name stands for; ValueError if it leads out."""
    path = member_name.partition(".")[2]
    parts = [os.fsdecode(unquote_to_bytes(part)) for part in path.split("-")]
    for part in parts:
        if part in ("", "..") or PurePath(part).name != part or "\\" in part:
            raise ValueError(f"{member_name!r} leads out of the folder")
    return PurePath(*parts)


def holds_shards(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder looks like one that `write_shards` wrote."""
    return (Path(folder) / INDEX).is_file() or any(Path(folder).glob(_PATTERN))


class ShardReader:
    """The sequences in a folder of shards. It keeps no file open: threads and processes may share it.

    Without `shards.json` the shards' headers are read once instead. What is wrong with one shard does not keep the
    sequences of others, or others in it, from being loaded.
    """

    names: tuple[str, ...]
    """The sequences' names, in the order in which they were packed."""
    damaged: tuple[str, ...]
    """Where there is no `shards.json`: what is wrong with shards, a line each, and so may hide sequences."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        wrong: list[str] = []
        if (self._folder / INDEX).is_file():
            self._places = _indexed(self._folder / INDEX)
        else:
            self._places = _scanned(self._folder, wrong)
        self.names, self.damaged = tuple(self._places), tuple(wrong)

    def load(self, name: str) -> Sequence:
        """Read the sequence `name`, as `load_sequence` reads its folder. SequenceError where that fails."""
        with self.folder(name) as path:
            return load_sequence(path)

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """Lend a copy of the folder of the sequence `name`, truth and all, which is gone when the block ends.

        It lies among the system's temporary files: TMPDIR chooses the place, /dev/shm for one that is in memory.
        SequenceError where there is no such sequence, or where it is damaged; where reading it fails inside the block,
        the message names the shard, since the folder will be gone.
        """
        if name not in self._places:
            why = f" ({'; '.join(self.damaged)})" if self.damaged else ""
            raise SequenceError(f"{self._folder}: has no sequence {name!r}{why}; choose one of its names")
        place = self._places[name]
        with tempfile.TemporaryDirectory(prefix="unlit-") as temporary:
            path = Path(temporary, "sequence")  # not its key or name, which could lead anywhere
            try:
                _unpack(self._folder / place.shard, place, path)
            except _DAMAGE as error:
                is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
                remedy = "make room among the temporary files, or set TMPDIR" if is_full else _AGAIN
                wrong = f"sequence {name!r} cannot be unpacked ({error})"
                raise SequenceError(f"{self._folder / place.shard}: {wrong}; {remedy}") from error
            try:
                yield path
            except (SequenceError, ImageError) as error:
                wrong = str(error).replace(f"{path}: ", "").replace(f"{path}{os.sep}", "")
                raise SequenceError(f"{self._folder / place.shard}: sequence {name!r}: {wrong}") from error


def _unpack(shard: Path, place: _Place, folder: Path) -> None:
    crc32 = 0
    with shard.open("rb") as file:
        for tar, member in _members(file, place.offset, place.end):
            path = folder / _inside(member.name)
            data = _content(tar, member)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as copy:  # "x": of two members of one name, neither is right
                copy.write(data)
            crc32 = zlib.crc32(data, crc32)
    if place.crc32 not in (None, crc32):
        raise ValueError("its checksum is not the one that shards.json states")


def _members(file: IO[bytes], offset: int, end: int | None) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield the members from one byte to another, or to the archive's end: two empty blocks, filled up to a record.

    tarfile takes a damaged header, a hole, and a file that stops for the end; here they are errors.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(offset)
    tar = tarfile.TarFile(fileobj=file)
    while (member := tar.next()) is not None:
        # Less than nothing would lead back to an earlier header; more than there is would be asked of memory first.
        if not 0 <= member.size <= size - member.offset_data:
            raise ValueError(f"it is cut short or damaged: {member.name!r} does not end inside")
        yield tar, member
        if end is not None and tar.offset >= end:  # before the next header is read: it is another sequence's
            return
    file.seek(tar.offset)
    records = -(-(tar.offset + 2 * tarfile.BLOCKSIZE) // tarfile.RECORDSIZE)
    if size != records * tarfile.RECORDSIZE or any(file.read()):
        raise ValueError(f"it is cut short or damaged at byte {tar.offset}")


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Return a member's bytes; ValueError where it is a link, a device or anything but a plain file."""
    file = tar.extractfile(member) if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else None
    if file is None or member.issparse():
        raise ValueError(f"{member.name!r} is not a plain file")
    return file.read()


def _indexed(index: Path) -> dict[str, _Place]:
    """Return the places of all sequences as `shards.json` states them."""
    places = {}
    try:
        stated = json.loads(index.read_bytes())
        if stated["version"] != VERSION:
            raise ValueError(f"version {stated['version']!r}, and only {VERSION} is known")
        for shard in stated["shards"]:
            if not re.fullmatch(r"unlit-\d+\.tar", shard["file"]):
                raise ValueError(f"{shard['file']!r} is no name of a shard")
            for one in shard["sequences"]:
                numbers = (int(one[field]) for field in ("offset", "end", "crc32"))
                places[str(one["name"])] = _Place(shard["file"], str(one["key"]), *numbers)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        remedy = "update unlit, or remove it, and the shards are scanned instead"
        raise SequenceError(f"{index}: is damaged or too new ({error!r}); {remedy}") from error
    return places


def _scanned(folder: Path, wrong: list[str]) -> dict[str, _Place]:
    """Return the places of all sequences by the shards' headers; what is wrong goes to `wrong`."""
    shards = sorted(folder.glob(_PATTERN))
    if not shards:
        raise SequenceError(f"{folder}: holds no shards (unlit-000000.tar); give a folder that write_shards wrote")
    places: dict[str, _Place] = {}
    for shard in shards:
        for name, place in _scanned_shard(shard, wrong):
            if name is None:
                wrong.append(f"{shard}: {place.key!r} is no sequence, or has lost its {DESCRIPTION}; {_AGAIN}")
            elif places.setdefault(name, place) is not place:
                wrong.append(f"{shard}: {name!r} is also in {places[name].shard}; remove one of the shards")
    return places


def _scanned_shard(shard: Path, wrong: list[str]) -> list[tuple[str | None, _Place]]:
    found: list[tuple[str | None, _Place]] = []
    try:
        with shard.open("rb") as file:
            for tar, member in _members(file, 0, None):
                key, _, path = member.name.partition(".")
                if not found or found[-1][1].key != key:
                    name = _stated_name(tar, member) if path == DESCRIPTION else None
                    found.append((name, _Place(shard.name, key, member.offset, 0)))
                found[-1] = (found[-1][0], replace(found[-1][1], end=tar.offset))
    except _DAMAGE as error:
        wrong.append(f"{shard}: cannot be read to its end ({error}); {_AGAIN}")
        if found:  # the last may have lost files: with one byte more, unpacking it meets the damage too
            found[-1] = (found[-1][0], replace(found[-1][1], end=found[-1][1].end + 1))
    return found


def _stated_name(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str | None:
    """Return the sequence's name by its `sequence.json`; None where that is damaged, which is not the shard's end."""
    try:
        return stated_name_and_files(_content(tar, member))[0]
    except _DAMAGE:
        return None
