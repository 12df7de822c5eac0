"""Which of two surfaces is darker, as the truth says it: pairs of pixels of a frame, near and far.

Shapes: m frames, h x w pixels. With l the log of a pixel's lightness (WHDR's: the mean of R, G and B, each raised to
1/γ), the difference g = γ (l_q − l_p) of the estimate, t that of the truth, τ the margin beyond which surfaces count as
different, and s the sign of t, a pair loses

    different, |t| > τ:   max(0, min(|t|, a τ) − s g) / τ
    equal,     |t| ≤ τ:   max(0, |g| − max(|t|, τ / a)) / τ

with a > 1. The truth loses nothing. Where a network cannot know whether a step is paint or light, squares of errors
make it say half of each; these terms are linear, and bend only around τ, so it says what is likelier.

Pairs are those of pixels on a coarse grid with those a fixed way off, in four directions and at four distances: drawn
pairs would say the same, but a step of training would not repeat.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unlit.color import floored_log
from unlit.losses.supervised_settings import MARGIN

DISTANCES = (6, 18, 48, 112)
"""Pixels, along a row or a column; IIW's neighbors are some 20 apart in a picture of 256."""
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
STEP = 4
"""Of the grid: so many pairs are enough, and a sixteenth of the work."""
GAMMA = 2.2
SURE = 1.5
"""a: how clearly, in margins, a difference is to be said, and by how much equality."""


def truth_pairs_term(log_estimate: Tensor, truth: Tensor, mask: Tensor, margin: float = MARGIN) -> Tensor:
    """Return the mean loss of a pair for log_estimate (m, 3, h, w), linear `truth` that broadcasts with it, and mask.

    Pairs with a pixel that `mask` (m, 1, h, w) hides, or whose truth is unknown, do not count; none at all gives zero.
    """
    valid = (mask.bool() & (truth > 0).any(-3, keepdim=True))[:, 0]
    # First of all, since what is masked may hold anything, and infinity times no weight is NaN.
    estimated = _lightness(torch.where(valid[:, None], log_estimate, 0))
    true = _lightness(torch.where(valid[:, None], floored_log(truth), 0))
    lost, count = estimated.new_zeros(()), estimated.new_zeros(())
    for offset in _offsets(*estimated.shape[1:]):
        g, t = (_difference(values, offset) / margin for values in (estimated, true))
        both = torch.logical_and(*_ends(valid, offset))
        different = (t.abs().clamp_max(SURE) - t.sign() * g).clamp_min(0)
        equal = (g.abs() - t.abs().clamp_min(1 / SURE)).clamp_min(0)
        lost = lost + (torch.where(t.abs() > 1, different, equal) * both).sum()
        count = count + both.sum()
    return lost / count.clamp_min(1)


def _lightness(logs: Tensor) -> Tensor:
    """Return the log (m, h, w), times γ, of the lightness of log colors (m, 3, h, w)."""
    return GAMMA * ((logs / GAMMA).logsumexp(1) - math.log(3))


def _offsets(h: int, w: int) -> list[tuple[int, int]]:
    """Return those that pairs of a frame of this size can have."""
    all_of_them = ((y * d, x * d) for d in DISTANCES for y, x in DIRECTIONS)
    return [(y, x) for y, x in all_of_them if y < h and abs(x) < w]


def _ends(values: Tensor, offset: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return values (m, h, w) at both ends of the pairs of an offset, the first ends being those on the grid."""
    y, x = offset
    h, w = values.shape[1:]
    left, right = max(0, -x), w - max(0, x)
    first = values[:, : h - y : STEP, left:right:STEP]
    return first, values[:, y::STEP, left + x : right + x : STEP]


def _difference(values: Tensor, offset: tuple[int, int]) -> Tensor:
    first, second = _ends(values, offset)
    return second - first
