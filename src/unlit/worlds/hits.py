"""Where a camera's rays end, and which place of its pattern lies there.

Shapes: n hits. Patterns lie in the space of their shape, in meters: a shape that is larger shows more of its pattern,
not a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unlit.worlds.description import ShapeKind
from unlit.worlds.materials import Materials
from unlit.worlds.places import Places


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


def pattern_places(hits: Hits, m: Materials) -> Places:
    """Return the places of patterns that hits are; `m` has a row for each hit."""
    solid = torch.where(m.whole[:, None] > 0.5, hits.world, hits.position) / m.scale[:, None] + m.offset
    return Places(pattern_uv(hits, hits.position, m), solid, m.colors, m.params, m.seed, hits.width / m.scale)


def pattern_uv(hits: Hits, position: Tensor, m: Materials) -> Tensor:
    """Return where along the surface (..., n, 2) positions (..., n, 3) in the shapes' space lie, in a pattern's units.

    Around each hit there may be several; all lie on its face.
    """
    # From the front, as a transfer is laid on a thing; x and z are what a camera sees of it.
    uv = torch.where(m.whole[:, None] > 0.5, hits.world[:, ::2], _unrolled(hits, position)) / m.scale[:, None]
    cos, sin = m.turn.cos(), m.turn.sin()
    turned = torch.stack([cos * uv[..., 0] - sin * uv[..., 1], sin * uv[..., 0] + cos * uv[..., 1]], -1)
    return turned + m.offset[:, :2]


def _unrolled(hits: Hits, p: Tensor) -> Tensor:
    """Return where a place lies along the surface (..., n, 2), meters: around round shapes, across flat faces."""
    x, y, z = p.unbind(-1)
    n = hits.normal.abs()
    around = torch.atan2(y, x) * hits.radius
    radial = p[..., :2].norm(dim=-1)
    height = torch.where(hits.kind == ShapeKind.SPHERE, torch.atan2(z, radial) * hits.radius, z)
    rolled = torch.stack([around, height], -1)
    top, side = n[:, 2] >= torch.maximum(n[:, 0], n[:, 1]), n[:, 0] > n[:, 1]
    across = torch.where(side[:, None], torch.stack([y, z], -1), torch.stack([x, z], -1))
    across = torch.where(top[:, None], p[..., :2], across)
    is_rolled = ((hits.kind == ShapeKind.CYLINDER) | (hits.kind == ShapeKind.CONE)) & (n[:, 2] < 0.9)
    is_round = (hits.kind == ShapeKind.SPHERE) | is_rolled
    is_flat = (hits.kind == ShapeKind.QUAD) | (hits.kind == ShapeKind.TERRAIN)
    return torch.where(is_round[:, None], rolled, torch.where(is_flat[:, None], p[..., :2], across))
