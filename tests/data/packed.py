"""Prepared sequences to pack, and shards to take apart."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from unlit.data.sequence import Sequence, save_sequence


def prepared(place: Path, name: str, m: int = 2) -> Path:
    """A prepared sequence with truth, in a folder whose name says nothing."""
    generator = torch.Generator().manual_seed(len(name))
    frames = torch.rand((m, 3, 5, 7), generator=generator)
    folder = place / f"{len(list(place.iterdir())) if place.exists() else 0}"
    save_sequence(Sequence(frames, torch.rand((m, 1, 5, 7), generator=generator) > 0.3, name), folder)
    (folder / "truth" / "by-light").mkdir(parents=True)
    (folder / "truth" / "reflectance.exr").write_bytes(name.encode())
    (folder / "truth" / "by-light" / "für 100%.png").write_bytes(b"")
    return folder


def dataset(place: Path, names: list[str]) -> list[Path]:
    return [prepared(place / "prepared", name) for name in names]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_equal(one: Sequence, other: Sequence) -> None:
    assert torch.equal(one.frames, other.frames)
    assert torch.equal(one.mask, other.mask)
    assert (one.name, one.frame_names, one.dropped) == (other.name, other.frame_names, other.dropped)


def without_index(out: Path) -> Path:
    (out / "shards.json").unlink()
    return out


def member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def rewritten(shard: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> None:
    """Change the members of a shard behind the back of shards.json, which is removed."""
    with tarfile.open(shard) as tar:
        members = [(info, tar.extractfile(info).read()) for info in tar.getmembers()]  # type: ignore[union-attr]
    change(members)
    with tarfile.open(shard, "w") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    (shard.parent / "shards.json").unlink(missing_ok=True)
