"""What grows and lies in the open: trees, rocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unlit.worlds.builder import Builder, dome, turned
from unlit.worlds.materials import Texture
from unlit.worlds.palette import drawn_leaves, drawn_material

Array = NDArray[np.float64]


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
