"""What shines in a scene: sun, sky, windows, lamps, spots, a flash. Each is one light of the basis.

Every light gets the radiance with which it would alone make an irradiance of about π at the scene's focus if nothing
stood between: so the bases are of one order, whatever the lamps' sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from unlit.worlds.builder import unit
from unlit.worlds.description import LightKind, Lights
from unlit.worlds.sky import sky_map

Array = NDArray[np.float64]
Role = Literal["sun", "sky", "window", "lamp", "flash"]
"""What a light is, for its color and for what shines together with what."""

SUN_RADIUS = 0.00465
"""Radians: of the sun's disk; thin clouds make it larger."""


@dataclass
class Lighting:
    """Lights so far, about a focus: the middle of what the camera sees."""

    draw: Generator
    focus: Array
    roles: list[Role] = field(default_factory=list)
    heights: list[float] = field(default_factory=list)
    """Of the sun above the horizon, radians; zero for other lights."""
    sky: Array = field(default_factory=lambda: sky_map(np.array([0.0, 0.0, 1.0]), None))
    _rows: list[tuple[int, Array, Array, Array, Array, float, float, float]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._rows)

    def _add(
        self,
        role: Role,
        kind: LightKind,
        position: ArrayLike,
        direction: ArrayLike = (0.0, 0.0, -1.0),
        edges: tuple[ArrayLike, ArrayLike] = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
        radius: float = 0.0,
        angle: float = 0.0,
        radiance: float = 1.0,
    ) -> None:
        u, v = (np.asarray(edge, float) for edge in edges)
        self.roles.append(role)
        self.heights.append(0.0)
        self._rows.append((int(kind), np.asarray(position, float), unit(direction), u, v, radius, angle, radiance))

    def _distance(self, position: ArrayLike) -> float:
        return max(float(np.linalg.norm(np.asarray(position) - self.focus)), 1e-2)

    def lamp(self, position: ArrayLike, radius: float, role: Role = "lamp") -> None:
        """Add a ball that shines: irradiance π radiance radius² / distance²."""
        self._add(role, LightKind.LAMP, position, radius=radius, radiance=(self._distance(position) / radius) ** 2)

    def spot(self, position: ArrayLike, target: ArrayLike, radius: float, angle: float) -> None:
        """Add a lamp that shines in a cone of `angle` about the way to `target`."""
        direction = np.asarray(target, float) - np.asarray(position, float)
        radiance = (self._distance(position) / radius) ** 2
        self._add("lamp", LightKind.SPOT, position, direction, radius=radius, angle=angle, radiance=radiance)

    def panel(self, center: ArrayLike, half_u: ArrayLike, half_v: ArrayLike, role: Role = "lamp") -> None:
        """Add a rectangle that shines along half_u × half_v."""
        u, v = np.asarray(half_u, float), np.asarray(half_v, float)
        area = 4 * float(np.linalg.norm(np.cross(u, v)))
        radiance = np.pi * self._distance(center) ** 2 / area
        self._add(role, LightKind.PANEL, center, np.cross(u, v), (u, v), radiance=max(radiance, 1.0))

    def sun(self, to_sun: ArrayLike, radius: float = SUN_RADIUS) -> None:
        """Add the sun in the direction `to_sun`, with a disk of this angular radius."""
        towards = unit(to_sun)
        radiance = 1 / np.sin(radius) ** 2
        self._add("sun", LightKind.SUN, (0, 0, 0), -towards, angle=radius, radiance=radiance)
        self.heights[-1] = float(np.arcsin(np.clip(towards[2], -1, 1)))

    def open_sky(self, to_sun: ArrayLike, turbidity: float | None) -> None:
        """Add the sky, clear for a turbidity, overcast for None."""
        self.sky = sky_map(unit(to_sun), turbidity)
        self._add("sky", LightKind.SKY, (0, 0, 0))

    def flash(self, camera: ArrayLike) -> None:
        """Add a small lamp beside the camera."""
        offset = self.draw.normal(0, 0.03, 3) * self._distance(camera) + [0, 0, 0.04]
        self.lamp(np.asarray(camera) + offset, 0.012 * self._distance(camera), "flash")

    def to_suns(self) -> list[Array]:
        """Return the directions to the suns so far."""
        return [-row[2] for row in self._rows if row[0] == LightKind.SUN]

    def limit(self, count: int) -> None:
        """Keep `count` lights by chance, or add lamps until there are as many."""
        distance = max(
            self._distance(row[1]) for row in self._rows if row[0] != LightKind.SUN and row[0] != LightKind.SKY
        )
        while len(self) < count:
            self.lamp(self.focus + distance * drawn_to_sun(self.draw), 0.03 * distance)
        kept = sorted(self.draw.permutation(len(self))[:count].tolist())
        self._rows, self.roles = [self._rows[k] for k in kept], [self.roles[k] for k in kept]
        self.heights = [self.heights[k] for k in kept]

    def lights(self) -> Lights:
        """Return the lights as tensors."""
        kind, *columns = zip(*self._rows, strict=True)
        position, direction, u, v, radius, angle, radiance, sky = (
            torch.from_numpy(np.array(column, np.float32)) for column in (*columns, self.sky)
        )
        kinds = torch.tensor(kind, dtype=torch.int32)
        return Lights(kinds, position, direction, u, v, radius, angle, radiance, sky)


def drawn_to_sun(draw: Generator, low: float = 0.1, high: float = 1.3, azimuth: float | None = None) -> Array:
    """Return a direction to the sun whose height lies between two angles."""
    height, around = draw.uniform(low, high), draw.uniform(0, 2 * np.pi) if azimuth is None else azimuth
    return np.array([np.cos(around) * np.cos(height), np.sin(around) * np.cos(height), np.sin(height)])


def drawn_sun_radius(draw: Generator) -> float:
    """Return the radius of the sun's disk: mostly its own, at times behind thin clouds."""
    return SUN_RADIUS if draw.random() < 0.65 else float(draw.uniform(0.01, 0.12))


def add_day(lighting: Lighting, suns: int) -> None:
    """Add the sun at some hours of one day, low and high, and the sky of one of them."""
    draw = lighting.draw
    south, noon = draw.uniform(0, 2 * np.pi), draw.uniform(0.4, 1.3)
    directions = []
    for hour in np.linspace(-1, 1, suns) * draw.uniform(0.7, 1.0) + draw.normal(0, 0.06, suns):
        height = max(0.06, noon * np.cos(hour * np.pi / 2 * 0.95))
        azimuth = south + hour * 1.7
        directions.append(
            np.array([np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height), np.sin(height)])
        )
    for direction in directions:
        lighting.sun(direction, drawn_sun_radius(draw))
    overcast = draw.random() < 0.35
    lighting.open_sky(directions[int(draw.integers(suns))], None if overcast else draw.uniform(2, 8))


def add_lamps_around(lighting: Lighting, count: int, reach: float, height: tuple[float, float] = (0.1, 1.4)) -> None:
    """Add lamps, spots and panels at chance places of the upper half around the focus, hard and soft alike."""
    draw = lighting.draw
    for _ in range(count):
        distance = reach * draw.uniform(1.2, 3.0)
        position = lighting.focus + distance * drawn_to_sun(draw, *height)
        kind = draw.random()
        if kind < 0.45:
            lighting.lamp(position, distance * float(np.exp(draw.uniform(np.log(0.01), np.log(0.2)))))
        elif kind < 0.65:
            lighting.spot(
                position, lighting.focus + draw.normal(0, 0.2, 3) * reach, 0.03 * distance, draw.uniform(0.25, 0.9)
            )
        else:
            towards = unit(lighting.focus - position)
            side = unit(np.cross(towards, [0, 0, 1.0]))
            half = distance * draw.uniform(0.08, 0.5)
            lighting.panel(position, side * half * draw.uniform(0.3, 1), np.cross(towards, side) * half)
