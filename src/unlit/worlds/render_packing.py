"""A scene laid out as the arrays that `render_kernel.cu` reads.

Shapes: n shapes, k lights. Everything is packed on the CPU, since it is little, and moved to the device at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from unlit.worlds.casting import casting, height_range
from unlit.worlds.description import LightKind, Lights, ShapeKind, Shapes
from unlit.worlds.emission import NEAR, is_rectangle, sky_table
from unlit.worlds.intersection import geometry
from unlit.worlds.placement import lights_on, shapes_on
from unlit.worlds.sampling import LIGHT_STEPS, PATH_STEPS


@dataclass(frozen=True)
class Packed:
    """The arrays of a scene."""

    shapes: Tensor
    """(n, 24): world to object, ball around the shape, reflectance, kind, grid, lowest and highest height."""
    hulls: Tensor
    """(n, 12): the three axes of the shape in the world, and its center."""
    lights: Tensor
    """(k, 20): kind, position, direction, edge_u, edge_v, face, radiance, radius, and two numbers by kind."""
    casters: Tensor
    """(k, n + 1) int16: how many shapes can shade from a light, and which."""
    heights: Tensor
    """(g, s, s), at least one value."""
    sky: Tensor
    """Its total, the shares of rows and columns, its radiance."""

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """n, k, the side of the height grids, the side of the sky."""
        return len(self.shapes), len(self.lights), self.heights.shape[-1], math.isqrt(len(self.sky) // 4)

    @property
    def arrays(self) -> tuple[Tensor, ...]:
        """All of them, in the order in which the kernel takes them."""
        return self.shapes, self.hulls, self.lights, self.casters, self.heights, self.sky

    def lights_between(self, first: int, last: int) -> Packed:
        """Return the scene with some of its lights only."""
        return replace(self, lights=self.lights[first:last], casters=self.casters[first:last])

    def to(self, device: torch.device) -> Packed:
        """Return the arrays on a device."""
        return Packed(*(getattr(self, field.name).to(device) for field in fields(self)))


def packed(shapes: Shapes, lights: Lights) -> Packed:
    """Return a scene as arrays on the CPU."""
    shapes, lights = shapes_on(shapes, torch.device("cpu")), lights_on(lights, torch.device("cpu"))
    to_world = shapes.to_world.float()
    hulls = to_world.transpose(1, 2).reshape(-1, 12)
    table = sky_table(lights.sky.float())
    sky = torch.cat([torch.tensor([table.total]), table.rows, table.columns.flatten(), table.radiance.flatten()])
    heights = shapes.heights.float() if shapes.heights.numel() else torch.zeros(1, 1, 1)
    return Packed(
        packed_shapes(shapes).contiguous(), hulls.contiguous(), _lights(lights).contiguous(),
        _casters(shapes, lights), heights.contiguous(), sky,
    )  # fmt: skip


def sizes(
    scene: Packed, pixels: int, samples: int = 0, paths: int = 0, bounces: int = 0, seed: int = 0, first: int = 0
) -> Tensor:
    """Return the numbers that go with the arrays, (16,) int32."""
    numbers = [*scene.counts, pixels, samples, paths, bounces, seed, first, *LIGHT_STEPS, *PATH_STEPS]
    words = torch.tensor([number & 0xFFFFFFFF for number in numbers], dtype=torch.int64)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


def packed_shapes(shapes: Shapes) -> Tensor:
    """Return the array (n, 24) of shapes on the CPU."""
    lowest, highest = (heights.float() for heights in height_range(shapes))
    center, radius = _balls(shapes, lowest, highest)
    numbers = [
        shapes.kind[:, None],
        shapes.grid[:, None],
        lowest[:, None],
        highest[:, None],
        torch.zeros(len(lowest), 1),
    ]
    parts = [geometry(shapes).to_object.reshape(-1, 12), center, radius[:, None], shapes.reflectance, *numbers]
    return torch.cat([part.float() for part in parts], 1)


def _balls(shapes: Shapes, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """A ball around each shape: its center (n, 3) and radius (n,), with room for rounding."""
    axes, center = shapes.to_world[:, :, :3].float(), shapes.to_world[:, :, 3].float()
    center = center + axes[:, :, 2] * ((low + high) / 2)[:, None]
    halves = torch.stack([axes[:, :, 0], axes[:, :, 1], axes[:, :, 2] * ((high - low) / 2)[:, None]], 2)
    signs = torch.tensor([[1.0, 1, -1, -1], [1, -1, 1, -1], [1, 1, 1, 1]])  # the other four are their opposites
    corners = halves @ signs
    radius = corners.norm(dim=1).amax(1)
    thickest = torch.linalg.matrix_norm(axes, ord=2)
    radius = torch.where(shapes.kind == ShapeKind.SPHERE, thickest, radius)
    disk = torch.linalg.matrix_norm(axes[:, :, :2], ord=2)
    upright = (axes[:, :, :2] * axes[:, :, 2:]).sum(1).abs().amax(1) < 1e-6 * thickest**2
    round_ = upright & ((shapes.kind == ShapeKind.CYLINDER) | (shapes.kind == ShapeKind.CONE))
    radius = torch.where(round_, (disk**2 + axes[:, :, 2].norm(dim=1) ** 2).sqrt(), radius)
    return center, radius * 1.0005 + 1e-4


def _lights(lights: Lights) -> Tensor:
    kind, angle = lights.kind[:, None], lights.angle[:, None].float()
    face = 4 * torch.linalg.cross(lights.edge_u, lights.edge_v)
    # A sun's one minus cosine, a spot's cosine at its edge, a panel's reach.
    reach = torch.maximum((lights.edge_u + lights.edge_v).norm(dim=1), (lights.edge_u - lights.edge_v).norm(dim=1))
    one = torch.where(kind == LightKind.SPOT, angle.cos(), 2 * (angle / 2).sin() ** 2)
    one = torch.where(kind == LightKind.PANEL, reach[:, None], one)
    two = 1 / ((angle / 2).cos() - angle.cos()).clamp_min(1e-6)
    # Below which squared distance a panel is near; never, if it is no rectangle.
    near = NEAR * (lights.edge_u.square().sum(1) + lights.edge_v.square().sum(1))
    upright = [is_rectangle(u, v) for u, v in zip(lights.edge_u, lights.edge_v, strict=True)]
    near = near * torch.tensor(upright)
    two = torch.where(kind == LightKind.PANEL, near[:, None], two)
    parts = [kind, lights.position, lights.direction, lights.edge_u, lights.edge_v, face]
    parts += [lights.radiance[:, None], lights.radius[:, None], one, two]
    return torch.cat([part.float() for part in parts], 1)


def _casters(shapes: Shapes, lights: Lights) -> Tensor:
    """Each light's list of casters, (k, n + 1): the number first, then as many indices."""
    casts = casting(shapes, lights)
    order = torch.argsort((~casts).to(torch.int8), dim=1, stable=True)
    return torch.cat([casts.sum(1, keepdim=True), order], 1).to(torch.int16)
