"""Arrays as research data has them: NPY, NPZ and pickles, read without running anything.

An NPY file may hold a pickle in place of numbers; `numpy.load` refuses those, or trusts them wholly. Here they are read
as plain data (`plain_pickle.py`).
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from unlit.evaluate.plain_pickle import plain_pickle, plain_pickle_of_array

MAX_VALUES = 200_000_000
"""Larger arrays are refused: a head of a few bytes can promise any size."""

SUFFIXES = (".npy", ".npz", ".pkl", ".pickle")


class ArrayFileError(ValueError):
    """A file holds no array that can be used: one line that names it, what is wrong, and the remedy."""


def read_array(path: Path, name: str | None = None) -> NDArray[Any]:
    """Return the array in an NPY, NPZ or pickle file; of several, the one called `name`.

    ArrayFileError where there is none, where the file is damaged, or where it names anything but plain data.
    """
    try:
        with path.open("rb") as file:
            found = _content(file, path.suffix.lower())
        if isinstance(found, dict):
            found = _chosen(found, name)
        array = found if isinstance(found, np.ndarray) else np.asarray(found)
    except Exception as error:  # NumPy, zipfile and zlib have many ways of saying that a file is damaged
        wrong = (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
        raise ArrayFileError(f"{path}: cannot be read ({wrong}); copy or download it again") from error
    return array


def _content(file: IO[bytes], suffix: str) -> Any:
    if suffix == ".npz":
        with zipfile.ZipFile(file) as packed:
            members = [m for m in packed.infolist() if m.filename.endswith(".npy")]
            if sum(m.file_size for m in members) > 8 * MAX_VALUES:
                raise ValueError("is too large")
            return {m.filename.removesuffix(".npy"): _npy(io.BytesIO(packed.read(m))) for m in members}
    return plain_pickle(file.read()) if suffix in (".pkl", ".pickle") else _npy(file)


def _npy(file: IO[bytes]) -> NDArray[Any]:
    version = npy.read_magic(file)
    read_head = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, is_fortran, dtype = read_head(file)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if count * max(dtype.itemsize, 1) > 8 * MAX_VALUES:
        raise ValueError("is too large")
    if dtype.hasobject:
        return plain_pickle_of_array(file.read(), shape)
    raw = file.read(count * dtype.itemsize)
    if len(raw) < count * dtype.itemsize:
        raise ValueError("is cut short")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if is_fortran else "C")


def _chosen(arrays: dict[Any, Any], name: str | None) -> Any:
    if name is not None and name in arrays:
        return arrays[name]
    if len(arrays) != 1:
        wanted = f", none of them called {name!r}" if name else ""
        raise ValueError(f"holds {len(arrays)} arrays{wanted}")
    (only,) = arrays.values()
    return only
