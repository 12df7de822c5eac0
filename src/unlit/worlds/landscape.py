"""What grows and lies in the open: trees, rocks, water."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.worlds.builder import Builder, dome, turned
from unlit.worlds.materials import Texture
from unlit.worlds.palette import Material, drawn_leaves, drawn_material

Array = NDArray[np.float64]

WATER = 0.25
"""Its reflectance, by agreement: `water.py`."""


def tree(b: Builder, at: Array, height: float) -> None:
    """Add a tree: a trunk, some branches, and a crown of leafy balls, a cone, or nothing in winter."""
    draw = b.draw
    bark = b.material(
        drawn_material(draw, height / 6, (Texture.NOISE, Texture.PATCHES, Texture.WOOD, Texture.RUST), vivid=0.02)
    )
    green = b.material(drawn_leaves(draw, height / 3))
    crown, kind = height * draw.uniform(0.35, 0.6), draw.random()
    b.rod(at, at + [*draw.normal(0, 0.03, 2) * height, crown], height * draw.uniform(0.02, 0.05), bark)
    for _ in range(int(draw.integers(2, 5)) if kind < 0.8 else 9):
        reach = turned(draw.uniform(0, 6.3), draw.uniform(-1.3, -0.4)) @ [height * draw.uniform(0.2, 0.45), 0, 0]
        b.rod(at + [0, 0, crown * draw.uniform(0.6, 1)], at + [0, 0, crown] + reach, height * 0.015, bark)
    if kind < 0.6:
        for _ in range(int(draw.integers(4, 10))):
            b.ball(
                at + [0, 0, height * 0.75] + draw.normal(0, 0.14, 3) * height,
                height * draw.uniform(0.08, 0.2, 3),
                green,
            )
    elif kind < 0.8:
        for k in range(3):
            b.rod(
                at + [0, 0, height * (0.3 + 0.2 * k)],
                at + [0, 0, height * (0.65 + 0.2 * k)],
                height * (0.25 - 0.05 * k),
                green,
                cone=True,
            )


def rock(b: Builder, at: Array, size: float) -> None:
    """Add a rock: a rough hump, or lumps that grow together."""
    draw = b.draw
    stone = b.material(
        drawn_material(
            draw,
            size,
            (Texture.NOISE, Texture.PATCHES, Texture.SPECKLE, Texture.MARBLE, Texture.PLAIN, Texture.RUST),
            vivid=0.03,
        )
    )
    if draw.random() < 0.6:
        b.relief(
            at,
            (size * draw.uniform(0.6, 1), size * draw.uniform(0.6, 1), size * draw.uniform(0.5, 1.2)),
            dome(draw, 0.4),
            stone,
            draw.uniform(0, 6.3),
        )
        return
    for _ in range(int(draw.integers(1, 4))):
        b.ball(
            at + draw.normal(0, 0.3, 3) * size,
            size * draw.uniform(0.3, 0.8, 3),
            stone,
            turned(*draw.uniform(0, 6.3, 3)),
        )


def drawn_water(draw: Generator) -> Material:
    """Return water: its last color is its body's; smooth or rippled, with ripples of a hand to waves of meters."""
    water = drawn_material(draw, 1.0, (Texture.WATER,))
    # From brown over green to blue, none of them strong.
    murk = np.array([draw.uniform(0.3, 1.0), draw.uniform(0.7, 1.1), draw.uniform(0.4, 1.2)])
    body = np.clip(murk * np.exp(draw.uniform(np.log(0.01), np.log(0.15))), 0.004, 0.3)
    water.colors = np.stack([*np.full((3, 3), WATER), body])
    water.wear = water.gloss = 0.0
    water.scale = float(np.exp(draw.uniform(np.log(0.2), np.log(6.0))))
    water.bump = 0
    water.params[0] = np.exp(draw.uniform(np.log(0.003), np.log(0.3)))  # how steep waves are
    return water
