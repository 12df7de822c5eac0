"""The photograph as the network sees it: small, sRGB-encoded, white where it should be.

Shapes: the photograph is (h, w, 3), linear; the small one a tensor (3, h', w').
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from unlit.color import linear_to_srgb
from unlit.predict.full_size import strips
from unlit.predict.guided import window_mean

SIZE = 384
"""The longer side of a 3:2 photograph inside the network, as in the paper's training; others get as many pixels."""

SMALLEST, LARGEST = 32, 4096
"""What may be asked for in its place."""

BRIGHT = 0.99
"""The share of pixels that lie below what counts as brightest; the rest is taken for lamps and glints."""

DIM = 0.5
"""A stop below white: pictures whose brightest is darker are brightened until it is this, since no scale of light is
known, and the network was trained on well-exposed pictures (docs/trials-predict.md). Others stay as they are."""

DARKEST = 1e-6
"""What is darker all over than this is not brightened further."""

HOLE = 2
"""So many pixels of the small picture transparency is filled from its edge on (docs/trials-predict.md)."""


@dataclass(frozen=True)
class Small:
    """A photograph at the network's size."""

    light: Tensor
    """(3, h', w'), linear, divided by the exposure."""
    exposure: float
    """1 unless the photograph has more light beyond white than lamps and glints, or is dim all over: then less."""
    broad: Tensor | None = None
    """(3, h'', w''), linear and of the same exposure: a smaller look, where two are wanted."""

    @property
    def encoded(self) -> list[Tensor]:
        """(3, h', w') in [0, 1], sRGB: what the network is given; a smaller look, if any, after the larger one."""
        looks = [self.light] if self.broad is None else [self.light, self.broad]
        return [linear_to_srgb(look.clamp(0, 1)) for look in looks]


def small_size(h: int, w: int, size: int = SIZE) -> tuple[int, int]:
    """Return height and width of as many pixels as size x 2/3 size has, or fewer.

    Never more than the photograph's own, and no side longer than four times `size`, which thin strips would have.
    """
    scale = min(1.0, size * math.sqrt(2 / 3 / (h * w)), 4 * size / max(h, w))
    return max(1, round(scale * h)), max(1, round(scale * w))


def small_picture(
    image: NDArray[np.float32], alpha: NDArray[np.float32] | None = None, size: int = SIZE, detail: int | None = None
) -> Small:
    """Return `image` (h, w, 3) at the network's size; what is mostly transparent there is black, but for small holes.

    `detail` is the size of a larger look, beside which that of `size` is the broad one.
    """
    h, w, _ = image.shape
    target = small_size(h, w, max(size, detail or size))
    if alpha is None:
        light = _resized(lambda rows: image[rows], (h, w), target)
    else:
        opacity = np.clip(alpha, 0, 1)[..., None]
        seen = _resized(lambda rows: opacity[rows], (h, w), target)
        light = _resized(lambda rows: image[rows] * opacity[rows], (h, w), target) / seen.clamp_min(1e-6)
        # A picture may be faint all over: so it is the most opaque of it that the rest is measured by.
        light = _filled(light, seen > 0.5 * seen.max())
    exposure = _exposure(light)
    light = light / exposure
    broad = small_size(h, w, size)
    return Small(light, exposure, None if broad == target else _scaled(light[None], broad)[0])


def _filled(light: Tensor, is_there: Tensor) -> Tensor:
    """Return `light` (3, h', w') where it is there (1, h', w'), the mean of what is near up to `HOLE` pixels off, or 0.

    Under transparency a file may keep any color. What is not there is black, as beside things before nothing; but
    black specks inside a thing would be taken for its paint.
    """
    light = torch.where(is_there, light, 0)
    for _ in range(HOLE):
        share = window_mean(is_there.to(light.dtype)[None], 1)[0]
        near = window_mean(light[None], 1)[0] / share.clamp_min(1e-6)
        light = torch.where(is_there, light, near)
        is_there = share > 0
    return light


def _resized(strip: Callable[[slice], NDArray[np.float32]], size: tuple[int, int], target: tuple[int, int]) -> Tensor:
    """Return (c, h', w') of a picture of `size` that is given by strips (rows, w, c): every pixel of it counts.

    First made narrow, a strip at a time, then low: torch would copy a large photograph as a whole.
    """
    h, w = size
    narrow = []
    for rows in strips(h, w):
        planes = torch.from_numpy(strip(rows)).permute(2, 0, 1)[None]
        narrow.append(_scaled(planes, (planes.shape[2], target[1])))
    return _scaled(torch.cat(narrow, 2), target)[0].contiguous()


def _scaled(planes: Tensor, size: tuple[int, int]) -> Tensor:
    if tuple(planes.shape[-2:]) == size:
        return planes
    return interpolate(planes, size, mode="bilinear", antialias=True)


def _exposure(light: Tensor) -> float:
    """Return what to divide by, so that of all that is not black the brightest lies between `DIM` and white."""
    values = light.amax(0).flatten()
    lit = values[values > 0]
    if not lit.numel():
        return 1.0
    brightest = float(torch.kthvalue(lit, min(lit.numel(), 1 + int(BRIGHT * lit.numel()))).values)
    return brightest if brightest > 1 else min(1.0, max(brightest, DARKEST) / DIM)
