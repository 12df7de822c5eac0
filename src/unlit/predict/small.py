"""The photograph as the network sees it: small, sRGB-encoded, white where it should be.

Shapes: the photograph is (h, w, 3), linear; the small one a tensor (3, h', w').
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from unlit.color import linear_to_srgb

SIZE = 384
"""The longer side of a 3:2 photograph inside the network, as in the paper's training; others get as many pixels."""

SMALLEST, LARGEST = 32, 4096
"""What may be asked for in its place."""

BRIGHT = 0.99
"""The share of pixels that light beyond white must leave below it; the rest is taken for lamps and glints."""


@dataclass(frozen=True)
class Small:
    """A photograph at the network's size."""

    light: Tensor
    """(3, h', w'), linear, divided by the exposure."""
    exposure: float
    """1 unless the photograph has more light beyond white than lamps and glints."""

    @property
    def encoded(self) -> Tensor:
        """(3, h', w') in [0, 1]: sRGB, what the network is given."""
        return linear_to_srgb(self.light.clamp(0, 1))


def small_size(h: int, w: int, size: int = SIZE) -> tuple[int, int]:
    """Return height and width of as many pixels as size x 2/3 size has, or fewer.

    Never more than the photograph's own, and no side longer than four times `size`, which thin strips would have.
    """
    scale = min(1.0, size * math.sqrt(2 / 3 / (h * w)), 4 * size / max(h, w))
    return max(1, round(scale * h)), max(1, round(scale * w))


def small_picture(image: NDArray[np.float32], alpha: NDArray[np.float32] | None = None, size: int = SIZE) -> Small:
    """Return `image` (h, w, 3) at the network's size; what is transparent there counts by its opacity."""
    target = small_size(image.shape[0], image.shape[1], size)
    if alpha is None:
        light = _resized(torch.from_numpy(image), target)
    else:
        opacity = torch.from_numpy(alpha).clamp(0, 1)[..., None]
        seen = _resized(opacity, target)
        light = _resized(torch.from_numpy(image) * opacity, target) / seen.clamp_min(1e-6)
        # Under full transparency a file may keep any color: the mean of the rest disturbs least.
        mean = (light * seen).sum((1, 2), keepdim=True) / seen.sum().clamp_min(1e-6)
        light = torch.where(seen > 1e-3, light, mean)
    exposure = _exposure(light)
    return Small(light / exposure, exposure)


def _resized(picture: Tensor, target: tuple[int, int]) -> Tensor:
    """Return (c, h', w') of a picture (h, w, c), every pixel of which counts."""
    planes = picture.permute(2, 0, 1)[None]  # a view: no second copy of a large photograph
    if tuple(planes.shape[-2:]) == target:
        return planes[0].contiguous()
    return interpolate(planes, target, mode="bilinear", antialias=True)[0].contiguous()


def _exposure(light: Tensor) -> float:
    brightest = light.amax(0).flatten()
    place = min(brightest.numel(), 1 + int(BRIGHT * brightest.numel()))
    return max(1.0, float(torch.kthvalue(brightest, place).values))
