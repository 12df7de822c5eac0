"""Walls with paint or wallpaper, windows with bars, and doors."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.worlds.builder import Builder
from unlit.worlds.furniture import curtain
from unlit.worlds.materials import Bump, Texture
from unlit.worlds.palette import Material, drawn_color, drawn_material

Array = NDArray[np.float64]
Hole = tuple[float, float, float, float]
"""From, to along the wall; from, to in height."""

_WALLS = (Texture.PLAIN,) * 6 + (
    Texture.STRIPES,
    Texture.BRICK,
    Texture.NOISE,
    Texture.SPOTS,
    Texture.PLAID,
    Texture.GRADIENT,
    Texture.PATCHES,
)


@dataclass(frozen=True)
class Wall:
    """One wall: where it begins, along which direction it runs, its front to the left of that."""

    start: Array
    right: Array
    length: float
    height: float

    def at(self, along: float, up: float, out: float = 0.0) -> Array:
        """Return a place on the wall, or `out` meters in front of it."""
        place: Array = self.start + along * self.right + out * self.front + np.array([0, 0, up])
        return place

    @property
    def front(self) -> Array:
        """The direction into the room."""
        front: Array = np.cross([0, 0, 1.0], self.right)
        return front


def walls_of(width: float, depth: float, height: float) -> list[Wall]:
    """Return the walls at the left, the back and the right; the fourth is behind the camera."""
    left = Wall(np.array([0.0, depth, 0]), np.array([0.0, -1, 0]), depth, height)
    back = Wall(np.array([width, depth, 0.0]), np.array([-1.0, 0, 0]), width, height)
    right = Wall(np.array([width, 0.0, 0]), np.array([0.0, 1, 0]), depth, height)
    return [left, back, right]


def wall_paint(draw: Generator, color: Array | None = None) -> Material:
    """Return what covers a wall: mostly plain, mostly quiet; of one color where it is given."""
    material = drawn_material(draw, 2.0, _WALLS if color is None else (Texture.PLAIN,), color, vivid=0.08)
    material.turn = 0.0
    if draw.random() < 0.7:
        # Most wallpapers are quiet: all their colors are near the first.
        material.colors[1:] = material.colors[0] * np.exp(draw.normal(0, 0.25, (3, 1)) + draw.normal(0, 0.05, (3, 3)))
        material.colors = np.clip(material.colors, 0.03, 0.9)
    if material.bump not in (Bump.NONE, Bump.JOINTS):
        material.bump_height *= 0.4
    return material


def drawn_paints(draw: Generator) -> list[Material]:
    """Return paints of the walls: mostly one for all, mostly light."""
    first = wall_paint(draw)
    if first.texture == Texture.PLAIN:
        first.colors[0] = drawn_color(draw, draw.uniform(0.25, 0.88) if draw.random() < 0.8 else None, 0.08)
    other = wall_paint(draw) if draw.random() < 0.35 else first
    return [first, other, first]


def drawn_holes(draw: Generator, walls: list[Wall]) -> list[Hole | None]:
    """Return a window or a door for some of the walls, at least for one."""
    holes: list[Hole | None] = []
    for wall in walls:
        if draw.random() > 0.55:
            holes.append(None)
            continue
        half = draw.uniform(0.3, min(1.0, 0.35 * wall.length))
        middle = draw.uniform(half + 0.1, wall.length - half - 0.1)
        is_door = draw.random() < 0.25
        low, high = (0.0, 2.0) if is_door else (draw.uniform(0.4, 1.1), draw.uniform(1.7, wall.height - 0.15))
        holes.append((middle - half, middle + half, low, high))
    if not any(holes):
        holes[int(draw.choice([0, 2]))] = (0.3 * walls[0].length, 0.6 * walls[0].length, 0.8, 1.9)
    return holes


def build_wall(b: Builder, wall: Wall, hole: Hole | None, paint: Material) -> None:
    """Add a wall as up to four quads about its hole, with the pattern running through, and what fills the hole."""
    pieces = [(0.0, wall.length, 0.0, wall.height)]
    if hole is not None:
        left, right, low, high = hole
        pieces = [
            (0.0, left, 0.0, wall.height),
            (right, wall.length, 0.0, wall.height),
            (left, right, high, wall.height),
        ]
        pieces += [(left, right, 0.0, low)] if low > 0 else []
    for left, right, low, high in pieces:
        along, up = (left + right) / 2, (low + high) / 2
        piece = copy.deepcopy(paint)
        piece.offset = paint.offset + np.array([along, up, 0]) / paint.scale
        b.quad(wall.at(along, up), wall.right * (right - left) / 2, (0, 0, (high - low) / 2), b.material(piece))
    if hole is not None:
        _fill_hole(b, wall, hole)


def _fill_hole(b: Builder, wall: Wall, hole: Hole) -> None:
    """Add a frame, bars or a door's leaf."""
    draw = b.draw
    left, right, low, high = hole
    wood = b.material(
        drawn_material(
            draw, 1.0, (Texture.PLAIN, Texture.PLAIN, Texture.WOOD), drawn_color(draw, draw.uniform(0.1, 0.85), 0.1)
        )
    )
    rotation = np.stack([wall.right, wall.front, [0, 0, 1.0]], 1)
    if low == 0:
        swing = draw.uniform(0.3, 1.5)
        leaf = np.cos(swing) * wall.right + np.sin(swing) * wall.front
        size = (right - left) / 2
        b.box(
            wall.at(left, high / 2) + leaf * size,
            (size, 0.02, high / 2),
            wood,
            np.stack([leaf, np.cross([0, 0, 1.0], leaf), [0, 0, 1.0]], 1),
        )
        return
    thin = draw.uniform(0.012, 0.035)
    columns, rows = (
        int(draw.integers(1, 5)),
        int(draw.integers(1, 5)) if draw.random() < 0.8 else int(draw.integers(6, 12)),
    )
    for along in np.linspace(left, right, columns + 1):
        b.box(wall.at(along, (low + high) / 2), (thin, 0.03, (high - low) / 2), wood, rotation)
    for up in np.linspace(low, high, rows + 1):
        b.box(wall.at((left + right) / 2, up), ((right - left) / 2, 0.03, thin), wood, rotation)
    if draw.random() < 0.35:
        half = (right - left) * draw.uniform(0.15, 0.3)
        curtain(b, wall.at(left, (low + high) / 2, 0.12), wall.right, (half, (high - low) * 0.6))
