"""A scene laid out as the arrays that the source in `kernel/` reads.

Shapes: n shapes, k lights. Everything is packed on the CPU with NumPy, since it is little: what torch's operations cost
to start would be more than the rendering of a simple scene. It then moves to the device in one piece.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlit.worlds.casting import casting, height_range
from unlit.worlds.description import LightKind, Lights, ShapeKind, Shapes
from unlit.worlds.emission import NEAR, sky_table
from unlit.worlds.intersection import inverse_maps
from unlit.worlds.sampling import LIGHT_STEPS, PATH_STEPS

Array = NDArray[Any]
PIECE = 16
"""Bytes to whose multiples each array is padded in the one that holds all."""


@dataclass(frozen=True)
class Packed:
    """The arrays of a scene, in the order in which the kernel takes them."""

    shapes: Array
    """(n, 24): world to object, ball around the shape, reflectance, kind, grid, lowest and highest height."""
    hulls: Array
    """(n, 12): the three axes of the shape in the world, and its center."""
    lights: Array
    """(k, 20): kind, position, direction, edge_u, edge_v, face, radiance, radius, and two numbers by kind."""
    casters: Array
    """(k, n + 1) int16: how many shapes can shade from a light, and which."""
    heights: Array
    """(g, s, s), at least one value."""
    sky: Array
    """Its total, the shares of rows and columns, its radiance."""

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """n, k, the side of the height grids, the side of the sky."""
        return len(self.shapes), len(self.lights), self.heights.shape[-1], math.isqrt(len(self.sky) // 4)

    def lights_between(self, first: int, last: int) -> Packed:
        """Return the scene with some of its lights only."""
        lights, casters = self.lights[first:last], self.casters[first:last]
        return Packed(self.shapes, self.hulls, lights, casters, self.heights, self.sky)


def packed(shapes: Shapes, lights: Lights) -> Packed:
    """Return a scene as arrays. Shapes and lights are best on the CPU, or this waits for their device."""
    to_world = _numpy(shapes.to_world)
    return Packed(
        packed_shapes(shapes),
        np.ascontiguousarray(to_world.transpose(0, 2, 1).reshape(-1, 12), np.float32),
        _lights(lights),
        _casters(shapes, lights),
        packed_heights(shapes),
        _sky(lights),
    )


def sizes(
    scene: Packed, pixels: int, samples: int = 0, paths: int = 0, bounces: int = 0, seed: int = 0, first: int = 0
) -> Array:
    """Return the numbers that go with the arrays, (16,) int32."""
    numbers = [*scene.counts, pixels, samples, paths, bounces, seed, first, *LIGHT_STEPS, *PATH_STEPS]
    return np.array([number & 0xFFFFFFFF for number in numbers], np.uint32).view(np.int32)


def on_device(arrays: list[Array], device: torch.device) -> list[Tensor]:
    """Return arrays as tensors on a device, moved in one piece without waiting for what the device does."""
    pieces = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]
    padded = [np.pad(piece, (0, -len(piece) % PIECE)) for piece in pieces]
    everything = torch.from_numpy(np.concatenate(padded)).to(device, non_blocking=True)
    return list(everything.split([len(piece) for piece in padded]))


def packed_shapes(shapes: Shapes) -> Array:
    """Return the array (n, 24) of shapes."""
    lowest, highest = height_range(shapes)
    center, radius = _balls(_numpy(shapes.to_world), _numpy(shapes.kind), lowest, highest)
    numbers = [_numpy(shapes.kind), _numpy(shapes.grid), lowest, highest, np.zeros(len(lowest))]
    parts = [inverse_maps(shapes).reshape(-1, 12), center, radius[:, None], _numpy(shapes.reflectance)]
    return np.concatenate([*parts, np.stack(numbers, 1)], 1).astype(np.float32)


def packed_heights(shapes: Shapes) -> Array:
    """Return the height grids, or one value where there are none."""
    return _numpy(shapes.heights).astype(np.float32) if shapes.heights.numel() else np.zeros((1, 1, 1), np.float32)


def _numpy(values: Tensor) -> Array:
    return values.detach().cpu().numpy()


def _balls(to_world: Array, kind: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """A ball around each shape: its center (n, 3) and radius (n,), with room for rounding."""
    axes = to_world[:, :, :3].copy()
    center = to_world[:, :, 3] + axes[:, :, 2] * ((low + high) / 2)[:, None]
    axes[:, :, 2] *= ((high - low) / 2)[:, None]
    signs = np.array([[1, 1, -1, -1], [1, -1, 1, -1], [1, 1, 1, 1]])  # the other four are their opposites
    radius = np.sqrt(((axes @ signs) ** 2).sum(1).max(1))  # the farthest corner of the box around the shape
    squares = (axes**2).sum(1)
    products = np.abs((axes * axes[:, :, [1, 2, 0]]).sum(1)).max(1)
    upright = products < 1e-6 * squares.max(1)  # then the round shapes fill less than their box
    widest = np.maximum(squares[:, 0], squares[:, 1])
    radius = np.where(upright & (kind == ShapeKind.SPHERE), np.sqrt(squares.max(1)), radius)
    is_round = (kind == ShapeKind.CYLINDER) | (kind == ShapeKind.CONE)
    radius = np.where(upright & is_round, np.sqrt(widest + squares[:, 2]), radius)
    return center, radius * 1.0005 + 1e-4


def _lights(lights: Lights) -> Array:
    kind, angle = _numpy(lights.kind)[:, None], _numpy(lights.angle)[:, None]
    edge_u, edge_v = _numpy(lights.edge_u), _numpy(lights.edge_v)
    length_u, length_v = ((edge**2).sum(1) for edge in (edge_u, edge_v))
    across = (edge_u * edge_v).sum(1)
    # A sun's one minus cosine, a spot's cosine at its edge, a panel's reach.
    reach = np.sqrt(length_u + length_v + 2 * np.abs(across))[:, None]
    one = np.where(kind == LightKind.SPOT, np.cos(angle), 2 * np.sin(angle / 2) ** 2)
    one = np.where(kind == LightKind.PANEL, reach, one)
    # A spot's slope; below which squared distance a panel is near: never, if it is no rectangle.
    is_rectangle = (length_u * length_v > 0) & (np.abs(across) <= 1e-5 * np.sqrt(length_u * length_v))
    near = (NEAR * (length_u + length_v) * is_rectangle)[:, None]
    two = np.where(kind == LightKind.PANEL, near, 1 / np.maximum(np.cos(angle / 2) - np.cos(angle), 1e-6))
    parts = [kind, _numpy(lights.position), _numpy(lights.direction), edge_u, edge_v, 4 * np.cross(edge_u, edge_v)]
    parts += [_numpy(lights.radiance)[:, None], _numpy(lights.radius)[:, None], one, two]
    return np.concatenate(parts, 1).astype(np.float32)


def _casters(shapes: Shapes, lights: Lights) -> Array:
    """Each light's list of casters, (k, n + 1): the number first, then as many indices."""
    casts = casting(shapes, lights)
    order = np.argsort(~casts, axis=1, kind="stable")
    return np.concatenate([casts.sum(1, keepdims=True), order], 1).astype(np.int16)


def _sky(lights: Lights) -> Array:
    table = sky_table(lights.sky.float().cpu())
    parts = [np.array([table.total]), _numpy(table.rows), _numpy(table.columns), _numpy(table.radiance)]
    return np.concatenate([part.reshape(-1) for part in parts]).astype(np.float32)
