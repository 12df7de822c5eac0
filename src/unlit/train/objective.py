"""What a batch is judged by: the energy, what its sequences were solved to be, and truth where there is any.

Shapes: b sequences of m frames each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from unlit.config import Config
from unlit.data.batch import Batch
from unlit.data.truth import Truth
from unlit.losses.batch import batch_energy
from unlit.losses.solved import solved_term
from unlit.losses.supervised import supervised_terms
from unlit.model.decomposition import Decomposition
from unlit.pairwise.pairwise import Pairwise

TERMS = ("reconstruction", "consistency", "reflectance", "shading", "scale", "solved", "supervised", "total")
"""What is recorded, in this order. All but the last two are without their weights; those that have none are 0."""

_PARTS = ("log_reflectance", "log_shading", "light_color")


def objective(
    batch: Batch, pairwise: Pairwise | None, decomposition: Decomposition, config: Config, *, idle: bool = True
) -> dict[str, Tensor]:
    """Return the terms by name, and under "total" what is to be made small. Without `pairwise` there is no energy.

    Every part of the decomposition has a gradient, if it be zero; without `idle` only those that count for something.
    """
    values = dict.fromkeys(TERMS, batch.frames.new_zeros(()))
    if pairwise is not None:
        values |= vars(batch_energy(batch.frames, batch.mask, decomposition, pairwise, config.energy, idle=False))
    # What has no weight is not added either: on a GPU every number that is made or added costs a launch.
    if config.solved.weight > 0:
        values["solved"] = _solved(batch, decomposition, config)
        values["total"] = values["total"] + config.solved.weight * values["solved"]
    if config.supervised.any:
        values["supervised"] = _supervised(batch, decomposition, config)
        values["total"] = values["total"] + values["supervised"]
    # A part may count for nothing (the color where light is gray, shading where only reflectance is known). But several
    # processes wait for every parameter's gradient, and a captured pass for every part's: a sum of nothing has one. It
    # costs a pass over all of it.
    if idle:
        values["total"] = values["total"] + sum(getattr(decomposition, name)[:0].float().sum() for name in _PARTS)
    return values


def _solved(batch: Batch, decomposition: Decomposition, config: Config) -> Tensor:
    """Return how far the frames are from the reflectance that their sequences were solved to have."""
    known = [None if truth is None else truth.reflectance for truth in batch.truths]
    if any(reflectance is None for reflectance in known):
        return batch.frames.new_zeros(())
    reflectance = torch.stack(cast(list[Tensor], known)).repeat_interleave(batch.frames.shape[1], 0)
    frames, mask = batch.frames.flatten(0, 1), batch.mask.flatten(0, 1)
    return solved_term(frames, mask, decomposition, reflectance, config.solved)


def _supervised(batch: Batch, decomposition: Decomposition, config: Config) -> Tensor:
    """Return the weighted sum of the supervised terms, the mean over the sequences of the batch."""
    total = batch.frames.new_zeros(())
    m, light = batch.frames.shape[1], config.energy.colored_light
    together = _stacked(batch.truths, m) if len(batch.names) > 1 else None
    if together is not None:
        mask = batch.mask.flatten(0, 1)
        return supervised_terms(decomposition, mask, together, config.supervised, colored_light=light)["total"]
    for k, truth in enumerate(batch.truths):
        if truth is not None:
            part = Decomposition(*(getattr(decomposition, name)[k * m : (k + 1) * m] for name in _PARTS))
            terms = supervised_terms(part, batch.mask[k], truth, config.supervised, colored_light=light)
            total = total + terms["total"]
    return total / len(batch.names)


@dataclass(frozen=True)
class _Stacked:
    """The truths of several sequences, of which reflectance and shading are known and nothing else."""

    reflectance: Tensor
    """(b m, 3, h, w)."""
    shading: Tensor
    """(b m, 3, h, w)."""
    shading_valid: Tensor
    """(b m,)."""
    judgements: None = None
    shading_classes: None = None


def _stacked(truths: tuple[Truth | None, ...], m: int) -> _Stacked | None:
    """Return all truths as one, which takes the time of one; None where they do not know the same.

    Sequences then count by their valid pixels instead of all alike.
    """
    reflectances, shadings, valid = [], [], []
    for truth in truths:
        if truth is None or truth.reflectance is None or truth.shading is None or truth.shading_valid is None:
            return None
        if truth.judgements is not None or truth.shading_classes is not None:
            return None
        reflectances.append(truth.reflectance[None].expand(m, -1, -1, -1))
        shadings.append(truth.shading)
        valid.append(truth.shading_valid)
    return _Stacked(torch.cat(reflectances), torch.cat(shadings), torch.cat(valid))
