"""Bumps: shapes too fine to be shapes. They turn normals, and stand in each other's light.

Shapes: n hits, a directions around, j positions around a hit. The height of the bumps is a function of the place; its
slope turns the normal. How steeply the bumps around rise above a place, its *horizons*, says which light they keep from
it (`src/unlit/worlds/bump_shade.py`). Bumps of one kind are asked once, for heights at all positions around their hits.

Bumps finer than a pixel have no horizons that could be seen, and yet take light, as far woods do: what is lost of the
horizons is a number of its own, the *fineness*, a slope.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unlit.worlds.hits import Hits, pattern_uv
from unlit.worlds.made import joint, layout, panes, sills
from unlit.worlds.materials import Bump, Materials
from unlit.worlds.noise import cells, fractal, hashed, smooth_step

DIRECTIONS = 6
"""Around a place, evenly from the first tangent towards the second, in which its horizons are known."""

_STEEPEST = 1.2
"""Slope of bumps: normals turn by 50 degrees at most."""
_LOOKED_AT = (0.15, 0.45)
"""How far away bumps are looked at for a horizon, in their own scale: at those beside it, and at the next large one."""
_TOGETHER = {"cpu": 1 << 12, "cuda": 1 << 18}
"""Hits whose heights are computed together: few enough for a processor's cache, and for the memory of a GPU."""


def bumped(hits: Hits, m: Materials) -> tuple[Tensor, Tensor, Tensor]:
    """Return normals (n, 3), turned by the slope of the bumps; horizons (n, a), 0 where nothing rises; fineness (n,).

    Horizons and fineness are slopes. `m` has a row for each hit.
    """
    normal, horizon = hits.normal.clone(), hits.width.new_zeros(len(hits.width), DIRECTIONS)
    steepness = torch.tensor([_STEEPNESS.get(kind, 0.0) for kind in Bump]).to(normal.device, non_blocking=True)
    fineness = steepness[m.bump] * m.bump_height * (1 - _resolved(hits.width / m.bump_scale))
    together = _TOGETHER.get(normal.device.type, 1 << 18)
    for kind, field in _FIELDS.items():
        for rows in (m.bump == int(kind)).nonzero()[:, 0].split(together):
            if len(rows):
                few = Hits(*(values[rows] for values in vars(hits).values()))
                some = Materials(*(values[rows] for values in vars(m).values()))
                normal[rows], horizon[rows] = _bumped(few, some, field)
    return normal, horizon, fineness


def _resolved(width: Tensor) -> Tensor:
    """Return how much of the horizons of bumps is seen with pixels so wide, in scales of the bumps (n,)."""
    return 1 / (1 + (width / 0.6).square())


_STEEPNESS: dict[Bump, float] = {
    Bump.NOISE: 0.27, Bump.GRAIN: 0.31, Bump.DENTS: 0.46, Bump.JOINTS: 0.23, Bump.WAVES: 0.72, Bump.THREADS: 0.51,
    Bump.CROWNS: 0.72, Bump.RECESSES: 0.15,
}  # fmt: skip
"""Measured: the root mean square of horizons of bumps of height 1 that can be seen; of windows set back, which are few
and deep, a third of it: so they take as much light."""

Field = Callable[[Hits, Tensor, Materials], Tensor]
"""Heights (j, n) of bumps, in their own scale, at positions (j, n, 3) around hits."""


def _bumped(hits: Hits, m: Materials, field: Field) -> tuple[Tensor, Tensor]:
    """Return normals and horizons, as above, of hits that all have bumps of one kind."""
    # A step of a pixel: what is finer cannot be seen and would only be noise.
    step = hits.width.clamp_min(1e-4)
    away = torch.stack([torch.maximum(share * m.bump_scale, hits.width) for share in _LOOKED_AT])[:, None]
    across = torch.stack(tangents(hits.normal))
    angles = [2 * math.pi * k / DIRECTIONS for k in range(DIRECTIONS)]
    around = torch.stack([math.cos(angle) * across[0] + math.sin(angle) * across[1] for angle in angles])
    moves = torch.cat([0 * across[:1], step[:, None] * across, (away[..., None] * around).flatten(0, 1)])
    height = field(hits, hits.position + moves, m) * m.bump_height * m.bump_scale
    here, beside, farther = height[:1], height[1:3], height[3:]
    slope = (beside - here) / step
    slope = slope * (_STEEPEST / lengths(slope).clamp_min(_STEEPEST))
    turned = hits.normal - (slope[..., None] * across).sum(0)
    rise = (farther - here).reshape(len(_LOOKED_AT), DIRECTIONS, -1) / away
    return turned / turned.norm(dim=1, keepdim=True), rise.amax(0).clamp_min(0).T


def lengths(vectors: Tensor) -> Tensor:
    """Return the lengths (...) of vectors (d, ...), for which torch's own norm takes 90 times as long on a CPU."""
    length: Tensor = vectors.square().sum(0).sqrt()
    return length


def tangents(normal: Tensor) -> tuple[Tensor, Tensor]:
    """Return two directions across each normal (n, 3)."""
    by_x = normal[:, :1].abs() < 0.7
    axis = torch.cat([by_x, ~by_x, torch.zeros_like(by_x)], 1)
    first = torch.linalg.cross(axis.to(normal.dtype), normal)
    first = first / first.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return first, torch.linalg.cross(normal, first)


def _placed(position: Tensor, m: Materials) -> Tensor:
    """Return positions (j, n, 3) in units of the bumps."""
    return position / m.bump_scale[:, None] + m.offset


def _flat(position: Tensor, m: Materials) -> Tensor:
    """Return positions as those (j, n, 2) of a sheet that goes through the body aslant."""
    p = _placed(position, m)
    return p[..., :2] + p[..., 2:] * 0.7


def _waves(along: Tensor) -> Tensor:
    return (along * 2 * math.pi).sin()


def _joints(uv: Tensor, params: Tensor) -> Tensor:
    """Return the height of stones over their joints, in heights of a row."""
    edge, _ = layout(uv, params)
    half = joint(params)
    return 0.12 * smooth_step(edge, half * 0.5, half + 0.06)


def _recesses(uv: Tensor, params: Tensor) -> Tensor:
    """Return the height of a front over its windows, in heights of a floor; sills and ledges stand out of it."""
    _, outside = panes(uv, params)
    return 0.1 * smooth_step(outside, 0.0, 0.04) + 0.08 * sills(uv, params)


def _crowns(uv: Tensor, seed: Tensor) -> Tensor:
    """Return the height of round heads side by side, some high, some low, each with small ones on it.

    Woods from far away, a tree's leaves, gravel, a cauliflower.
    """
    return _heads(uv, seed) + 0.35 * _heads(uv * 3.3 + 5.1, seed + 1)


def _heads(uv: Tensor, seed: Tensor) -> Tensor:
    first, _, head = cells(uv, seed)
    return (1 - (first / 0.8).square()).clamp_min(0).sqrt() * (0.3 + 0.7 * hashed(head, seed, 13))


_FIELDS: dict[Bump, Field] = {
    Bump.NOISE: lambda _, p, m: fractal(_placed(p, m), m.seed + 1, 4),
    Bump.GRAIN: lambda _, p, m: fractal(_placed(p, m), m.seed + 2, 2, 0.8),
    Bump.DENTS: lambda _, p, m: cells(_flat(p, m), m.seed)[0].square(),
    Bump.JOINTS: lambda hits, p, m: _joints(pattern_uv(hits, p, m), m.params) * (m.scale / m.bump_scale),
    Bump.RECESSES: lambda hits, p, m: _recesses(pattern_uv(hits, p, m), m.params) * (m.scale / m.bump_scale),
    Bump.WAVES: lambda _, p, m: 0.3 * _waves(_placed(p, m)[..., 0]),
    Bump.THREADS: lambda _, p, m: 0.15 * _waves(_placed(p, m)[..., :2]).sum(-1),
    Bump.CROWNS: lambda _, p, m: _crowns(_flat(p, m), m.seed),
}
