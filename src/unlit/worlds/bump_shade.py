"""What bumps do to the light: how much of it gets past them, to the places between.

Shapes: n places, a directions around. A lamp or the sun reaches a place if it stands higher than the bumps in its
direction; the sky by how much of it they leave open. That leaves some light that has bounced between them.

Of bumps finer than a pixel only the mean is seen. On bumps that are seen it hardly depends on how high the light is:
low light is kept from more of them, and falls the more steeply on the rest. So it is the share 1 / (1 + c f) of what a
smooth surface gets, with the fineness f and one c for lamps and suns, one for the sky.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unlit.worlds.noise import smooth_step

BOUNCED = 0.2
"""Share of the light that reaches the bottom between bumps after all, from one side of them to the other."""
_HIDING, _VEILING = 0.65, 0.3
"""c, fitted to the mean light on bumps of all kinds that are seen, from 0.5 radians on (`tests/worlds/test_bumps.py`).
Under lower light those that are seen get more, but for crowns and joints: at 0.25 up to six tenths more."""
_GRAZING = 0.1
"""Sine of the height over the surface below which a light itself hardly counts: what is there has bounced elsewhere."""


def past_bumps(horizon: Tensor, towards: Tensor | None, soft: float, fineness: Tensor | None = None) -> Tensor:
    """Return the share (n,) of a light that bumps with horizons (n, a), and of fineness (n,) if any, leave.

    `towards` (3, n) is the direction to the light along the first tangent, the second, and the normal; None for light
    from all sides. `soft` is how far a light that is wide shines around an edge, as a slope.
    """
    fine: Tensor = torch.zeros_like(horizon[:, 0]) if fineness is None else fineness
    # A horizon at the angle θ leaves cos² θ of that side's diffuse light; tan θ is the slope.
    open_share = (1 / (1 + horizon.square())).mean(1) / (1 + _VEILING * fine)
    if towards is None:
        return BOUNCED + (1 - BOUNCED) * open_share
    x, y, z = towards
    slope = z / (x.square() + y.square()).sqrt().clamp_min(1e-6)
    rise = _in_direction(horizon, torch.atan2(y, x))
    # What hardly rises has no edge to shine around: there no light is lost, however low it comes.
    edge = rise.clamp(1e-6, soft)
    seen: Tensor = smooth_step(slope - rise, -edge, edge) / (1 + _HIDING * fine)
    share = open_share + smooth_step(z, 0.0, _GRAZING) * (seen - open_share)
    return BOUNCED + (1 - BOUNCED) * share


def _in_direction(horizon: Tensor, angle: Tensor) -> Tensor:
    """Return the horizons (n,) at angles (n,) in radians, linear between those that are known."""
    count = horizon.shape[1]
    place = (angle / (2 * math.pi) * count).remainder(count)
    below = place.floor()
    share, below = place - below, below.long() % count
    low, high = (horizon.gather(1, k[:, None])[:, 0] for k in (below, (below + 1) % count))
    return low + share * (high - low)
