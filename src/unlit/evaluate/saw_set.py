"""The SAW set as distributed, and how a method does on it.

Photographs are `saw_images_512/<id>.png`, the labels of their pixels `saw_pixel_labels/saw_data-.../<id>.npy` (NPZ and
pickles are read too), and `saw_splits` has `train_ids.npy`, `val_ids.npy` and `test_ids.npy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unlit.color import linear_to_srgb
from unlit.evaluate.array_file import SUFFIXES, read_array
from unlit.evaluate.benchmark import Case, Outcome, Part, Picture, Split
from unlit.evaluate.saw import IGNORED, LARGEST_RATIO, average_precision, confusions
from unlit.image_io import read_image

SawSplit = Literal["train", "val", "test"]


@dataclass(frozen=True)
class SawBenchmark:
    """The set in a folder, or that folder's `saw`."""

    folder: Path
    split: SawSplit = "test"
    largest_ratio: float = LARGEST_RATIO
    name = "saw"
    needs: tuple[Part, ...] = ("shading",)
    resizes = True
    main_key = "ap/paper"
    lower_is_better = False

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    @cached_property
    def ids(self) -> list[str]:
        """The photographs' names in the split; ValueError where its list is missing or empty."""
        found = read_array(self._list_of_split()).reshape(-1)
        names = [n.decode("latin1") if isinstance(n, bytes) else str(n) for n in found.tolist()]
        # A list of the net may name any path; photographs have plain names.
        odd = [name for name in names if not name or any(c in name for c in "/\\\0") or name.startswith(".")]
        if odd:
            raise ValueError(f"{self._part('saw_splits')}: names the photograph {odd[0]!r}; copy the lists again")
        if not names:
            raise ValueError(f"{self._list_of_split()}: lists nothing; say another --split, or copy the lists again")
        return names

    def _list_of_split(self) -> Path:
        lists = self._part("saw_splits")
        there = [split for split in get_args(SawSplit) if (lists / f"{split}_ids.npy").is_file()]
        if self.split not in there:
            wrong = f"has no {self.split}_ids.npy, only the lists of: {', '.join(there) or 'no split'}"
            raise ValueError(f"{lists}: {wrong}; copy the list there, or say another --split")
        return lists / f"{self.split}_ids.npy"

    @cached_property
    def _labels(self) -> Path:
        """The folder of labels: the set has it inside another, whose name tells how they were made."""
        outer = self._part("saw_pixel_labels")
        inner = sorted(p for p in outer.iterdir() if p.is_dir() and p.name.startswith("saw_data-"))
        if len(inner) > 1:
            raise ValueError(f"{outer}: has {len(inner)} sets of labels ({inner[0].name}, ...); leave one")
        return inner[0] if inner else outer

    def _part(self, name: str) -> Path:
        for place in (self.folder / name, self.folder / "saw" / name):
            if place.is_dir():
                return place
        raise ValueError(f"{self.folder}: has no {name}; give the folder that the SAW set was unpacked to")

    def read(self, case_id: str) -> Case:
        """Read a photograph and its labels."""
        image = read_image(self._part("saw_images_512") / f"{case_id}.png").pixels
        files = [p for p in (self._labels / f"{case_id}{suffix}" for suffix in SUFFIXES) if p.is_file()]
        if not files:
            raise ValueError(f"{self._labels / case_id}.npy: is missing; copy the labels again")
        labels = read_array(files[0], "labels")
        if labels.dtype.kind not in "iu" or labels.shape != image.shape[:2]:
            wrong = f"{labels.dtype} of shape {labels.shape} for a photograph of shape {image.shape[:2]}"
            raise ValueError(f"{files[0]}: holds {wrong}; copy the set again")
        if (labels == IGNORED).all():
            raise ValueError(f"{files[0]}: nothing is said of any pixel; it has nothing to be scored by")
        return Case(case_id, (Picture(case_id, image),), labels)

    def score(self, case: Case, splits: Sequence[Split]) -> Outcome:
        """Return the confusions of an image in all ways, and its own AP where it has smooth and other pixels."""
        (split,), (picture,) = splits, case.pictures
        if split.shading is None:
            raise ValueError(f"{case.id}: the result has no shading")
        encoded = linear_to_srgb(picture.image)
        tables = confusions(split.shading, case.truth, encoded, self.largest_ratio)
        counts = {f"ap/{way}": table for way, table in tables.items()}
        both = all((t[-1, 2] > 0) and (t[-1, :2].sum() > 0) for t in counts.values())
        return Outcome({key: float(average_precision(t)) for key, t in counts.items()} if both else {}, counts)

    def totals(self, outcomes: Sequence[Outcome], weights: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
        """Return the AP of confusions summed over images."""
        return {key: average_precision(self.summed(outcomes, weights, key)) for key in outcomes[0].counts}

    @staticmethod
    def summed(outcomes: Sequence[Outcome], weights: NDArray[Any], key: str) -> NDArray[np.float64]:
        """Return the confusions (k, t + 1, 3) of a way, summed by weights (k, n)."""
        tables = np.stack([outcome.counts[key] for outcome in outcomes])
        sums: NDArray[np.float64] = np.tensordot(weights, tables, axes=1)
        return sums
