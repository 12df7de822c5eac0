"""Much that is small, side by side, as one height grid: crowds and goods, shrubs, rubble, far roofs, crowns of a wood.

Each thing is a few of the grid's cells wide, so that sun and shade, too, are as fine as what is painted. One shape of
hundreds of things takes a ray no longer than one hill.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.worlds.builder import GRID, Builder
from unlit.worlds.calm import ROCK, ROOFS, WALLS, drawn_calm
from unlit.worlds.materials import Texture
from unlit.worlds.palette import Material, drawn_color, drawn_leaves, drawn_material

Array = NDArray[np.float64]

_BELOW = -0.2
"""Height where nothing stands: under the ground, which shows there."""
_PAINTS = (
    Texture.CELLS, Texture.CELLS, Texture.BLOCKS, Texture.BLOCKS, Texture.PATCHES, Texture.CHECKS, Texture.STRIPES,
)  # fmt: skip
_MOTLEY = 0.8
"""How often things of a crowd each have a color of their own."""
_ROOF_PAINTS = (Texture.PLAIN, Texture.PATCHES, Texture.CELLS, Texture.BLOCKS, Texture.WINDOWS)
_ROCKS = (Texture.PLAIN, Texture.NOISE, Texture.PATCHES, Texture.SPECKLE)


@dataclass(frozen=True)
class Heap:
    """What lies side by side."""

    heights: Callable[[Generator], Array]
    """Draws them, (40, 40), 1 for the highest."""
    stuff: Callable[[Generator, float], Material]
    """Draws what things are made of, for cells of the grid so wide: paint is about as fine, with borders of its own."""
    wide: tuple[float, float]
    """Meters, least and most, that one thing takes."""
    high: tuple[float, float]
    """The same of the highest."""

    def drawn_half(self, draw: Generator, shape: float = 1.0) -> Array:
        """Return half the sides (2,) of what some twenty things side by side take, two cells of the grid each.

        The first side is `shape` times the other.
        """
        half: Array = draw.uniform(*self.wide) * (GRID - 1) / 4 * np.array([np.sqrt(shape), 1 / np.sqrt(shape)])
        return half


def add_heap(b: Builder, middle: Array, half: Array, heap: Heap, yaw: float = 0.0) -> None:
    """Add things of one sort about a place (3,) on the ground, on a rectangle of half its sides (2,)."""
    heights = heap.heights(b.draw)
    stuff = b.material(heap.stuff(b.draw, 2 * float(np.sqrt(half.prod())) / (GRID - 1)))
    b.relief(middle, (*half, b.draw.uniform(*heap.high)), heights, stuff, yaw)


def blocks(draw: Generator) -> Array:
    """Return heights (40, 40) of upright things one to four cells wide, with gaps between them."""
    heights = np.full((GRID, GRID), _BELOW)
    wanted, widest = draw.uniform(0.1, 0.55), int(draw.integers(1, 4))
    while (heights > 0).mean() < wanted:
        size = draw.integers(1, widest + 1, 2)
        row, column = draw.integers(1, GRID - 1 - size)
        heights[row : row + size[0], column : column + size[1]] = draw.uniform(0.3, 1.0)
    return heights


def domes(draw: Generator) -> Array:
    """Return heights (40, 40) of round heads, which grow into each other or leave gaps."""
    rows, columns = np.mgrid[:GRID, :GRID]
    heights, wanted, widest = np.full((GRID, GRID), _BELOW), draw.uniform(0.1, 0.65), draw.uniform(1.5, 5.0)
    while (heights > 0).mean() < wanted:
        radius = draw.uniform(1.0, widest)
        # In a round place, or where it ends would be straight.
        angle, reach = draw.uniform(0, 2 * np.pi), (GRID / 2 - 2) * np.sqrt(draw.random())
        row, column = GRID / 2 + reach * np.array([np.sin(angle), np.cos(angle)])
        away = np.hypot(rows - row, columns - column) / radius
        head = np.sqrt(np.clip(1 - away**2, 0, None)) * draw.uniform(0.6, 1.0) * radius / widest
        heights = np.maximum(heights, np.where(away < 1, head, _BELOW))
    heights[[0, -1]], heights[:, [0, -1]] = _BELOW, _BELOW
    return heights


def wooded(draw: Generator, heights: Array, half: float, high: float) -> Array:
    """Return `heights` of a slope, 1 being `high` meters, half a side `half` meters, with crowns on it."""
    cell = 2 * half / (GRID - 1)
    crowns = min(0.4, draw.uniform(0.15, 0.6) * cell / high)
    # Its foot stays in the ground.
    grown: Array = heights * (1 - crowns) + crowns * draw.random((GRID, GRID)) * np.clip(8 * heights, 0, 1)
    return grown


def _leaves(draw: Generator, cell: float) -> Material:
    return drawn_leaves(draw, 5 * cell)


def _stone(draw: Generator, cell: float) -> Material:
    return drawn_calm(draw, 6 * cell, _ROCKS, ROCK, 0.02)


def _tiles(draw: Generator, cell: float) -> Material:
    return drawn_calm(draw, 6 * cell, _ROOF_PAINTS, ROOFS if draw.random() < 0.5 else WALLS, 0.05)


def _goods(draw: Generator, cell: float) -> Material:
    paint = drawn_material(draw, 6 * cell, _PAINTS)
    if draw.random() < _MOTLEY:
        paint.colors = np.stack([drawn_color(draw, vivid=0.4) for _ in range(4)])
    return paint


CROWD = Heap(blocks, _goods, (0.3, 0.9), (0.8, 2.2))
"""People, tables, chairs, goods of a market, crates."""
SHRUBS = Heap(domes, _leaves, (0.5, 2.0), (0.4, 2.5))
RUBBLE = Heap(domes, _stone, (0.25, 1.2), (0.15, 0.9))
WOODS = Heap(domes, _leaves, (3.0, 9.0), (3.0, 9.0))
ROOFTOPS = Heap(blocks, _tiles, (4.0, 11.0), (4.0, 14.0))
"""A town too far away for houses of their own."""
