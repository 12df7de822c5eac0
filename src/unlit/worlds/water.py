"""Rivers, lakes and the sea: what they mirror is most of what is seen of them.

Shapes: k lights, n pixels that show water. Water sends back the sky and the shore, by Fresnel's law the more the lower
it is looked at, and some of the light that falls into it, in a color of its own:

    L = F · mirrored + (1 − F) · body · irradiance,   F = F₀ + (1 − F₀) (1 − cos θ)⁵   (Schlick 1994).

So it looks like another surface at every hour. By agreement its reflectance is the same all the while, a middling
gray, and the rest is shading: as with the sky, whatever passes over it. That is no truth: scenes for validation and
testing leave water out.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unlit.worlds import render
from unlit.worlds.bumps import lengths
from unlit.worlds.landscape import WATER as REFLECTANCE
from unlit.worlds.materials import Texture
from unlit.worlds.noise import fractal
from unlit.worlds.open import Sky, seen_sky
from unlit.worlds.scene import Scene

_STRAIGHT = 0.02
"""F₀: what water mirrors of what is straight above."""
_LOWEST = 0.02
"""Height of a mirrored direction, at least: waves do not look into the water."""
_LIFTED = 0.05
"""Meters above the water at which mirrored rays begin."""
_FEWER = 4
"""What is mirrored is asked with so many times fewer samples: waves blur it."""


def water_pixels(home: Scene, s: Scene, hits: render.Hits) -> Tensor:
    """Return which pixels (n,) show water; the device is not waited for where there is none in the scene."""
    if not bool((home.materials.texture == int(Texture.WATER)).any()):
        return torch.zeros(0, dtype=torch.long, device=hits.shape.device)
    return is_water(s, hits).flatten().nonzero()[:, 0]


def is_water(s: Scene, hits: render.Hits) -> Tensor:
    """Return where (1, h, w) a picture shows water."""
    texture = s.materials.texture[s.shapes.material[hits.shape.clamp_min(0)].long()]
    return (texture == int(Texture.WATER))[None] & hits.mask


def mirroring(
    home: Scene, s: Scene, hits: render.Hits, pixel: Tensor, light: Tensor, skies: list[Sky], samples: int
) -> Tensor:
    """Return `light` (k, 3, h, w), the irradiance, with what leaves water over its reflectance at its pixels (n,).

    The scene is given on the CPU and on the device.
    """
    if len(pixel) == 0:
        return light
    place, depth = hits.position.flatten(1)[:, pixel], hits.depth.flatten()[pixel]
    material = s.shapes.material[hits.shape.flatten()[pixel]].long()
    width = depth * (2 * np.tan(s.camera.view / 2) / hits.shape.shape[0])
    normal = waves(
        place, width, s.materials.scale[material], s.materials.params[material, 0], s.materials.seed[material]
    )
    eye = torch.tensor(s.camera.position).to(place.device, non_blocking=True)[:, None]
    look = (place - eye) / lengths(place - eye).clamp_min(1e-6)
    # A wave that looks away mirrors nothing; what is seen past it is about what it would be without the wave.
    cosine = (-(look * normal).sum(0)).clamp(0, 1)
    share = _STRAIGHT + (1 - _STRAIGHT) * (1 - cosine) ** 5
    seen = mirrored(home, place, look + 2 * cosine * normal, skies, samples)
    result = light.flatten(2).clone()
    inside = s.materials.colors[material, 3].T * result[:, :, pixel]
    result[:, :, pixel] = (share * seen + (1 - share) * inside) / REFLECTANCE
    return result.reshape(light.shape)


def waves(place: Tensor, width: Tensor, scale: Tensor, steepness: Tensor, seed: Tensor) -> Tensor:
    """Return the normals (3, n) of water at places (3, n); waves finer than a pixel's `width` (n,) are not seen."""
    step = torch.maximum(0.05 * scale, 0.5 * width)
    moves = torch.zeros(3, 1, 3, device=place.device)
    moves[1, 0, 0] = moves[2, 0, 1] = 1
    here, *beside = fractal((place.T + step[:, None] * moves) / scale[:, None], seed, 3)
    slopes = [(height - here) / step * scale * steepness for height in beside]
    normal = torch.stack([-slopes[0], -slopes[1], torch.ones_like(here)])
    return normal / lengths(normal)


def mirrored(home: Scene, place: Tensor, direction: Tensor, skies: list[Sky], samples: int) -> Tensor:
    """Return the light (k, 3, n) that comes to places (3, n) on the water from directions (3, n): shore or sky."""
    upward = torch.cat([direction[:2], direction[2:].clamp_min(_LOWEST)])
    upward = upward / lengths(upward)
    lifted = torch.cat([place[:2], place[2:] + _LIFTED])
    met = render.met_by_rays(home.shapes, lifted, upward)
    is_shore = met.index >= 0
    position, normal = met.vectors[:2, :, None]
    light = render.irradiance(
        home.shapes, home.lights, position, normal, mask=is_shore[None, None], samples=max(1, samples // _FEWER),
        seed=home.seed & 0x7FFFFFFF,
    )[:, :, 0]  # fmt: skip
    shore = home.shapes.reflectance.float().to(place.device)[met.index.clamp_min(0)].T * light
    return torch.where(is_shore, shore, seen_sky(skies, upward, ~is_shore))
