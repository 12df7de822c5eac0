"""Bumps in the world: how they turn normals there, and what they leave of the lights of a scene.

Shapes: n places that a picture shows, k lights, a directions around a place, h x w pixels.

Bumps are known in the space of their shape, in meters, whose axes have length one in the world but may lean (roofs do).
A height that grows by g · p with a place p grows by (A⁻ᵀ g) · x with the place x in the world, if A has the axes as
its columns. Bumps stand straight on the surface, so of A⁻ᵀ g counts what lies along it. They rise on the side that is
looked at: sheets have bumps on both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unlit.worlds import render
from unlit.worlds.bump_shade import past_bumps
from unlit.worlds.bumps import lengths, tangents
from unlit.worlds.description import LightKind, Lights, Shapes
from unlit.worlds.scene import Scene

_SOFT, _WIDE = 0.12, 0.5
"""How far lamps and panels shine around the edge of a bump, as slopes: panels are wide."""


@dataclass(frozen=True)
class Surface:
    """What is known of the n places that a picture shows, before light."""

    normal: Tensor
    """(n, 3), without bumps, outwards in the space of the shape; as all directions here."""
    reflectance: Tensor
    """(n, 3)."""
    shaded: Tensor
    """(n, 3): the normal, with bumps."""
    horizon: Tensor
    """(n, a): `src/unlit/worlds/bumps.py`."""
    fineness: Tensor
    """(n,): the same."""
    pane: Tensor
    """(n,): the number of a window pane, or −1."""


def shaded_normals(s: Scene, hits: render.Hits, pixel: Tensor, surface: Surface) -> Tensor:
    """Return the normals (3, h, w), with bumps, in the world; `pixel` (n,) are those of the surface."""
    geometric = hits.normal.flatten(1).T[pixel]
    upright = (surface.shaded * surface.normal).sum(1, keepdim=True).clamp_min(1e-3)
    slopes = surface.shaded / upright - surface.normal
    inverse = _inverses(s.shapes)[hits.shape.flatten()[pixel]]
    turned = geometric + _along(inverse, geometric, slopes[:, None])[:, 0]
    result = torch.zeros_like(hits.normal).flatten(1)
    result[:, pixel] = (turned / turned.norm(dim=1, keepdim=True).clamp_min(1e-12)).T
    return result.reshape(hits.normal.shape)


def shares_past_bumps(home: Scene, s: Scene, hits: render.Hits, pixel: Tensor, surface: Surface) -> Tensor:
    """Return the shares (k, h, w) of each light that bumps leave; the scene on the CPU, and on the device."""
    shares = torch.ones(len(home.lights.kind), hits.shape.numel(), device=hits.shape.device)
    rough = (surface.horizon.amax(1) + surface.fineness > 0).nonzero()[:, 0]
    if len(rough):
        pixel, horizon, fineness = pixel[rough], surface.horizon[rough], surface.fineness[rough]
        frame = _frame(s.shapes, hits, pixel, surface.normal[rough])
        for k, kind in enumerate(home.lights.kind.tolist()):
            towards = directions_to(s.lights, kind, k, hits.position)
            if towards is not None:
                towards = torch.einsum("nfi,in->fn", frame, towards.flatten(1)[:, pixel])
            soft = _WIDE if kind == LightKind.PANEL else _SOFT
            shares[k, pixel] = past_bumps(horizon, towards, soft, fineness)
    return shares.reshape(-1, *hits.shape.shape)


def directions_to(lights: Lights, kind: int, k: int, position: Tensor) -> Tensor | None:
    """Return the directions (3, h, w) to the middle of light k, of a `kind`, or None for the sky, which has none.

    The kind is asked for because `lights` may be on a device, which would have to be waited for.
    """
    if kind == LightKind.SKY:
        return None
    if kind == LightKind.SUN:
        return -lights.direction[k][:, None, None].expand_as(position)
    towards = lights.position[k][:, None, None] - position
    return towards / lengths(towards).clamp_min(1e-9)


def _frame(shapes: Shapes, hits: render.Hits, pixel: Tensor, normal: Tensor) -> Tensor:
    """Return what (n, 3, 3) takes a direction of the world to its parts along both tangents and the normal.

    The parts are such that the tangents, taken to the world, times the parts are the direction again.
    """
    geometric = hits.normal.flatten(1).T[pixel]
    inverse = _inverses(shapes)[hits.shape.flatten()[pixel]]
    across = _along(inverse, geometric, torch.stack(tangents(normal), 1))
    return torch.cat([across, geometric[:, None]], 1)


def _along(inverse: Tensor, geometric: Tensor, slopes: Tensor) -> Tensor:
    """Return slopes (n, f, 3) of the shapes' spaces in the world's, along the surface of normals (n, 3)."""
    turned = torch.einsum("nij,nfj->nfi", inverse, slopes)
    return turned - (turned * geometric[:, None]).sum(2, keepdim=True) * geometric[:, None]


def _axes(shapes: Shapes) -> Tensor:
    """Return the directions (s, 3, 3), as columns of length one, in which s shapes have their x, y and z."""
    matrix = shapes.to_world[:, :, :3]
    length: Tensor = matrix.norm(dim=1, keepdim=True)
    return matrix / length


def _inverses(shapes: Shapes) -> Tensor:
    """Return the inverses, transposed (s, 3, 3), of the axes."""
    x, y, z = _axes(shapes).unbind(2)
    crossed = torch.stack([torch.linalg.cross(a, b) for a, b in ((y, z), (z, x), (x, y))], 2)
    return crossed / (crossed[:, :, 0] * x).sum(1)[:, None, None]
