"""The light that reaches a point from one light, by a random point of that light.

Shapes: r points, k lights, a sky of s x 2s. Vectors come first, (3, r).

Each light has its own way to choose a direction. The weight of a direction is radiance over density over π: its mean,
times the cosine and where nothing is in the way, is irradiance / π.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unlit.worlds.description import LightKind, Lights
from unlit.worlds.rectangle import rectangle_point
from unlit.worlds.sampling import cone_direction, cosine_direction

NEAR = 9.0
"""A panel is near within this many squares of its half diagonal."""


@dataclass(frozen=True)
class Sky:
    """A sky's radiance, the same all over each of its pixels, and how to choose among them."""

    radiance: Tensor
    """(s, 2s)."""
    rows: Tensor
    """(s,): the share of light of all rows up to and with this one."""
    columns: Tensor
    """(s, 2s): in each row, the share of its light of all columns up to and with this one."""
    total: float
    """The light of the whole sphere: radiance times solid angle."""


def sky_table(radiance: Tensor) -> Sky:
    """Return how to choose directions of a sky as densely as it is bright."""
    s = radiance.shape[0]
    bounds = torch.cos(torch.arange(s + 1, dtype=torch.float64, device=radiance.device) * (math.pi / s))
    light = radiance.double() * ((bounds[:-1] - bounds[1:]) * (math.pi / s))[:, None]
    rows = light.sum(1).cumsum(0)
    columns = light.cumsum(1)
    # A dark row is never chosen, and a dark sky gives nothing whichever is: then all that matters is no division by 0.
    rows_share = rows / rows[-1].clamp_min(1e-300)
    columns_share = columns / columns[:, -1:].clamp_min(1e-300)
    return Sky(radiance, rows_share.float(), columns_share.float(), float(rows[-1]))


@dataclass(frozen=True)
class Sampled:
    """A direction towards a light for each point."""

    direction: Tensor
    """(3, r), of length one."""
    distance: Tensor
    """(r,): up to the light; what lies beyond casts no shadow."""
    weight: Tensor
    """(r,): radiance / density / π."""


def sample_light(lights: Lights, sky: Sky, light: int, point: Tensor, normal: Tensor, u: Tensor, v: Tensor) -> Sampled:
    """Return a direction from each point (3, r) with its `normal` (3, r) to `light`, chosen by numbers u and v (r,)."""
    kind = LightKind(int(lights.kind[light]))
    radiance = lights.radiance[light]
    if kind == LightKind.SUN:
        return _sun(lights, light, radiance, point, u, v)
    if kind == LightKind.SKY:
        return _sky(sky, radiance, normal, u, v)
    if kind == LightKind.PANEL:
        return _panel(lights, light, radiance, point, u, v)
    lamp = _lamp(lights, light, radiance, point, u, v)
    if kind == LightKind.SPOT:
        return Sampled(lamp.direction, lamp.distance, lamp.weight * _spot_share(lights, light, point))
    return lamp


def _lamp(lights: Lights, light: int, radiance: Tensor, point: Tensor, u: Tensor, v: Tensor) -> Sampled:
    """Even over the solid angle of the sphere, as seen from the point. From within, half of all directions shine."""
    towards = lights.position[light][:, None] - point
    square = (towards * towards).sum(0).clamp_min(1e-12)
    far = square.sqrt()
    sine_square = (lights.radius[light] ** 2 / square).clamp_max(1)
    width = sine_square / (1 + (1 - sine_square).sqrt())
    direction = cone_direction(towards / far, width, u, v)
    along = (towards * direction).sum(0)
    inside = (lights.radius[light] ** 2 - (square - along * along)).clamp_min(0)
    return Sampled(direction, (along - inside.sqrt()).clamp_min(0), 2 * width * radiance)


def _spot_share(lights: Lights, light: int, point: Tensor) -> Tensor:
    """One within half the angle, none beyond the angle, and smooth between: by the angle at the lamp's center."""
    away = point - lights.position[light][:, None]
    cosine = (away * lights.direction[light][:, None]).sum(0) / (away * away).sum(0).sqrt().clamp_min(1e-6)
    angle = lights.angle[light]
    share = ((cosine - angle.cos()) / ((angle / 2).cos() - angle.cos()).clamp_min(1e-6)).clamp(0, 1)
    return share * share * (3 - 2 * share)


def _sun(lights: Lights, light: int, radiance: Tensor, point: Tensor, u: Tensor, v: Tensor) -> Sampled:
    width = 2 * (lights.angle[light] / 2).sin() ** 2  # one minus the cosine
    direction = cone_direction((-lights.direction[light])[:, None].expand_as(point), width, u, v)
    return Sampled(direction, torch.full_like(u, torch.inf), (2 * width * radiance).expand_as(u))


def _panel(lights: Lights, light: int, radiance: Tensor, point: Tensor, u: Tensor, v: Tensor) -> Sampled:
    """Even over the solid angle from near, over the area from afar: there the former has lost its digits."""
    edge_u, edge_v = lights.edge_u[light], lights.edge_v[light]
    area = _panel_by_area(lights, light, radiance, point, u, v)
    if not is_rectangle(edge_u, edge_v):
        return area
    corner = lights.position[light][:, None] - point
    reach = NEAR * float((edge_u * edge_u).sum() + (edge_v * edge_v).sum())
    near = torch.nonzero((corner * corner).sum(0) < reach)[:, 0]
    direction, distance, weight = area.direction.clone(), area.distance.clone(), area.weight.clone()
    direction[:, near], distance[near], weight[near] = _panel_by_angle(
        edge_u, edge_v, corner[:, near], u[near], v[near]
    )
    weight[near] *= radiance
    return Sampled(direction, distance, weight)


def is_rectangle(edge_u: Tensor, edge_v: Tensor) -> bool:
    """Return whether the edges (3,) of a panel stand upright on each other."""
    lengths = math.sqrt(float((edge_u * edge_u).sum() * (edge_v * edge_v).sum()))
    return lengths > 0 and abs(float((edge_u * edge_v).sum())) <= 1e-5 * lengths


def _panel_by_angle(
    edge_u: Tensor, edge_v: Tensor, center: Tensor, u: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Direction, distance and weight per radiance for points that see the panel's `center` (3, r)."""
    half_u, half_v = (edge_u * edge_u).sum().sqrt(), (edge_v * edge_v).sum().sqrt()
    axis_u, axis_v = (edge_u / half_u)[:, None], (edge_v / half_v)[:, None]
    axis = torch.linalg.cross(axis_u, axis_v, dim=0)
    x, y, z = ((center * along).sum(0) for along in (axis_u, axis_v, axis))
    height = -z  # above zero on the side that the panel shines to
    x, y, solid = rectangle_point(x - half_u, x + half_u, y - half_v, y + half_v, height.clamp_min(1e-6), u, v)
    towards = x * axis_u + y * axis_v + z * axis
    far = (towards * towards).sum(0).clamp_min(1e-12).sqrt()
    return towards / far, far, torch.where(height > 1e-6, solid / math.pi, 0)


def _panel_by_area(lights: Lights, light: int, radiance: Tensor, point: Tensor, u: Tensor, v: Tensor) -> Sampled:
    """The density of the solid angle is distance² / (area · cosine at the panel)."""
    edge_u, edge_v = lights.edge_u[light][:, None], lights.edge_v[light][:, None]
    towards = lights.position[light][:, None] + (2 * u - 1) * edge_u + (2 * v - 1) * edge_v - point
    square = (towards * towards).sum(0).clamp_min(1e-12)
    far = square.sqrt()
    face = 4 * torch.linalg.cross(edge_u[:, 0], edge_v[:, 0])  # its length is the area
    facing = -(towards * face[:, None]).sum(0).clamp_max(0) / far
    return Sampled(towards / far, far, radiance * facing / (square * math.pi))


def _sky(sky: Sky, radiance: Tensor, normal: Tensor, u: Tensor, v: Tensor) -> Sampled:
    """Half the directions by their cosine, half by the sky's brightness; each counts by the density of both together.

    Either way alone is bad somewhere: the first misses a bright spot, the second looks where the surface does not.
    """
    half = u < 0.5
    u = torch.where(half, 2 * u, 2 * u - 1)
    direction = torch.where(half, cosine_direction(normal, u, v), _bright_direction(sky, u, v))
    shine = sky_radiance(sky, direction)
    cosine = (direction * normal).sum(0).clamp_min(0)
    density = (cosine / math.pi + shine / max(sky.total, 1e-30)) / 2
    return Sampled(direction, torch.full_like(u, torch.inf), radiance * shine / (density * math.pi).clamp_min(1e-20))


def sky_radiance(sky: Sky, direction: Tensor) -> Tensor:
    """Return the sky's radiance (r,) in directions (3, r)."""
    s = sky.radiance.shape[0]
    row = (direction[2].clamp(-1, 1).acos() * (s / math.pi)).long().clamp(0, s - 1)
    turn = torch.atan2(direction[1], direction[0]) / (2 * math.pi)
    column = ((turn - turn.floor()) * (2 * s)).long().clamp(0, 2 * s - 1)
    return sky.radiance[row, column]


def _bright_direction(sky: Sky, u: Tensor, v: Tensor) -> Tensor:
    s = sky.radiance.shape[0]
    row, along_row = _chosen(sky.rows.expand(len(u), -1), u)
    column, along_column = _chosen(sky.columns[row], v)
    top, bottom = (row * (math.pi / s)).cos(), ((row + 1) * (math.pi / s)).cos()
    z = top + along_row * (bottom - top)
    sine = (1 - z * z).clamp_min(0).sqrt()
    angle = (column + along_column) * (math.pi / s)
    return torch.stack([sine * angle.cos(), sine * angle.sin(), z])


def _chosen(shares: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """The first of growing `shares` (r, q) beyond u (r,), and where u lies between it and the one before, in [0, 1]."""
    index = torch.searchsorted(shares.contiguous(), u[:, None], right=True).clamp_max(shares.shape[1] - 1)
    end = shares.gather(1, index)[:, 0]
    start = torch.where(index[:, 0] > 0, shares.gather(1, (index - 1).clamp_min(0))[:, 0], 0)
    return index[:, 0], ((u - start) / (end - start).clamp_min(1e-20)).clamp(0, 1)
