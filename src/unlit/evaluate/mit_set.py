"""The MIT Intrinsic Images as distributed, a folder for each object, and how a method does on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlit.evaluate.benchmark import Case, Outcome, Part, Picture, Split, mean_totals
from unlit.evaluate.mit import MitTruth, load_mit_truth, mit_scores
from unlit.image_io import read_image

TRAIN = ("apple", "box", "cup1", "dinosaur", "frog1", "panther", "paper1", "phone", "squirrel", "teabag2")
TEST = ("cup2", "deer", "frog2", "paper2", "pear", "potato", "raccoon", "sun", "teabag1", "turtle")
"""The split of Barron & Malik; published figures are of the test objects."""


@dataclass(frozen=True)
class MitBenchmark:
    """All objects of a folder, or the ten of a split, whether there or not."""

    folder: Path
    split: str = "all"
    name = "mit"
    needs: tuple[Part, ...] = ("reflectance", "shading")
    resizes = False
    main_key = "lmse/reflectance"
    lower_is_better = True

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    @property
    def ids(self) -> list[str]:
        """The objects' names; ValueError where there are objects, but none of the split."""
        # A folder that lacks a file is an object, too: it is named as damaged rather than left out without a word.
        parts = ("diffuse", "reflectance", "shading")
        found = {path.parent.name for part in parts for path in self.folder.glob(f"*/{part}.png")}
        chosen = {"train": TRAIN, "test": TEST}.get(self.split)
        if chosen is None or not found:
            return sorted(found)
        if not found & set(chosen):
            wrong = f"has none of the {self.split} objects ({', '.join(chosen)}), only {', '.join(sorted(found))}"
            raise ValueError(f"{self.folder}: {wrong}; copy those objects there, or say --split all")
        return sorted(chosen)

    def read(self, case_id: str) -> Case:
        """Read an object: its picture without highlights, its truth, and the ten lights for methods that want them."""
        truth = load_mit_truth(self.folder / case_id)
        lights = sorted((self.folder / case_id).glob("light*.png"))
        frames = [read_image(path, encoding="linear").pixels for path in lights]
        odd = [path for path, frame in zip(lights, frames, strict=True) if frame.shape != truth.image.shape]
        if odd:
            raise ValueError(f"{odd[0]}: differs in size from diffuse.png; copy the object's folder again")
        picture = Picture(case_id, truth.image, truth.mask, np.stack(frames) if frames else None)
        return Case(case_id, (picture,), truth)

    def score(self, case: Case, splits: Sequence[Split]) -> Outcome:
        """Return MSE, LMSE and DSSIM of reflectance and shading."""
        (split,) = splits
        truth: MitTruth = case.truth
        if split.reflectance is None or split.shading is None:
            raise ValueError(f"{case.id}: the result lacks reflectance or shading")
        return Outcome(mit_scores(split.reflectance, split.shading, truth.reflectance, truth.shading, truth.mask))

    def totals(self, outcomes: Sequence[Outcome], weights: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
        """Return arithmetic means over objects, and geometric ones."""
        return mean_totals(outcomes, weights) | geometric_totals(outcomes, weights)


def geometric_totals(outcomes: Sequence[Outcome], weights: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """Return the geometric means of errors over cases, as `geometric/...`; one perfect case makes them 0."""
    means = {}
    for key in outcomes[0].scores:
        with np.errstate(divide="ignore", invalid="ignore"):  # the log of a perfect 0, and that times no weight
            logs = np.log([outcome.scores[key] for outcome in outcomes])
            terms = np.where(weights > 0, weights * logs, 0.0)
            means[f"geometric/{key}"] = np.exp(terms.sum(axis=1) / weights.sum(axis=1))
    return means
