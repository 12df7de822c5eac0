"""Intrinsic Images in the Wild (Bell et al. 2014): does the reflectance agree with people on which surface is darker.

Shapes: h x w pixels, j comparisons of two points. WHDR is the share, by weight, of an image's comparisons that the
reflectance contradicts; 0 is perfect. People judge surfaces as equal where lightness differs by less than 1 + δ.

The set as distributed is one folder with `<id>.png` and `<id>.json` for each photograph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unlit.evaluate.benchmark import Case, Outcome, Part, Picture, Split, Values, mean_totals
from unlit.evaluate.resizing import resized
from unlit.image_io import read_image

if TYPE_CHECKING:
    from unlit.data.judgements import Judgements

DELTA = 0.1
DELTAS = (DELTA, 0.2)
"""Where two surfaces begin to differ: that of the set's authors, and one that others use."""

GAMMA = 2.2
"""The authors of BigTime score the reflectance encoded by this power; others the linear one. Both are reported."""

LIGHTNESS_FLOOR = 1e-10
TEST_EVERY = 5
"""The test images are every fifth in numeric order, beginning with the first: 1,046 of 5,230."""

ScoredEncoding = Literal["gamma", "linear"]


@dataclass(frozen=True)
class Comparisons:
    """What people said of an image: only what counts (opaque points, a known answer, a positive weight)."""

    first: NDArray[np.intp]
    """(j, 2): row and column of one point."""
    second: NDArray[np.intp]
    """(j, 2): of the other."""
    darker: NDArray[np.int64]
    """(j,): 0 = equal, 1 = the first is darker, 2 = the second is."""
    weight: NDArray[np.float64]
    """(j,), positive."""


def comparisons_of(judgements: Judgements, size: tuple[int, int]) -> Comparisons:
    """Return judgements of an image of `size` (h, w) by pixel: int(y · rows), int(x · columns)."""
    x, y = judgements.points.double().numpy().T.reshape(2, -1)
    pixels = np.stack([(y * size[0]).astype(np.intp), (x * size[1]).astype(np.intp)], axis=1)
    pairs = judgements.pairs.numpy()
    return Comparisons(
        pixels[pairs[:, 0]], pixels[pairs[:, 1]], judgements.darker.numpy(), judgements.weight.double().numpy()
    )


def whdr(
    reflectance: Values, comparisons: Comparisons, size: tuple[int, int], delta: float, encoding: ScoredEncoding
) -> float:
    """Return the weighted share of comparisons that `reflectance`, linear (h', w', 3), contradicts.

    It is first resized to the image's `size` (h, w). ValueError where nothing was compared.
    """
    seen = lightness(resized(reflectance, size), comparisons.first, comparisons.second, encoding)
    return _disagreement(darker(seen, delta), comparisons)


def whdr_scores(reflectance: Values, comparisons: Comparisons, size: tuple[int, int]) -> dict[str, float]:
    """Return `whdr@0.1/gamma` and so on: both deltas, both encodings."""
    sized = resized(reflectance, size)
    return {
        f"whdr@{delta}/{encoding}": whdr(sized, comparisons, size, delta, encoding)
        for delta in DELTAS
        for encoding in get_args(ScoredEncoding)
    }


def lightness(
    reflectance: Values, first: NDArray[np.intp], second: NDArray[np.intp], encoding: ScoredEncoding
) -> NDArray[np.float64]:
    """Return the lightness (2, j) of two points each, at rows and columns (j, 2): the mean of R, G and B."""
    points = np.stack([first, second])
    values = reflectance[points[..., 0], points[..., 1]].astype(np.float64)
    if encoding == "gamma":
        values = np.maximum(values, 0) ** (1 / GAMMA)
    means: NDArray[np.float64] = np.maximum(values.mean(axis=-1), LIGHTNESS_FLOOR)
    return means


def darker(seen: NDArray[np.float64], delta: float) -> NDArray[np.int64]:
    """Return which point is darker (j,), by lightness (2, j): 1 the first, 2 the second, 0 neither by more than δ."""
    l1, l2 = seen
    return np.where(l2 / l1 > 1 + delta, 1, np.where(l1 / l2 > 1 + delta, 2, 0))


def _disagreement(said: NDArray[np.int64], comparisons: Comparisons) -> float:
    total = comparisons.weight.sum()
    if total <= 0:
        raise ValueError("no comparison counts: none has an answer, a positive weight and opaque points")
    return float(comparisons.weight[said != comparisons.darker].sum() / total)


def numeric_ids(folder: Path) -> list[str]:
    """Return the numbers that pictures or judgements of a folder are named by, in numeric order."""
    names = {p.stem for p in folder.iterdir() if p.suffix in (".png", ".json") and p.stem.isdecimal()}
    return sorted(names, key=int)


@dataclass(frozen=True)
class IiwBenchmark:
    """The set in a folder; with `every` 5 its test images, with 1 all."""

    folder: Path
    every: int = TEST_EVERY
    name = "iiw"
    needs: tuple[Part, ...] = ("reflectance",)
    resizes = True
    main_key = f"whdr@{DELTA}/gamma"
    lower_is_better = True

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    @property
    def ids(self) -> list[str]:
        """The images' numbers; one that lacks its judgements keeps its place, so that the others keep theirs."""
        return numeric_ids(self.folder)[:: self.every]

    def read(self, case_id: str) -> Case:
        """Read a photograph and what people said of it."""
        from unlit.data.judgements import read_judgements

        image = read_image(self.folder / f"{case_id}.png").pixels
        file = self.folder / f"{case_id}.json"
        if not file.is_file():
            raise ValueError(f"{file}: is missing; copy it again")
        size = (image.shape[0], image.shape[1])
        comparisons = comparisons_of(read_judgements(file, size), size)
        if not len(comparisons.weight):
            raise ValueError(f"{file}: has no comparison that counts (an answer, a positive weight, opaque points)")
        return Case(case_id, (Picture(case_id, image),), comparisons)

    def score(self, case: Case, splits: Sequence[Split]) -> Outcome:
        """Return the four WHDR of an image."""
        (split,) = splits
        if split.reflectance is None:
            raise ValueError(f"{case.id}: the result has no reflectance")
        return Outcome(whdr_scores(split.reflectance, case.truth, split.reflectance.shape[:2]))

    def totals(self, outcomes: Sequence[Outcome], weights: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
        """Return means over images."""
        return mean_totals(outcomes, weights)
