"""Frames from light bases: which lights shine when, in what color, and the truth of what comes of it.

Shapes: m frames, k lights, h x w pixels. Light adds up, so a frame is R · Σ weight · irradiance, exactly; what a camera
makes of it afterwards (`data/camera.py`) changes the picture and not the truth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from unlit.color import luminance
from unlit.data.augment import SATURATED
from unlit.data.camera import CameraLook, photographed
from unlit.data.illuminant import balanced, drawn_color_of_light
from unlit.worlds.bases import World

Weights = NDArray[np.float32]
LEVEL = 0.2
"""Mean of the frame under each light alone, over what is valid: lights have no common exposure."""

_DIMMEST = 0.004
"""A light whose mean is below this share of the strongest's hardly reaches what is seen, and is mostly noise."""

_LIT = 0.01
"""Share of the pixels that a light must reach."""


@dataclass(frozen=True)
class Frames:
    """A composed sequence, and its truth."""

    frames: Tensor
    """(m, 3, h, w) linear in [0, 1], as the camera keeps them."""
    mask: Tensor
    """(m, 1, h, w): matt surfaces that are not clipped."""
    reflectance: Tensor
    """(3, h, w), zero where it is not known."""
    shading: Tensor
    """(m, 3, h, w): before the camera, frame = reflectance · shading."""


def usable_lights(world: World) -> Tensor:
    """Return the numbers of the lights (on the CPU) that reach enough of what is seen."""
    gray = luminance(world.basis.irradiance, axis=1) * world.basis.mask
    count = world.basis.mask.sum().clamp_min(1)
    mean = gray.sum((1, 2, 3)) / count
    # A pixel is reached if it has a tenth of what the light's own mean is.
    reached = (gray > 0.1 * mean[:, None, None, None]).sum((1, 2, 3)) / count
    good = (mean > _DIMMEST * mean.max()) & (reached > _LIT) & (mean > 0)
    return good.cpu().nonzero()[:, 0]


def levelled(world: World, lights: Tensor) -> tuple[Tensor, Tensor]:
    """Return frames and shadings (k, 3, h, w) under these lights alone, each frame's valid mean brought to `LEVEL`."""
    lights = lights.to(world.highlight.device)
    basis = world.basis
    shading = basis.irradiance[lights]
    plain = (basis.reflectance * shading).mean(1, keepdim=True) * basis.mask
    level = plain.sum((1, 2, 3), keepdim=True) / basis.mask.sum().clamp_min(1)
    scale = LEVEL / level.clamp_min(1e-12)
    return (basis.reflectance * shading + world.highlight[lights]) * scale, shading * scale


_KELVIN = {
    "sun": (3000, 6200),
    "sky": (6500, 16000),
    "window": (5500, 12000),
    "lamp": (2300, 5500),
    "flash": (5200, 6500),
}


def drawn_weights(draw: Generator, world: World, lights: Tensor, count: int) -> Weights:
    """Return weights (m, k, 3) of these lights for `count` frames that could follow each other.

    A day, on which one sun after another joins the sky; an evening, at which lamps go on and off; or any mixture.
    """
    roles = [world.scene.roles[k] for k in lights.tolist()]
    heights = np.array([world.scene.sun_heights[k] for k in lights.tolist()])
    kind = draw.random()
    is_day = np.array([role in ("sun", "sky", "window") for role in roles])
    if kind < 0.35 and is_day.any():
        weights = _day(draw, roles, count)
    elif kind < 0.6 and not is_day.all():
        weights = _evening(draw, is_day, count)
    else:
        weights = draw.random((count, len(roles))) ** 3 * (draw.random((count, len(roles))) < 0.6)
    weights[weights.sum(1) == 0, int(draw.integers(len(roles)))] = 1.0
    colors = np.stack([_color(draw, role, height) for role, height in zip(roles, heights, strict=True)])
    return balanced(weights[:, :, None] * colors, draw).astype(np.float32)


def _color(draw: Generator, role: str, height: float) -> NDArray[np.float64]:
    """Return a light's color; the sun is the redder the lower it stands."""
    low, high = map(float, _KELVIN[role])
    if role == "sun":
        high = low + (high - low) * min(1.0, 0.2 + height)
        low = 2200 + (low - 2200) * min(1.0, 4 * height)
    return drawn_color_of_light(draw, low, high)


def _day(draw: Generator, roles: list[str], count: int) -> NDArray[np.float64]:
    """Return weights (m, k): suns by turns under drifting clouds, with the sky always there."""
    suns = [k for k, role in enumerate(roles) if role == "sun"]
    always = [k for k, role in enumerate(roles) if role in ("sky", "window")]
    weights = np.zeros((count, len(roles)))
    for k in always:
        weights[:, k] = draw.uniform(0.05, 0.6) * np.exp(draw.normal(0, 0.3, count))
    if suns:
        hours = np.sort(draw.uniform(0, len(suns), count)).astype(int)
        weights[np.arange(count), np.array(suns)[hours]] = draw.random(count) ** 0.7 * (draw.random(count) < 0.8)
    return weights


def _evening(draw: Generator, is_day: NDArray[np.bool_], count: int) -> NDArray[np.float64]:
    """Return weights (m, k): daylight that fades, lamps that are switched."""
    fading = np.linspace(1, draw.uniform(0, 0.3), count)[:, None] * draw.uniform(0, 0.6, len(is_day))
    lamps = draw.uniform(0.2, 1, len(is_day)) * (draw.random((count, len(is_day))) < 0.5)
    return np.where(is_day, fading, lamps)


def compose(world: World, weights: Weights, lights: Tensor, exposure: Tensor, look: CameraLook | None = None) -> Frames:
    """Return frames for weights (m, k, 3) of these lights; `exposure` (m,) is each valid mean before clipping."""
    device = world.highlight.device
    one_light, shadings = levelled(world, lights)
    w = torch.from_numpy(weights).to(device)
    mask = world.basis.mask
    frames, shading = (torch.einsum("mkc,kchw->mchw", w, values) for values in (one_light, shadings))
    level = (frames * mask).mean((1, 2, 3), keepdim=True) / mask.float().mean().clamp_min(1e-9)
    scale = exposure.to(device).reshape(-1, 1, 1, 1) / level.clamp_min(1e-12)
    frames, shading = frames * scale, shading * scale
    clipped = frames.amax(1, keepdim=True) >= SATURATED
    kept = photographed(frames[None], [look])[0] if look is not None else frames.clamp(0, 1)
    return Frames(kept, mask & ~clipped, world.basis.reflectance * mask, shading)
