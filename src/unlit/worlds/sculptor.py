"""Builds one thing of many parts that look like one body: its own axes, its own size, and paint by part.

Coordinates are the thing's own: it stands on z = 0, looks along x and is about one high or long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from unlit.worlds.builder import Builder, frame_along
from unlit.worlds.paint import Paint

Array = NDArray[np.float64]
NO_TURN: Array = np.eye(3)


@dataclass
class Sculptor:
    """Adds parts to a builder; `place` is where the thing's origin lies, `turn` how it is turned."""

    b: Builder
    paint: Paint
    turn: Array
    size: float
    place: Array

    @property
    def draw(self) -> Generator:
        """The builder's generator."""
        return self.b.draw

    def at(self, point: ArrayLike) -> Array:
        """Return a point of the thing in the world."""
        moved: Array = self.place + self.turn @ (self.size * np.asarray(point, float))
        return moved

    def ball(self, center: ArrayLike, half: ArrayLike, part: str, rotation: Array = NO_TURN) -> None:
        """Add an ellipsoid."""
        axes = self.size * np.broadcast_to(np.asarray(half, float), (3,))
        self.b.ball(self.at(center), axes, self.paint.of(part), self.turn @ rotation)

    def box(self, center: ArrayLike, half: ArrayLike, part: str, rotation: Array = NO_TURN) -> None:
        """Add a box."""
        axes = self.size * np.asarray(half, float)
        self.b.box(self.at(center), axes, self.paint.of(part), self.turn @ rotation)

    def rod(self, start: ArrayLike, end: ArrayLike, radius: float, part: str, *, cone: bool = False) -> None:
        """Add a cylinder or a cone."""
        self.b.rod(self.at(start), self.at(end), self.size * radius, self.paint.of(part), cone=cone)

    def relief(
        self, center: ArrayLike, half: ArrayLike, heights: Array, material: int, rotation: Array = NO_TURN
    ) -> None:
        """Add a surface of heights, of a material of its own."""
        self.b.relief(self.at(center), self.size * np.asarray(half, float), heights, material, self.turn @ rotation)

    def quad(self, center: ArrayLike, half_u: ArrayLike, half_v: ArrayLike, material: int) -> None:
        """Add a flat piece, such as a label, of a material of its own."""
        u, v = (self.turn @ (self.size * np.asarray(side, float)) for side in (half_u, half_v))
        self.b.quad(self.at(center), u, v, material)

    def bone(self, start: ArrayLike, end: ArrayLike, radius: float, part: str) -> None:
        """Add a long ellipsoid from one place to another, and a little beyond both."""
        a, z = np.asarray(start, float), np.asarray(end, float)
        half = 0.5 * float(np.linalg.norm(z - a)) + 0.9 * radius
        self.ball((a + z) / 2, (radius, radius, max(radius, half)), part, frame_along(z - a + 1e-9))

    def limb(self, points: ArrayLike, radii: tuple[float, float], part: str) -> None:
        """Add a limb from a root over a joint to an end: two long ellipsoids that meet in a ball."""
        root, joint, end = np.asarray(points, float)
        self.bone(root, joint, radii[0], part)
        self.ball(joint, min(radii), part)
        self.bone(joint, end, radii[1], part)

    def tube(self, points: ArrayLike, radius: float, part: str, count: int = 5, thinner: float = 0.0) -> None:
        """Add an even tube along a curve from the first point towards the second to the third: rods and balls.

        It loses the share `thinner` of its radius on the way; little enough that its steps are not seen.
        """
        a, c, z = np.asarray(points, float)
        t = np.linspace(0, 1, count + 1)[:, None]
        places = (1 - t) ** 2 * a + 2 * t * (1 - t) * c + t**2 * z
        for k in range(count):
            thick = radius * (1 - thinner * k / count)
            self.rod(places[k], places[k + 1], thick, part)
            self.ball(places[k + 1], thick, part)
