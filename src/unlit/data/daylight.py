"""Days from lights that were taken one at a time: one sun with its sky, as it is outdoors, and not any lamps together.

A room's windows are no sky here: what they let in is mixed as lamps are.

Shapes: m frames, k lights. What a light is, the end of its frame's name says: `03-sun`, `06-sky`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.data.illuminant import balanced, drawn_color_of_light

OVERCAST = 0.25
"""Share of frames without sun."""
NIGHT = 0.1
"""Share of frames at dusk or at night, if there is a lamp: lamps, and little of the sky."""
_DARKEST, _DUSK = 0.02, 0.5
"""How bright the sky makes a picture then, beside all lamps."""
_FAINTEST, _STRONGEST = 0.06, 0.7
"""How bright the sky makes a picture beside the sun, in their means: deep shadows under a clear sky, faint ones through
thin clouds."""
_COLORED = 0.7
"""Share of days on which sun and sky differ in color."""
_SUN, _SKY, _LAMP = (3200.0, 6200.0), (6500.0, 16000.0), (2300.0, 5000.0)
"""Kelvin."""


def roles_of(names: Sequence[str]) -> list[str]:
    """Return what the light of each frame is, as far as its name says."""
    return [name.rpartition("-")[2] for name in names]


def has_day(roles: Sequence[str]) -> bool:
    """Whether there is a sun, and a sky."""
    return "sun" in roles and "sky" in roles


def drawn_days(draw: Generator, roles: Sequence[str], count: int) -> NDArray[np.float32]:
    """Return weights (m, k, 3) for `count` frames: a sky, mostly a sun with it, or lamps instead at night.

    The suns of a sequence differ where there are enough.
    """
    suns, skies, lamps = ([k for k, role in enumerate(roles) if role == wanted] for wanted in ("sun", "sky", "lamp"))
    order = np.tile(draw.permutation(suns), 1 + count // len(suns))
    weights = np.zeros((count, len(roles), 3))
    for i in range(count):
        if lamps and draw.random() < NIGHT:
            weights[i, lamps] = draw.uniform(0.2, 1, (len(lamps), 1)) / len(lamps)
            weights[i, draw.choice(skies)] = np.exp(draw.uniform(np.log(_DARKEST), np.log(_DUSK)))
            continue
        weights[i, draw.choice(skies)] = np.exp(draw.uniform(np.log(_FAINTEST), np.log(_STRONGEST)))
        if draw.random() >= OVERCAST:
            weights[i, order[i]] = 1
    if draw.random() < _COLORED:
        for some, kelvin in ((suns, _SUN), (skies, _SKY), (lamps, _LAMP)):
            weights[:, some] *= drawn_color_of_light(draw, *kelvin)
        weights = balanced(weights, draw)
    return weights.astype(np.float32)
