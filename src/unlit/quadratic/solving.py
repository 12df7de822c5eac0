"""The minimum of a picture's sum, and its derivative by the sum's weights.

Shapes: h x w pixels, n of them valid. At the minimum A r = b, where A and b follow from the weights (`weights.py`).
Conjugate gradients find r. Where a loss has the gradient g by r, let A u = g, one more solve with the same A, which is
symmetric. Then

    dL = u · (db − dA r),

so that, u and r held, the derivative by each weight can be read off the sum: by W it is −Δu (Δr − a Δi), by a
W Δu Δi, by V −(u − ū)(r − r̄) around the group's means, by M −Σ (u − ū)(r − i + s'), by s' −M (u − ū).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.fft import dctn, idctn, next_fast_len
from torch import Tensor

from unlit.quadratic.groups import Groups
from unlit.quadratic.pairs import Floats, gathered, steps
from unlit.quadratic.weights import Scene, Terms, terms_of

TOLERANCE = 1e-5
"""Solving ends when its measure of the error is this share of what it was at the start."""
ROUNDS = 400
"""At most."""
ADJOINT = 10.0
"""The adjoint may be so much less exact: a gradient need not be."""


class System:
    """A and b of one scene's sum."""

    def __init__(self, scene: Scene, terms: Terms) -> None:
        self.scene, self.valid = scene, scene.valid
        self.paint, self.sure = ([_array(t) for t in kinds] for kinds in (terms.paint, terms.sure))
        self.alike, self.guess, self.anchor = _array(terms.alike), _array(terms.guess), float(terms.anchor.detach())
        self.sums = [np.bincount(group, v) for group, v in zip(scene.groups, self.alike, strict=True)]
        self._size = [next_fast_len(side, real=True) for side in self.valid.shape]
        self._inverse = self._eigenvalues()

    def operator(self, r: Floats) -> Floats:
        """Return A r (h, w)."""
        result = gathered([w * step for w, step in zip(self.sure, steps(r), strict=True)], r.shape)
        inside = r[self.valid]
        held = self.anchor * (inside - inside.mean())
        for k, v in enumerate(self.alike):
            held += v * self.around(inside, k)
        result[self.valid] += held
        return result

    def right_side(self) -> Floats:
        """Return b (h, w)."""
        i = self.scene.log_gray
        flows = [w * a * step for w, a, step in zip(self.sure, self.paint, steps(i), strict=True)]
        result = gathered(flows, i.shape)
        target = i[self.valid] - self.guess
        result[self.valid] += self.anchor * (target - target.mean())
        return result

    def around(self, inside: Floats, k: int) -> Floats:
        """Return values (n,) less the mean of their group in grouping number `k`."""
        group: Groups = self.scene.groups[k]
        mean: Floats = np.bincount(group, self.alike[k] * inside) / self.sums[k]
        return inside - mean[group]

    def solved(self, right: Floats, tolerance: float = TOLERANCE, rounds: int = ROUNDS) -> Floats:
        """Return u (h, w) with A u = `right`, zero outside, of mean 0 inside: the constant is not told."""
        found, residual = np.zeros_like(right), np.where(self.valid, right - right[self.valid].mean(), 0.0)
        direction = preconditioned = self._preconditioned(residual)
        energy = float(np.vdot(residual, preconditioned))
        enough = tolerance**2 * energy
        for _ in range(rounds):
            if energy <= enough:
                break
            image = self.operator(direction)
            curvature = float(np.vdot(direction, image))
            if curvature <= 0:
                break  # nothing but rounding is left
            length = energy / curvature
            found += length * direction
            residual -= length * image
            preconditioned = self._preconditioned(residual)
            energy, before = float(np.vdot(residual, preconditioned)), energy
            direction = preconditioned + (energy / before) * direction
        found[self.valid] -= found[self.valid].mean()
        return found

    def _preconditioned(self, u: Floats) -> Floats:
        h, w = self.valid.shape
        # In single precision: a preconditioner need not be exact.
        whole = idctn(dctn(u.astype(np.float32), s=self._size) * self._inverse)[:h, :w]
        return np.where(self.valid, whole, 0.0).astype(np.float64)

    def _eigenvalues(self) -> NDArray[np.float32]:
        """Return one over the eigenvalues of a system like A with the same weights for all pixels."""
        fine = np.concatenate([w[usable] for w, usable in zip(self.sure[:2], self.scene.both[:2], strict=True)])
        typical = float(np.exp(np.log(fine).mean())) if fine.size else 1.0
        down, right = (2 - 2 * np.cos(np.pi * np.arange(side) / side) for side in self._size)
        # A group's mean is free, its pixels are held: half of V is between the two.
        offset = float(self.alike.sum(0).mean()) / 2 + self.anchor + 1e-9
        inverse: NDArray[np.float32] = (1 / (typical * (down[:, None] + right) + offset)).astype(np.float32)
        return inverse


def minimum(scene: Scene, terms: Terms, tolerance: float = TOLERANCE, rounds: int = ROUNDS) -> Tensor:
    """Return r (h, w), zero outside the valid pixels and of mean 0 inside, with its gradient by the terms."""
    found: Tensor = _Minimum.apply(scene, tolerance, rounds, *terms.flat)  # type: ignore[no-untyped-call]  # torch's
    return found


class _Minimum(torch.autograd.Function):
    """The head of the module says what happens here."""

    @staticmethod
    def forward(ctx: Any, scene: Scene, tolerance: float, rounds: int, *flat: Tensor) -> Tensor:
        system = System(scene, terms_of(flat))
        ctx.system, ctx.tolerance, ctx.rounds = system, tolerance, rounds
        ctx.found = system.solved(system.right_side(), tolerance, rounds)
        return torch.from_numpy(ctx.found).to(flat[0].dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        system: System = ctx.system
        right = _array(gradients[0]) * system.valid
        right[system.valid] -= right[system.valid].mean()  # r has no constant, so a loss cannot want one
        adjoint = system.solved(right, ADJOINT * ctx.tolerance, ctx.rounds)
        found = [torch.from_numpy(d).to(gradients[0].dtype) for d in derivatives(system, ctx.found, adjoint)]
        return None, None, None, *found


def derivatives(system: System, r: Floats, u: Floats) -> list[NDArray[np.float64]]:
    """Return the derivative of u · (b − A r) by each weight, u and r held, in the order of `Terms.flat`."""
    log_gray, valid = system.scene.log_gray, system.valid
    by_paint, by_sure = [], []
    kinds = zip(system.paint, system.sure, steps(u), steps(r), steps(log_gray), strict=True)
    for paint, sure, step_u, step_r, step_i in kinds:
        by_paint.append(sure * step_u * step_i)
        by_sure.append(-step_u * (step_r - paint * step_i))
    inside_u, inside_r = u[valid], r[valid]
    groupings = range(len(system.alike))
    by_alike = np.stack([-system.around(inside_u, k) * system.around(inside_r, k) for k in groupings])
    centered = inside_u - inside_u.mean()
    left = inside_r - log_gray[valid] + system.guess
    by_anchor = np.array(-np.dot(centered, left))
    return [*by_paint, *by_sure, by_alike, by_anchor, -system.anchor * centered]


def _array(values: Tensor) -> Floats:
    return values.detach().double().numpy()
