"""What the results of a photograph or a video are called, and whether they may be written.

Nothing heavy is imported, so that a wrong wish is refused before torch is on its way. A photograph's results in several
formats may lie side by side: one `<stem>.unlit.json` describes them all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from unlit.image_io import Encoding, ImageError

if TYPE_CHECKING:
    from unlit.predict.photo import Part

Format = Literal["png", "tiff", "exr", "npz"]
PARTS: tuple[Part, ...] = ("reflectance", "shading")

_BITS = {"png": (8, 16), "tiff": (32, 16, 8), "exr": (32, 16), "npz": (32,)}
"""What a format may have; the first unless asked otherwise."""
_REMEDY = "choose another folder, or say --force (force=True)"


def planned(folder: Path, stem: str, format: Format, *, layers: bool, with_preview: bool) -> list[Path]:  # noqa: A002  # the promised word
    """Return the files that `save_photo` would write, the JSON file last."""
    names = [f"{stem}.unlit.{format}"] if layers or format == "npz" else [f"{stem}.{part}.{format}" for part in PARTS]
    names += [f"{stem}.preview.jpg"] if with_preview else []
    return [folder / name for name in [*names, f"{stem}.unlit.json"]]


def planned_video(folder: Path, stem: str) -> list[Path]:
    """Return the files that `decompose_video` would write, the JSON file last."""
    return [folder / f"{stem}.{end}" for end in ("reflectance.mp4", "shading.mp4", "unlit.json")]


def check_free(paths: list[Path]) -> None:
    """Refuse to overwrite any of `paths`."""
    for path in paths:
        if path.exists():
            raise ImageError(path, "exists already", _REMEDY)


def checked_bits(format: Format, bits: int | None, *, layers: bool) -> int:  # noqa: A002  # the promised word
    """Return the bits of a number in the files, having refused what a format cannot have."""
    if format not in get_args(Format):
        raise ValueError(f"pictures cannot be {format!r}; choose one of {', '.join(get_args(Format))}")
    if layers and format != "exr":
        raise ValueError(f"{format} cannot hold layers; use the format exr")
    if bits is not None and bits not in _BITS[format]:
        raise ValueError(f"{format} cannot have {bits} bits; use {' or '.join(map(str, _BITS[format]))}")
    return bits or _BITS[format][0]


def checked_encoding(format: Format, encoding: Encoding | None, *, layers: bool) -> Encoding:  # noqa: A002  # the promised word
    """Return the encoding of the numbers in the files, having refused what a format cannot have."""
    if encoding == "srgb" and (layers or format == "npz"):
        holder = "an EXR file of layers" if layers else "npz"
        raise ValueError(f"{holder} holds linear values alone; leave the encoding out, or use another format")
    return encoding or ("srgb" if format == "png" else "linear")


def kept_files(path: Path, content: Mapping[str, Any], *, force: bool) -> dict[str, Any]:
    """Return what the JSON file at `path` says of other files that are still there, for `content` to say it too.

    ImageError where it describes another decomposition than `content`, which must then not take its place unless
    `force`.
    """
    if not path.exists():
        return {}
    try:
        earlier = json.loads(path.read_text())
        is_same = all(earlier[key] == content[key] for key in ("photo", "fingerprint", "size", "exact", "weights"))
        # Other options, as that of the size at which the network looks, show in the light; another processor hardly.
        for key in ("light_color", "shading_quantiles"):
            is_same = is_same and np.allclose(earlier[key], content[key], rtol=5e-3)
        files = dict(earlier["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        is_same, files = False, {}
    if not is_same and not force:
        raise ImageError(path, "describes other results, of another photograph, weights or options", _REMEDY)
    there = {name: about for name, about in files.items() if (path.parent / name).is_file()}
    return there if is_same else {}
