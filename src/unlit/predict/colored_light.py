"""Light whose color is not the same everywhere: a blue sky, a lamp in daylight, red light from a red wall.

Notation: I_k the photograph, c_k the one color of its light, q_k = (I_k / c_k) / mean over k of the same, a pixel's own
color; r̂ the log-reflectance that the network says, with a color at every pixel. One light has one color, so of what the
network takes for the light's color at a pixel, `exact.py` would give the reflectance all. Instead the light gets a
share a of the pixel's own color,

    S_k = g c_k (1 − a + a q_k),    R_k = I_k / S_k,

with the gray shading g: at a = 0 the light's color is c, at a = 1 the surface is gray. Since it is the pixel's own, no
color can spill over an edge. a is what fits the network best, with χ(x) = log (q + φ) less its mean over k, over
windows w of 3 x 3 pixels of the small picture:

    a = Σ_w χ(I/c) · (χ(I/c) − χ(r̂)) / (Σ_w |χ(I/c)|² + ε),    from 0 to a₁.

No reflectance rises above the brightest channel's: q / (1 − a + a q) grows with q, and is at most q where q ≥ 1.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlit.model.decomposition import Decomposition
from unlit.predict.guided import window_mean

FLOOR = 0.1
"""φ: where a color is strong one channel is dark, and its own log mostly noise."""
RIDGE = 0.01
"""ε: what is nearly gray has no color to share."""
MOST = 0.95
"""a₁: some color is left, so that no quotient is of two zeros."""
RADIUS = 1
"""Of windows. Wider ones measure the same (docs/trials-predict.md) and blur edges."""


def color_share(log_image: Tensor, said: Decomposition) -> Tensor:
    """Return a (h, w) for the log of one image (3, h, w) and the network's answer for it."""
    own = _color(log_image - said.light_color[0, :, None, None])
    light = own - _color(said.log_reflectance[0])
    sums = torch.stack([(own * light).sum(0), own.square().sum(0)])[None]
    found, whole = window_mean(sums, RADIUS)[0]
    share: Tensor = found / (whole + RIDGE)
    return share.clamp(0, MOST)


def _color(logs: Tensor) -> Tensor:
    """Return χ (3, h, w) for logs (3, h, w)."""
    linear = (logs - logs.amax(0)).exp()  # whatever the scale, no overflow
    color = (linear / linear.mean(0) + FLOOR).log()
    return color - color.mean(0)


def by_light(
    image: NDArray[np.float32], light_color: NDArray[np.float32]
) -> tuple[list[NDArray[np.float32]], NDArray[np.float32]]:
    """Return the channels I_k / c_k (h, w) of an image (h, w, 3), and their sum (h, w).

    Channels below zero, as some cameras' files have them, count as zero.
    """
    parts = [np.maximum(image[..., k], 0) * np.float32(1 / light_color[k]) for k in range(3)]
    level = parts[0] + parts[1]
    level += parts[2]
    return parts, level


def add_own_color(
    shading: NDArray[np.float32],
    parts: list[NDArray[np.float32]],
    level: NDArray[np.float32],
    share: NDArray[np.float32],
) -> None:
    """Multiply shading (h, w, 3) by 1 − a + a q, in place; `parts` and `level` are as `by_light` has them, a (h, w)."""
    # What is black in all channels has no color: the light keeps its own.
    ratio = share * np.float32(3) / np.maximum(level, np.finfo(np.float32).tiny)
    rest = np.where(level > 0, 1 - share, np.float32(1))
    for k in range(3):
        parts[k] *= ratio
        parts[k] += rest
        shading[..., k] *= parts[k]
