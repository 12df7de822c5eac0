"""Materials of the open: ground, walls and roofs, which mostly have tones of one color."""

from __future__ import annotations

from numpy.random import Generator

from unlit.worlds.materials import Texture
from unlit.worlds.palette import Material, drawn_material

_CALM = 0.75
"""Share of the materials that have tones of one color. The others have any, so that a dark patch may be paint too."""


def drawn_calm(draw: Generator, size: float, textures: tuple[Texture, ...], vivid: float = 0.05) -> Material:
    """Return a material as `drawn_material` does, its colors mostly near the first."""
    material = drawn_material(draw, size, textures, vivid=vivid)
    if draw.random() < _CALM:
        # Glass, the second color of windows, stays dark.
        some = slice(2, 4) if material.texture == Texture.WINDOWS else slice(1, 4)
        alike = draw.uniform(0.6, 0.97)
        material.colors[some] = material.colors[0] ** alike * material.colors[some] ** (1 - alike)
    return material
