"""A sequence, the frames of one fixed view: in memory, and as a folder on disk.

Shapes: m frames, h x w pixels. A saved sequence is a folder with `sequence.json` (version, name, encoding, size; the
frames' names, files and masks), `frames/`, `masks/` (255 = valid) and, where known, `truth/`, which is left alone.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from unlit.image_io import WRITABLE_SUFFIXES, Encoding, ImageError, read_image, write_image

if TYPE_CHECKING:
    import os

VERSION = 1
_FRAME_SUFFIXES = (*WRITABLE_SUFFIXES, ".bmp")
_TRUTH_NAMES = ("reflectance", "shading")


class SequenceError(ValueError):
    """A sequence cannot be made, read or written: what is wrong, with which file, and what to do."""


@dataclass(frozen=True)
class Sequence:
    """Frames of one fixed view under changing light. At least one pixel of one frame is valid."""

    frames: Tensor
    """(m, 3, h, w) float32, linear light, finite."""
    mask: Tensor
    """(m, 1, h, w) bool, True = valid."""
    name: str
    frame_names: tuple[str, ...] = ()
    """One for each frame, such as its file's name without suffix; 0001 and so on where none are given."""
    dropped: tuple[str, ...] = ()
    """The names of frames that were left out on reading: none of their pixels is valid, or they cannot be read."""

    def __post_init__(self) -> None:
        if not self.frame_names:
            object.__setattr__(self, "frame_names", tuple(f"{k:04}" for k in range(1, len(self.frames) + 1)))
        wrong = self._what_is_wrong()
        if wrong is not None:
            raise SequenceError(f"sequence {self.name!r}: {wrong}")

    def _what_is_wrong(self) -> str | None:
        """Return the first thing that is wrong and its remedy, or None."""
        frames, mask = self.frames, self.mask
        if frames.ndim != 4 or frames.shape[1] != 3 or frames.numel() == 0:
            return f"frames have shape {tuple(frames.shape)}; give (m, 3, h, w) with at least one frame and pixel"
        if frames.dtype != torch.float32:
            return f"frames are {frames.dtype}; give linear light as torch.float32, 1 = white"
        wanted = (len(frames), 1, *frames.shape[2:])
        if mask.shape != wanted:
            return f"the mask has shape {tuple(mask.shape)}; give {wanted} to fit the frames"
        if mask.dtype != torch.bool:
            return f"the mask is {mask.dtype}; give torch.bool, True = valid"
        if len(self.frame_names) != len(frames):
            return f"{len(self.frame_names)} names for {len(frames)} frames; give one each"
        for name in (self.name, *self.frame_names):
            if not _is_plain(name):
                return f"the name {name!r} cannot be that of a file; give one without slashes, and not empty"
        twice = [name for name, times in Counter(self.frame_names).items() if times > 1]
        if twice:
            return f"{twice[0]!r} names two frames, whose results would overwrite each other; rename one"
        finite = torch.isfinite(frames).flatten(1).all(1)
        if not finite.all():
            first = self.frame_names[int((~finite).nonzero()[0])]
            return f"frame {first!r} has values that are NaN or infinite; replace them, and mask their pixels"
        if not mask.any():
            return "no frame has a valid pixel; check the masks (in memory True, in files 255 = valid)"
        return None


def _is_plain(name: str) -> bool:
    """Return whether files can be named after `name` without leaving their folder."""
    return bool(name.strip(". ")) and not any(character in name for character in "/\\\0")


@dataclass(frozen=True)
class _FrameFile:
    """Where a frame and its mask lie; without a mask every pixel is valid."""

    name: str
    path: Path
    mask: Path | None


def load_sequence(
    folder: str | os.PathLike[str],
    *,
    encoding: Encoding | None = None,
    pattern: str = "*",
    min_frames: int = 2,
    skip_unreadable: bool = False,
) -> Sequence:
    """Read the sequence in `folder`: one that `save_sequence` wrote, or any folder of pictures.

    In a folder without `sequence.json` every picture whose name fits `pattern` is a frame, in natural order (`frame2`
    before `frame10`); the mask of `a.jpg` is `a_mask.png` (any picture suffix) or, for frames that have none of their
    own, `mask.png`; without any, every pixel is valid. A mask's pixel is valid from half of white on. Where some frames
    have a mask and others none, where sizes differ, or where fewer than `min_frames` are left, SequenceError says so.
    Frames without a valid pixel are left out and named in `Sequence.dropped`. `encoding` says how the frames' numbers
    are encoded where the files do not. ImageError where a picture cannot be read; with `skip_unreadable` its frame is
    left out like a masked one.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise SequenceError(f"{folder}: is not a folder; give the folder that holds the frames")
    if (folder / "sequence.json").is_file():
        name, stated, size, files = _read_description(folder)
        encoding = encoding or stated
    else:
        name, size, files = folder.resolve().name, None, _find_frames(folder, pattern)
    sequence = _read_frames(folder, name, files, size, encoding, skip_unreadable=skip_unreadable)
    if len(sequence.frames) < min_frames:
        left = f"{len(sequence.frames)} frame(s) and {len(sequence.dropped)} wholly masked or unreadable"
        raise SequenceError(f"{folder}: has {left}; a sequence needs {min_frames}")
    return sequence


def _find_frames(folder: Path, pattern: str) -> list[_FrameFile]:
    """Return the pictures of a folder as frames, each with its mask."""
    visible = (p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    pictures = {p.name: p for p in visible if p.suffix.lower() in _FRAME_SUFFIXES}
    masks = {p.stem: p for p in pictures.values() if p.stem == "mask" or p.stem.endswith("_mask")}
    chosen = [p for p in pictures.values() if p.stem not in masks and p.match(pattern)]
    if not chosen:
        raise SequenceError(f"{folder}: has no pictures that fit {pattern!r}; give the folder that holds the frames")
    truth = [p.name for p in chosen if p.stem.rpartition(".")[2] in _TRUTH_NAMES]
    if truth:
        remedy = "move it elsewhere, or give a pattern such as 'light*'"
        raise SequenceError(f"{folder}: {truth[0]} does not look like a frame; {remedy}")
    frames = [
        _FrameFile(p.stem, p, masks.get(f"{p.stem}_mask", masks.get("mask")))
        for p in sorted(chosen, key=_natural_order)
    ]
    without = [frame.path.name for frame in frames if frame.mask is None]
    if without and len(without) < len(frames):
        raise SequenceError(f"{folder}: {without[0]} has no mask though others have; add it, white where valid")
    return frames


def _natural_order(path: Path) -> list[tuple[int, str]]:
    """Return a key that sorts runs of digits by their number."""
    return [(int(run), "") if run.isdecimal() else (-1, run) for run in re.split(r"(\d+)", path.name)]


def _read_frames(
    folder: Path,
    name: str,
    files: list[_FrameFile],
    size: tuple[int, int] | None,
    encoding: Encoding | None,
    *,
    skip_unreadable: bool,
) -> Sequence:
    """Read frames and masks of one size, (h, w); the first frame's where `size` is None."""
    frames = masks = None
    kept: list[str] = []
    dropped: list[str] = []
    unreadable: ImageError | None = None
    for file in files:
        try:
            valid = None if file.mask is None else _read_mask(file.mask)
            if valid is not None and not valid.any():
                dropped.append(file.name)
                continue
            pixels = torch.from_numpy(read_image(file.path, encoding=encoding).pixels)
        except ImageError as error:
            if not skip_unreadable:
                raise
            unreadable = unreadable or error
            dropped.append(file.name)
            continue
        h, w = size = size or (pixels.shape[0], pixels.shape[1])
        _check_size(folder, file.path, pixels, size)
        if frames is None or masks is None:
            frames = torch.empty((len(files), 3, h, w))
            masks = torch.ones((len(files), 1, h, w), dtype=torch.bool)
        if file.mask is not None and valid is not None:
            _check_size(folder, file.mask, valid, size)
            masks[len(kept), 0] = valid
        frames[len(kept)] = pixels.permute(2, 0, 1)
        kept.append(file.name)
    if frames is None or masks is None:
        if unreadable is not None:
            raise unreadable
        raise SequenceError(f"{folder}: no frame has a valid pixel; check the masks (255 = valid)")
    return Sequence(frames[: len(kept)], masks[: len(kept)], name, tuple(kept), tuple(dropped))


def _read_mask(path: Path) -> Tensor:
    """Return where a mask is valid, (h, w): from half of white on, by the numbers as they are stored."""
    return torch.from_numpy(read_image(path, encoding="linear").pixels.max(axis=-1) >= 0.5)


def _check_size(folder: Path, path: Path, pixels: Tensor, size: tuple[int, int]) -> None:
    h, w = pixels.shape[:2]
    if (h, w) != size:
        wrong = f"{path.relative_to(folder)} has {w} x {h} pixels, the others {size[1]} x {size[0]}"
        raise SequenceError(f"{folder}: {wrong}; give frames and masks of one view and size")


def _read_description(folder: Path) -> tuple[str, Encoding, tuple[int, int], list[_FrameFile]]:
    """Return name, encoding, size (h, w) and frames that `sequence.json` states."""
    path = folder / "sequence.json"
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(stated, dict):
            raise TypeError("not an object")
        if stated["version"] != VERSION:
            wrong = f"has version {stated['version']!r}, and only {VERSION} is known"
            raise SequenceError(f"{path}: {wrong}; update unlit or prepare the sequence again")
        encodings: dict[Any, Encoding] = {"srgb": "srgb", "linear": "linear"}
        size = (int(stated["size"]["height"]), int(stated["size"]["width"]))
        files = [_stated_frame(folder, frame) for frame in stated["frames"]]
        if not files:
            raise TypeError("no frames")
        if not isinstance(stated["name"], str):
            raise TypeError("the name is no text")
        return stated["name"], encodings[stated["encoding"]], size, files
    except SequenceError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError) as error:
        what = f"lacks or misstates {error}" if isinstance(error, KeyError) else str(error)
        raise SequenceError(f"{path}: is damaged ({what}); prepare the sequence again") from error


def _stated_frame(folder: Path, frame: Mapping[str, Any]) -> _FrameFile:
    path, mask = _inside(folder, frame["file"]), frame.get("mask")
    return _FrameFile(str(frame.get("name", path.stem)), path, None if mask is None else _inside(folder, mask))


def _inside(folder: Path, stated: str) -> Path:
    """Return the path of a stated file, which must lie in the folder and exist."""
    relative = PurePosixPath(stated)
    if relative.is_absolute() or ".." in relative.parts or "\\" in stated:
        raise SequenceError(f"{folder / 'sequence.json'}: {stated!r} lies outside the folder; name files inside it")
    if not (folder / relative).is_file():
        raise SequenceError(f"{folder}: {stated} is named in sequence.json but missing; prepare the sequence again")
    return folder / relative


def save_sequence(
    sequence: Sequence,
    folder: str | os.PathLike[str],
    *,
    encoding: Encoding | None = None,
    frame_format: Literal["png", "exr"] = "png",
) -> None:
    """Write `sequence` to `folder`, which must not exist or be empty; it appears whole or not at all.

    Frames are 16-bit PNG, "srgb" unless `encoding` says otherwise, or 32-bit EXR, "linear". PNG holds [0, 1] only, and
    nothing is clipped without a word: SequenceError where frames go beyond.
    """
    folder = Path(folder)
    encoding = encoding or ("srgb" if frame_format == "png" else "linear")
    low, high = (float(v) for v in sequence.frames.aminmax())
    if frame_format == "png" and (low < 0 or high > 1):
        wrong = f"values from {low:.4g} to {high:.4g} do not fit into PNG"
        raise SequenceError(f"{folder}: {wrong}; clip them to [0, 1] or pass frame_format='exr'")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SequenceError(f"{folder}: exists already; remove it or choose another name")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        _write_folder(sequence, temporary, encoding, frame_format)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_folder(sequence: Sequence, folder: Path, encoding: Encoding, frame_format: str) -> None:
    (folder / "frames").mkdir(parents=True)
    (folder / "masks").mkdir()
    entries = []
    for k, name in enumerate(sequence.frame_names):
        file, mask = f"frames/{k + 1:04}.{frame_format}", f"masks/{k + 1:04}.png"
        bits = 16 if frame_format == "png" else 32
        write_image(folder / file, sequence.frames[k].permute(1, 2, 0).cpu().numpy(), encoding=encoding, bits=bits)
        write_image(folder / mask, sequence.mask[k, 0].float().cpu().numpy(), encoding="linear")
        entries.append({"name": name, "file": file, "mask": mask})
    h, w = sequence.frames.shape[2:]
    size = {"height": h, "width": w}
    stated = {"version": VERSION, "name": sequence.name, "encoding": encoding, "size": size, "frames": entries}
    (folder / "sequence.json").write_text(json.dumps(stated, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
