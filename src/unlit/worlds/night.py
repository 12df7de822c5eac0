"""Windows that are lit at night, while lamps shine outside.

Shapes: k lights, n pixels that show something. Light that comes through glass is shading, as haze is: the glass keeps
its reflectance.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unlit.worlds import render
from unlit.worlds.materials import Texture
from unlit.worlds.noise import hashed
from unlit.worlds.scene import Scene

_NIGHTS = 13
"""First number of the seeds of nights."""
_NEIGHBORS = 2.5
"""Meters: windows so near each other belong to one room, and are lit together."""
_GLASS = 0.5
"""How far, in logs, a window pane's reflectance may be from its glass: walls worn by weather are farther."""


def with_lit_windows(s: Scene, hits: render.Hits, pixel: Tensor, reflectance: Tensor, light: Tensor) -> Tensor:
    """Return `light` (k, 3, h, w) with some windows lit where it is a lamp's.

    `reflectance` (n, 3) is that of the places that are seen at `pixel` (n,).
    """
    lamps = [k for k, role in enumerate(s.roles) if role == "lamp"]
    material = s.shapes.material[hits.shape.flatten()[pixel]].long()
    glass = s.materials.colors[material, 1].clamp_min(1e-3)
    is_glass = (s.materials.texture[material] == int(Texture.WINDOWS)) & (
        (reflectance / glass).log().abs().amax(1) < _GLASS
    )
    panes = is_glass.nonzero()[:, 0]
    if not lamps or len(panes) == 0:
        return light
    draw = np.random.default_rng((_NIGHTS, s.seed))
    rooms = (hits.position.flatten(1).T[pixel[panes]] / _NEIGHBORS).floor().long()
    result = light.flatten(2).clone()
    for k in lamps:
        seed = torch.full((len(panes),), int(draw.integers(1 << 31)), device=light.device)
        share, level = draw.uniform(0.1, 0.7), np.exp(draw.uniform(np.log(0.2), np.log(4.0)))
        color = torch.tensor([1.0, draw.uniform(0.6, 0.95), draw.uniform(0.3, 0.8)]).to(light.device)
        brightness = (hashed(rooms, seed) < share) * level * (0.5 + hashed(rooms, seed, 1))
        result[k][:, pixel[panes]] += color[:, None] * brightness / reflectance[panes].T
    return result.reshape(light.shape)
