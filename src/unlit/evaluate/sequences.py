"""Sequences without truth: does the reflectance stay the same while the light changes, and does it keep its contrast.

Shapes: m frames, h x w pixels. Each frame is decomposed by itself. Light may be stronger in one frame than in another,
so each frame's scale, one number, is taken off its log first. Then

- `consistency`: how much log R varies over time, as a share of what log I does. 0 is perfect; the picture itself has 1.
- `contrast`: how much log R varies over the frame, as a share of what log I does. Plain gray is consistent, and has 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from unlit.color import floored_log
from unlit.evaluate.benchmark import Case, Outcome, Part, Picture, Split, Values, mean_totals

if TYPE_CHECKING:
    from unlit.data.dataset import Dataset

FRAMES = 10
SIZE = 384
"""At most so many frames, spread over the sequence, and so long a side: what a method costs is paid for each frame."""


def consistency_and_contrast(reflectances: Values, frames: Values, mask: NDArray[np.bool_]) -> tuple[float, float]:
    """Return both for reflectances and frames (m, h, w, 3), linear, over what the mask (m, h, w) calls valid.

    ValueError where no pixel is valid twice, or where the frames themselves do not vary.
    """
    if reflectances.shape != frames.shape or mask.shape != frames.shape[:3]:
        raise ValueError(f"reflectances {reflectances.shape} and mask {mask.shape} do not fit frames {frames.shape}")
    if not (mask.sum(axis=0) >= 2).any():
        raise ValueError("no pixel is valid in two frames; check the masks")
    kept = mask.any(axis=(1, 2))
    found, given = (_levelled(floored_log(a[kept].astype(np.float64)), mask[kept]) for a in (reflectances, frames))
    over_time, over_space = (
        tuple(spread(logs, mask[kept]) for logs in (found, given)) for spread in (_spread_over_time, _spread_over_space)
    )
    if over_time[1] == 0 or over_space[1] == 0:
        raise ValueError("the frames do not vary over time, or not over space; give a view under changing light")
    return over_time[0] / over_time[1], over_space[0] / over_space[1]


def _levelled(logs: Values, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return logs (m, h, w, 3) with each frame's mean over its valid pixels taken off, and 0 where not valid."""
    valid = mask[..., None]
    counts = 3 * mask.sum(axis=(1, 2))
    means = np.where(valid, logs, 0).sum(axis=(1, 2, 3)) / counts
    return np.where(valid, logs - means[:, None, None, None], 0)


def _spread_over_time(logs: NDArray[np.float64], mask: NDArray[np.bool_]) -> float:
    """Return the standard deviation over time of pixels that are valid twice, as a root mean square over them."""
    counts = mask.sum(axis=0)[..., None]
    mean = logs.sum(axis=0) / np.maximum(counts, 1)
    variance = (np.where(mask[..., None], logs - mean, 0) ** 2).sum(axis=0) / np.maximum(counts, 1)
    return float(np.sqrt(variance[counts[..., 0] >= 2].mean()))


def _spread_over_space(logs: NDArray[np.float64], mask: NDArray[np.bool_]) -> float:
    """Return the standard deviation over a frame's valid pixels, by channel, as a root mean square over frames."""
    counts = mask.sum(axis=(1, 2))[:, None]
    mean = logs.sum(axis=(1, 2)) / counts
    squares = np.where(mask[..., None], logs - mean[:, None, None], 0) ** 2
    return float(np.sqrt((squares.sum(axis=(1, 2)) / counts).mean()))


@dataclass(frozen=True)
class SequencesBenchmark:
    """The sequences of a folder: a prepared dataset, or a folder of folders of frames."""

    folder: Path
    encoding: Literal["srgb", "linear"] | None = None
    frames: int = FRAMES
    size: int = SIZE
    name = "sequences"
    needs: tuple[Part, ...] = ("reflectance",)
    resizes = False
    main_key = "consistency"
    lower_is_better = True

    @property
    def place(self) -> str:
        """The folder."""
        return str(self.folder)

    @cached_property
    def _dataset(self) -> Dataset:
        from unlit.data.dataset import open_dataset

        return open_dataset(self.folder, encoding=self.encoding)

    @property
    def ids(self) -> list[str]:
        """The sequences' names."""
        return [source.name for source in self._dataset.sources]

    def read(self, case_id: str) -> Case:
        """Read a sequence; some of its frames, made smaller, are the case's pictures."""
        from torch.nn.functional import interpolate

        sequence = next(s for s in self._dataset.sources if s.name == case_id).read().sequence
        chosen = np.unique(np.linspace(0, len(sequence.frames) - 1, self.frames).round().astype(int))
        frames, mask = sequence.frames[chosen], sequence.mask[chosen]
        longer = max(frames.shape[-2:])
        if longer > self.size:
            target = [max(1, round(side * self.size / longer)) for side in frames.shape[-2:]]
            frames = interpolate(frames, target, mode="area")
            mask = interpolate(mask.float(), target, mode="area") > 1 - 1e-4
        light, valid = frames.permute(0, 2, 3, 1).numpy(), mask[:, 0].numpy()
        names = [sequence.frame_names[k] for k in chosen]
        # A frame without any valid pixel at this size is left out: methods refuse an empty mask.
        pictures = tuple(
            Picture(f"{case_id}/{name}", light[k], valid[k], light) for k, name in enumerate(names) if valid[k].any()
        )
        if len(pictures) < 2:
            raise ValueError(f"{case_id}: fewer than two of its frames have anything valid; check the masks")
        return Case(case_id, pictures, None)

    def score(self, case: Case, splits: Sequence[Split]) -> Outcome:
        """Return consistency and contrast."""
        masks = [p.mask if p.mask is not None else np.ones(p.image.shape[:2], np.bool_) for p in case.pictures]
        found = [split.reflectance for split in splits if split.reflectance is not None]
        if len(found) != len(case.pictures):
            raise ValueError(f"{case.id}: the result has no reflectance for each frame")
        frames = np.stack([p.image for p in case.pictures])
        # Outside the mask a method may give anything, even what is no number.
        reflectances = np.where(np.stack(masks)[..., None], np.stack(found), 0)
        consistency, contrast = consistency_and_contrast(reflectances, frames, np.stack(masks))
        return Outcome({"consistency": consistency, "contrast": contrast})

    def totals(self, outcomes: Sequence[Outcome], weights: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
        """Return means over sequences."""
        return mean_totals(outcomes, weights)
