"""What the benchmarks have in common: cases to be decomposed, results to be scored, scores to be summed up.

Shapes: h x w pixels, n images, k sets of weights. Pictures are (h, w, 3), linear light.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from unlit.evaluate.resizing import resized

BRIGHTEST = 1e30
"""Of results: what lies beyond cannot be squared, and is no light."""

Part = Literal["reflectance", "shading"]
Values = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Picture:
    """One picture that a method is given."""

    id: str
    image: NDArray[np.float32]
    """(h, w, 3), linear light."""
    mask: NDArray[np.bool_] | None = None
    """(h, w), True = valid; None: all of it."""
    frames: NDArray[np.float32] | None = None
    """(m, h, w, 3): the same view under other lights, for methods that want a sequence."""


class Split(NamedTuple):
    """What a method makes of a picture, at its size; a folder of results may lack a part."""

    reflectance: Values | None
    """(h, w, 3), linear."""
    shading: Values | None
    """(h, w) or (h, w, 3), linear."""


Method = Callable[[Picture], Split]
"""Anything that decomposes. ValueError where it cannot."""


@dataclass(frozen=True)
class Case:
    """What is scored as one: a picture, or the frames of a sequence."""

    id: str
    pictures: tuple[Picture, ...]
    truth: Any
    """What the benchmark scores with."""


@dataclass(frozen=True)
class Outcome:
    """How a method did on one case."""

    scores: Mapping[str, float]
    """Of the case alone, by the keys of the report; those that it has not are left out."""
    counts: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """What is summed over cases before anything is scored."""


class Benchmark(Protocol):
    """A set of cases and the way in which they are scored."""

    @property
    def name(self) -> str:
        """Such as iiw."""

    @property
    def place(self) -> str:
        """Where the set lies."""

    @property
    def ids(self) -> Sequence[str]:
        """All cases, those that turn out to be damaged too."""

    @property
    def needs(self) -> tuple[Part, ...]:
        """The parts of a result that are scored."""

    @property
    def resizes(self) -> bool:
        """Whether the protocol lets results of another size be resized."""

    @property
    def main_key(self) -> str:
        """The score by which cases are called good or bad."""

    @property
    def lower_is_better(self) -> bool:
        """Of the main score."""

    def read(self, case_id: str) -> Case:
        """Return a case; ValueError where it is damaged."""

    def score(self, case: Case, splits: Sequence[Split]) -> Outcome:
        """Return how good the splits of the case's pictures are; ValueError where that cannot be said."""

    def totals(self, outcomes: Sequence[Outcome], weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Return each score of the whole set, (k,), where case i counts `weights[:, i]` times, (k, n)."""


def mean_totals(outcomes: Sequence[Outcome], weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the means of scores over the cases that have them, (k,), by weights (k, n)."""
    means = {}
    for key in dict.fromkeys(key for outcome in outcomes for key in outcome.scores):
        has = np.array([key in outcome.scores for outcome in outcomes])
        values = np.array([outcome.scores[key] for outcome in outcomes if key in outcome.scores])
        kept = weights[:, has]
        # A draw may miss every case that has the score; it then says nothing.
        totals = kept.sum(axis=1)
        means[key] = np.divide(kept @ values, totals, out=np.full(len(kept), np.nan), where=totals > 0)
    return means


def checked_split(split: Split, picture: Picture, needs: Sequence[Part], *, resize: bool) -> Split:
    """Return the parts that are needed, at the picture's size; ValueError where one is missing, odd or not finite."""
    h, w = picture.image.shape[:2]
    parts: dict[str, Values] = {}
    for name in needs:
        values = getattr(split, name)
        if values is None:
            raise ValueError(f"{picture.id}: the result has no {name}; give it, or leave the picture out")
        parts[name] = _checked_part(np.asarray(values), picture, name, (h, w), resize=resize)
    return Split(parts.get("reflectance"), parts.get("shading"))


def _checked_part(values: Values, picture: Picture, name: str, size: tuple[int, int], *, resize: bool) -> Values:
    if values.ndim == 3 and values.shape[-1] == 1:
        values = values[..., 0]
    if values.ndim == 2 and name == "reflectance":
        values = np.repeat(values[..., None], 3, axis=-1)
    if not np.issubdtype(values.dtype, np.floating) or values.ndim not in (2, 3) or 0 in values.shape:
        wrong = f"{values.dtype} of shape {values.shape}"
        raise ValueError(f"{picture.id}: the {name} is {wrong}; give floats (h, w, 3), linear")
    if values.ndim == 3 and values.shape[-1] != 3:
        raise ValueError(f"{picture.id}: the {name} has {values.shape[-1]} channels; give 3, or 1 for gray")
    if values.shape[:2] != size and not resize:
        sizes = f"{values.shape[1]} x {values.shape[0]} pixels, the picture {size[1]} x {size[0]}"
        raise ValueError(f"{picture.id}: the {name} has {sizes}; give it at the picture's size, or say --resize")
    valid = slice(None) if picture.mask is None or values.shape[:2] != size else picture.mask
    if not (np.abs(values[valid]) <= BRIGHTEST).all():
        wrong = f"values that are NaN, infinite or beyond {BRIGHTEST:g}"
        raise ValueError(f"{picture.id}: the {name} has {wrong}; repair the result")
    return resized(values, size)
