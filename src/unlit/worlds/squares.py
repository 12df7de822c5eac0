"""A square before a webcam: paving, steps, hedges, umbrellas, cars, signs, and people who pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unlit.worlds.builder import Builder
from unlit.worlds.calm import GROUND, drawn_calm
from unlit.worlds.clutter import CROWD, SHRUBS, add_heap
from unlit.worlds.materials import Texture
from unlit.worlds.outdoors import along_street
from unlit.worlds.palette import drawn_leaves, drawn_material
from unlit.worlds.traffic import cars, passer, railing

Array = NDArray[np.float64]

_PAVING = (Texture.PLAIN, Texture.PLAIN, Texture.BRICK, Texture.CELLS, Texture.SPECKLE, Texture.NOISE, Texture.CHECKS)
_CARS, _RAILINGS, _CROWD = 0.35, 0.4, 0.5
"""How often cars stand there, railings or fences, and many people, tables or goods, or a bed of shrubs."""


def add_square(b: Builder, middle: Array, half: Array) -> None:
    """Add a square about a place (3,) on the ground, of half its sides (2,), with what stands and goes there."""
    draw = b.draw
    paving = b.material(drawn_calm(draw, 4, _PAVING, GROUND))
    b.box(middle, (*half, 0.1), paving)
    if draw.random() < 0.5:
        _steps(b, middle + [draw.uniform(-0.5, 0.5) * half[0], -half[1], 0], half[0] * draw.uniform(0.2, 0.6))
    for _ in range(int(draw.integers(0, 5))):
        _hedge(b, _somewhere(b, middle, half), half)
    cloth = b.material(drawn_material(draw, 2, (Texture.PLAIN, Texture.PLAIN, Texture.STRIPES), vivid=0.4))
    for _ in range(int(draw.integers(0, 7)) if draw.random() < 0.4 else 0):
        _umbrella(b, _somewhere(b, middle, half), cloth)
    for _ in range(int(draw.integers(0, 9))):
        passer(b, _somewhere(b, middle, half))
    for _ in range(int(draw.integers(1, 5))):
        along_street(b, _somewhere(b, middle, half))
    if draw.random() < _CARS:
        first, last = _somewhere(b, middle, half - 1), _somewhere(b, middle, half - 1)
        cars(b, first, np.array([last[0], *first[1:]]))
    for _ in range(int(draw.integers(1, 4)) if draw.random() < _RAILINGS else 0):
        railing(b, *(_somewhere(b, middle, half * share) for share in (0.5, 1.0)))
    if draw.random() < _CROWD:
        heap = CROWD if draw.random() < 0.75 else SHRUBS
        add_heap(
            b, _somewhere(b, middle, 0.5 * half), np.minimum(heap.drawn_half(draw, draw.uniform(0.6, 2.5)), half), heap
        )


def _somewhere(b: Builder, middle: Array, half: Array) -> Array:
    """Return a place on the square."""
    place: Array = middle + [*(b.draw.uniform(-1, 1, 2) * half), 0.1]
    return place


def _steps(b: Builder, at: Array, half: float) -> None:
    """Add a flight of steps."""
    stone = b.material(drawn_calm(b.draw, 2, (Texture.PLAIN, Texture.SPECKLE, Texture.BRICK), GROUND))
    high = b.draw.uniform(0.12, 0.3)
    for k in range(int(b.draw.integers(3, 9))):
        b.box(at + [0, 0.35 * k, high * (k + 1) / 2], (half, 0.18, high * (k + 1) / 2), stone)


def _hedge(b: Builder, at: Array, half: Array) -> None:
    """Add a hedge, or a bed of flowers."""
    draw = b.draw
    leaves = b.material(drawn_leaves(draw, 1.5))
    long, high = draw.uniform(0.1, 0.5) * half[0], draw.uniform(0.15, 0.7)
    b.box(at + [0, 0, high], (long, draw.uniform(0.3, 1.2), high), leaves, draw.choice([0.0, np.pi / 2]))


def _umbrella(b: Builder, at: Array, cloth: int) -> None:
    """Add an open umbrella, or a closed one."""
    high, wide = b.draw.uniform(2.0, 2.6), b.draw.uniform(1.2, 2.2) if b.draw.random() < 0.7 else 0.25
    b.rod(at, at + [0, 0, high], 0.04, cloth)
    b.rod(at + [0, 0, high - (0.0 if wide > 1 else 1.2)], at + [0, 0, high + 0.5], wide, cloth, cone=True)
