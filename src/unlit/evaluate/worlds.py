"""How near a decomposition comes to the truth of scenes whose answer is known: prepared datasets with `truth/`.

Shapes: m frames, h x w pixels. Each sequence is one case. Where its frames have one lamp each, the picture is a mixture
of some, drawn by the sequence's name; else it is the frame in the middle of those whose shading is known. It is exposed
so that its brightest hundredth is clipped, and what is clipped, masked or unknown counts for nothing.

Scores are those of the MIT set, and WHDR with the true reflectance in people's place: the truth itself is perfect.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from unlit.evaluate.benchmark import Case, Outcome, Part, Picture, Split, Values, mean_totals
from unlit.evaluate.iiw import DELTAS, ScoredEncoding, whdr
from unlit.evaluate.mit import mit_scores
from unlit.evaluate.mit_set import geometric_totals
from unlit.evaluate.points import point_pairs, true_comparisons

if TYPE_CHECKING:
    from unlit.data.dataset import Dataset, Item

CLIPPED_SHARE = 0.01
"""Of a picture's pixels."""
SHARE_ON = 0.4
"""Of the lamps: with all of them on there would hardly be a shadow left."""


@dataclass(frozen=True)
class WorldTruth:
    """What is known of a picture."""

    reflectance: NDArray[np.float32]
    """(h, w, 3), linear."""
    shading: NDArray[np.float32]
    """(h, w, 3), of the picture; scaled so that all but its brightest hundredth is below 1."""
    shadings: NDArray[np.float32]
    """(m, h, w, 3), of the frames that have one."""
    mask: NDArray[np.bool_]
    """(h, w): where all of it is known."""


@dataclass(frozen=True)
class WorldsBenchmark:
    """The sequences of a dataset, or of one of its splits."""

    folder: Path
    split: str = "all"
    name = "worlds"
    needs: tuple[Part, ...] = ("reflectance", "shading")
    resizes = False
    main_key = "mse/reflectance"
    lower_is_better = True

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    @cached_property
    def _dataset(self) -> Dataset:
        from unlit.data.dataset import open_dataset

        return open_dataset(self.folder, with_truth=True)

    @property
    def ids(self) -> list[str]:
        """The sequences' names; ValueError where there are sequences, but none of the split."""
        sources = self._dataset.sources
        names = [s.name for s in sources if self.split in ("all", s.split)]
        if sources and not names:
            there = ", ".join(f"{n} {split}" for split, n in Counter(s.split for s in sources).items())
            wrong = f"has no sequences for {self.split}, only {there}"
            raise ValueError(f"{self.folder}: {wrong}; say --split all, or give a dataset that has some")
        return names

    def read(self, case_id: str) -> Case:
        """Read a sequence and make its picture."""
        source = next(s for s in self._dataset.sources if s.name == case_id)
        item = source.read()
        picture, truth = world_picture(item)
        return Case(case_id, (picture,), truth)

    def score(self, case: Case, splits: Sequence[Split]) -> Outcome:
        """Return MSE, LMSE and DSSIM of both parts, and WHDR."""
        (split,) = splits
        truth: WorldTruth = case.truth
        if split.reflectance is None or split.shading is None:
            raise ValueError(f"{case.id}: the result lacks reflectance or shading")
        gray = truth.shading.mean(axis=-1)
        scores = mit_scores(split.reflectance, split.shading, truth.reflectance, gray, truth.mask)
        return Outcome(scores | true_whdr_scores(split.reflectance, truth, _seed(case.id)))

    def totals(self, outcomes: Sequence[Outcome], weights: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
        """Return arithmetic means over pictures, and geometric ones of the errors."""
        errors = [Outcome({k: v for k, v in o.scores.items() if not k.startswith("whdr")}) for o in outcomes]
        return mean_totals(outcomes, weights) | geometric_totals(errors, weights)


def true_whdr_scores(reflectance: Values, truth: WorldTruth, seed: int) -> dict[str, float]:
    """Return WHDR for both deltas and encodings, against what the true reflectance says in the same encoding."""
    first, second = point_pairs(truth.mask, np.random.default_rng(seed))
    size = (reflectance.shape[0], reflectance.shape[1])
    scores = {}
    for delta in DELTAS:
        for encoding in get_args(ScoredEncoding):
            said = true_comparisons(truth.reflectance, first, second, delta, encoding)
            scores[f"whdr@{delta}/{encoding}"] = whdr(reflectance, said, size, delta, encoding)
    return scores


def world_picture(item: Item) -> tuple[Picture, WorldTruth]:
    """Return the picture of a sequence and what is known of it; ValueError where too little is."""
    from unlit.data.sizing import unclipped

    # What a file has clipped is no longer what its light would make: the sum of lamps would be too dark there.
    item = unclipped(item)
    sequence, truth = item.sequence, item.truth
    if truth is None or truth.reflectance is None or truth.shading is None or truth.shading_valid is None:
        raise ValueError(f"{sequence.name}: its true reflectance and shading are not both known; give both in truth/")
    known = truth.shading_valid.numpy().nonzero()[0]
    frames, shadings = (_pictures(t)[known] for t in (sequence.frames, truth.shading))
    masks, reflectance = sequence.mask[:, 0].numpy()[known], _pictures(truth.reflectance[None])[0]
    weights = _weights(frames, _seed(sequence.name), mixes=item.one_light)
    image, shading = (np.tensordot(weights, a, axes=1).astype(np.float32) for a in (frames, shadings))
    mask = masks[weights > 0].all(axis=0) & (reflectance > 0).any(axis=-1) & (shading > 0).any(axis=-1)
    if not mask.any():
        raise ValueError(f"{sequence.name}: no pixel is valid and known; check masks and truth")
    exposure = _brightness(image, mask)
    mask &= (image <= exposure).all(axis=-1)
    picture = Picture(sequence.name, np.clip(image / exposure, 0, 1), mask, frames)
    return picture, WorldTruth(reflectance, shading / _brightness(shading, mask), shadings, mask)


def _seed(name: str) -> int:
    return zlib.crc32(name.encode(errors="surrogateescape"))


def _weights(frames: NDArray[np.float32], seed: int, *, mixes: bool) -> NDArray[np.float64]:
    """Return how much of each frame is in the picture: the middle one alone, or the lamps that happen to be on.

    Those are two in five, and one at least; before they are drawn, all are made equally bright.
    """
    count = len(frames)
    if not mixes:
        return np.where(np.arange(count) == count // 2, 1.0, 0.0)
    rng = np.random.default_rng(seed)
    is_on = rng.random(count) < SHARE_ON
    is_on[rng.integers(count)] = True
    brightness = np.maximum(frames.mean(axis=(1, 2, 3), dtype=np.float64), np.finfo(np.float32).tiny)
    return np.where(is_on, rng.lognormal(0, 1, count) / brightness, 0.0)


def _brightness(values: NDArray[np.float32], mask: NDArray[np.bool_]) -> float:
    """Return what all but the brightest hundredth of valid pixels stay below, or 1 where all is black."""
    bright = float(np.quantile(values.max(axis=-1)[mask], 1 - CLIPPED_SHARE))
    return bright if bright > 0 else 1.0


def _pictures(tensor: Any) -> NDArray[np.float32]:
    """Return tensors (m, 3, h, w) as pictures (m, h, w, 3)."""
    pictures: NDArray[np.float32] = tensor.permute(0, 2, 3, 1).numpy()
    return pictures
