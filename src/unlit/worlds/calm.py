"""Materials of the open: ground, walls, roofs and rock. Most have tones of one color, and one that such things have.

That plaster is light, asphalt and slate are dark, and tiles are red is known of the world, and a picture need not say
it. But anything can be painted: a third of all materials have any color.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.worlds.materials import Texture
from unlit.worlds.palette import Material, drawn_material, toned

_CALM = 0.75
"""Share of the materials that have tones of one color. The others have any, so that a dark patch may be paint too."""
_USUAL = 0.65
"""Share of the materials whose first color is one that such things usually have."""


@dataclass(frozen=True)
class Stuff:
    """Colors of one stuff."""

    share: int
    """How much of it there is beside the others of its kind."""
    lightness: tuple[float, float]
    """Luminance, least and most."""
    hue: float
    """In the middle, from 0 to 1: 0 is red, 1/3 green."""
    saturation: tuple[float, float]


_ASPHALT = Stuff(3, (0.05, 0.2), 0.6, (0.0, 0.08))
_CONCRETE = Stuff(3, (0.15, 0.5), 0.1, (0.0, 0.15))
_STONE = Stuff(3, (0.1, 0.5), 0.09, (0.05, 0.3))
GROUND = (
    _ASPHALT,
    _CONCRETE,
    _STONE,
    Stuff(2, (0.06, 0.25), 0.07, (0.2, 0.5)),  # soil
    Stuff(1, (0.25, 0.45), 0.1, (0.1, 0.35)),  # sand and gravel
    Stuff(2, (0.08, 0.3), 0.15, (0.2, 0.5)),  # fields
)
WALLS = (
    _CONCRETE,
    _STONE,
    Stuff(5, (0.3, 0.85), 0.1, (0.0, 0.3)),  # plaster
    Stuff(2, (0.1, 0.3), 0.03, (0.3, 0.6)),  # brick
    Stuff(1, (0.05, 0.3), 0.07, (0.2, 0.55)),  # wood
)
ROOFS = (
    Stuff(4, (0.08, 0.28), 0.04, (0.3, 0.65)),  # tiles
    Stuff(3, (0.04, 0.18), 0.6, (0.0, 0.15)),  # slate
    Stuff(1, (0.2, 0.55), 0.58, (0.0, 0.1)),  # metal
    Stuff(1, (0.06, 0.2), 0.08, (0.15, 0.45)),  # old wood, moss
)
ROCK = (_STONE, Stuff(2, (0.08, 0.3), 0.08, (0.0, 0.2)))
_HUES = 0.025
"""Spread of hues of one stuff."""


def usual_color(draw: Generator, kinds: tuple[Stuff, ...]) -> NDArray[np.float64]:
    """Return a reflectance (3,) of one of `kinds`."""
    shares = np.array([stuff.share for stuff in kinds])
    stuff = kinds[int(draw.choice(len(kinds), p=shares / shares.sum()))]
    lightness = float(np.exp(draw.uniform(*np.log(stuff.lightness))))
    return toned(draw.normal(stuff.hue, _HUES), draw.uniform(*stuff.saturation), lightness)


def drawn_calm(
    draw: Generator, size: float, textures: tuple[Texture, ...], kinds: tuple[Stuff, ...], vivid: float = 0.05
) -> Material:
    """Return a material as `drawn_material` does: its first color mostly of one of `kinds`, the others mostly near."""
    color = usual_color(draw, kinds) if draw.random() < _USUAL else None
    material = drawn_material(draw, size, textures, color, vivid)
    if draw.random() < _CALM:
        # Glass, the second color of windows, stays dark.
        some = slice(2, 4) if material.texture == Texture.WINDOWS else slice(1, 4)
        alike = draw.uniform(0.6, 0.97)
        material.colors[some] = material.colors[0] ** alike * material.colors[some] ** (1 - alike)
    return material
