"""The scale that makes a symmetric non-negative filter bistochastic: every row and column of `N W N` sums to one.

Shapes: n points. With such weights the dense term compares each pixel with a mean of the others, whatever their number,
and is never negative (the paper, Sec. 4.3; Barron et al. 2015 for the idea).

The usual iteration is `N ← sqrt(N / (W N))`. In logs, u = log N, it is `u ← u + ½ g(u)` with the residual
`g(u) = −log(N · W N)`, zero at the answer. There the derivative of −g is `I + N W N`, whose eigenvalues lie between 1
and 2 (W is a product of smoothings, so its own are not negative): a well-conditioned problem, on which the Chebyshev
iteration gains a factor of 5 a round instead of 2, at the same cost: one filtering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import torch
from torch import Tensor

ROUNDS = 25
"""At most this many filterings."""

TOLERANCE = 1e-6
"""Enough when no scale would change by a larger fraction in the usual iteration: that is max ½|g|."""

GAIN = 5.0
"""The factor by which a round lessens what is wrong, about."""

TINY = 1e-16
"""No sum of float64 comes nearer."""

# Bounds of the spectrum of I + N W N. A little may lie under the lower one, since B̄ is a sum of two products of
# smoothings that do not quite commute where vertices are missing; that slows the Chebyshev iteration, no more.
_LOW, _HIGH = 1.0, 2.0


@dataclass(frozen=True)
class Bistochastic:
    """The scale and how well it does."""

    ordered_scale: Tensor
    """(n,) N, positive, of the points in `order`."""
    ordered_row_sums: Tensor
    """(n,) the row sums of N W N that were reached: 1 up to twice the tolerance. In `order` too."""
    rounds: int
    """Filterings that it took."""
    order: Tensor | None = None
    """(n,) the points in the order in which they were scaled, where that is not their own."""

    @cached_property
    def scale(self) -> Tensor:
        """(n,) N of the points in their own order. It takes a pass to find, so only who asks waits for it."""
        return self._in_own_order(self.ordered_scale)

    @cached_property
    def row_sums(self) -> Tensor:
        """(n,) the row sums of the points in their own order."""
        return self._in_own_order(self.ordered_row_sums)

    def _in_own_order(self, values: Tensor) -> Tensor:
        return values if self.order is None else torch.empty_like(values).index_copy_(0, self.order, values)


def step_factors() -> Iterator[tuple[float, float]]:
    """Yield (a, b) for each round: the step of log N is a · (last step) + b · g.

    First comes one usual round, from N = 1; then the Chebyshev semi-iteration (Golub & Van Loan, Sec. 10.1.5).
    """
    yield 0.0, 0.5
    center, radius = (_HIGH + _LOW) / 2, (_HIGH - _LOW) / 2
    yield 0.0, 1 / center
    ratio = radius / center
    while True:
        following = radius / (2 * center - radius * ratio)
        yield following * ratio, 2 * following / radius
        ratio = following


def expected_rounds(tolerance: float) -> int:
    """Return about how many filterings it takes, from what sequences took: it may be one or two more (docs/trials.md).

    Asking a GPU how far it is makes it wait, so it is not asked before.
    """
    return max(1, 2 + math.ceil(-math.log(max(tolerance, TINY), GAIN)))


def bistochastic(
    filtering: Callable[[Tensor], Tensor], ones: Tensor, rounds: int = ROUNDS, tolerance: float = TOLERANCE
) -> Bistochastic:
    """Return the scale N that makes `filtering`, values (n,) to W values (n,), bistochastic.

    `ones` (n,) sets number, dtype and device of the points. At most `rounds` filterings are done, fewer once every
    row sum is right to twice the `tolerance`.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, not {rounds}")
    log_scale, step = torch.zeros_like(ones), torch.zeros_like(ones)
    done = 0
    for a, b in islice(step_factors(), rounds):
        done += 1
        scale = log_scale.exp()
        row_sums = filtering(scale).mul_(scale)
        residual = row_sums.log().neg_()
        if float(residual.abs().max()) <= 2 * tolerance:
            break
        log_scale += step.mul_(a).add_(residual, alpha=b)
    return Bistochastic(scale, row_sums, done)
