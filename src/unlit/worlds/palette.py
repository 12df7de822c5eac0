"""Colors and materials as chance would have them: mostly dull, some vivid, from soot to snow.

Reflectance is drawn so that no shortcut holds: patterns may be vivid or gray on gray, sharp or as soft as shading; what
has no pattern may be rough; what has one may be smooth.
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.worlds.materials import Bump, Materials, Texture
from unlit.worlds.pictures import FILES, PRINTS

Array = NDArray[np.float64]
_WEIGHTS = np.array([0.2126, 0.7152, 0.0722])


@dataclass
class Material:
    """One material, as numbers: the fields of `Materials`."""

    texture: int
    colors: Array
    scale: float
    turn: float
    offset: Array
    params: Array
    seed: int
    wear: float
    bump: int
    bump_height: float
    bump_scale: float
    gloss: float
    whole: float = 0.0


def stacked(materials: list[Material]) -> Materials:
    """Return materials as tensors."""
    values = {}
    for field in fields(Material):
        column = np.array([getattr(material, field.name) for material in materials])
        values[field.name] = torch.from_numpy(column if column.dtype.kind == "i" else column.astype(np.float32))
    return Materials(**values)


def drawn_color(draw: Generator, lightness: float | None = None, vivid: float = 0.1) -> Array:
    """Return a reflectance (3,). `lightness` is its luminance; `vivid` the chance of a strong color."""
    # Earth, wood, skin, brick and leaves lie between red and green; a third of hues are any.
    hue = draw.uniform(0, 1) if draw.random() < 0.35 else draw.normal(0.09, 0.06) % 1
    saturation = draw.uniform(0.6, 0.97) if draw.random() < vivid else draw.beta(1.1, 3.2) * 0.6
    return toned(hue, saturation, drawn_lightness(draw) if lightness is None else lightness)


def toned(hue: float, saturation: float, lightness: float) -> Array:
    """Return the reflectance (3,) of a hue and a saturation, from 0 to 1, and a luminance."""
    color = np.array(colorsys.hsv_to_rgb(hue % 1, saturation, 1.0)) ** 1.6
    color = color * (lightness / float(color @ _WEIGHTS))
    # A vivid color cannot be as light as white: it becomes darker, not whiter.
    clipped: Array = np.clip(color * min(1.0, 0.9 / color.max()), 0.02, 0.9)
    return clipped


def drawn_lightness(draw: Generator) -> float:
    """Return a luminance from 0.03 to 0.88: most things are middling, some black, more of them white."""
    kind = draw.random()
    if kind < 0.15:
        return float(draw.uniform(0.03, 0.09))
    if kind < 0.4:
        return float(draw.uniform(0.55, 0.88))
    return float(np.exp(draw.uniform(np.log(0.07), np.log(0.6))))


def drawn_palette(draw: Generator, main: Array | None = None, vivid: float = 0.1) -> Array:
    """Return four colors (4, 3), the first of them `main`.

    Of one chromaticity (gray on gray), of one hue, of one lightness, or each its own.
    """
    first = drawn_color(draw, vivid=vivid) if main is None else main
    kind = draw.random()
    if kind < 0.35:
        # A ratio from hardly seen to black on white, the others between.
        spread = np.exp(draw.uniform(np.log(1.08), np.log(12))) ** draw.choice([-1, 1])
        others = [first * spread, first * spread ** draw.uniform(0.2, 0.8), first * spread ** draw.uniform(-0.4, 1.2)]
    elif kind < 0.55:
        others = [first * np.exp(draw.normal(0, 0.7) + draw.normal(0, 0.15, 3)) for _ in range(3)]
    elif kind < 0.7:
        level = float(first @ _WEIGHTS)
        others = [drawn_color(draw, level * np.exp(draw.normal(0, 0.1)), 0.2) for _ in range(3)]
    else:
        others = [drawn_color(draw, vivid=2 * vivid) for _ in range(3)]
    palette = np.stack([first, *others])
    # What would be whiter than white is mirrored back: the contrast stays.
    over = palette.max(1, keepdims=True) > 0.9
    palette = np.where(over, first * (0.9 / palette.max(1, keepdims=True)), palette)
    clipped: Array = np.clip(palette, 0.02, 0.9)
    return clipped


_COMMON = {
    Texture.PLAIN: 34, Texture.NOISE: 1.5, Texture.PATCHES: 3, Texture.MARBLE: 1, Texture.WOOD: 3, Texture.CHECKS: 1.5,
    Texture.STRIPES: 3, Texture.SPOTS: 2.5, Texture.BRICK: 1, Texture.WEAVE: 1.5, Texture.TEXT: 2, Texture.STROKES: 2.5,
    Texture.CELLS: 1.5, Texture.FOLIAGE: 0.7, Texture.RUST: 1, Texture.SPECKLE: 1.5, Texture.PLAID: 1.2,
    Texture.GRADIENT: 0.5, Texture.BLOCKS: 1.2, Texture.COAT: 0.8, Texture.LINES: 1.5,
}  # fmt: skip
"""Half of all materials have one color. With a fifth of them, a network took half of every shadow on an even body for
paint (docs/trials.md)."""
_KINDS = [int(kind) for kind in _COMMON]
_SHARES = np.array(list(_COMMON.values())) / sum(_COMMON.values())

_SIZES: dict[int, tuple[float, float]] = {
    Texture.NOISE: (0.1, 0.8), Texture.PATCHES: (0.1, 0.8), Texture.MARBLE: (0.15, 0.8), Texture.WOOD: (0.1, 0.4),
    Texture.BRICK: (0.04, 0.2), Texture.WEAVE: (0.008, 0.05), Texture.TEXT: (0.03, 0.3), Texture.PICTURE: (0.5, 2.0),
    Texture.GRADIENT: (0.6, 3.0), Texture.BLOCKS: (0.15, 0.7), Texture.FOLIAGE: (0.05, 0.25), Texture.RUST: (0.2, 0.8),
    Texture.SPECKLE: (0.01, 0.06), Texture.PLAID: (0.08, 0.4), Texture.STROKES: (0.06, 0.25),
    Texture.COAT: (0.25, 0.9), Texture.LINES: (0.12, 0.5), Texture.WINDOWS: (0.5, 1.0),
}  # fmt: skip
"""Of the pattern's unit, as shares of the thing that it is on; 0.06 to 0.35 for the others."""


def drawn_material(
    draw: Generator,
    size: float,
    textures: tuple[Texture, ...] | None = None,
    color: Array | None = None,
    vivid: float = 0.1,
) -> Material:
    """Return a material for a thing of `size` meters: any, or one of `textures`; its main color may be given."""
    kind = int(draw.choice(_KINDS, p=_SHARES)) if textures is None else int(draw.choice([int(t) for t in textures]))
    low, high = _SIZES.get(kind, (0.06, 0.35))
    material = Material(
        texture=kind,
        colors=drawn_palette(draw, color, vivid),
        scale=size * float(np.exp(draw.uniform(np.log(low), np.log(high)))),
        turn=_drawn_turn(draw),
        offset=draw.uniform(-20, 20, 3),
        params=draw.random(4),
        seed=int(draw.integers(1 << 31)),
        wear=float(draw.choice([0.0, draw.uniform(0, 0.25), draw.uniform(0.2, 0.7)], p=[0.7, 0.24, 0.06])),
        bump=int(Bump.NONE),
        bump_height=0.0,
        bump_scale=1.0,
        gloss=float(draw.uniform(0.02, 0.3)) if draw.random() < 0.08 else 0.0,
    )
    _set_bump(draw, material, size)
    if kind == Texture.FOLIAGE and draw.random() < 0.8:
        material.colors = drawn_greens(draw)
    if kind == Texture.WINDOWS:
        # Glass is dark, and floors are level.
        material.colors[1], material.turn = drawn_color(draw, draw.uniform(0.02, 0.15), 0.0), 0.0
    return material


def _drawn_turn(draw: Generator) -> float:
    """Return how a pattern lies: most are laid straight."""
    kind = draw.random()
    return float(draw.choice([0.0, np.pi / 2])) if kind < 0.7 else float(draw.uniform(0, 2 * np.pi))


_BUMPS = {
    Bump.NOISE: 0.4, Bump.GRAIN: 0.23, Bump.DENTS: 0.14, Bump.WAVES: 0.07, Bump.THREADS: 0.06, Bump.CROWNS: 0.1
}  # fmt: skip


def _set_bump(draw: Generator, material: Material, size: float) -> None:
    """Give a material bumps, or none: half of all surfaces are smooth."""
    own = {int(Texture.BRICK): (Bump.JOINTS, 1.0), int(Texture.WINDOWS): (Bump.RECESSES, 0.5)}.get(material.texture)
    if own is not None and draw.random() < 0.75:
        # Bumps are looked at as far away as their scale says: half a floor, for what is a tenth of a floor deep.
        material.bump, material.bump_scale = int(own[0]), own[1] * material.scale
        material.bump_height = float(draw.uniform(0.3, 1.5))
        return
    if material.texture == Texture.WEAVE and draw.random() < 0.6:
        material.bump, material.bump_scale = int(Bump.THREADS), 2 * material.scale
    elif draw.random() < 0.45:
        kinds, shares = tuple(_BUMPS), tuple(_BUMPS.values())
        material.bump = int(draw.choice([int(k) for k in kinds], p=shares))
        material.bump_scale = size * float(np.exp(draw.uniform(np.log(0.012), np.log(0.3))))
    material.bump_height = float(np.exp(draw.uniform(np.log(0.05), np.log(1.2))))


def drawn_greens(draw: Generator) -> Array:
    """Return colors of leaves: green, yellow, brown, most of them dull; now and then blossoms."""
    tones = []
    is_dull = draw.random() < 0.75
    # Firs reflect a thirtieth, meadows a fifth; young leaves are lighter than old ones.
    level = np.exp(draw.uniform(np.log(0.03), np.log(0.2)))
    for _ in range(3):
        hue, saturation = draw.normal(0.22, 0.045), draw.uniform(0.15, 0.6) if is_dull else draw.uniform(0.3, 0.85)
        tones.append(toned(hue, saturation, level * np.exp(draw.normal(0, 0.3))))
    return np.stack([*tones, drawn_color(draw, vivid=0.7)])


def drawn_leaves(draw: Generator, size: float) -> Material:
    """Return what a tree of `size` meters, a hedge, a meadow or a wooded slope is covered with.

    Leaves are much of one color: that they look dark and light is what they do to each other's light.
    """
    kinds = (Texture.PLAIN, Texture.PLAIN, Texture.NOISE, Texture.PATCHES, Texture.FOLIAGE, Texture.FOLIAGE)
    material = drawn_material(draw, size, kinds)
    material.gloss, material.colors = 0.0, drawn_greens(draw)
    if draw.random() < 0.7:
        # Tones of one wood, not of four plants.
        alike = draw.uniform(0.4, 0.95)
        material.colors[1:3] = material.colors[0] ** alike * material.colors[1:3] ** (1 - alike)
    if draw.random() < 0.8:
        material.bump = int(Bump.CROWNS if draw.random() < 0.75 else Bump.GRAIN)
        material.bump_scale = size * float(np.exp(draw.uniform(np.log(0.06), np.log(0.4))))
        material.bump_height = float(np.exp(draw.uniform(np.log(0.4), np.log(1.6))))
    return material


def drawn_print(draw: Generator, width: float, height: float) -> Material:
    """Return a picture that fills a flat thing of this size, corner on corner: a poster, a painting, a cover."""
    kinds = (Texture.PICTURE, Texture.BLOCKS, Texture.BLOCKS, Texture.STROKES, Texture.TEXT, Texture.PATCHES)
    material = drawn_material(draw, max(width, height), kinds, vivid=0.35)
    if material.texture == Texture.PICTURE:
        material.scale, material.turn = max(width, height), 0.0
        material.offset = np.array([0.5 * width / material.scale, 0.5 * height / material.scale, 0.0])
        material.params[0] = draw.integers(len(PRINTS)) / len(FILES) + 0.01
    return material


_MEAN_SHARES: dict[int, tuple[float, float, float, float]] = {
    Texture.PLAIN: (1, 0, 0, 0), Texture.NOISE: (0.5, 0.5, 0, 0), Texture.PATCHES: (0.47, 0.46, 0.07, 0),
    Texture.MARBLE: (0.87, 0.13, 0, 0), Texture.WOOD: (0.67, 0.33, 0, 0), Texture.CHECKS: (0.48, 0.47, 0.05, 0),
    Texture.STRIPES: (0.57, 0.31, 0.06, 0.06), Texture.SPOTS: (0.86, 0.1, 0.02, 0.02),
    Texture.BRICK: (0.52, 0.17, 0.12, 0.19), Texture.WEAVE: (0.5, 0.5, 0, 0), Texture.TEXT: (0.76, 0.19, 0.05, 0),
    Texture.STROKES: (0.32, 0.3, 0.2, 0.18), Texture.CELLS: (0.36, 0.36, 0.13, 0.15),
    Texture.FOLIAGE: (0.3, 0.26, 0.31, 0.1), Texture.RUST: (0.56, 0.18, 0.26, 0),
    Texture.SPECKLE: (0.87, 0.05, 0.04, 0.04), Texture.PICTURE: (0.6, 0.4, 0, 0), Texture.PLAID: (0.59, 0.18, 0.23, 0),
    Texture.GRADIENT: (0.5, 0.5, 0, 0), Texture.BLOCKS: (0.21, 0.21, 0.22, 0.31), Texture.COAT: (0.49, 0.49, 0.02, 0),
    Texture.LINES: (0.77, 0.06, 0.08, 0.09), Texture.WINDOWS: (0.57, 0.28, 0.1, 0.05),
    Texture.WATER: (0, 0, 0, 1),
}  # fmt: skip
"""Measured: how much of each color textures have, on the whole; of pictures those that are printed in two colors.
Ribs of leaves are darker than their color, and blocks than theirs. Of water light meets the body, by its making."""
_PICTURE_MEAN = (0.24, 0.17, 0.15)


def mean_reflectance(material: Material) -> Array:
    """Return about what a material reflects on the whole (3,): bounced light needs no more."""
    if material.texture == Texture.PICTURE and material.params[1] < 0.7:
        return np.array(_PICTURE_MEAN)
    mean: Array = np.array(_MEAN_SHARES[material.texture]) @ material.colors
    return np.clip(mean, 0.02, 0.9)
