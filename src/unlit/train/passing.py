"""One pass: the network forward on a batch, what it is judged by, and backward.

On one GPU the pass is captured (`train/captured.py`): all of it where nothing in it depends on what is seen, else the
network alone, since the lattice of a sequence has as many vertices as it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from unlit.data.batch import Batch
from unlit.data.truth import Truth
from unlit.model.decomposition import Decomposition
from unlit.pairwise.pairwise import Pairwise
from unlit.train.ahead import Prepared
from unlit.train.captured import Captured
from unlit.train.learner import Learner
from unlit.train.objective import TERMS, objective

Function = Callable[..., tuple[Tensor, ...]]

MOST_SHAPES = 8
"""So many shapes of batches are captured; a set of more is mostly of others, and each takes its time."""


class Passing:
    """Runs `module`, the learner's network or something around it, forward and backward."""

    def __init__(self, learner: Learner, module: nn.Module, *, captures: bool) -> None:
        self.learner, self.module, self.config, self.captures = learner, module, learner.config, captures
        self._judged = torch.compile(self._terms) if captures and self.config.train.compile else self._terms
        self._known: dict[tuple[object, ...], Captured] = {}
        self._no_pairs: Pairwise | None = None
        """What stands for pairs where there are none: none are needed, or there is no energy at all."""
        self._pool = torch.cuda.graph_pool_handle() if captures else None
        # One pass a step may say itself what the gradients are; several must add theirs.
        self._sets = list(learner.network.parameters()) if captures and self.config.train.passes == 1 else []
        if captures and not self._sets:
            learner.keep_gradients()

    def is_captured(self, prepared: Prepared) -> bool:
        """Return whether all that there is to capture for this batch, which has pairs, is captured already."""
        return prepared.has_pairs and _key(self._said, [prepared.batch.frames]) in self._known

    def run(self, prepared: Prepared) -> Tensor | None:
        """Find the gradients, and add them to what there is; return the terms by the order of `TERMS`.

        None where no pixel is valid. Where there is one pass a step, no gradients may be left of the last.
        """
        batch = prepared.batch
        if prepared.is_empty:
            # Nothing to learn from; but all processes must go backward together.
            found = self.learner.decomposed(self.module, batch.frames)
            (0 * (found.log_reflectance.sum() + found.log_light.sum())).backward()
            return None
        truths = _pictures(batch.truths) if not prepared.has_pairs else None
        inputs = [batch.frames]
        if truths is not None:
            inputs += [batch.mask, *truths]
            self._no_pairs = prepared.pairwise  # all through a run the same
        captured = self._captured(self._said if truths is None else self._whole, inputs)
        if captured is None:
            return self._backward(prepared, self.learner.decomposed(self.module, batch.frames))
        values = captured.forward(inputs)
        if truths is not None:
            captured.backward([torch.ones_like(values[0])])
            return values[1].clone()
        parts = [value.detach().requires_grad_() for value in values]
        terms = self._backward(prepared, Decomposition(*parts), idle=False)
        # Gray light has a color that nothing depends on; and a part may count for nothing.
        wanted = [part for part, has_gradient in zip(parts, captured.has_gradient, strict=True) if has_gradient]
        captured.backward([torch.zeros_like(part) if part.grad is None else part.grad for part in wanted])
        return terms

    def _captured(self, function: Function, inputs: list[Tensor]) -> Captured | None:
        """Return the function for inputs of these shapes, or None where nothing is captured, or nothing more."""
        if not self.captures:
            return None
        key = _key(function, inputs)
        if key not in self._known and len(self._known) < MOST_SHAPES:
            state = list(self.learner.network.buffers())
            self._known[key] = Captured(function, inputs, state, self._pool, self._sets)
        return self._known.get(key)

    def _said(self, frames: Tensor) -> tuple[Tensor, ...]:
        """Return what the network says of frames (b, m, 3, h, w)."""
        found = self.learner.decomposed(self.module, frames)
        return found.log_reflectance, found.log_shading, found.light_color

    def _whole(self, frames: Tensor, mask: Tensor, *truths: Tensor) -> tuple[Tensor, ...]:
        """Return what is to be made small, and the terms."""
        terms = self._judged(frames, mask, truths, *self._said(frames))
        return terms[-1] / self.config.train.passes, terms.detach()

    def _terms(self, frames: Tensor, mask: Tensor, truths: tuple[Tensor, ...], *parts: Tensor) -> Tensor:
        """Return the terms of a batch without pairs, whose truths are `_pictures`."""
        known: tuple[Truth | None, ...] = (None,) * len(frames)
        if truths:
            known = tuple(Truth(*each) for each in zip(*(values.unbind() for values in truths), strict=True))
        batch = Batch(frames, mask, ("",) * len(frames), known)
        values = objective(batch, self._no_pairs, Decomposition(*parts), self.config)
        return torch.stack([values[name].float() for name in TERMS])

    def _backward(self, prepared: Prepared, found: Decomposition, *, idle: bool = True) -> Tensor:
        """Go backward from what a batch is judged by; return the terms. Without `idle` parts may have no gradient."""
        values = objective(prepared.batch, prepared.pairwise, found, self.config, idle=idle)
        if values["total"].requires_grad:  # or nothing at all counts
            passes = self.config.train.passes
            (values["total"] if passes == 1 else values["total"] / passes).backward()
        return torch.stack([values[name].detach().float() for name in TERMS])


def _key(function: Function, inputs: Sequence[Tensor]) -> tuple[object, ...]:
    return (function.__name__, *(tuple(given.shape) for given in inputs))


def _pictures(truths: Sequence[Truth | None]) -> list[Tensor] | None:
    """Return reflectance (b, 3, h, w), shading (b, m, 3, h, w) and which is valid (b, m) of b sequences.

    Nothing where nothing is known; None where something else is, or not of all the same.
    """
    if all(truth is None for truth in truths):
        return []
    columns: list[list[Tensor]] = [[], [], []]
    for truth in truths:
        parts = (truth.reflectance, truth.shading, truth.shading_valid) if truth is not None else (None,)
        if truth is None or truth.judgements is not None or truth.shading_classes is not None:
            return None
        for column, part in zip(columns, parts, strict=True):
            if part is None:
                return None
            column.append(part)
    return [torch.stack(column) for column in columns]
