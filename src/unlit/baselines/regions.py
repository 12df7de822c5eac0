"""Regions of one reflectance each: how bright each must be for the shading to go on across their borders.

Shapes: n valid pixels, e pairs of neighbors, k labels. With `log_gray` (n,) and a level t for each label, the
log-shading is log_gray − t[label]. Along a border it should not jump, so that the levels of two labels should differ as
the light does from a pixel on the one side to its neighbor on the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import coo_array, eye_array
from scipy.sparse.linalg import spsolve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Labels = NDArray[np.intp]

SMALLEST_JUMP = 1e-3
"""Jumps of less than this in the log count as squares: dividing by them would make the system singular."""

TIE = 1e-6
"""How strongly the levels are held where they were, against a mean border; it decides what no border decides."""


def neighbor_pairs(valid: NDArray[np.bool_]) -> Labels:
    """Return the pairs (2, e) of valid neighbors, below and to the right, as indices among the valid pixels."""
    index = np.cumsum(valid).reshape(valid.shape) - 1
    pairs = []
    for one, other in ((np.s_[1:], np.s_[:-1]), (np.s_[:, 1:], np.s_[:, :-1])):
        both = valid[one] & valid[other]
        pairs.append(np.stack([index[one][both], index[other][both]]))
    return np.concatenate(pairs, axis=1)


def continuous_levels(labels: Labels, pairs: Labels, log_gray: Floats, start: Floats, rounds: int) -> Floats:
    """Return the levels (k,) for which the jumps of the log-shading along all borders have the least sum.

    Of absolute values, so that a border where light really jumps is outvoted rather than averaged in: by that many
    rounds of weighted least squares, each weight one over the jump it had. One round from equal weights is plain least
    squares. `start` (k,) fixes what borders leave open: the constant, and labels that touch no other.
    """
    one, other = labels[pairs]
    border = one != other
    one, other = one[border], other[border]
    step = (log_gray[pairs[0]] - log_gray[pairs[1]])[border]
    levels, weight = start, np.ones(len(step))
    for done in range(rounds if len(step) else 0):
        if done:
            weight = 1 / np.maximum(np.abs(step - (levels[one] - levels[other])), SMALLEST_JUMP)
        levels = least_squares_levels(one, other, step, weight, start)
    return levels


def least_squares_levels(one: Labels, other: Labels, step: Floats, weight: Floats, start: Floats) -> Floats:
    """Return t (k,) with the least sum of weight · (step − (t[one] − t[other]))²; `start` settles what that leaves."""
    k = len(start)
    tie = TIE * float(weight.sum()) / k
    entries = np.concatenate([weight, weight, -weight, -weight])
    rows, columns = np.concatenate([one, other, one, other]), np.concatenate([one, other, other, one])
    matrix = coo_array((entries, (rows, columns)), shape=(k, k)).tocsc() + tie * eye_array(k, format="csc")
    pull = np.bincount(one, weight * step, k) - np.bincount(other, weight * step, k)
    levels: Floats = spsolve(matrix, pull + tie * start)
    return levels
