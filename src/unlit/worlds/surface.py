"""The surfaces that a camera sees: reflectance and shaded normals at hits, for one scene or many.

Shapes: n hits. Patterns lie in the space of their shape, in meters: a shape that is larger shows more of its pattern,
not a larger one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unlit.worlds.description import ShapeKind
from unlit.worlds.made import joint, layout
from unlit.worlds.materials import Bump, Materials
from unlit.worlds.noise import cells, fractal, smooth_step
from unlit.worlds.patterns import reflectance_at
from unlit.worlds.places import Places

DARKEST, WHITEST = 0.02, 0.92
"""Of any surface. Soot and fresh snow."""

_STEEPEST = 1.2
"""Slope of bumps: normals turn by 50 degrees at most."""


@dataclass(frozen=True)
class Hits:
    """Places on surfaces, in the space of their shape but in meters."""

    position: Tensor
    """(n, 3)."""
    normal: Tensor
    """(n, 3), of length one."""
    kind: Tensor
    """(n,) of `ShapeKind`."""
    radius: Tensor
    """(n,): the mean half width of the shape across its z axis."""
    material: Tensor
    """(n,)."""
    width: Tensor
    """(n,) meters: of a pixel, at the surface."""
    world: Tensor
    """(n, 3) meters: the same places in the world, for patterns that go over several shapes."""


def surface_at(hits: Hits, materials: Materials) -> tuple[Tensor, Tensor]:
    """Return reflectance (n, 3) and normals (n, 3) in the shape's space, with bumps."""
    m = Materials(*(values[hits.material] for values in vars(materials).values()))
    places = _places(hits, hits.position, m)
    reflectance = reflectance_at(places, m.texture)
    worn = (m.wear > 0).nonzero()[:, 0]
    stains = fractal(hits.position[worn] * 1.7 + m.offset[worn], m.seed[worn] + 5, 4, 0.6)
    reflectance[worn] = reflectance[worn] * (m.wear[worn] * 4 * stains).exp()[:, None]
    # Patterns finer than a pixel are seen as their mean color.
    blurred = smooth_step(places.width, 0.8, 3.0)[:, None] * (m.texture > 0)[:, None]
    reflectance = reflectance + blurred * (m.colors[:, :3].mean(1) - reflectance)
    return reflectance.clamp(DARKEST, WHITEST), _bumped(hits, m)


def _places(hits: Hits, position: Tensor, m: Materials) -> Places:
    scale, whole = m.scale[:, None], m.whole[:, None] > 0.5
    # From the front, as a transfer is laid on a thing; x and z are what a camera sees of it.
    uv = torch.where(whole, hits.world[:, ::2], _unrolled(hits, position)) / scale
    solid = torch.where(whole, hits.world, position)
    cos, sin = m.turn.cos(), m.turn.sin()
    turned = torch.stack([cos * uv[:, 0] - sin * uv[:, 1], sin * uv[:, 0] + cos * uv[:, 1]], 1)
    return Places(turned + m.offset[:, :2], solid / scale + m.offset, m.colors, m.params, m.seed, hits.width / m.scale)


def _unrolled(hits: Hits, p: Tensor) -> Tensor:
    """Return where a place lies along the surface (n, 2), meters: around round shapes, across flat faces."""
    x, y, z = p.unbind(1)
    n = hits.normal.abs()
    around = torch.atan2(y, x) * hits.radius
    radial = p[:, :2].norm(dim=1)
    height = torch.where(hits.kind == ShapeKind.SPHERE, torch.atan2(z, radial) * hits.radius, z)
    rolled = torch.stack([around, height], 1)
    top, side = n[:, 2] >= torch.maximum(n[:, 0], n[:, 1]), n[:, 0] > n[:, 1]
    across = torch.where(side[:, None], torch.stack([y, z], 1), torch.stack([x, z], 1))
    across = torch.where(top[:, None], p[:, :2], across)
    is_rolled = ((hits.kind == ShapeKind.CYLINDER) | (hits.kind == ShapeKind.CONE)) & (n[:, 2] < 0.9)
    is_round = (hits.kind == ShapeKind.SPHERE) | is_rolled
    is_flat = (hits.kind == ShapeKind.QUAD) | (hits.kind == ShapeKind.TERRAIN)
    return torch.where(is_round[:, None], rolled, torch.where(is_flat[:, None], p[:, :2], across))


def _bumped(hits: Hits, m: Materials) -> Tensor:
    """Return the normals (n, 3), turned by the slope of the bumps along two directions of the surface."""
    where = (m.bump != int(Bump.NONE)).nonzero()[:, 0]
    normal = hits.normal.clone()
    if not len(where):
        return normal
    few = Hits(*(values[where] for values in vars(hits).values()))
    some = Materials(*(values[where] for values in vars(m).values()))
    # A step of a pixel: what is finer cannot be seen and would only be noise.
    step = few.width.clamp_min(1e-4)[:, None]
    first, second = _tangents(few.normal)
    here = _height(few, few.position, some)
    slopes = [(_height(few, few.position + step * t, some) - here) / step[:, 0] for t in (first, second)]
    slope = torch.stack(slopes, 1)
    slope = slope * (_STEEPEST / slope.norm(dim=1, keepdim=True).clamp_min(_STEEPEST))
    turned = few.normal - slope[:, :1] * first - slope[:, 1:] * second
    normal[where] = turned / turned.norm(dim=1, keepdim=True)
    return normal


def _tangents(normal: Tensor) -> tuple[Tensor, Tensor]:
    """Return two directions across each normal (n, 3)."""
    axis = torch.where(normal[:, :1].abs() < 0.7, normal.new_tensor([1.0, 0, 0]), normal.new_tensor([0, 1.0, 0]))
    first = torch.linalg.cross(axis, normal)
    first = first / first.norm(dim=1, keepdim=True)
    return first, torch.linalg.cross(normal, first)


def _height(hits: Hits, position: Tensor, m: Materials) -> Tensor:
    """Return the height of the bumps (n,), meters."""
    p = position / m.bump_scale[:, None] + m.offset
    fields: tuple[tuple[Bump, Callable[[Tensor], Tensor]], ...] = (
        (Bump.NOISE, lambda k: fractal(p[k], m.seed[k] + 1, 4)),
        (Bump.GRAIN, lambda k: fractal(p[k], m.seed[k] + 2, 2, 0.8)),
        (Bump.DENTS, lambda k: cells(p[k, :2] + p[k, 2:] * 0.7, m.seed[k])[0].square()),
        (Bump.JOINTS, lambda k: _joints(_places(hits, position, m).uv[k], m.params[k]) * (m.scale / m.bump_scale)[k]),
        (Bump.WAVES, lambda k: 0.3 * (p[k, 0] * 2 * math.pi).sin()),
        (Bump.THREADS, lambda k: 0.15 * ((p[k, 0] * 2 * math.pi).sin() + (p[k, 1] * 2 * math.pi).sin())),
    )
    height = torch.zeros_like(hits.width)
    for kind, field in fields:
        where = (m.bump == int(kind)).nonzero()[:, 0]
        if len(where):
            height[where] = field(where)
    return height * m.bump_height * m.bump_scale


def _joints(uv: Tensor, params: Tensor) -> Tensor:
    """Return the height of stones over their joints, in heights of a row."""
    edge, _ = layout(uv, params)
    half = joint(params)
    return 0.12 * smooth_step(edge, half * 0.5, half + 0.06)
