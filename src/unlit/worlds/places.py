"""Where textures are asked for, and how they mix their colors.

Shapes: n places. Every texture mixes the material's colors c0 ... c3, so that a palette says what is vivid and what is
gray on gray, and a texture only where.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unlit.worlds.noise import smooth_step


@dataclass(frozen=True)
class Places:
    """Where textures are asked for, in units of the pattern."""

    uv: Tensor
    """(n, 2) along the surface."""
    solid: Tensor
    """(n, 3) through the body."""
    colors: Tensor
    """(n, 4, 3)."""
    params: Tensor
    """(n, 4)."""
    seed: Tensor
    """(n,)."""
    width: Tensor
    """(n,): of a pixel."""

    def at(self, where: Tensor) -> Places:
        """Return the places with these numbers."""
        return Places(*(values[where] for values in vars(self).values()))

    @property
    def flat(self) -> Tensor:
        """(n, 3): uv as points of a plane in space."""
        return torch.nn.functional.pad(self.uv, (0, 1))


def mix(places: Places, amount: Tensor, first: int = 0, second: int = 1) -> Tensor:
    """Return `amount` (n,) of the second color and the rest of the first."""
    return places.colors[:, first] + amount[:, None] * (places.colors[:, second] - places.colors[:, first])


def picked(places: Places, number: Tensor, among: int = 4) -> Tensor:
    """Return one of the first colors by a number in [0, 1)."""
    index = (number * among).long().clamp(0, among - 1)
    return places.colors[torch.arange(len(index), device=index.device), index]


def soft(places: Places, values: Tensor, edge: Tensor | float, most: float = 0.5) -> Tensor:
    """Return whether values are above `edge`, sharply or softly as the material is, but no sharper than a pixel."""
    half = (places.params[:, 0].square() * most).clamp_min(0.01)
    return smooth_step(values, edge - half, edge + half)
