"""The surfaces that a camera sees: reflectance, shaded normals, horizons of bumps, windows, for one scene or many.

Shapes: n hits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unlit.worlds.bumps import bumped
from unlit.worlds.hits import Hits, pattern_places
from unlit.worlds.made import panes
from unlit.worlds.materials import Materials, Texture
from unlit.worlds.noise import fractal, hashed, smooth_step
from unlit.worlds.patterns import reflectance_at
from unlit.worlds.places import Places

DARKEST, WHITEST = 0.02, 0.92
"""Of any surface. Soot and fresh snow."""
FINEST = 0.8
"""Width of a pixel, in units of a pattern, from which on it is seen less and less."""


def surface_at(hits: Hits, materials: Materials) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return reflectance (n, 3), normals (n, 3) in the shape's space, with bumps, horizons, fineness, and panes.

    Horizons (n, a) and fineness (n,) are those of the bumps: `bumps.py`. Panes (n,) are numbers of window panes, −1
    where none can be told.
    """
    m = Materials(*(values[hits.material] for values in vars(materials).values()))
    places = pattern_places(hits, m)
    reflectance = reflectance_at(places, m.texture)
    worn = (m.wear > 0).nonzero()[:, 0]
    stains = fractal(hits.position[worn] * 1.7 + m.offset[worn], m.seed[worn] + 5, 4, 0.6)
    reflectance[worn] = reflectance[worn] * (m.wear[worn] * 4 * stains).exp()[:, None]
    # Patterns finer than a pixel are seen as their mean color.
    blurred = smooth_step(places.width, FINEST, 3.0)[:, None] * (m.texture > 0)[:, None]
    reflectance = reflectance + blurred * (m.colors[:, :3].mean(1) - reflectance)
    return reflectance.clamp(DARKEST, WHITEST), *bumped(hits, m), _panes(places, m)


def _panes(places: Places, m: Materials) -> Tensor:
    """Return the number of the window pane (n,) that is seen at each place, −1 where there is none."""
    result = torch.full_like(m.texture, -1)
    where = ((m.texture == int(Texture.WINDOWS)) & (places.width < FINEST)).nonzero()[:, 0]
    some = places.at(where)
    pane, outside = panes(some.uv, some.params)
    numbers = (hashed(pane, some.seed, 1) * (1 << 24)).long()
    result[where] = torch.where(outside < 0, numbers, -1)
    return result
