from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unlit.pairwise.packing import WORD_BITS, Packing, Range, distinct, found, joined

Rows = list[tuple[int, ...]]

WORD_SIZES = st.sampled_from([4, 9, 20, WORD_BITS])


@st.composite
def ranges_and_rows(draw: st.DrawFn, rows: int = 12) -> tuple[int, list[Range], Rows]:
    """A word's bits, ranges that fit into it one by one, and rows inside them, with repetitions."""
    bits = draw(WORD_SIZES)
    ranges = []
    for _ in range(draw(st.integers(1, 6))):
        low = draw(st.integers(-(2**31), 2**31))
        ranges.append((low, low + draw(st.integers(0, 2 ** draw(st.integers(0, min(bits, 40))) - 1))))
    row = st.tuples(*(st.one_of(st.integers(a, b), st.sampled_from([a, b])) for a, b in ranges))
    return bits, ranges, draw(st.lists(row, min_size=1, max_size=rows))


def columns(rows: Rows) -> list[Tensor]:
    return list(torch.tensor(rows).T)


def as_rows(values: Tensor) -> Rows:
    return [tuple(row) for row in values.T.tolist()]


@given(ranges_and_rows())
@settings(deadline=None)
def test_columns_come_back_from_words(case: tuple[int, list[Range], Rows]) -> None:
    bits, ranges, rows = case
    packing = Packing(ranges, bits)
    words = packing.words(columns(rows))
    assert words.shape == (packing.word_count, len(rows))
    assert int(words.min()) >= 0
    assert int(words.max()) < 2**bits
    assert as_rows(packing.columns(words)) == rows


@given(ranges_and_rows(rows=2))
@settings(deadline=None)
def test_adding_steps_to_words_adds_them_to_the_columns(case: tuple[int, list[Range], Rows]) -> None:
    bits, ranges, rows = case
    packing = Packing(ranges, bits)
    start, end = columns(rows[:1]), columns(rows[-1:])
    differences = [b - a for a, b in zip(start, end, strict=True)]
    steps = torch.tensor(packing.steps([difference.tolist() for difference in differences]))
    assert torch.equal(packing.words(start) + steps, packing.words(end))


@given(ranges_and_rows())
@settings(deadline=None)
def test_only_equal_rows_share_a_code(case: tuple[int, list[Range], Rows]) -> None:
    bits, ranges, rows = case
    codes = joined(Packing(ranges, bits).words(columns(rows))).tolist()
    assert [[a == b for b in codes] for a in codes] == [[a == b for b in rows] for a in rows]


@given(ranges_and_rows())
@settings(deadline=None)
def test_distinct_rows_are_those_of_a_set(case: tuple[int, list[Range], Rows]) -> None:
    bits, ranges, rows = case
    packing = Packing(ranges, bits)
    result = distinct(packing.words(columns(rows)))
    known = as_rows(packing.columns(result.rows))
    assert sorted(known) == sorted(set(rows))
    assert [known[i] for i in result.number] == rows
    assert result.times.tolist() == [rows.count(row) for row in known]
    assert sorted(result.order.tolist()) == list(range(len(rows)))
    assert result.number[result.order].tolist() == sorted(result.number.tolist())


@given(ranges_and_rows(), st.data())
@settings(deadline=None)
def test_rows_are_found_as_in_a_dictionary(case: tuple[int, list[Range], Rows], data: st.DataObject) -> None:
    bits, ranges, rows = case
    packing = Packing(ranges, bits)
    known = data.draw(st.permutations(sorted(set(rows[: len(rows) // 2 + 1]))))
    place = {row: i for i, row in enumerate(known)}
    numbers = found(packing.words(columns(known)), packing.words(columns(rows)))
    assert numbers.tolist() == [place.get(row, len(known)) for row in rows]


def test_as_few_words_are_used_as_hold_the_columns() -> None:
    assert Packing([(0, 1)] * WORD_BITS).word_count == 1
    assert Packing([(0, 1)] * (WORD_BITS + 1)).word_count == 2
    assert Packing([(0, 2**WORD_BITS - 1), (5, 5), (-1, 0)]).word_count == 2


def test_columns_may_hold_small_integers() -> None:
    packing = Packing([(-3, 100), (0, 10**6)])
    narrow = [torch.tensor([-3, 100], dtype=torch.int8), torch.tensor([10**6, 7], dtype=torch.int32)]
    assert packing.columns(packing.words(narrow)).tolist() == [[-3, 100], [10**6, 7]]


def test_a_range_that_no_word_holds_is_refused() -> None:
    with pytest.raises(ValueError, match=r"span 17 cells.*scale them down"):
        Packing([(0, 3), (-8, 8)], word_bits=4)
