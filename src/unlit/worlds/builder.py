"""Puts shapes together: unit shapes placed by where they stand, how large they are, and how they are turned.

Lengths are meters, angles radians; x and y lie on the ground, z is up. `yaw` turns about z.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from unlit.worlds.description import ShapeKind, Shapes
from unlit.worlds.palette import Material, mean_reflectance

Array = NDArray[np.float64]
GRID = 40
"""The side of all height grids."""


def turned(yaw: float, pitch: float = 0.0, roll: float = 0.0) -> Array:
    """Return a rotation (3, 3): first about x by `roll`, then about y by `pitch`, then about z by `yaw`."""
    (cz, cy, cx), (sz, sy, sx) = np.cos([yaw, pitch, roll]), np.sin([yaw, pitch, roll])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    rotation: Array = about_z @ about_y @ about_x
    return rotation


def unit(vector: ArrayLike) -> Array:
    """Return a vector (3,) made one long."""
    values = np.asarray(vector, float)
    return values / max(float(np.linalg.norm(values)), 1e-12)


def frame_along(axis: ArrayLike) -> Array:
    """Return a rotation (3, 3) that leads z to `axis`."""
    z = unit(axis)
    x = unit(np.cross([0, 1, 0] if abs(z[1]) < 0.9 else [1, 0, 0], z))
    return np.stack([x, np.cross(z, x), z], 1)


@dataclass
class Builder:
    """Shapes and materials so far. Every method adds one shape, of a material that `material` gave."""

    draw: Generator
    materials: list[Material] = field(default_factory=list)
    _kinds: list[int] = field(default_factory=list)
    _maps: list[Array] = field(default_factory=list)
    _owners: list[int] = field(default_factory=list)
    _grids: list[int] = field(default_factory=list)
    _heights: list[Array] = field(default_factory=list)

    def material(self, material: Material) -> int:
        """Keep a material and return its number."""
        self.materials.append(material)
        return len(self.materials) - 1

    def __len__(self) -> int:
        return len(self._kinds)

    def centers(self) -> Array:
        """Return where the shapes' middles are (n, 3)."""
        return np.array([matrix[:, 3] for matrix in self._maps]).reshape(-1, 3)

    def outline(self) -> Array:
        """Return points (m, 3) that the shapes reach: of each the middles of faces, of edges, and corners."""
        steps = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3), -1).reshape(27, 3)
        steps = np.delete(steps, 13, 0)
        # Round shapes reach as far as a ball does; the corners of their boxes would frame them too small.
        is_round = np.isin(self._kinds, [int(ShapeKind.SPHERE), int(ShapeKind.CYLINDER), int(ShapeKind.CONE)])
        ball = steps / np.linalg.norm(steps, axis=1, keepdims=True)
        return np.concatenate(
            [
                ((ball if rounded else steps) * [1, 1, kind != ShapeKind.QUAD]) @ matrix[:, :3].T + matrix[:, 3]
                for kind, matrix, rounded in zip(self._kinds, self._maps, is_round, strict=True)
            ]
        )

    def filled(self) -> Array:
        """Return points (m, 3) all over the boxes that hold the shapes, as many for each: to see where they stand."""
        line = np.linspace(-1, 1, 9)
        steps = np.stack(np.meshgrid(line, line, line), -1).reshape(-1, 3)
        return np.concatenate([steps @ matrix[:, :3].T + matrix[:, 3] for matrix in self._maps])

    def join(self, other: Builder) -> None:
        """Add all shapes and materials of another builder, which has no reliefs."""
        before = len(self.materials)
        self.materials += other.materials
        self._kinds += other._kinds
        self._maps += other._maps
        self._owners += [before + owner for owner in other._owners]
        self._grids += other._grids

    def _add(self, kind: ShapeKind, matrix: Array, center: ArrayLike, material: int, grid: int = -1) -> None:
        self._kinds.append(int(kind))
        self._maps.append(np.concatenate([matrix, np.asarray(center, float).reshape(3, 1)], 1))
        self._owners.append(material)
        self._grids.append(grid)

    def box(self, center: ArrayLike, half: ArrayLike, material: int, rotation: Array | float = 0.0) -> None:
        """Add a box by its center and half its sides; `rotation` is a matrix or a yaw."""
        self._add(ShapeKind.BOX, _rotation(rotation) * np.asarray(half, float), center, material)

    def ball(self, center: ArrayLike, half: ArrayLike, material: int, rotation: Array | float = 0.0) -> None:
        """Add an ellipsoid by its center and half axes, or a sphere by its radius."""
        axes = np.broadcast_to(np.asarray(half, float), (3,))
        self._add(ShapeKind.SPHERE, _rotation(rotation) * axes, center, material)

    def rod(self, start: ArrayLike, end: ArrayLike, radius: float, material: int, *, cone: bool = False) -> None:
        """Add a cylinder from `start` to `end`, or a cone with its tip at `end`."""
        a, b = np.asarray(start, float), np.asarray(end, float)
        length = max(float(np.linalg.norm(b - a)), 1e-6)
        kind = ShapeKind.CONE if cone else ShapeKind.CYLINDER
        self._add(kind, frame_along(b - a) * np.array([radius, radius, length / 2]), (a + b) / 2, material)

    def gable(self, center: ArrayLike, half: ArrayLike, material: int) -> None:
        """Add a roof along y: a prism as wide and long as `half` says, its ridge half[2] above; as much hangs below."""
        w, length, h = np.asarray(half, float)
        self._add(ShapeKind.BOX, np.array([[w / 2, -w / 2, 0], [0, 0, length], [h / 2, h / 2, 0]]), center, material)

    def quad(self, center: ArrayLike, half_u: ArrayLike, half_v: ArrayLike, material: int) -> None:
        """Add a parallelogram by its center and half its sides."""
        u, v = np.asarray(half_u, float), np.asarray(half_v, float)
        self._add(ShapeKind.QUAD, np.stack([u, v, unit(np.cross(u, v))], 1), center, material)

    def relief(
        self, center: ArrayLike, half: ArrayLike, heights: Array, material: int, rotation: Array | float = 0.0
    ) -> None:
        """Add a surface of `heights` (40, 40) in [−1, 1] over a rectangle; half of its sides, and its height for 1."""
        self._heights.append(np.clip(heights, -1, 1))
        self._add(
            ShapeKind.TERRAIN, _rotation(rotation) * np.asarray(half, float), center, material, len(self._heights) - 1
        )

    def shapes(self) -> Shapes:
        """Return what was built."""
        heights = np.stack(self._heights) if self._heights else np.zeros((0, GRID, GRID))
        means = np.stack([mean_reflectance(material) for material in self.materials])
        owners = np.array(self._owners, np.int32)
        return Shapes(
            kind=torch.tensor(self._kinds, dtype=torch.int32),
            to_world=torch.from_numpy(np.stack(self._maps).astype(np.float32)),
            material=torch.from_numpy(owners),
            reflectance=torch.from_numpy(means[owners].astype(np.float32)),
            grid=torch.tensor(self._grids, dtype=torch.int32),
            heights=torch.from_numpy(heights.astype(np.float32)),
        )


def _rotation(rotation: Array | float) -> Array:
    return rotation if isinstance(rotation, np.ndarray) else turned(float(rotation))


# Heights --------------------------------------------------------------------------------------------------------------

_LINE = np.linspace(-1, 1, GRID)
_Y, _X = np.meshgrid(_LINE, _LINE, indexing="ij")


def rolling(draw: Generator, rough: float = 1.0) -> Array:
    """Return heights (40, 40) of uneven ground: waves of chance directions, the shorter the lower."""
    total = np.zeros((GRID, GRID))
    for octave in range(4):
        for _ in range(3):
            angle, phase = draw.uniform(0, 2 * np.pi, 2)
            reach = 1.5 * 1.9**octave * draw.uniform(0.7, 1.3)
            wave = np.sin(reach * (np.cos(angle) * _X + np.sin(angle) * _Y) + phase)
            total += wave * (0.5 * rough) ** octave
    heights: Array = total / (np.abs(total).max() + 1e-9)
    return heights


def dome(draw: Generator, rough: float = 0.3) -> Array:
    """Return heights of a rock: a rough hump that falls below the ground at its rim."""
    radius = np.hypot(_X, _Y)
    hump = np.sqrt(np.clip(1 - radius**2, 0, None)) * (1 + rough * rolling(draw, 1.4))
    return np.where(radius < 0.98, hump / max(hump.max(), 1e-6), -0.4)


def pillow() -> Array:
    """Return heights of a cushion: full in the middle, thin at the seams and corners."""
    return np.clip((1 - _X**4) * (1 - _Y**4), 0, 1) ** 0.45


def folds(draw: Generator) -> Array:
    """Return heights of hanging cloth: folds along y, which wander a little."""
    bend = 0.3 * rolling(draw, 0.5)
    waves = np.sin((_X + 0.25 * bend) * draw.uniform(6, 22) + draw.uniform(0, 6)) + 0.4 * rolling(draw)
    heights: Array = waves / np.abs(waves).max()
    return heights


def crumpled(draw: Generator) -> Array:
    """Return heights of paper that was crumpled: flat pieces between sharp creases."""
    total = np.zeros((GRID, GRID))
    for _ in range(14):
        angle, place = draw.uniform(0, 2 * np.pi), draw.uniform(-0.9, 0.9)
        total += draw.normal() * np.abs(np.cos(angle) * _X + np.sin(angle) * _Y - place)
    total -= total.mean()
    heights: Array = total / np.abs(total).max()
    return heights


def stairs(draw: Generator) -> Array:
    """Return heights of carved panels: a few levels with steep steps."""
    levels = np.round(rolling(draw, 0.8) * 2.5) / 2.5
    heights: Array = levels / max(np.abs(levels).max(), 0.4)
    return heights
