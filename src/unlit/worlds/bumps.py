"""Bumps: shapes too fine to be shapes. They turn normals, and stand in each other's light.

Shapes: n hits, a directions around. The height of the bumps is a function of the place; its slope turns the normal. How
steeply the bumps around rise above a place, its *horizons*, says which light they keep from it
(`src/unlit/worlds/bump_shade.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unlit.worlds.hits import Hits, pattern_places
from unlit.worlds.made import joint, layout
from unlit.worlds.materials import Bump, Materials
from unlit.worlds.noise import cells, fractal, hashed, smooth_step

DIRECTIONS = 6
"""Around a place, evenly from the first tangent towards the second, in which its horizons are known."""

_STEEPEST = 1.2
"""Slope of bumps: normals turn by 50 degrees at most."""
_LOOKED_AT = (0.15, 0.45)
"""How far away bumps are looked at for a horizon, in their own scale: at those beside it, and at the next large one."""


def bumped(hits: Hits, m: Materials) -> tuple[Tensor, Tensor]:
    """Return normals (n, 3), turned by the slope of the bumps, and horizons (n, a): slopes, 0 where nothing rises.

    `m` has a row for each hit.
    """
    where = (m.bump != int(Bump.NONE)).nonzero()[:, 0]
    normal, horizon = hits.normal.clone(), hits.width.new_zeros(len(hits.width), DIRECTIONS)
    if not len(where):
        return normal, horizon
    few = Hits(*(values[where] for values in vars(hits).values()))
    some = Materials(*(values[where] for values in vars(m).values()))
    # A step of a pixel: what is finer cannot be seen and would only be noise.
    step = few.width.clamp_min(1e-4)[:, None]
    first, second = tangents(few.normal)
    here = _height(few, few.position, some)
    slopes = [(_height(few, few.position + step * t, some) - here) / step[:, 0] for t in (first, second)]
    slope = torch.stack(slopes, 1)
    slope = slope * (_STEEPEST / slope.norm(dim=1, keepdim=True).clamp_min(_STEEPEST))
    turned = few.normal - slope[:, :1] * first - slope[:, 1:] * second
    normal[where] = turned / turned.norm(dim=1, keepdim=True)
    horizon[where] = _horizons(few, some, here, first, second)
    return normal, horizon


def _horizons(hits: Hits, m: Materials, here: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Return how steeply bumps rise around places of height `here` (n,): (n, a), at least 0."""
    rises = []
    for k in range(DIRECTIONS):
        angle = 2 * math.pi * k / DIRECTIONS
        towards = math.cos(angle) * first + math.sin(angle) * second
        rise = torch.zeros_like(here)
        for share in _LOOKED_AT:
            away = torch.maximum(share * m.bump_scale, hits.width)
            rise = torch.maximum(rise, (_height(hits, hits.position + away[:, None] * towards, m) - here) / away)
        rises.append(rise)
    return torch.stack(rises, 1)


def tangents(normal: Tensor) -> tuple[Tensor, Tensor]:
    """Return two directions across each normal (n, 3)."""
    axis = torch.where(normal[:, :1].abs() < 0.7, normal.new_tensor([1.0, 0, 0]), normal.new_tensor([0, 1.0, 0]))
    first = torch.linalg.cross(axis, normal)
    first = first / first.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return first, torch.linalg.cross(normal, first)


def _height(hits: Hits, position: Tensor, m: Materials) -> Tensor:
    """Return the height of the bumps (n,), meters."""
    p = position / m.bump_scale[:, None] + m.offset
    uv = p[:, :2] + p[:, 2:] * 0.7
    fields: tuple[tuple[Bump, Callable[[Tensor], Tensor]], ...] = (
        (Bump.NOISE, lambda k: fractal(p[k], m.seed[k] + 1, 4)),
        (Bump.GRAIN, lambda k: fractal(p[k], m.seed[k] + 2, 2, 0.8)),
        (Bump.DENTS, lambda k: cells(uv[k], m.seed[k])[0].square()),
        (Bump.JOINTS, lambda k: _joints(_uv(hits, position, m)[k], m.params[k]) * (m.scale / m.bump_scale)[k]),
        (Bump.WAVES, lambda k: 0.3 * (p[k, 0] * 2 * math.pi).sin()),
        (Bump.THREADS, lambda k: 0.15 * ((p[k, 0] * 2 * math.pi).sin() + (p[k, 1] * 2 * math.pi).sin())),
        (Bump.CROWNS, lambda k: _crowns(uv[k], m.seed[k])),
    )
    height = torch.zeros_like(hits.width)
    for kind, field in fields:
        where = (m.bump == int(kind)).nonzero()[:, 0]
        if len(where):
            height[where] = field(where)
    return height * m.bump_height * m.bump_scale


def _uv(hits: Hits, position: Tensor, m: Materials) -> Tensor:
    return pattern_places(hits, position, m).uv


def _joints(uv: Tensor, params: Tensor) -> Tensor:
    """Return the height of stones over their joints, in heights of a row."""
    edge, _ = layout(uv, params)
    half = joint(params)
    return 0.12 * smooth_step(edge, half * 0.5, half + 0.06)


def _crowns(uv: Tensor, seed: Tensor) -> Tensor:
    """Return the height of round heads side by side, some high, some low, each with small ones on it.

    Woods from far away, a tree's leaves, gravel, a cauliflower.
    """
    return _heads(uv, seed) + 0.35 * _heads(uv * 3.3 + 5.1, seed + 1)


def _heads(uv: Tensor, seed: Tensor) -> Tensor:
    first, _, head = cells(uv, seed)
    return (1 - (first / 0.8).square()).clamp_min(0).sqrt() * (0.3 + 0.7 * hashed(head, seed, 13))
