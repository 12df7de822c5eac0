"""Random fields in space, the same on every machine: noise, cells and layouts that textures are made of.

Shapes: n points, each with a seed (n,) of its own; `...` are other points with the same seeds, if there are any.
Randomness is a hash of integer grid places, in integers, so that no device and no batch changes it.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF
_PRIMES = (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35)
_SEED_PRIME = 0x27D4EB2F
_OCTAVE_STEP = 2.03
"""Not two: grids of octaves that coincide would show."""


def hashed(place: Tensor, seed: Tensor, channel: int = 0) -> Tensor:
    """Return numbers in [0, 1) for integer places (..., n, d ≤ 3), seeds (n,); each channel is another such field."""
    word = _mixed_seed(seed, channel)
    for axis in range(place.shape[-1]):
        word = word ^ (place[..., axis] * _PRIMES[axis])
    return _scrambled(word)


def _mixed_seed(seed: Tensor, channel: int) -> Tensor:
    return seed.long() * _SEED_PRIME + channel * 0x165667B1


def _scrambled(word: Tensor) -> Tensor:
    """Return the words as evenly spread numbers in [0, 1): shifts and products of 32 bits."""
    word = word & _WORD
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39)):
        word ^= word >> shift  # in place: this is most of the time that textures take
        word *= factor
        word &= _WORD
    word ^= word >> 15
    return (word >> 8).float() * (1 / (1 << 24))  # 24 bits, which a float32 holds exactly


def value_noise(p: Tensor, seed: Tensor) -> Tensor:
    """Return smooth noise (..., n) in [0, 1) at points p (..., n, 3): random on a grid of side one, a curve between."""
    cell = p.floor()
    f = p - cell
    f = f * f * f * (f * (f * 6 - 15) + 10)  # no jump of the slope, nor of the curvature: bumps are lit by the slope
    sides = []
    for axis in range(3):
        low = cell[..., axis].long() * _PRIMES[axis]
        sides.append(((low, 1 - f[..., axis]), (low + _PRIMES[axis], f[..., axis])))
    start, total = _mixed_seed(seed, 0), torch.zeros_like(p[..., 0])
    for (x, share_x), (y, share_y), (z, share_z) in itertools.product(*sides):
        total += share_x * share_y * share_z * _scrambled(start ^ x ^ y ^ z)
    return total


def fractal(p: Tensor, seed: Tensor, octaves: int = 4, gain: float = 0.5) -> Tensor:
    """Return noise (..., n) of several sizes, about 0 with a spread of about 0.15, within (−½, ½)."""
    total, weight, sum_of_weights = torch.zeros_like(p[..., 0]), 1.0, 0.0
    for octave in range(octaves):
        total = total + weight * (value_noise(p, seed + 101 * octave) - 0.5)
        sum_of_weights += weight
        weight *= gain
        p = p * _OCTAVE_STEP + 17.3
    return total / sum_of_weights


def cells(uv: Tensor, seed: Tensor, jitter: float = 0.9) -> tuple[Tensor, Tensor, Tensor]:
    """Return for points (..., n, 2): distance to the nearest of scattered centers, to the second, the nearest's place.

    One center in each unit square; the place (..., n, 2) is that square, to be hashed for what the cell is like.
    """
    corner = uv.floor()
    first = torch.full_like(uv[..., 0], 9.0)
    second, nearest = first.clone(), torch.zeros_like(corner)
    for dx, dy in itertools.product((-1, 0, 1), repeat=2):
        place = torch.stack([corner[..., 0] + dx, corner[..., 1] + dy], -1)
        offset = torch.stack([hashed(place.long(), seed, 11), hashed(place.long(), seed, 12)], -1)
        distance = (place + 0.5 + jitter * (offset - 0.5) - uv).square().sum(-1).sqrt()
        closer = distance < first
        second = torch.where(closer, first, torch.minimum(second, distance))
        nearest = torch.where(closer[..., None], place, nearest)
        first = torch.where(closer, distance, first)
    return first, second, nearest.long()


def laid(uv: Tensor, shift: Tensor, aspect: Tensor) -> tuple[Tensor, Tensor]:
    """Return a wall's layout at points (..., n, 2): distance to the nearest joint in row heights, and the stone.

    Rows have height one and stones the width `aspect` (n,); each row is moved by `shift` (n,) of a stone.
    """
    row = uv[..., 1].floor()
    along = uv[..., 0] / aspect + shift * row
    column = along.floor()
    x, y = along - column, uv[..., 1] - row
    edge = torch.minimum(torch.minimum(x, 1 - x) * aspect, torch.minimum(y, 1 - y))
    return edge, torch.stack([column, row], -1).long()


def smooth_step(values: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """Return 0 below `low`, 1 above `high`, and a smooth rise between them."""
    t = ((values - low) / (high - low)).clamp(0, 1)
    return t * t * (3 - 2 * t)
