"""Sequences with one light at a time as the quadratic learns from them: a picture, and what all lights say of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlit.data.dataset import Item, Skipped, Source
from unlit.data.settings import DataSettings
from unlit.data.sizing import read_usable
from unlit.quadratic.learning import Sample, sample_of
from unlit.quadratic.targets import LEAST_LIGHTS, pseudo_reflectance
from unlit.train.solving import Solver
from unlit.train.weights import save_weights

STRIDE = 7
"""Sequence number k shows its frame number 7 k: neighbors in a dataset are lit from other sides."""


class Targets(Solver):
    """Finds the gray reflectance (1, h, w) of sequences by all their lights; of each, at once kept in the run."""

    def reflectance(self, item: Item) -> Tensor:
        """Return it; ValueError where too few lights are left."""
        least_energy = super().reflectance(item).cpu()
        frames, mask = item.sequence.frames, item.sequence.mask[:, 0]
        found = pseudo_reflectance(frames.cpu().numpy(), mask.cpu().numpy(), least_energy.numpy())
        return torch.from_numpy(found)[None]

    def sample(self, item: Item, number: int) -> Sample:
        """Return what is learned from sequence number `number`; ValueError where that is nothing."""
        is_new = item.sequence.name not in self.found
        reflectance = self.found_of(item)
        if is_new:
            save_weights(self._file, self.found, {})
        return sample_of(*picture_of(item, number), reflectance[0].cpu().numpy())


def usable_item(source: Source, settings: DataSettings) -> Item | Skipped:
    """Return a sequence of four lights or more, one in each frame, at its own size; or why it is none."""
    item = read_usable(source, whole_pictures(settings))
    wrong = None if isinstance(item, Skipped) else _wrong_with(item)
    return Skipped(source.name, wrong) if wrong else item


def whole_pictures(settings: DataSettings) -> DataSettings:
    """Return settings by which pictures keep their own size, unless their longer side has too many pixels."""
    return replace(settings, window=settings.longest)  # as for windows, which are cut from such pictures


def _wrong_with(item: Item) -> str | None:
    """Return why nothing can be learned from a sequence."""
    name, count = item.sequence.name, len(item.sequence.frames)
    if not item.one_light:
        return f"{name}: its frames are not of one light each; say --data.one-light where they are, else leave it out"
    if count < LEAST_LIGHTS:
        return f"{name}: has {count} lights; {LEAST_LIGHTS} or more tell shadows from paint"
    return None


def picture_of(item: Item, number: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the picture (h, w, 3) that is learned from, and where it is valid (h, w).

    It is that in ordinary light where there is one, else one of the frames, another for each sequence. The mean of all
    will not do: many lights together leave no shading to learn from.
    """
    sequence = item.sequence
    if item.picture is not None:
        image, mask = item.picture, sequence.mask.all(0)
    else:
        k = STRIDE * number % len(sequence.frames)
        image, mask = sequence.frames[k], sequence.mask[k]
    return image.permute(1, 2, 0).cpu().numpy(), mask[0].cpu().numpy()
