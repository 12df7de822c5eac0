from __future__ import annotations

import os
import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unlit.evaluate.array_file import ArrayFileError, read_array
from unlit.evaluate.plain_pickle import UnsafePickleError, _encoded, plain_pickle

PLAIN: list[Any] = [
    None,
    {"a": [1, 2.5, (True, "x")], "b": {"c": b"bytes"}},
    np.arange(6).reshape(2, 3),
    np.asfortranarray(np.random.default_rng(0).random((3, 4))),
    np.arange(3, dtype=">i4"),
    np.zeros((0, 3), np.float32),
    np.array(["a", "bcd"]),
    np.array([b"ab", b"c"]),
    np.array([1, "x", None, [2]], object),
    np.float32(3.5),
    np.array([True, False]),
    OrderedDict([("labels", np.ones((2, 2), np.uint8))]),
    {"nested": [np.arange(2), {"deep": np.arange(3)}]},
]


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("value", PLAIN, ids=str)
def test_plain_data_comes_back_as_it_was(value: Any, protocol: int) -> None:
    found = plain_pickle(pickle.dumps(value, protocol))
    assert str(found) == str(dict(value) if isinstance(value, OrderedDict) else value)
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)


def test_pickles_of_python_2_are_read() -> None:
    """Their bytes are text to Python 3: np.array([1, 255], np.uint8) and 'id' as Python 2.7 writes them."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85q\x03U\x01b\x87Rq\x04(K\x01K\x02\x85"
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x02\x01\xfftb"
    )
    found = plain_pickle(b"\x80\x02}(U\x02id" + array + b"u.")
    assert list(found) == ["id"]
    assert found["id"].tolist() == [1, 255]
    assert found["id"].dtype == np.uint8


class Malice:
    """Writes a file when it is unpickled."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.place}",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "was-here"
    content = pickle.dumps({"labels": [Malice(str(mark))]}, protocol)
    with pytest.raises(UnsafePickleError, match=r"names .*system"):
        plain_pickle(content)
    assert not mark.exists()
    pickle.loads(content)  # the canary: Python's own reader does run it
    assert mark.exists()


def test_the_same_in_an_array_file_is_refused_and_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "was-here"
    array = np.array([Malice(str(mark)), 1], object)
    np.save(tmp_path / "labels.npy", array, allow_pickle=True)
    np.savez(tmp_path / "labels.npz", labels=array)
    (tmp_path / "labels.pkl").write_bytes(pickle.dumps(array))
    for suffix in ("npy", "npz", "pkl"):
        with pytest.raises(ArrayFileError, match=rf"labels\.{suffix}.*names .*system"):
            read_array(tmp_path / f"labels.{suffix}")
    assert not mark.exists()


@pytest.mark.parametrize(
    "name",
    ["builtins eval", "builtins getattr", "os system", "numpy load", "numpy.core.multiarray fromstring", "__main__ x"],
)
def test_nothing_but_the_few_known_names_is_found(name: str) -> None:
    module, attribute = name.split()
    with pytest.raises(UnsafePickleError, match="names"):
        plain_pickle(f"c{module}\n{attribute}\n.".encode())


def stated_array(kind: str, flags: int, values: bytes) -> bytes:
    """A pickle of an array whose kind of number and flags are whatever is said: NumPy itself trusts both."""

    def text(word: str) -> bytes:
        return b"X" + struct.pack("<I", len(word)) + word.encode()

    dtype = (
        b"cnumpy\ndtype\n(" + text(kind) + b"K\x00K\x01tR(K\x03" + text("|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
    )
    dtype += b"K" + bytes([flags]) + b"tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tC\x01btR"
    return b"\x80\x03" + array + b"(K\x01(K\x01t" + dtype + b"\x89C" + bytes([len(values)]) + values + b"tb."


def test_an_array_of_objects_given_as_raw_memory_is_refused() -> None:
    # With flags that deny it has objects, NumPy would take these bytes for the address of one.
    with pytest.raises(UnsafePickleError, match="array of objects"):
        plain_pickle(stated_array("O8", 0, b"AAAAAAAA"))
    np.testing.assert_array_equal(plain_pickle(stated_array("u1", 0, b"A")), [65])  # the canary: so made, it is read


@pytest.mark.parametrize("kind", ["V8", "M8[s]", "x", "(1000000,)f8", "f8,O"])
def test_odd_kinds_of_numbers_are_refused(kind: str) -> None:
    with pytest.raises(UnsafePickleError, match="kind of number"):
        plain_pickle(stated_array(kind, 0, b"AAAAAAAA"))


@pytest.mark.parametrize("cut", [1, 5, 20, 60])
def test_a_damaged_pickle_is_refused(cut: int) -> None:
    whole = pickle.dumps({"labels": np.arange(5)})
    with pytest.raises(UnsafePickleError):
        plain_pickle(whole[:-cut])
    with pytest.raises(UnsafePickleError):
        plain_pickle(b"not a pickle")


def test_a_pickle_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UnsafePickleError, match="holds itself"):
        plain_pickle(pickle.dumps(loop))


def test_a_few_bytes_that_stand_for_more_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unlit.evaluate.plain_pickle._MAX_ITEMS", 10_000)
    bomb: list[Any] = [1]
    for _ in range(30):
        bomb = [bomb] * 10
    with pytest.raises(UnsafePickleError, match="holds too much"):
        plain_pickle(pickle.dumps(bomb))
    assert len(plain_pickle(pickle.dumps(list(range(9000))))) == 9000


def test_a_pickle_cannot_change_what_it_names() -> None:
    # A state of two parts sets attributes, such as a function's defaults: of ours, for as long as the process lives.
    change = b"\x80\x02c_codecs\nencode\nN}X\x0c\x00\x00\x00__defaults__X\x04\x00\x00\x00evil\x85s\x86b."
    before = _encoded.__defaults__
    with pytest.raises(UnsafePickleError, match="changes what it names"):
        plain_pickle(change)
    assert _encoded.__defaults__ == before


@pytest.mark.parametrize("order", ["C", "F"])
def test_array_files_are_read_as_numpy_does(tmp_path: Path, order: Any) -> None:
    array = np.asarray(np.random.default_rng(0).random((4, 5)), order=order)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", labels=array, other=array[:1])
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(array))
    for file, name in (("a.npy", None), ("a.npz", "labels"), ("a.pkl", None)):
        np.testing.assert_array_equal(read_array(tmp_path / file, name), array)
    names = np.array(["12", "7", None], object)
    np.save(tmp_path / "ids.npy", names, allow_pickle=True)
    assert read_array(tmp_path / "ids.npy").tolist() == names.tolist()


def test_what_is_no_array_file_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "short.npy", np.arange(100))
    (tmp_path / "short.npy").write_bytes((tmp_path / "short.npy").read_bytes()[:-9])
    np.savez(tmp_path / "two.npz", a=np.arange(2), b=np.arange(3))
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "text.npz").write_text("hello")
    whole = (tmp_path / "short.npy").read_bytes()
    (tmp_path / "head.npy").write_bytes(whole[:10] + b"{'descr': ((((((" + whole[26:])
    for name, said in (
        ("head.npy", ""),
        ("short.npy", "cut short"),
        ("two.npz", "2 arrays"),
        ("text.npy", ""),
        ("text.npz", ""),
    ):
        with pytest.raises(ArrayFileError, match=rf"{name}: cannot be read.*{said}"):
            read_array(tmp_path / name)
    with pytest.raises(ArrayFileError, match=r"missing\.npy.*No such file"):
        read_array(tmp_path / "missing.npy")


def test_an_array_that_promises_more_than_memory_is_refused(tmp_path: Path) -> None:
    head = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    with (tmp_path / "huge.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, head)
    with pytest.raises(ArrayFileError, match="too large"):
        read_array(tmp_path / "huge.npy")
