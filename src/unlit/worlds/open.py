"""What is seen where no surface is: sky and clouds outdoors, and the haze before what is far away.

Shapes: k lights, h x w pixels. The sky has no surface; all of it is light. So its reflectance is that of a white sheet,
and a little more, which no surface has; what it looks like is its shading. Then it is the same at every hour, whatever
passes over it. Each light of a scene has weather of its own, so that clouds move as light changes.

Haze adds light on the way to the camera: `L t + A (1 − t)` with `t = exp(−β depth)`, for each light by its own sky's
brightness `A` at the horizon. That counts as shading too: what is behind it keeps its reflectance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from unlit.worlds.description import Camera
from unlit.worlds.light import Role
from unlit.worlds.noise import fractal, smooth_step
from unlit.worlds.render import camera_rays

OUTDOORS = ("street", "garden", "ruin", "vista")
"""Places under the sky."""

REFLECTANCE = 1.05
"""Of the sky: by it `data/truth.py` knows that it is one."""

_SKIES = 11
"""First number of the seeds of skies."""
_LEVELS: dict[Role, tuple[float, float]] = {
    "sun": (0.12, 0.6),
    "sky": (0.5, 2.0),
    "window": (0.5, 2.0),
    "lamp": (0.004, 0.08),
    "flash": (0.004, 0.04),
}
"""How bright the sky is beside a white sheet in full light, for each light alone: a clear sky is a fifth as bright as
what the sun shines on, an overcast one as bright as what it shines on itself. At night a little glow is left."""
_DEEP = 0.35
"""Share of skies that are deep blue: cameras make more of the color than there is."""
_TINTED = 0.3
"""Share of skies whose clouds have some of its color, as before storms and at dusk."""
_GLOWING = 0.15
"""Share of skies that turn not white but warm towards the horizon."""
_HAZY = 0.4
"""Share of places that have haze."""
_THICKEST = 0.2
"""What is left, at least, of the light of far things. Mostly it is far more: days of fog are few."""
_FAR = 0.92
"""Share of what is seen that is nearer than far things."""
_NEAR = 100.0
"""Meters: where all is nearer, far things would be here. Haze between two sides of a street would be smoke."""
_FARTHEST = 2.0
"""Haze grows with the depth up to so many times that of far things."""
_BRIGHTEST = 2.0
"""Haze is at most so bright beside the light on what is seen."""
_DARKEST = 0.02
"""Reflectance below which haze is not divided by it any further."""
_LOWEST = 0.08
"""Sine of the height at which clouds no longer draw together: they would become finer than pixels."""


@dataclass(frozen=True)
class Sky:
    """How the sky looks under one light."""

    level: float
    zenith: NDArray[np.float64]
    """(3,): its color straight above, of mean 1."""
    edge: NDArray[np.float64]
    """(3,): the same of what it turns to towards the horizon: white, or warm."""
    whiteness: float
    """How high that rises, as the sine of the height."""
    cover: float
    """Share of the sky that has clouds, from 0 to 1."""
    cloud: float
    """How bright clouds are beside the sky."""
    tint: float
    """How much of the sky's color clouds have."""
    scale: float
    """Clouds to a sky's height."""
    softness: float
    offset: NDArray[np.float64]
    """(3,): where in the field of clouds the sky is cut out."""
    seed: int


def drawn_skies(roles: tuple[Role, ...], seed: int) -> tuple[list[Sky], Tensor]:
    """Return a sky for each light of a scene, and how much of the light of far things haze leaves then (k,): 1 is all.

    Haze comes and goes, so it is another under each light.
    """
    draw = np.random.default_rng((_SKIES, seed))
    skies = [_drawn_sky(draw, role) for role in roles]
    is_hazy = draw.random() < _HAZY
    left = np.exp(np.log(_THICKEST) * draw.random(len(roles)) ** 4) if is_hazy else np.ones(len(roles))
    return skies, torch.from_numpy(left).float()


def _drawn_sky(draw: Generator, role: Role) -> Sky:
    low, high = _LEVELS[role]
    is_night = role in ("lamp", "flash")
    kind = draw.random()
    cover = 0.0 if kind < 0.25 else float(draw.uniform(0.2, 0.8)) if kind < 0.7 else 1.0
    is_deep = draw.random() < _DEEP
    red, green = draw.uniform(0.04, 0.3) if is_deep else draw.uniform(0.2, 0.8), draw.uniform(0.5, 0.95)
    green = 0.6 * green if is_deep else green
    zenith = np.array([min(red, green), green, 1.0])
    edge = np.array([draw.uniform(1, 1.6), 1.0, draw.uniform(0.4, 1)]) if draw.random() < _GLOWING else np.ones(3)
    if is_night:
        zenith = zenith ** draw.uniform(-0.6, 1.0)  # at night the glow of lamps is often yellow
    return Sky(
        level=float(np.exp(draw.uniform(np.log(low), np.log(high)))),
        zenith=zenith / zenith.mean(),
        edge=edge / edge.mean(),
        whiteness=float(np.exp(draw.uniform(np.log(0.01), np.log(0.4)))),
        cover=cover,
        cloud=float(np.exp(draw.uniform(np.log(0.8), np.log(4.0)))) if cover < 1 else 1.0,
        tint=float(draw.uniform(0, 0.6)) if draw.random() < _TINTED else 0.0,
        scale=float(np.exp(draw.uniform(np.log(0.6), np.log(4.0)))),
        softness=float(draw.uniform(0.03, 0.25)),
        offset=draw.uniform(-50, 50, 3),
        seed=int(draw.integers(1 << 31)),
    )


def seen_sky(skies: list[Sky], direction: Tensor, where: Tensor) -> Tensor:
    """Return the sky's light (k, 3, n) in directions (3, n), of length one; zero where `where` (n,) is False."""
    result = direction.new_zeros(len(skies), 3, direction.shape[1])
    looked = direction[:, where]
    for k, sky in enumerate(skies):
        result[k][:, where] = _looked_at(sky, looked)
    return result


def horizon(skies: list[Sky]) -> Tensor:
    """Return the light (k, 3) of haze under the skies: of the horizon's color, a little of the zenith's in it."""
    rows = []
    for sky in skies:
        clouds = sky.level * (1 + sky.cover * (sky.cloud - 1))
        rows.append(clouds * (0.8 * sky.edge + 0.2 * sky.zenith))
    return torch.from_numpy(np.stack(rows)).float()


def _looked_at(sky: Sky, direction: Tensor) -> Tensor:
    """Return one sky's light (3, n)."""
    height = direction[2].clamp_min(0)
    white = torch.exp(-height / sky.whiteness)
    zenith, edge = (torch.from_numpy(color).to(direction)[:, None] for color in (sky.zenith, sky.edge))
    clear = zenith * (1 - 0.85 * white) + 0.85 * white * (1 + 0.3 * white) * edge
    if sky.cover > 0:
        field, shape = _clouds(sky, direction, height)
        # Spread about 0.15: so high a threshold leaves that share of the field above it.
        cut = 0.34 * (0.5 - sky.cover) if sky.cover < 1 else -1.0
        share = smooth_step(field, cut - sky.softness, cut + sky.softness) * (1 - 0.5 * white)
        gray = sky.cloud * (1 + (1.5 if sky.cover == 1 else 2.5) * shape).clamp_min(0.25)
        clear = clear + share * (gray * (1 + sky.tint * (zenith - 1)) - clear)
    return sky.level * clear


def _clouds(sky: Sky, direction: Tensor, height: Tensor) -> tuple[Tensor, Tensor]:
    """Return where clouds are, and how thick: two fields (n,) of noise on a sheet above."""
    away = sky.scale / (height + _LOWEST)
    place = torch.stack([direction[0] * away, direction[1] * away, torch.zeros_like(away)], 1)
    place = place + torch.from_numpy(sky.offset).to(place)
    seed = torch.full((len(place),), sky.seed, device=place.device)
    return fractal(place, seed, octaves=5), fractal(place * 1.7 + 31.0, seed + 7919, octaves=3)


def hazed(light: Tensor, reflectance: Tensor, depth: Tensor, left: Tensor, airlight: Tensor, level: Tensor) -> Tensor:
    """Return irradiance `light` (k, 3, h, w) as it is seen through haze.

    Of far things, by `depth` (1, h, w), the share `left` (k,) of their light remains; `airlight` (k, 3) takes the place
    of the rest, as far as it is not brighter than `_BRIGHTEST` times `level` (k,), the mean light on what is seen.
    Nothing changes where `left` is 1, and what is infinitely far is not looked at.
    """
    known = torch.isfinite(depth)
    if float(left.min()) >= 1 or not bool(known.any()):
        return light
    far = torch.quantile(depth[known][:: max(1, int(known.sum()) // 4096)], _FAR).clamp_min(_NEAR)
    # What keeps the light from all that is seen keeps it from the air before it too.
    airlight = airlight.to(light)
    airlight = airlight * (_BRIGHTEST * level / airlight.mean(1).clamp_min(1e-9)).clamp_max(1)[:, None]
    thickness = left.to(light).log()[:, None, None, None]
    through = torch.where(known, torch.exp(thickness * (depth / far).clamp_max(_FARTHEST)), 1.0)
    added = airlight[:, :, None, None] * (1 - through) / reflectance.clamp_min(_DARKEST)
    return light * through + added


def sky_seen_by(camera: Camera, size: tuple[int, int], hit: Tensor) -> tuple[Tensor, Tensor]:
    """Return directions (3, h·w) and where (h·w,) the sky is: nothing hit (1, h, w), and above the horizon."""
    direction, _ = camera_rays(camera, size, hit.device)
    return direction, ~hit.flatten() & (direction[2] > 0)
