"""Which function is which texture: reflectance as a function of a place on a surface. Shapes: n places."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unlit.worlds import made, natural
from unlit.worlds.materials import Texture
from unlit.worlds.places import Places

PATTERNS: dict[Texture, Callable[[Places], Tensor]] = {
    Texture.PLAIN: natural.plain,
    Texture.NOISE: natural.noise,
    Texture.PATCHES: natural.patches,
    Texture.MARBLE: natural.marble,
    Texture.WOOD: natural.wood,
    Texture.CHECKS: made.checks,
    Texture.STRIPES: made.stripes,
    Texture.SPOTS: made.spots,
    Texture.BRICK: made.brick,
    Texture.WEAVE: made.weave,
    Texture.TEXT: made.text,
    Texture.STROKES: made.strokes,
    Texture.CELLS: natural.cells,
    Texture.FOLIAGE: natural.foliage,
    Texture.RUST: natural.rust,
    Texture.SPECKLE: natural.speckle,
    Texture.PICTURE: made.picture,
    Texture.PLAID: made.plaid,
    Texture.GRADIENT: natural.gradient,
    Texture.BLOCKS: made.blocks,
    Texture.COAT: natural.coat,
    Texture.LINES: made.lines,
    Texture.WINDOWS: made.windows,
    Texture.WATER: natural.plain,
}


def reflectance_at(places: Places, texture: Tensor) -> Tensor:
    """Return the reflectance (n, 3) at places whose textures are `texture` (n,), without wear."""
    result = torch.empty_like(places.colors[:, 0])
    for kind, pattern in PATTERNS.items():
        where = (texture == int(kind)).nonzero()[:, 0]
        if len(where):
            result[where] = pattern(places.at(where))
    return result
