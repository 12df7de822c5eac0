"""How a single thing is painted: in one color, by parts, with a coat or a pattern that goes over all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from unlit.worlds.builder import Builder
from unlit.worlds.materials import Bump, Texture
from unlit.worlds.palette import Material, drawn_color, drawn_material, drawn_palette

_COATS = (Texture.COAT, Texture.COAT, Texture.COAT, Texture.PATCHES, Texture.NOISE, Texture.GRADIENT)
"""What fur, fruit and glaze have: few colors with borders that follow the body, not its parts."""
_PATTERNS = (
    Texture.LINES, Texture.LINES, Texture.SPOTS, Texture.STRIPES, Texture.STROKES, Texture.CELLS, Texture.RUST,
    Texture.MARBLE, Texture.CHECKS, Texture.PLAID, Texture.BLOCKS, Texture.SPECKLE, Texture.WOOD,
)  # fmt: skip
_SMALL = ("eye", "detail")


@dataclass
class Paint:
    """Which material each part has; parts that were not named before get one of the paints by chance."""

    draw: Generator
    materials: list[int]
    small: int
    """For eyes, buttons and noses; −1 where they have the color of the rest."""
    parts: dict[str, int]

    def of(self, part: str) -> int:
        """Return the material of a part, always the same for one name."""
        if part in _SMALL and self.small >= 0:
            return self.small
        if part not in self.parts:
            self.parts[part] = self.materials[int(self.draw.integers(len(self.materials)))]
        return self.parts[part]


def drawn_paint(b: Builder, size: float) -> Paint:
    """Return the paint of a thing of `size` meters."""
    draw, kind = b.draw, b.draw.random()
    if kind < 0.28:
        materials = [_plain(draw, size)]
    elif kind < 0.56:
        materials = [_coat(draw, size)]
    elif kind < 0.71:
        materials = [_whole(draw, size, _PATTERNS)]
    else:
        materials = _by_parts(draw, size)
    _share_bumps(draw, materials, size)
    numbers = [b.material(material) for material in materials]
    small = b.material(matt(_plain(draw, size / 8), draw, 1.0)) if draw.random() < 0.6 else -1
    return Paint(draw, numbers, small, {"body": numbers[0]})


def matt(material: Material, draw: Generator, shiny: float = 0.04) -> Material:
    """Return the same with no shine; for a share of `shiny` it is left."""
    if draw.random() >= shiny:
        material.gloss = 0.0
    return material


def _plain(draw: Generator, size: float) -> Material:
    """Return one color: white, gray, or any, of any lightness."""
    kind = draw.random()
    if kind < 0.3:
        color = drawn_color(draw, draw.uniform(0.55, 0.85), 0.0)
    elif kind < 0.5:
        color = np.repeat(np.exp(draw.uniform(np.log(0.04), np.log(0.8))), 3)
    else:
        color = drawn_color(draw, vivid=0.35)
    return drawn_material(draw, size, (Texture.PLAIN,), color)


def _whole(draw: Generator, size: float, textures: tuple[Texture, ...]) -> Material:
    """Return a pattern that goes over all parts."""
    material = drawn_material(draw, 1.3 * size, textures, vivid=0.25)
    material.whole = 1.0 if draw.random() < 0.85 else 0.0
    return material


def _coat(draw: Generator, size: float) -> Material:
    """Return back and belly and the like, mostly a dark paint beside a light one: both of a color, or one of them."""
    material = _whole(draw, size, _COATS)
    if draw.random() < 0.7:
        dark = drawn_color(draw, float(np.exp(draw.uniform(np.log(0.03), np.log(0.2)))), 0.3)
        light = drawn_color(draw, draw.uniform(0.35, 0.85), 0.1)
        material.colors[:2] = (dark, light) if draw.random() < 0.5 else (light, dark)
    return material


def _by_parts(draw: Generator, size: float) -> list[Material]:
    """Return two to five paints that go together: of one palette, one of them patterned at times."""
    count = int(draw.integers(2, 6))
    first = _plain(draw, size)
    colors = np.concatenate([drawn_palette(draw, first.colors[0], 0.3), [drawn_color(draw, vivid=0.4)]])
    materials = [first, *(drawn_material(draw, size, (Texture.PLAIN,), color) for color in colors[1:count])]
    if draw.random() < 0.3:
        materials[int(draw.integers(count))] = _whole(draw, size, (*_COATS, *_PATTERNS))
    return materials


def _share_bumps(draw: Generator, materials: list[Material], size: float) -> None:
    """Give all paints of a thing the roughness of what is under them: smooth, or of one kind of bumps."""
    smooth = draw.random() < 0.4
    kinds = (Bump.NOISE, Bump.GRAIN, Bump.DENTS, Bump.CROWNS)
    kind = int(draw.choice([int(k) for k in kinds], p=(0.45, 0.3, 0.17, 0.08)))
    scale = size * float(np.exp(draw.uniform(np.log(0.015), np.log(0.15))))
    height = float(np.exp(draw.uniform(np.log(0.05), np.log(0.8))))
    for material in materials:
        material.bump = int(Bump.NONE) if smooth else kind
        material.bump_scale, material.bump_height = scale, height
        # What shines is masked: of a thing that fills the picture, nothing would be left.
        material.gloss = 0.0
        material.wear = min(material.wear, 0.2)
