"""What stands out of houses: eaves, ledges, pillars, balconies, awnings, dormers, chimneys.

Their shadows are sharp and fine, and fall on walls of one color: were houses smooth boxes alone, whatever is fine on
a front would be paint. Lengths are meters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unlit.worlds.builder import Builder
from unlit.worlds.calm import WALLS, drawn_calm
from unlit.worlds.materials import Texture

Array = NDArray[np.float64]

MOST = 200
"""Shapes of a scene from which on houses get nothing more: renderers take some hundred (`render_kernel.py`)."""
_FLOOR = 3.0
"""The height of one."""


@dataclass(frozen=True)
class House:
    """A house that stands straight: its walls are a box."""

    at: Array
    """(3,): the middle of its floor."""
    half: tuple[float, float]
    """Half its sides along x and y."""
    height: float
    """Of its walls."""
    front: tuple[float, float]
    """Where its front looks: (±1, 0) or (0, ±1)."""
    roof: int
    """The number of its roof's material."""
    rise: float
    """How high its roof is, whose ridge lies along y; 0 for a flat one."""
    room: float
    """Meters before its front in which things may stand out."""
    is_alone: bool
    """Or in a row, its sides against its neighbors'."""

    @property
    def deep(self) -> float:
        """From its middle to its front."""
        return abs(self.front[0]) * self.half[0] + abs(self.front[1]) * self.half[1]

    @property
    def wide(self) -> float:
        """Half its front."""
        return abs(self.front[1]) * self.half[0] + abs(self.front[0]) * self.half[1]

    def around(self, out: float, thin: float) -> Array:
        """Return half sizes (3,) of a slab around it that stands out so far: of a row at front and back alone."""
        aside = self.wide + (out if self.is_alone else 0.0)
        return self.sizes(self.deep + min(out, self.room), aside, thin)

    def before(self, away: float, aside: float, high: float) -> Array:
        """Return a place (3,) so far before the front (or behind it), aside of its middle, and high."""
        x, y = self.front
        out = self.deep + away
        place: Array = self.at + [x * out - y * aside, y * out + x * aside, high]
        return place

    def sizes(self, out: float, aside: float, high: float) -> Array:
        """Return half sizes (3,) of a box that reaches so far along the front's direction, beside it, and up."""
        x, y = abs(self.front[0]), abs(self.front[1])
        return np.array([x * out + y * aside, y * out + x * aside, high])


def drawn_trim(b: Builder) -> int:
    """Return a material for what stands out of walls."""
    return b.material(drawn_calm(b.draw, 1.5, (Texture.PLAIN, Texture.PLAIN, Texture.SPECKLE), WALLS))


def dress(b: Builder, house: House, trim: int) -> None:
    """Add some of all that may stand out of a house, if the scene has room for more shapes."""
    draw = b.draw
    parts = ((0.5, _eaves), (0.4, _ledges), (0.2, _pillars), (0.35, _balconies), (0.2, _awning), (0.45, _on_roof))
    for share, add in parts:
        if draw.random() < share and len(b) < MOST:
            add(b, house, trim)


def _eaves(b: Builder, house: House, _trim: int) -> None:
    out, thin = b.draw.uniform(0.2, 0.9), b.draw.uniform(0.06, 0.2)
    b.box(house.at + [0, 0, house.height - thin], house.around(out, thin), house.roof)


def _ledges(b: Builder, house: House, trim: int) -> None:
    """Add ledges above the lowest floors, one to three."""
    out, thin = b.draw.uniform(0.08, 0.4), b.draw.uniform(0.05, 0.2)
    for floor in range(1, 1 + int(b.draw.integers(1, 4))):
        if floor * _FLOOR < house.height - 0.5:
            b.box(house.at + [0, 0, floor * _FLOOR], house.around(out, thin), trim)


def _pillars(b: Builder, house: House, trim: int) -> None:
    """Add pillars or buttresses along the front."""
    thick, out = b.draw.uniform(0.12, 0.4), min(b.draw.uniform(0.08, 0.5), house.room)
    count = min(int(b.draw.integers(2, 6)), int(house.wide / (1.5 * thick)))
    # Below the eaves, so that no two faces are one.
    high = (house.height - 0.05) * b.draw.choice([1.0, b.draw.uniform(0.4, 1.0)])
    for k in range(count):
        aside = (2 * (k + 0.5) / count - 1) * house.wide
        b.box(house.before(0, aside, high / 2), house.sizes(out, thick, high / 2), trim)


def _balconies(b: Builder, house: House, trim: int) -> None:
    """Add balconies on some floors, over all of the front or a part: slabs with parapets, or with posts and rails."""
    out, wide = min(b.draw.uniform(0.4, 0.9), house.room / 2), house.wide * b.draw.uniform(0.25, 1.0)
    aside, is_closed = (house.wide - wide) * b.draw.uniform(-1, 1), b.draw.random() < 0.7
    for floor in range(1, 1 + int(b.draw.integers(1, 4))):
        high = floor * _FLOOR
        if high + 0.5 * _FLOOR > house.height:
            break
        b.box(house.before(out, aside, high), house.sizes(out, wide, 0.08), trim)
        rail = 0.5 if is_closed else 0.05
        b.box(house.before(2 * out, aside, high + 1.0 - rail), house.sizes(0.05, wide, rail), trim)
        for side in () if is_closed else (-1, 1):
            b.box(house.before(2 * out, aside + side * wide, high + 0.5), house.sizes(0.04, 0.04, 0.5), trim)


def _awning(b: Builder, house: House, trim: int) -> None:
    """Add a roof over the door or the shop windows."""
    out, wide = min(b.draw.uniform(0.5, 1.3), house.room / 2), house.wide * b.draw.uniform(0.3, 1.0)
    aside, high = (house.wide - wide) * b.draw.uniform(-1, 1), min(b.draw.uniform(2.4, 3.0), house.height - 0.3)
    b.box(house.before(out, aside, high), house.sizes(out, wide, 0.06), trim)


def _on_roof(b: Builder, house: House, trim: int) -> None:
    """Add chimneys, and dormers where the front is below a slope of the roof."""
    draw = b.draw
    for _ in range(int(draw.integers(1, 4))):
        aside, back = draw.uniform(-0.8, 0.8) * house.wide, -draw.uniform(0.7, 1.3) * house.deep
        high = 0.5 * (house.rise + draw.uniform(0.3, 1.2))
        b.box(house.before(back, aside, house.height + high), (draw.uniform(0.2, 0.5), 0.3, high), trim)
    if house.rise == 0 or house.front[0] == 0:
        return
    for _ in range(int(draw.integers(0, 4))):
        half = house.sizes(0.3 * house.deep, min(draw.uniform(0.4, 0.8), 0.3 * house.wide), 0.35 * house.rise + 0.2)
        aside = draw.uniform(-0.65, 0.65) * house.wide
        b.box(house.before(-draw.uniform(0.35, 0.5) * house.deep, aside, house.height + half[2]), half, trim)
