"""The term of solved sequences as plain loops over frames, channels, pixels and steps."""

from __future__ import annotations

import math

import torch
from torch import Tensor

FLOOR = 1e-4
SCALES = 4


def _log(value: float) -> float:
    return math.log(max(value, FLOOR))


def solved(
    frames: Tensor,
    mask: Tensor,
    log_reflectance: Tensor,
    log_shading: Tensor,
    light_color: Tensor,
    reflectance: Tensor,
    *,
    emphasis: float,
    gradient: float,
    reconstruction: float,
) -> Tensor:
    """L of losses/solved.py, the mean over the frames: `log_shading` (n, 1, h, w) is gray, `light_color` (n, 3)."""
    total = log_reflectance.new_zeros(())
    for k in range(len(frames)):
        pixels = _valid(frames[k], mask[k], reflectance[k])
        if not pixels:
            continue
        true_r = {(c, *p): _log(reflectance[k, c][p].item()) for c in range(3) for p in pixels}
        log_i = {(c, *p): _log(frames[k, c][p].item()) for c in range(3) for p in pixels}
        true_s = {p: sum(log_i[c, *p] - true_r[c, *p] for c in range(3)) / 3 for p in pixels}
        weight_r = _shares({p: reflectance[k, :, p[0], p[1]].mean().item() ** emphasis for p in pixels})
        weight_s = _shares({p: math.exp(true_s[p]) ** emphasis for p in pixels})
        off_r = {(c, *p): log_reflectance[k, c][p] - true_r[c, *p] for c in range(3) for p in pixels}
        off_s = {(0, *p): log_shading[k, 0][p] - true_s[p] for p in pixels}
        total = total + _error(off_r, weight_r, 3, gradient) + _error(off_s, weight_s, 1, gradient)
        for p in pixels:
            for c in range(3):
                left = log_i[c, *p] - log_reflectance[k, c][p] - log_shading[k, 0][p] - light_color[k, c]
                total = total + reconstruction * weight_s[p] * left**2 / 3
    return total / len(frames)


def _valid(frame: Tensor, mask: Tensor, reflectance: Tensor) -> list[tuple[int, int]]:
    """The pixels that are not masked, whose reflectance is known and whose image is not black."""
    h, w = frame.shape[1:]
    return [
        (y, x)
        for y in range(h)
        for x in range(w)
        if mask[0, y, x] and reflectance[:, y, x].min() > 0 and frame[:, y, x].max() > FLOOR
    ]


def _shares(values: dict[tuple[int, int], float]) -> dict[tuple[int, int], float]:
    whole = sum(values.values())
    return {place: value / whole for place, value in values.items()}


def _error(off: dict[tuple[int, int, int], Tensor], weight: dict[tuple[int, int], float], c: int, g: float) -> Tensor:
    """The squares around the weighted mean, and the steps to the right and down at every 2^l-th pixel."""
    mean = torch.stack([weight[y, x] * value for (_, y, x), value in off.items()]).sum() / c
    total = torch.stack([weight[y, x] * (value - mean) ** 2 for (_, y, x), value in off.items()]).sum() / c
    for level in range(SCALES):
        skip = 2**level
        for (channel, y, x), value in off.items():
            if y % skip or x % skip:
                continue
            for other in ((y, x + skip), (y + skip, x)):
                if other in weight:
                    # So many pixels does each of this scale stand for.
                    both = 4**level * min(weight[y, x], weight[other])
                    total = total + g * both * (value - off[channel, *other]).abs() / c
    return total
