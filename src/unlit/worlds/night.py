"""Windows that are lit at night, while lamps shine outside.

Shapes: k lights, n places that a picture shows, p of them on window panes. Light that comes through glass is shading,
as haze is: the glass keeps its reflectance.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unlit.worlds.materials import Texture
from unlit.worlds.noise import hashed
from unlit.worlds.relief import Surface
from unlit.worlds.scene import Scene

_NIGHTS = 13
"""First number of the seeds of nights."""
_FEWEST, _MOST = 0.1, 0.7
"""Share of the panes that are lit."""
_DIMMEST, _BRIGHTEST = 0.3, 8.0
"""How bright a lit pane is beside the mean light on what is seen: where a lamp shines on nothing, nothing is lit."""


def panes_at_night(home: Scene, surface: Surface) -> Tensor | None:
    """Return which places (p,) are panes, or None where no lamp ever shines or nothing has windows.

    It is asked for before light is, since the device has to be waited for.
    """
    if "lamp" not in home.roles or not bool((home.materials.texture == int(Texture.WINDOWS)).any()):
        return None
    return (surface.pane >= 0).nonzero()[:, 0]


def with_lit_windows(home: Scene, pixel: Tensor, surface: Surface, panes: Tensor | None, light: Tensor) -> Tensor:
    """Return `light` (k, 3, h, w) with some windows lit where it is a lamp's; places are seen at `pixel` (n,)."""
    if panes is None:
        return light
    draw = np.random.default_rng((_NIGHTS, home.seed))
    number, reflectance = surface.pane[panes, None], surface.reflectance[panes].T
    result = light.flatten(2).clone()
    for k in (k for k, role in enumerate(home.roles) if role == "lamp"):
        seed = torch.full((len(panes),), int(draw.integers(1 << 31)), device=light.device)
        share, level = draw.uniform(_FEWEST, _MOST), np.exp(draw.uniform(np.log(_DIMMEST), np.log(_BRIGHTEST)))
        color = torch.tensor([1.0, draw.uniform(0.6, 0.95), draw.uniform(0.3, 0.8)]).to(light.device, non_blocking=True)
        outside = light[k].flatten(1)[:, pixel].mean()
        brightness = (hashed(number, seed) < share) * (0.5 + hashed(number, seed, 1)) * level * outside
        result[k][:, pixel[panes]] += color[:, None] * brightness / reflectance
    return result.reshape(light.shape)
