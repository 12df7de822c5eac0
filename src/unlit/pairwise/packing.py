"""Rows of integers as few int64 words, so that rows can be sorted, found and moved as numbers.

Shapes: n rows of e columns, in t words. Columns stand side by side in a word, each in the room its range needs. Where
62 bits do not hold them all, as many words as it takes are made, so the answer stays exact for any number of columns
and any range; one word is the usual case. Adding the words of two rows adds the rows, as long as every column of the
sum stays in its range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

WORD_BITS = 62
"""Bits used of an int64: one is the sign, and one is spare so that no sum of packed parts overflows."""

Range = tuple[int, int]
"""The smallest and largest value that a column may hold."""


class Packing:
    """How columns of given ranges lie in words."""

    def __init__(self, ranges: Sequence[Range], word_bits: int = WORD_BITS) -> None:
        self.lows = [low for low, _ in ranges]
        self.digits = [high - low + 1 for low, high in ranges]
        self.word: list[int] = []
        """The word that each column is in."""
        room = 0.0
        for digits in self.digits:
            bits = math.log2(digits)
            if bits > word_bits:
                raise ValueError(f"features span {digits} cells along one axis, too many to count; scale them down")
            fits = bool(self.word) and bits <= room
            self.word.append(self.word[-1] if fits else (self.word[-1] + 1 if self.word else 0))
            room = (room if fits else word_bits) - bits
        self.place_values = [1] * len(self.digits)
        """What one unit of each column adds to its word."""
        for i in range(len(self.digits) - 2, -1, -1):
            if self.word[i] == self.word[i + 1]:
                self.place_values[i] = self.place_values[i + 1] * self.digits[i + 1]

    @property
    def word_count(self) -> int:
        """The number of words t."""
        return self.word[-1] + 1

    def words(self, columns: Sequence[Tensor]) -> Tensor:
        """Return the rows (t, n) of columns, each (n,) integers inside its range."""
        words = torch.zeros(self.word_count, columns[0].shape[0], dtype=torch.int64, device=columns[0].device)
        for column, value, word in zip(columns, self.place_values, self.word, strict=True):
            words[word].add_(column, alpha=value)  # one pass, whatever integers the column holds
        for word in range(self.word_count):
            words[word] -= self.base(word)
        return words

    def base(self, word: int) -> int:
        """Return what a word would be with every column at its lowest; that is taken off, to make it zero.

        Ranges far from zero may not let this, nor what it is taken from, fit into an int64. Both are right modulo 2⁶⁴,
        and so is their difference, which fits.
        """
        parts = zip(self.place_values, self.lows, self.word, strict=True)
        base = sum(value * low for value, low, own in parts if own == word)
        return (base + 2**63) % 2**64 - 2**63

    def steps(self, columns: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return differences of rows (t, n), to be added to words; columns may be negative.

        Plain numbers: there are few, and tensors would take a hundred times as long.
        """
        steps = [[0] * len(columns[0]) for _ in range(self.word_count)]
        for column, value, word in zip(columns, self.place_values, self.word, strict=True):
            steps[word] = [step + value * difference for step, difference in zip(steps[word], column, strict=True)]
        return steps

    def columns(self, words: Tensor) -> Tensor:
        """Return the columns (e, n) that words (t, n) were made of."""
        table = torch.tensor([self.word, self.place_values, self.digits, self.lows]).to(words.device)[:, :, None]
        own = words.expand(len(self.word), -1) if self.word_count == 1 else words[table[0, :, 0]]
        return own.div(table[1], rounding_mode="floor") % table[2] + table[3]


@dataclass(frozen=True)
class Distinct:
    """The distinct rows among n, and where they are."""

    rows: Tensor
    """(t, r), in some order."""
    times: Tensor
    """(r,) how often each occurs."""
    order: Tensor
    """(n,) the rows sorted by their number."""
    ordered_number: Tensor
    """(n,) which of the distinct each row is, of the rows in that order; int32 where that will do."""

    @cached_property
    def number(self) -> Tensor:
        """(n,) which of the distinct each row is. It takes a pass to find, so only who asks waits for it."""
        return torch.empty_like(self.ordered_number).index_copy_(0, self.order, self.ordered_number)


def distinct(words: Tensor) -> Distinct:
    """Return the distinct rows of words (t, n)."""
    code, order = torch.sort(joined(words), stable=True)
    first = torch.ones_like(code, dtype=torch.bool)
    first[1:] = code[1:] != code[:-1]
    number = first.cumsum(0, dtype=torch.int32 if len(code) < 2**31 else torch.int64).sub_(1)
    starts = first.nonzero().squeeze(1)
    times = torch.diff(starts, append=starts.new_full((1,), code.shape[0]))
    return Distinct(words[:, order[starts]], times, order, number)


def found(known: Tensor, wanted: Tensor) -> Tensor:
    """Return for each wanted row which of the known, distinct rows (t, v) it is, or v where it is none."""
    v = known.shape[1]
    code = joined(torch.cat([known, wanted], dim=1))
    ordered, number = torch.sort(code[:v])
    place = torch.searchsorted(ordered, code[v:]).clamp_(max=v - 1)
    return torch.where(ordered[place] == code[v:], number[place], v)


def joined(words: Tensor) -> Tensor:
    """Return one code (n,) for each row, equal for equal rows only: the word itself, or a combination of ranks."""
    code = words[0]
    for word in words[1:]:
        # Ranks are smaller than the number of rows, so two of them always fit.
        left, right = (torch.unique(part, return_inverse=True)[1] for part in (code, word))
        code = left * word.shape[0] + right
    return code
