"""Prepared sequences packed into WebDataset shards, plain tar files; shards.py reads them.

A sequence is one sample. Its files are named `<key>.<path>`: the key has no dot, and in the path `-` stands for `/` and
%XX for all but ASCII letters, digits, `_`, `.` and `~`, so `frames/0001.png` is `000007-garden.frames-0001.png`. What a
sequence is really called stands in its `sequence.json`, the first of its files. `shards.json` says where each lies.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn
from urllib.parse import quote_from_bytes

from unlit.data.sequence import SequenceError

VERSION = 1
INDEX = "shards.json"
DESCRIPTION = "sequence.json"


@dataclass(frozen=True)
class _Source:
    """A sequence to pack: its files by their path inside the folder, `sequence.json` first."""

    name: str
    key: str
    files: dict[str, Path]
    size: int
    """Bytes that it takes in a shard, but for the rare headers of very long names."""


def write_shards(
    folders: Iterable[str | os.PathLike[str]], out: str | os.PathLike[str], *, shard_bytes: int = 2**30
) -> list[Path]:
    """Pack prepared sequences, in the order given, into shards in `out`, which must not exist or be empty; return them.

    All files of each folder are copied byte for byte, and the same folders always give the same shards. A shard grows
    to about `shard_bytes`; a sequence is never split, so one that is larger has a shard to itself. Each shard appears
    whole or not at all, and `shards.json` last. SequenceError where a folder is no prepared sequence, where two share
    a name, or where a file cannot be read or written.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SequenceError(f"{out}: exists already; remove it or choose another name")
    sources: dict[str, _Source] = {}
    for k, folder in enumerate(folders):  # all are looked at before the first is packed, which may take hours
        source = _found(Path(folder), k)
        if sources.setdefault(source.name, source) is not source:
            raise SequenceError(f"{folder}: is the second sequence that is called {source.name!r}; rename one")
    if not sources:
        raise SequenceError(f"{out}: there are no sequences to pack; give the folders of prepared ones")
    written: list[Path] = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        entries = []
        for k, group in enumerate(_grouped(sources.values(), shard_bytes)):
            written.append(out / f"unlit-{k:06}.tar")
            entries.append(_write_shard(written[-1], group))
        with _appearing(out / INDEX) as file:
            file.write(json.dumps({"version": VERSION, "shards": entries}, indent=1).encode() + b"\n")
    except BaseException as error:  # interrupts too: shards of half the sequences would pass for all of them
        for path in written:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise SequenceError(f"{out}: cannot be packed ({error}); make room or check permissions") from error
        raise
    return written


def _found(folder: Path, number: int) -> _Source:
    """Return what there is to pack in a prepared sequence's folder."""
    try:
        found = {path.relative_to(folder).as_posix(): path for path in _walked(folder)}
        name, stated = stated_name_and_files((folder / DESCRIPTION).read_bytes())
        size = sum(512 + -(-path.stat().st_size // 512) * 512 for path in found.values())
    except (OSError, ValueError) as error:
        raise SequenceError(f"{folder}: is no prepared sequence ({error}); prepare it again") from error
    lost = [file for file in stated if file not in found]
    if lost:
        raise SequenceError(f"{folder}: {lost[0]} is named in {DESCRIPTION} but missing; prepare the sequence again")
    odd = [file for file, path in found.items() if not path.is_file()]
    if odd:
        raise SequenceError(f"{folder}: {odd[0]} is not a plain file; remove it")
    if len({file.lower() for file in found}) < len(found):  # webdataset puts what follows the key into lower case
        raise SequenceError(f"{folder}: has two files whose names differ by upper and lower case only; rename one")
    files = {file: found[file] for file in sorted(found, key=lambda file: (file != DESCRIPTION, file))}
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", name)[:40].strip("-")
    return _Source(name, f"{number:06}-{slug}".rstrip("-"), files, size)


def _walked(folder: Path) -> Iterator[Path]:
    """Yield all files of a folder, through links too: a subfolder that cannot be read is an error, not empty."""

    def fail(error: OSError) -> NoReturn:
        raise error

    for root, _, files in os.walk(folder, onerror=fail, followlinks=True):
        yield from (Path(root, file) for file in files)


def stated_name_and_files(description: bytes) -> tuple[str, list[str]]:
    """Return the name and the frames' and masks' files that `sequence.json` states; ValueError where it is damaged."""
    try:
        stated = json.loads(description)
        name, frames = stated["name"], stated["frames"]
        files = [file for frame in frames for file in (frame["file"], frame.get("mask")) if file is not None]
        if not isinstance(name, str):
            raise TypeError("the name is no text")
        return name, [PurePosixPath(file).as_posix() for file in files]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{DESCRIPTION} is damaged: {error!r}") from error


def _grouped(sources: Iterable[_Source], shard_bytes: int) -> Iterator[list[_Source]]:
    """Yield the sequences of one shard after the other."""
    group: list[_Source] = []
    size = 0
    for source in sources:
        if group and size + source.size > shard_bytes:
            yield group
            group, size = [], 0
        group.append(source)
        size += source.size
    yield group


def _write_shard(path: Path, sources: list[_Source]) -> dict[str, Any]:
    """Write one shard and return its entry in `shards.json`."""
    entries = []
    with _appearing(path) as file:
        with tarfile.TarFile(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for source in sources:
                offset, crc32 = tar.offset, 0
                for inside, source_file in source.files.items():
                    data = source_file.read_bytes()
                    member = tarfile.TarInfo(_member_name(source.key, inside))  # time, user and group 0, mode 644
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
                    crc32 = zlib.crc32(data, crc32)
                stated = {"name": source.name, "key": source.key, "offset": offset, "end": tar.offset, "crc32": crc32}
                entries.append(stated)
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
    return {"file": path.name, "bytes": size, "sha256": sha256, "sequences": entries}


@contextmanager
def _appearing(path: Path) -> Iterator[io.BufferedRandom]:
    """Yield a file to write, which appears as `path` when the block ends, and never where it fails."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # or the name could reach the disk before the content does
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def _member_name(key: str, inside: str) -> str:
    parts = (quote_from_bytes(os.fsencode(part), safe="").replace("-", "%2D") for part in inside.split("/"))
    return f"{key}.{'-'.join(parts)}"
