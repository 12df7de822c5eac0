"""Scenes rendered: what the camera sees, and the irradiance there of each light alone, with bounces.

Shapes: h x w pixels, k lights. Irradiance is divided by π, so that reflectance times it is the light that leaves a matt
surface.

What is computed, for a point x, is B(x) = 1/π ∫ (L(x, ω) + ρ(y) B(y)) cos dω: L is what comes from a light in
direction ω if nothing is in its way, y the surface seen there, ρ its reflectance. The integral over L is a mean over
random points of the light, `samples` of them; that over ρ B one over as many random paths, at whose every vertex each
light is asked once. Nearly all of the noise is in the latter, and nearly all of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from unlit.worlds.description import Camera, LightBasis, LightKind, Lights, ShapeKind, Shapes
from unlit.worlds.intersection import (
    geometry,
    inverse_maps,
    nearest,
    object_normals,
    object_positions,
    world_normals,
)
from unlit.worlds.path import reference_irradiance
from unlit.worlds.placement import shapes_on
from unlit.worlds.render_kernel import MOST_SHAPES, Met, is_available, kernel_hits, kernel_irradiance
from unlit.worlds.terrain import smooth_terrain_normal

SAMPLES_A_PATH = 1
"""How many samples of the lights there are for each path that bounces, unless asked otherwise."""
Form = Literal["auto", "reference", "kernel"]
"""Which code renders: the readable one, the fast one, or the fast one where it can."""
Appearance = Callable[["Hits"], tuple[Tensor, Tensor]]
"""What a surface looks like where it is hit: reflectance (3, h, w) and shading normal (3, h, w), towards the camera."""


@dataclass(frozen=True)
class Hits:
    """What the camera sees through the center of each pixel."""

    shape: Tensor
    """(h, w) int64: which shape, −1 for none."""
    position: Tensor
    """(3, h, w): in the world; zero where there is nothing."""
    normal: Tensor
    """(3, h, w): geometric, of length one, towards the camera."""
    object_position: Tensor
    """(3, h, w): in the shape's own space."""
    object_normal: Tensor
    """(3, h, w): outwards in the shape's own space, not of length one."""
    depth: Tensor
    """(1, h, w): meters along the camera's axis, infinite where there is nothing."""

    @property
    def mask(self) -> Tensor:
        """(1, h, w): True where there is a shape."""
        return self.shape[None] >= 0


def primary_hits(
    shapes: Shapes, camera: Camera, size: tuple[int, int], form: Form = "auto", device: torch.device | None = None
) -> Hits:
    """Return what `camera` sees at the centers of h x w pixels. For smooth edges render more pixels than you keep.

    The result is on `device`, which may be another than that of `shapes`.
    """
    check_shapes(shapes)
    check_size(size)
    device = device or shapes.to_world.device
    direction, axis = camera_rays(camera, size, device)
    origin = torch.tensor(camera.position).to(device, non_blocking=True)[:, None].expand_as(direction)
    met = met_by_rays(shapes, origin, direction, form)
    position, normal, object_position, object_normal = met.vectors.reshape(4, 3, *size)
    depth = met.distance * (direction * axis[:, None]).sum(0)
    index = met.index.reshape(size)
    return Hits(index, position, normal, object_position, object_normal, depth.reshape(1, *size))


def met_by_rays(shapes: Shapes, origin: Tensor, direction: Tensor, form: Form = "auto") -> Met:
    """Return what rays (3, r) meet first, on the device of the rays."""
    look = kernel_hits if _is_fast(form, origin.device, shapes) else _reference_hits
    return look(shapes, origin, direction)


def irradiance(
    shapes: Shapes,
    lights: Lights,
    points: Tensor,
    normals: Tensor,
    *,
    shading_normals: Tensor | None = None,
    mask: Tensor | None = None,
    samples: int,
    paths: int | None = None,
    bounces: int = 2,
    seed: int = 0,
    form: Form = "auto",
) -> Tensor:
    """Return irradiance / π (k, 3, h, w) of each light alone at `points` (3, h, w), bounces included.

    `normals` (3, h, w) are geometric, on the side that is looked at, and say which light cannot arrive;
    `shading_normals`, where bumps turn them, are those that light is weighed by. Where `mask` (1, h, w) is False the
    result is zero. The same seed gives the same noise. The result is where the points are.
    """
    check_shapes(shapes)
    check_lights(lights)
    size = (points.shape[1], points.shape[2])
    check_size(size)
    if samples < 1 or bounces < 0:
        raise ValueError(f"{samples} samples and {bounces} bounces: at least one sample and no fewer than 0 bounces")
    shaded = normals if shading_normals is None else shading_normals
    seen = torch.ones(size, dtype=torch.bool, device=points.device) if mask is None else mask.reshape(size)
    count = max(samples // SAMPLES_A_PATH, 1) if paths is None else paths
    fast = _is_fast(form, points.device, shapes)
    compute = kernel_irradiance if fast else reference_irradiance
    return compute(shapes, lights, points, normals, shaded, seen, samples, count, bounces, seed)


def render(
    shapes: Shapes,
    lights: Lights,
    camera: Camera,
    *,
    size: tuple[int, int],
    samples: int,
    bounces: int = 2,
    seed: int = 0,
    appearance: Appearance | None = None,
    form: Form = "auto",
    device: torch.device | None = None,
) -> LightBasis:
    """Return the light basis of a scene, h x w. `appearance` adds textures and bumps to what the camera sees."""
    hits = primary_hits(shapes, camera, size, form, device)
    if appearance is None:
        reflectance, shaded = mean_reflectance(shapes, hits), smooth_normals(shapes, hits)
    else:
        reflectance, shaded = appearance(hits)
    light = irradiance(
        shapes, lights, hits.position, hits.normal, shading_normals=shaded, mask=hits.mask,
        samples=samples, bounces=bounces, seed=seed, form=form,
    )  # fmt: skip
    return LightBasis(reflectance, light, hits.mask, hits.depth, shaded)


def mean_reflectance(shapes: Shapes, hits: Hits) -> Tensor:
    """Return the mean reflectance (3, h, w) of the shapes that are seen, zero where there is none."""
    return shapes.reflectance.float().to(hits.shape.device)[hits.shape.clamp_min(0)].permute(2, 0, 1) * hits.mask


def _is_fast(form: Form, device: torch.device, shapes: Shapes) -> bool:
    return form == "kernel" or (form == "auto" and len(shapes.kind) <= MOST_SHAPES and is_available(device))


def smooth_normals(shapes: Shapes, hits: Hits) -> Tensor:
    """Return the normals (3, h, w) to shade by: those of the surface, but without the facets of height grids."""
    is_terrain = shapes.kind == ShapeKind.TERRAIN
    if not is_terrain.any():
        return hits.normal
    device, size = hits.shape.device, hits.shape.shape
    index = hits.shape.clamp_min(0).reshape(-1)
    grid = shapes.grid.clamp_min(0).to(device)[index]
    heights = shapes.heights.float().to(device)
    inner = smooth_terrain_normal(heights, grid, hits.object_position.reshape(3, -1))
    maps = torch.from_numpy(inverse_maps(shapes)[:, :, :3]).float().to(device)
    turned: Tensor = torch.einsum("rij,ir->jr", maps[index], inner).reshape(3, *size)
    turned = turned / (turned * turned).sum(0).sqrt().clamp_min(1e-20)
    turned = torch.where((turned * hits.normal).sum(0) < 0, -turned, turned)
    return torch.where(is_terrain.to(device)[hits.shape.clamp_min(0)] & hits.mask, turned, hits.normal)


def camera_rays(camera: Camera, size: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the directions (3, h·w), of length one, through the pixels' centers, and the camera's axis (3,)."""
    h, w = size
    axis = np.subtract(camera.target, camera.position)
    if not np.linalg.norm(axis) > 0:
        raise ValueError(f"the camera is where it looks, {camera.position}: move one of the two")
    axis = axis / np.linalg.norm(axis)
    right = np.cross(axis, [0.0, 0.0, 1.0])
    if np.linalg.norm(right) < 1e-6:  # looking straight up or down: any side will do
        right = np.array([1.0, 0.0, 0.0])
    right = right / np.linalg.norm(right)
    reach = math.tan(camera.view / 2)
    vectors = torch.from_numpy(np.stack([axis, np.cross(axis, right) * reach, right * (reach * w / h)]))
    forward, down, across = vectors.to(device, non_blocking=True)[:, :, None, None]
    y, x = ((torch.arange(side, dtype=torch.float64, device=device) + 0.5) * (2 / side) - 1 for side in size)
    direction = forward + down * y[:, None] + across * x
    direction = direction / (direction * direction).sum(0).sqrt()
    return direction.reshape(3, h * w).float(), forward[:, 0, 0].float()


def check_shapes(shapes: Shapes) -> None:
    """Refuse shapes that cannot be rendered."""
    if len(shapes.kind) == 0:
        raise ValueError("a scene without shapes has nothing to see: give it at least one")
    if not (np.abs(np.linalg.det(shapes.to_world[:, :, :3].double().cpu().numpy())) > 1e-18).all():
        raise ValueError("a shape is flat: its map to the world cannot be inverted; give every axis some length")


def check_lights(lights: Lights) -> None:
    """Refuse lights that cannot shine."""
    if len(lights.kind) == 0:
        raise ValueError("a scene without lights is black: give it at least one")
    if lights.sky.ndim != 2 or lights.sky.shape[1] != 2 * lights.sky.shape[0] or lights.sky.shape[0] < 1:
        raise ValueError(f"a sky of {tuple(lights.sky.shape)}: it must be (s, 2s), at least (1, 2)")
    lamps = (lights.kind == LightKind.LAMP) | (lights.kind == LightKind.SPOT)
    if bool((lights.radius[lamps] <= 0).any()):
        raise ValueError("a lamp without a radius has no surface that shines: give it a radius above zero")


def check_size(size: tuple[int, int]) -> None:
    """Refuse sizes that are no picture."""
    if size[0] < 1 or size[1] < 1:
        raise ValueError(f"a picture of {size[0]} x {size[1]} has no pixels: both sides must be at least 1")


def _reference_hits(shapes: Shapes, origin: Tensor, direction: Tensor) -> Met:
    """What rays (3, r) meet, by the readable form."""
    scene = geometry(shapes_on(shapes, origin.device))
    distance, index = nearest(scene, origin, direction)
    met = index >= 0
    position = torch.where(met, origin + direction * torch.where(met, distance, 0), 0)
    shape = index.clamp_min(0)
    at = object_positions(scene, shape, position) * met
    inner = object_normals(scene, shape, at) * met
    normal = world_normals(scene, shape, inner)
    normal = torch.where((normal * direction).sum(0) > 0, -normal, normal) * met
    return Met(distance, index, torch.stack([position, normal, at, inner]))
