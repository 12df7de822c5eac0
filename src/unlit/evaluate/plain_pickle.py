"""Pickles of plain data read without running what they say.

A pickle is a program: reading one from the net with Python's own reader runs whatever it names. Here names lead to
stand-ins of ours that only collect what they are given; a pickle that names anything else is refused. So are arrays
whose kind is not a plain number or text: NumPy's own way of restoring an array trusts the pickle with its memory.
Wanted: containers, numbers, text, bytes and NumPy arrays of them, as research data has it.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KIND = re.compile(r"[?biufc]\d{0,2}|[SU]\d{1,6}|O\d?")
_MAX_DEPTH = 100
_MAX_ITEMS = 5_000_000
"""In all containers together: a few bytes can name one list again and again, inside another and that inside a third."""


class UnsafePickleError(ValueError):
    """A pickle that names something beyond plain data, or is damaged."""


class _Kind:
    """Stands in for `numpy.dtype`: its name, and the order of bytes that follows."""

    def __init__(self, name: Any, *_: Any) -> None:
        if not (isinstance(name, str) and _KIND.fullmatch(name)):
            raise UnsafePickleError(f"names the kind of number {name!r}")
        self.name, self.order = name, "="

    def __setstate__(self, state: Any) -> None:
        if not (isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">", "|", "=")):
            raise UnsafePickleError("misstates a kind of number")
        self.order = state[1]

    @property
    def is_object(self) -> bool:
        return self.name.startswith("O")

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.name if self.order in "|=" else self.order + self.name)


class _Array:
    """Stands in for an array: shape, kind and bytes as they are stated."""

    def __init__(self, *_: Any) -> None:
        self.state: tuple[Any, ...] | None = None

    def __setstate__(self, state: Any) -> None:
        if not (isinstance(state, tuple) and len(state) == 5):
            raise UnsafePickleError("misstates an array")
        self.state = state

    def restored(self) -> tuple[tuple[int, ...], str, NDArray[Any] | list[Any]]:
        """Return shape, order of axes and values; those of objects as a list, not yet plain."""
        if self.state is None:
            raise UnsafePickleError("names an array and does not give it")
        _, shape, kind, is_fortran, values = self.state
        if not (isinstance(shape, tuple) and all(isinstance(n, int) and n >= 0 for n in shape)):
            raise UnsafePickleError("misstates the shape of an array")
        if not isinstance(kind, _Kind):
            raise UnsafePickleError("misstates the kind of an array")
        order = "F" if is_fortran else "C"
        if kind.is_object:
            if not isinstance(values, list):
                raise UnsafePickleError("misstates an array of objects")
            return shape, order, values
        raw = values.encode("latin1") if isinstance(values, str) else values
        if not isinstance(raw, bytes):
            raise UnsafePickleError("misstates the values of an array")
        return shape, order, np.frombuffer(raw, kind.dtype())


def _buffered(values: Any, kind: Any = None, shape: Any = None, order: Any = "C") -> _Array:
    """Stand in for the way in which protocol 5 gives an array."""
    array = _Array()
    array.state = (1, shape, kind, order == "F", bytes(values) if isinstance(values, bytearray) else values)
    return array


def _scalar(kind: Any, raw: Any = None) -> Any:
    """Stand in for NumPy's maker of single numbers."""
    if not isinstance(kind, _Kind) or kind.is_object:
        raise UnsafePickleError("misstates a number")
    content = raw.encode("latin1") if isinstance(raw, str) else raw
    if not isinstance(content, bytes):
        raise UnsafePickleError("misstates a number")
    return np.frombuffer(content, kind.dtype(), count=1)[0]


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    """Stand in for the way in which Python 3 writes bytes for Python 2."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise UnsafePickleError("misstates bytes")
    return text.encode("latin1")


def _no_bytes(*given: Any) -> bytes:
    """Stand in for the way in which Python 3 writes no bytes at all for Python 2."""
    if given:
        raise UnsafePickleError("misstates bytes")
    return b""


def _pairs(items: Any = ()) -> dict[Any, Any]:
    """Stand in for an ordered dictionary."""
    if not isinstance(items, list | tuple):
        raise UnsafePickleError("misstates a dictionary")
    return dict(items)


_STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): _Kind,
    ("numpy", "ndarray"): _Array,
    ("_codecs", "encode"): _encoded,
    ("__builtin__", "bytes"): _no_bytes,
    ("collections", "OrderedDict"): _pairs,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _buffered for core in ("core", "_core")},
}


class _StandIn:
    """What a pickle gets to call: it cannot be changed by the pickle, as a function's defaults could be."""

    __slots__ = ("_made",)

    def __init__(self, made: Callable[..., Any]) -> None:
        self._made = made

    def __call__(self, *given: Any) -> Any:
        return self._made(*given)

    def __setstate__(self, state: Any) -> None:
        raise UnsafePickleError("changes what it names")


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise UnsafePickleError(f"names {module}.{name}")
        made = _STAND_INS[module, name]
        # NumPy's arrays are made by naming their class, which is ours then.
        return made if isinstance(made, type) else _StandIn(made)


def plain_pickle(content: bytes) -> Any:
    """Return what a pickle holds, if that is plain data; UnsafePickleError otherwise. Nothing it names is run."""
    try:
        return _Plain().of(_Reader(io.BytesIO(content), encoding="latin1").load(), 0)
    except UnsafePickleError:
        raise
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise UnsafePickleError(f"is damaged ({type(error).__name__}: {error})") from error


def plain_pickle_of_array(content: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the array of objects (`shape`) whose pickle follows the head of an NPY file."""
    values = plain_pickle(content)
    if not isinstance(values, np.ndarray) or values.shape != shape:
        raise UnsafePickleError("does not hold the array that its head promises")
    return values


class _Plain:
    """What was read, with arrays in place of their stand-ins."""

    def __init__(self) -> None:
        self.items = 0

    def of(self, value: Any, depth: int) -> Any:
        self.items += 1
        if depth > _MAX_DEPTH or self.items > _MAX_ITEMS:
            raise UnsafePickleError("holds itself, is nested too deeply, or holds too much")
        if isinstance(value, list | tuple | set | frozenset):
            return type(value)(self.of(item, depth + 1) for item in value)
        if isinstance(value, dict):
            return {self.of(key, depth + 1): self.of(item, depth + 1) for key, item in value.items()}
        if isinstance(value, _Array):
            return self._array(*value.restored(), depth)
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | bytearray | np.generic):
            return value
        raise UnsafePickleError(f"holds a {type(value).__name__}")

    def _array(self, shape: tuple[int, ...], order: str, values: NDArray[Any] | list[Any], depth: int) -> NDArray[Any]:
        """Return values as an array of `shape`, stored with rows (C) or columns (F) together."""
        if isinstance(values, list):
            flat = np.empty(len(values), object)
            for k, item in enumerate(values):
                flat[k] = self.of(item, depth + 1)
            values = flat
        return values.reshape(shape, order="F" if order == "F" else "C")
