"""Results that anybody made, read from a folder: by name, in whatever format, with their encoding stated.

For a picture called `<id>` these are looked for, the first that is there:

- `<id>-r` and `<id>-s`, as IIW and SAW publish theirs,
- `<id>.reflectance` and `<id>.shading`, as unlit writes them, with the scales in `<id>.unlit.json`,

each as EXR, NPY, NPZ, PNG, TIFF or JPEG. EXR is linear and 8-bit files are sRGB unless said otherwise; arrays say
nothing of their encoding, so it must be given: by the caller, or in the folder's `results.json` as
`{"encoding": "srgb" | "linear" | "gamma"}`, gamma being a power of 1/2.2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unlit.color import srgb_to_linear
from unlit.evaluate.array_file import read_array
from unlit.evaluate.benchmark import Part, Picture, Split, Values
from unlit.evaluate.iiw import GAMMA
from unlit.image_io import read_image

ResultEncoding = Literal["srgb", "linear", "gamma"]
_ARRAYS = (".npy", ".npz")
_SUFFIXES = (".exr", *_ARRAYS, ".png", ".tiff", ".tif", ".jpg")
_ENDINGS: dict[Part, tuple[str, str]] = {"reflectance": ("-r", ".reflectance"), "shading": ("-s", ".shading")}


@dataclass(frozen=True)
class ResultsFolder:
    """A method whose results are files."""

    folder: Path
    encoding: ResultEncoding | None = None
    """Of all files; None: what the folder or the files say."""
    parts: tuple[Part, ...] = ("reflectance", "shading")
    """What is wanted; the rest is not read."""

    def __call__(self, picture: Picture) -> Split:
        """Return what the folder has for a picture; ValueError where it has nothing, or cannot be read."""
        found = {part: self._file(picture.id, part) if part in self.parts else None for part in _ENDINGS}
        if not any(found.values()):
            places = f"{picture.id}-r.png, {picture.id}-s.png"
            raise ValueError(f"{self.folder}: has no result for {picture.id} ({places} or the like); add it")
        return Split(*(None if path is None else self._read(path, picture.id, part) for part, path in found.items()))

    def _file(self, picture_id: str, part: Part) -> Path | None:
        names = (f"{picture_id}{ending}{suffix}" for ending in _ENDINGS[part] for suffix in _SUFFIXES)
        return next((self.folder / name for name in names if (self.folder / name).is_file()), None)

    def _read(self, path: Path, picture_id: str, part: Part) -> Values:
        encoding = self.encoding or stated_encoding(self.folder)
        if path.suffix in _ARRAYS:
            values = _array(path, part)
            if encoding is None:
                raise ValueError(f"{path}: does not say how it is encoded; say --encoding linear, srgb or gamma")
            linear = _decoded(values, encoding)
        elif encoding == "gamma":
            linear = _decoded(read_image(path, encoding="linear").pixels, encoding)
        else:
            linear = read_image(path, encoding=encoding).pixels
        return linear * np.float32(_scale(self.folder / f"{picture_id}.unlit.json", path.name))


def _array(path: Path, part: Part) -> Values:
    """Return the numbers of an array file: floats as they are, whole ones as shares of their largest."""
    values: NDArray[Any] = read_array(path, part)
    if values.dtype.kind == "u":
        return values.astype(np.float32) / np.float32(np.iinfo(values.dtype).max)
    if values.dtype.kind != "f":
        raise ValueError(f"{path}: holds {values.dtype}; give floats, 1 = white")
    # Copied, in this machine's order of bytes: what is read from a file may not be written to.
    return values.astype(np.float64 if values.dtype.itemsize > 4 else np.float32)


def _decoded(values: Values, encoding: ResultEncoding) -> Values:
    if encoding == "gamma":
        powered: Values = np.maximum(values, 0) ** GAMMA
        return powered
    return srgb_to_linear(values) if encoding == "srgb" else values


def stated_encoding(folder: Path) -> ResultEncoding | None:
    """Return what `results.json` says of the folder's files; None where there is none."""
    path = folder / "results.json"
    if not path.is_file():
        return None
    known: dict[Any, ResultEncoding] = {name: name for name in get_args(ResultEncoding)}
    try:
        return known[json.loads(path.read_text(encoding="utf-8"))["encoding"]]
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise ValueError(f'{path}: is damaged; write {{"encoding": "srgb"}}, "linear" or "gamma"') from error


def _scale(path: Path, name: str) -> float:
    """Return what the numbers of the file `name` were divided by, where unlit wrote it; else 1."""
    if not path.is_file():
        return 1.0
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))["files"][name]["scale"]
        scale = float(stated)
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return 1.0  # no score but that of dark shading depends on it
    return scale if 0 < scale < float("inf") else 1.0
