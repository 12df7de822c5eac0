"""Pairs of pixels a few pixels apart, and the differences over them.

Shapes: h x w pixels. Pairs come in kinds, by span (1, then 4) and by axis (down, then to the right): what belongs to
the pairs of all kinds is a list of four arrays, (..., h - span, w) or (..., h, w - span).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)

SPANS = (1, 4)
"""Distances between the two pixels of a pair: fine detail, and what lies across soft edges."""
KINDS = tuple((span, axis) for span in SPANS for axis in (0, 1))
"""Span and axis of each kind."""


def first(values: NDArray[Number], span: int, axis: int) -> NDArray[Number]:
    """Return a view of values (..., h, w) at the upper, or left, pixel of each pair."""
    return values[..., :-span, :] if axis == 0 else values[..., :-span]


def second(values: NDArray[Number], span: int, axis: int) -> NDArray[Number]:
    """Return a view of values (..., h, w) at the lower, or right, pixel of each pair."""
    return values[..., span:, :] if axis == 0 else values[..., span:]


def steps(values: Floats) -> list[Floats]:
    """Return the difference of values (h, w) over the pairs of each kind."""
    return [second(values, *kind) - first(values, *kind) for kind in KINDS]


def gathered(flows: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> Floats:
    """Return (h, w), what comes into each pixel less what goes out: the transpose of `steps`."""
    result = np.zeros(shape)
    for kind, flow in zip(KINDS, flows, strict=True):
        second(result, *kind)[...] += flow
        first(result, *kind)[...] -= flow
    return result


def both(valid: Mask) -> list[Mask]:
    """Return where both pixels of a pair are valid."""
    return [first(valid, *kind) & second(valid, *kind) for kind in KINDS]


def ends(values: Floats, valid: Mask, kind: tuple[int, int], further: int) -> tuple[Floats, Floats]:
    """Return values (..., h, w) at both pixels of each pair, moved apart by `further` where what is there is valid."""
    _, axis = kind
    one, two = first(values, *kind), second(values, *kind)
    if not further or one.shape[axis - 2] <= further:
        return one, two
    moved_one, moved_two = one.copy(), two.copy()
    near, far = second(moved_one, further, axis), first(moved_two, further, axis)
    near[...] = np.where(first(first(valid, *kind), further, axis), first(one, further, axis), near)
    far[...] = np.where(second(second(valid, *kind), further, axis), second(two, further, axis), far)
    return moved_one, moved_two
