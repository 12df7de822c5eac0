"""Numbers that fill a square evenly, and directions made of them.

Shapes: r points or rays, each with a key of its own. Vectors come first, (3, r).

Numbers are 32-bit integers until the last step, so that they are the same on every device and in `kernel/numbers.cu`. A
sequence is i·α mod 1 (α from the generalised golden ratio, which spreads every run of it evenly), moved for each pixel
by a random shift (Cranley & Patterson), which turns what would be a pattern into noise.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

WORD = 0xFFFFFFFF
GOLDEN = 0x9E3779B9
"""2³² over the golden ratio."""


def _steps(dimensions: int) -> tuple[int, ...]:
    """The α of a sequence in some dimensions, as 32-bit integers: powers of 1/x, where x^(d+1) = x + 1."""
    x = 1.0
    for _ in range(64):
        x = (1 + x) ** (1 / (dimensions + 1))
    return tuple(round(2**32 * x ** -(i + 1)) for i in range(dimensions))


LIGHT_STEPS = _steps(2)
"""For points on a light, from where the camera looks."""
PATH_STEPS = _steps(4)
"""For the first direction of a path and the point on a light that is asked at its end."""


def mixed(word: Tensor) -> Tensor:
    """Return 32-bit integers (held in int64) whose bits all depend on all bits of `word`: MurmurHash3's last step."""
    word = word & WORD
    word = ((word ^ (word >> 16)) * 0x85EBCA6B) & WORD
    word = ((word ^ (word >> 13)) * 0xC2B2AE35) & WORD
    return word ^ (word >> 16)


def pixel_keys(count: int, seed: int, device: torch.device) -> Tensor:
    """Return the keys (count,) of pixels 0 to count − 1."""
    numbers = torch.arange(count, dtype=torch.int64, device=device)
    return mixed(mixed(torch.tensor(seed & WORD, device=device)) + numbers * GOLDEN)


def shift(key: Tensor, stream: int) -> Tensor:
    """Return the random shift of the sequence number `stream` for each key."""
    return mixed(key + stream * GOLDEN)


def unit(word: Tensor) -> Tensor:
    """Return 32-bit integers as float32 in [0, 1)."""
    return ((word & WORD) >> 8).float() * 2.0**-24


def direct_numbers(key: Tensor, light: int, sample: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two numbers that choose a point of `light`, for `sample` and keys that broadcast."""
    one, two = (unit(sample * LIGHT_STEPS[i] + shift(key, 2 * light + i)) for i in range(2))
    return one, two


def path_words(key: Tensor, path: Tensor, bounce: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the four words of a path at a bounce: two for its direction, two for the lights asked at its end.

    The first bounce, which matters most, has an even sequence; those behind it have plain random words.
    """
    streams = [-1 - 4 * bounce - i for i in range(4)]
    if bounce == 0:
        one, two, three, four = (path * PATH_STEPS[i] + shift(key, stream) for i, stream in enumerate(streams))
    else:
        one, two, three, four = (mixed(shift(key, stream) + path * GOLDEN) for stream in streams)
    return one, two, three, four


def light_numbers(words: tuple[Tensor, Tensor], light: int) -> tuple[Tensor, Tensor]:
    """Return the two numbers that choose a point of `light` at a path's end: lights must not share their noise."""
    return unit(words[0] + light * LIGHT_STEPS[0]), unit(words[1] + light * LIGHT_STEPS[1])


def frame(axis: Tensor) -> tuple[Tensor, Tensor]:
    """Return two vectors (3, r) that stand upright on `axis` (3, r) and on each other (Duff et al. 2017)."""
    x, y, z = axis
    sign = torch.where(z >= 0, 1.0, -1.0)
    a = -1 / (sign + z)
    b = x * y * a
    return torch.stack([1 + sign * x * x * a, sign * b, -sign * x]), torch.stack([b, sign + y * y * a, -y])


def cosine_direction(normal: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Return directions (3, r) about `normal` (3, r), as dense as their cosine: the density is cos / π."""
    return _around(normal, u.sqrt(), (1 - u).sqrt(), v)


def cone_direction(axis: Tensor, width: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Return directions (3, r), even over the cone about `axis` (3, r) of cosines from 1 − `width` to 1."""
    drop = u * width  # one minus the cosine: for narrow cones the cosine itself has no digits left
    return _around(axis, (drop * (2 - drop)).clamp_min(0).sqrt(), 1 - drop, v)


def _around(axis: Tensor, sine: Tensor, cosine: Tensor, v: Tensor) -> Tensor:
    one, two = frame(axis)
    angle = 2 * math.pi * v
    return one * (sine * angle.cos()) + two * (sine * angle.sin()) + axis * cosine
