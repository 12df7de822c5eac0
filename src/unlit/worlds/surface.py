"""The surfaces that a camera sees: reflectance, shaded normals, horizons of bumps, for one scene or many.

Shapes: n hits.
"""

from __future__ import annotations

from torch import Tensor

from unlit.worlds.bumps import bumped
from unlit.worlds.hits import Hits, pattern_places
from unlit.worlds.materials import Materials
from unlit.worlds.noise import fractal, smooth_step
from unlit.worlds.patterns import reflectance_at

DARKEST, WHITEST = 0.02, 0.92
"""Of any surface. Soot and fresh snow."""


def surface_at(hits: Hits, materials: Materials) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return reflectance (n, 3), normals (n, 3) in the shape's space, with bumps, the bumps' horizons and fineness.

    Horizons are (n, a), fineness (n,): `bumps.py`.
    """
    m = Materials(*(values[hits.material] for values in vars(materials).values()))
    places = pattern_places(hits, m)
    reflectance = reflectance_at(places, m.texture)
    worn = (m.wear > 0).nonzero()[:, 0]
    stains = fractal(hits.position[worn] * 1.7 + m.offset[worn], m.seed[worn] + 5, 4, 0.6)
    reflectance[worn] = reflectance[worn] * (m.wear[worn] * 4 * stains).exp()[:, None]
    # Patterns finer than a pixel are seen as their mean color.
    blurred = smooth_step(places.width, 0.8, 3.0)[:, None] * (m.texture > 0)[:, None]
    reflectance = reflectance + blurred * (m.colors[:, :3].mean(1) - reflectance)
    return reflectance.clamp(DARKEST, WHITEST), *bumped(hits, m)
