"""One steady reflectance over the frames of a video: light may change from frame to frame, surfaces do not flicker.

Shapes: h x w pixels of a frame, h' x w' of its small copy; logs are (3, h, w). Each frame's own decomposition says ρ',
its log-reflectance. What is kept is ρ, at every pixel a weighted mean of the ρ' since it last showed another thing:

    W ← (1 − m) (1 − (1 − γ) w) W + w,    ρ ← ρ + (w / W) (ρ' + o − ρ).

w says how far a pixel's light tells anything (little in the dark and at white), γ how long it is remembered, the longer
the less is new, m from 0 to 1 how surely the pixel shows another thing than before. o, a color for each frame, brings
its scale and its light's color to those of ρ; ρ itself follows, slowly, what the frames say of them, so that a first
frame in strange light is forgotten. The shading is what remains: the product is the frame exactly.

A thing is another where color or local structure of ρ' does not fit ρ. Shadows that move change neither much, if the
network knows them for shadows. A camera that moves makes everything another thing: then each frame stands alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from unlit.predict.guided import window_mean

MEMORY = 0.98
"""γ: half of what is remembered is 35 frames old."""
COLOR_MEMORY = 0.995
"""The same for scale and color of the whole: half is 140 frames old."""
DARK, BRIGHT = 0.02, 0.97
"""Linear light below and above which a pixel says less and less of its surface."""
LEAST_WEIGHT = 1e-3
CHROMA_CHANGE = (0.15, 0.4)
"""Differences of log-chromaticity at which a pixel begins to be, and is, another thing."""
STRUCTURE_CHANGE = (0.5, 0.0)
"""Correlations of local structure at which it begins to be, and is."""
FLAT = 0.05
"""Structure weaker than this (standard deviation of logs) is none."""
TOLD = (0.02, 0.1)
"""Weights from which on pixels can say, and say for sure, that they show another thing."""
MOVED = 0.5
"""If this share of a frame shows other things, the camera has moved, or the scene is another."""


@dataclass(frozen=True)
class Memory:
    """What is kept between frames; replaced whole by each."""

    log_reflectance: Tensor
    """ρ (3, h, w)."""
    small: Tensor
    """ρ (3, h', w'), of the small copies."""
    weight: Tensor
    """W (1, h', w')."""
    color_weight: float
    """Of all frames together, for scale and color."""


def steadied(
    memory: Memory | None, log_reflectance: Tensor, small: Tensor, small_light: Tensor
) -> tuple[Memory, Tensor]:
    """Return the memory after one more frame, and m (1, h', w').

    `log_reflectance` (3, h, w) and `small` (3, h', w') are ρ' at both sizes; `small_light` (3, h', w') is the frame,
    linear.
    """
    weight = trust(small_light)
    alone = Memory(log_reflectance, small, weight, float(weight.mean()))
    if memory is None:
        return alone, torch.zeros_like(weight)
    offset = _offset(memory.small - small, weight * memory.weight)
    changed = change(memory.small, small + offset, torch.minimum(weight, memory.weight))
    if changed.mean() > MOVED:
        return alone, torch.ones_like(changed)
    total = (1 - changed) * (1 - (1 - MEMORY) * weight) * memory.weight + weight
    step = weight / total
    grown = interpolate(step[None], log_reflectance.shape[1:], mode="bilinear", align_corners=False)[0]
    seen = float(weight.mean())
    color_weight = (1 - (1 - COLOR_MEMORY) * seen) * memory.color_weight + seen
    drift = offset * (seen / color_weight)
    return (
        Memory(
            memory.log_reflectance + grown * (log_reflectance + offset - memory.log_reflectance) - drift,
            memory.small + step * (small + offset - memory.small) - drift,
            total,
            color_weight,
        ),
        changed,
    )


def trust(light: Tensor) -> Tensor:
    """Return w (1, h, w), from `LEAST_WEIGHT` to 1, for linear light (3, h, w)."""
    rising = (light.mean(0, keepdim=True) / DARK).clamp(0, 1) ** 2
    falling = ((1 - light.amax(0, keepdim=True)) / (1 - BRIGHT)).clamp(0, 1)
    return (rising * falling).clamp_min(LEAST_WEIGHT)


def change(before: Tensor, now: Tensor, weight: Tensor) -> Tensor:
    """Return m (1, h, w) in [0, 1] for two log-reflectances (3, h, w); where little is known, nothing has changed."""
    gray_before, gray_now = before.mean(0, keepdim=True), now.mean(0, keepdim=True)
    chroma = ((now - gray_now) - (before - gray_before)).abs().amax(0, keepdim=True)
    by_color = _ramp(window_mean(chroma[None], 1)[0], *CHROMA_CHANGE)
    by_structure = _ramp(correlation(gray_before, gray_now), *STRUCTURE_CHANGE)
    return torch.maximum(by_color, by_structure) * _ramp(weight, *TOLD)


def correlation(one: Tensor, other: Tensor, radius: int = 3) -> Tensor:
    """Return how alike the structure of two pictures (1, h, w) is around each pixel, −1 to 1; flat ones are alike."""
    a, b = one[None] - window_mean(one[None], radius), other[None] - window_mean(other[None], radius)
    floor = FLAT**2
    products = window_mean(torch.cat([a * b, a * a, b * b], 1), radius)[0] + floor
    return products[:1] / (products[1:2] * products[2:]).sqrt()


def _ramp(values: Tensor, start: float, end: float) -> Tensor:
    return ((values - start) / (end - start)).clamp(0, 1)


def _offset(difference: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted median of (3, h, w) over the pixels, for each channel, (3, 1, 1)."""
    ordered, places = difference.flatten(1).sort(1)
    summed = weight.flatten()[places].cumsum(1)
    middle = (summed < summed[:, -1:] / 2).sum(1, keepdim=True).clamp_max(ordered.shape[1] - 1)
    return ordered.gather(1, middle)[..., None]
