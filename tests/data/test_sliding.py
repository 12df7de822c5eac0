"""Part of a set at a time: which part, and that it depends on the batch's number alone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from unlit.data.dataset import Item, Split
from unlit.data.sequence import SequenceError
from unlit.data.sliding import Sliding


@dataclass(frozen=True)
class Number:
    """A source that is only a number."""

    value: int
    split: Split = "train"

    @property
    def name(self) -> str:
        return str(self.value)

    def read(self) -> Item:
        raise AssertionError("not read here")


class Reader:
    """Notes what is read."""

    def __init__(self, unusable: tuple[int, ...] = ()) -> None:
        self.read: list[int] = []
        self._unusable = unusable

    def __call__(self, source: Number) -> int | None:
        self.read.append(source.value)
        return None if source.value in self._unusable else source.value


def sliding(reader: Reader, *, batches: int = 50, seed: int = 1) -> Sliding[int]:
    sources = [Number(k) for k in range(20)]
    return Sliding(sources, reader, held=6, batches=batches, sequences=3, seed=seed)  # type: ignore[arg-type]


def test_a_run_begins_with_the_first_and_ends_with_the_last() -> None:
    reader = Reader()
    part = sliding(reader)
    seen = [part.batch(k) for k in range(50)]
    assert reader.read == list(range(20)), "each once, in their order"
    assert set(seen[0]) <= set(range(6))
    assert set(seen[-1]) <= set(range(14, 20))
    assert {k for batch in seen for k in batch} == set(range(20))
    for number, batch in enumerate(seen):
        first = part.first(number)
        assert first == 14 * number // 49
        assert all(first <= k < first + 6 for k in batch)
        assert len(set(batch)) == 3
    assert part.first(60) == 14, "batches that are made ahead of the end"


def test_a_batch_depends_on_its_number_alone() -> None:
    reader = Reader()
    whole, later = sliding(Reader()), sliding(reader)
    expected = [whole.batch(k) for k in range(50)]
    assert [later.batch(k) for k in range(20, 50, 3)] == expected[20::3]
    assert reader.read[0] == later.first(20), "nothing is read that is not needed"
    assert [later.batch(k) for k in (0, 10, 49)] == [expected[k] for k in (0, 10, 49)], "back to the first, and on"
    other = sliding(Reader(), seed=2)
    assert [other.batch(k) for k in range(50)] != expected


def test_no_more_are_held_than_allowed_while_others_are_read_too() -> None:
    class Counting(Reader):
        def __call__(self, source: Number) -> int | None:
            assert len(part._kept) < 6
            return super().__call__(source)

    part = sliding(Counting())
    for k in range(50):
        part.batch(k)
        assert len(part._kept) == 6


def test_what_cannot_be_used_leaves_fewer_to_choose_from() -> None:
    part = sliding(Reader(unusable=(1, 2, 3, 4)))
    assert set(part.batch(0)) == {0, 5}
    assert len(part.batch(0)) == 3, "some come twice, so that batches are of one size"
    with pytest.raises(SequenceError, match="none of 6 sequences in a row"):
        sliding(Reader(unusable=tuple(range(6)))).batch(0)


def test_a_run_of_one_batch_sees_the_first() -> None:
    assert set(sliding(Reader(), batches=1).batch(0)) <= set(range(6))
