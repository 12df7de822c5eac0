"""Light at points, by random points of the lights and random paths: the readable form, in torch, for any device.

Shapes: b points at a time, q of them times samples, k lights. Vectors come first, (3, q). `render.py` says what is
computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unlit.worlds.description import Lights, Shapes
from unlit.worlds.emission import Sky, sample_light, sky_table
from unlit.worlds.intersection import (
    Geometry,
    blocked,
    geometry,
    nearest,
    object_normals,
    object_positions,
    world_normals,
)
from unlit.worlds.placement import lights_on, shapes_on
from unlit.worlds.sampling import cosine_direction, direct_numbers, light_numbers, path_words, pixel_keys, unit

BATCH = 1 << 16
"""Points times samples that are worked on at once."""
LIFT = 1e-4
"""Meters by which a ray starts above its surface, and as many hundred-thousandths of the largest coordinate."""


@dataclass(frozen=True)
class Surface:
    """Points that light arrives at."""

    position: Tensor
    """(3, q): lifted off the surface."""
    geometric: Tensor
    """(3, q): the surface's normal."""
    normal: Tensor
    """(3, q): the normal as shaded."""

    def repeated(self, times: int) -> Surface:
        """Return each point `times` times in a row."""
        parts = (self.position, self.geometric, self.normal)
        return Surface(*(part.repeat_interleave(times, 1) for part in parts))

    def __getitem__(self, which: Tensor) -> Surface:
        return Surface(self.position[:, which], self.geometric[:, which], self.normal[:, which])


@dataclass(frozen=True)
class Scene:
    """What a path needs."""

    shapes: Geometry
    lights: Lights
    sky: Sky


def lifted(position: Tensor, normal: Tensor) -> Tensor:
    """Return `position` (3, q) moved off its surface along `normal` (3, q), beyond the reach of rounding."""
    return position + normal * (LIFT + 0.1 * LIFT * position.abs().amax(0))


def reference_irradiance(
    shapes: Shapes,
    lights: Lights,
    points: Tensor,
    normals: Tensor,
    shaded: Tensor,
    mask: Tensor,
    samples: int,
    paths: int,
    bounces: int,
    seed: int,
) -> Tensor:
    """Return irradiance / π (k, 3, h, w); the arguments are as `render.irradiance` has them, none left out."""
    h, w = mask.shape
    shapes, lights = shapes_on(shapes, points.device), lights_on(lights, points.device)
    scene = Scene(geometry(shapes), lights, sky_table(lights.sky.float()))
    keys = pixel_keys(h * w, seed, points.device)
    result = points.new_zeros(len(lights.kind), 3, h * w)
    flat = Surface(*(vector.reshape(3, h * w) for vector in (points, normals, shaded)))
    waiting = list(torch.nonzero(mask.reshape(-1))[:, 0].split(max(BATCH // max(samples, paths), 1)))
    while waiting:
        part = waiting.pop()
        try:
            result[:, :, part] = _light(scene, flat[part], keys[part], samples, paths, bounces)
        except torch.OutOfMemoryError:
            if len(part) == 1:
                raise
            waiting += part.chunk(2)  # smaller batches need less
    return result.reshape(-1, 3, h, w)


def _light(scene: Scene, at: Surface, keys: Tensor, samples: int, paths: int, bounces: int) -> Tensor:
    """What arrives at b points (k, 3, b), direct and bounced."""
    surface = Surface(lifted(at.position, at.geometric), at.geometric, at.normal)
    direct = _direct(scene, surface, keys, samples)[:, None].expand(-1, 3, -1)
    return direct + _bounced(scene, surface, keys, paths, bounces) if bounces and paths else direct


def _direct(scene: Scene, surface: Surface, keys: Tensor, samples: int) -> Tensor:
    """What arrives from the lights themselves (k, b): the mean over `samples` points of each."""
    numbers = torch.arange(samples, device=keys.device)
    every = surface.repeated(samples)
    result = []
    for light in range(len(scene.lights.kind)):
        u, v = direct_numbers(keys[:, None], light, numbers)
        arrived = _arriving(scene, light, every, u.reshape(-1), v.reshape(-1))
        result.append(arrived.reshape(-1, samples).mean(1))
    return torch.stack(result)


def _bounced(scene: Scene, surface: Surface, keys: Tensor, paths: int, bounces: int) -> Tensor:
    """What arrives after one bounce or more (k, 3, b): the mean over `paths`."""
    total = surface.position.new_zeros(len(scene.lights.kind), 3, len(keys) * paths)
    numbers = torch.arange(paths, device=keys.device).repeat(len(keys))
    keys = keys.repeat_interleave(paths)
    live = torch.arange(len(keys), device=keys.device)
    at = surface.repeated(paths)
    carried = torch.ones_like(at.position)
    for bounce in range(bounces):
        words = path_words(keys[live], numbers[live], bounce)
        direction = cosine_direction(at.normal, unit(words[0]), unit(words[1]))
        at, reflectance, found = _next_surface(scene.shapes, at, direction)
        live, carried = live[found], carried[:, found] * reflectance
        asked = (words[2][found], words[3][found])
        for light in range(len(scene.lights.kind)):
            total[light][:, live] += carried * _arriving(scene, light, at, *light_numbers(asked, light))
    return total.reshape(len(total), 3, -1, paths).mean(3)


def _arriving(scene: Scene, light: int, surface: Surface, u: Tensor, v: Tensor) -> Tensor:
    """What arrives (q,) from one point of a light for each point: weight times cosine, where nothing is between."""
    sampled = sample_light(scene.lights, scene.sky, light, surface.position, surface.normal, u, v)
    arrived = sampled.weight * (sampled.direction * surface.normal).sum(0).clamp_min(0)
    arrived = torch.where((sampled.direction * surface.geometric).sum(0) > 0, arrived, 0)
    open_ = torch.nonzero(arrived > 0)[:, 0]
    shadow = blocked(scene.shapes, surface.position[:, open_], sampled.direction[:, open_], sampled.distance[open_])
    arrived[open_[shadow]] = 0
    return arrived


def _next_surface(scene: Geometry, surface: Surface, direction: Tensor) -> tuple[Surface, Tensor, Tensor]:
    """The surfaces that rays meet, their reflectance (3, found), and which rays found one, as indices (found,)."""
    upwards = torch.nonzero((direction * surface.geometric).sum(0) > 0)[:, 0]
    direction, origin = direction[:, upwards], surface.position[:, upwards]
    distance, index = nearest(scene, origin, direction)
    met = torch.nonzero(index >= 0)[:, 0]
    direction, index = direction[:, met], index[met]
    position = origin[:, met] + distance[met] * direction
    normal = world_normals(scene, index, object_normals(scene, index, object_positions(scene, index, position)))
    normal = torch.where((normal * direction).sum(0) > 0, -normal, normal)
    found = Surface(lifted(position, normal), normal, normal)
    return found, scene.shapes.reflectance.float()[index].T, upwards[met]
