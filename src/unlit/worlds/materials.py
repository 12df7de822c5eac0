"""What surfaces are made of: numbers that say how a texture, its bumps and its wear look.

Shapes: c materials. A texture mixes up to four colors; what its `params` mean is said beside each texture in
`natural.py` and `made.py`. Lengths are meters, colors linear reflectance.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor


class Texture(IntEnum):
    """Textures."""

    PLAIN = 0
    NOISE = 1
    PATCHES = 2
    MARBLE = 3
    WOOD = 4
    CHECKS = 5
    STRIPES = 6
    SPOTS = 7
    BRICK = 8
    WEAVE = 9
    TEXT = 10
    STROKES = 11
    CELLS = 12
    FOLIAGE = 13
    RUST = 14
    SPECKLE = 15
    PICTURE = 16
    PLAID = 17
    GRADIENT = 18
    BLOCKS = 19
    COAT = 20
    LINES = 21
    WINDOWS = 22
    WATER = 23


class Bump(IntEnum):
    """Shapes too fine to be shapes: they turn normals and take light from each other; reflectance they leave alone."""

    NONE = 0
    NOISE = 1
    GRAIN = 2
    DENTS = 3
    JOINTS = 4
    WAVES = 5
    THREADS = 6
    CROWNS = 7
    RECESSES = 8


@dataclass(frozen=True)
class Materials:
    """The materials of a scene, or of several one after another."""

    texture: Tensor
    """(c,) int64, of `Texture`."""
    colors: Tensor
    """(c, 4, 3)."""
    scale: Tensor
    """(c,): the size of the pattern's unit."""
    turn: Tensor
    """(c,) radians: how the pattern lies on the surface."""
    offset: Tensor
    """(c, 3): where the pattern begins, in its units."""
    params: Tensor
    """(c, 4)."""
    seed: Tensor
    """(c,) int64."""
    wear: Tensor
    """(c,): how strongly large stains darken and lighten it."""
    bump: Tensor
    """(c,) int64, of `Bump`."""
    bump_height: Tensor
    """(c,): of the bumps, in their own scale; the slope is about this."""
    bump_scale: Tensor
    """(c,)."""
    gloss: Tensor
    """(c,): 0 for matt, else the share of light that a shiny coat throws back."""
    whole: Tensor
    """(c,): 1 where the pattern goes over all shapes of the material as if they were one, 0 where each has its own."""

    def to(self, device: torch.device | str) -> Materials:
        """Return the same on another device."""
        return Materials(*(values.to(device) for values in vars(self).values()))


def joined(parts: list[Materials]) -> Materials:
    """Return the materials of several scenes, one after another."""
    return Materials(*(torch.cat(values) for values in zip(*(vars(part).values() for part in parts), strict=True)))
