"""Scenes rendered to what training needs: reflectance, and what each light alone makes of it.

Shapes: k lights, h x w pixels. A picture is rendered at twice its size and its pixels are means of 2 x 2, as a sensor's
are: of reflectance, and of the light that leaves the surface. Irradiance is then their quotient, so that reflectance
times irradiance is the picture at edges too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from unlit.worlds import render
from unlit.worlds.bumps import lengths
from unlit.worlds.description import LightBasis, ShapeKind
from unlit.worlds.hits import Hits
from unlit.worlds.materials import joined
from unlit.worlds.night import panes_at_night, with_lit_windows
from unlit.worlds.open import OUTDOORS, Sky, drawn_skies, hazed, horizon, seen_sky, sky_seen_by
from unlit.worlds.open import REFLECTANCE as SKY_REFLECTANCE
from unlit.worlds.relief import Surface, directions_to, shaded_normals, shares_past_bumps
from unlit.worlds.scene import Scene, scene
from unlit.worlds.surface import surface_at
from unlit.worlds.water import is_water, mirroring, water_pixels

FINER = 2
GROUP = 8
"""Scenes whose textures are computed together: less waiting for the device."""

_VOID = {"sun": 0.25, "sky": 1.0, "window": 2.0}
"""How bright the open is behind a room's windows, for each light: seen, but masked. Other places have a black one."""


@dataclass(frozen=True)
class World:
    """A rendered scene."""

    scene: Scene
    basis: LightBasis
    """Where nothing is hit, reflectance is 1 (the sky's 1.05) and irradiance the brightness of the open; the mask is
    False there, and where a surface shines or mirrors."""
    highlight: Tensor
    """(k, 1, h, w): what shiny surfaces add to the picture, for each light."""
    with_sky: Tensor
    """(1, h, w): the mask, True where sky and water are too: not known surfaces, but light, on a white sheet or a gray
    one."""

    def frames(self) -> Tensor:
        """Return the pictures (k, 3, h, w) under each light alone, linear and of no stated exposure."""
        return self.basis.reflectance * self.basis.irradiance + self.highlight


def bases(
    seeds: Iterable[int], size: tuple[int, int], samples: int = 256, device: torch.device | str = "cpu"
) -> Iterator[World]:
    """Yield the scenes of `seeds` rendered at `size` (h, w), with `samples` a pixel for each light, on a device."""
    if min(size) < 8 or max(size) > 8192:
        raise ValueError(f"a size of {size[1]}x{size[0]} cannot be rendered; give sides of 8 to 8192 pixels")
    if samples < 1:
        raise ValueError(f"{samples} samples a pixel make no picture; give at least 1, better 64 to 256")
    remaining = iter(seeds)
    while group := [scene(seed) for seed in islice(remaining, GROUP)]:
        yield from _within_memory(group, size, samples, device)


def _within_memory(
    group: list[Scene], size: tuple[int, int], samples: int, device: torch.device | str
) -> Iterator[World]:
    """Yield scenes together, or one by one from where memory did not suffice."""
    done = 0
    try:
        for world in _rendered(group, size, samples, device):
            done += 1
            yield world
    except torch.OutOfMemoryError:
        # If one alone is too much as well, that is for the caller to know.
        for one in group[done:]:
            yield from _rendered([one], size, samples, device)


def _rendered(
    scenes: list[Scene], size: tuple[int, int], samples: int, device: torch.device | str = "cpu"
) -> Iterator[World]:
    """Yield scenes, their surfaces computed together."""
    finer = (size[0] * FINER, size[1] * FINER)
    # The renderer wants shapes and lights on the CPU, and textures where the hits are.
    hits = [render.primary_hits(s.shapes, s.camera, finer, device=torch.device(device)) for s in scenes]
    moved = [s.to(device) for s in scenes]
    seen = [(hit.shape.flatten() >= 0).nonzero()[:, 0] for hit in hits]
    places, before = [], 0
    for s, hit, pixel in zip(moved, hits, seen, strict=True):
        place = _in_meters(s, hit, pixel)
        places.append(replace(place, material=place.material + before))
        before += len(s.materials.texture)
    merged = Hits(*(torch.cat(parts) for parts in zip(*(vars(place).values() for place in places), strict=True)))
    counts = [len(place.width) for place in places]
    parts = (part.split(counts) for part in surface_at(merged, joined([s.materials for s in moved])))
    surfaces = (Surface(*surface) for surface in zip((place.normal for place in places), *parts, strict=True))
    for home, s, hit, pixel, surface in zip(scenes, moved, hits, seen, surfaces, strict=True):
        yield _world(home, s, hit, pixel, surface, samples)


def _in_meters(s: Scene, hits: render.Hits, pixel: Tensor) -> Hits:
    """Return the pixels (n,) of a picture that show something as places on their shapes."""
    shape = hits.shape.flatten()[pixel]
    lengths = s.shapes.to_world[:, :, :3].norm(dim=1)
    normal = hits.object_normal.flatten(1).T[pixel] / lengths[shape]
    width = 2 * torch.tan(torch.tensor(s.camera.view / 2)).item() / hits.shape.shape[0]
    return Hits(
        position=hits.object_position.flatten(1).T[pixel] * lengths[shape],
        normal=normal / normal.norm(dim=1, keepdim=True).clamp_min(1e-12),
        kind=s.shapes.kind[shape],
        radius=lengths[shape, :2].mean(1) * torch.where(s.shapes.kind[shape] == ShapeKind.CONE, 0.5, 1.0),
        material=s.shapes.material[shape].long(),
        width=hits.depth.flatten()[pixel] * width,
        world=hits.position.flatten(1).T[pixel],
    )


def _world(home: Scene, s: Scene, hits: render.Hits, pixel: Tensor, surface: Surface, samples: int) -> World:
    """Return a scene (on the CPU, and on the device) whose surfaces are known: light, and means of finer pixels."""
    finer = (hits.shape.shape[0], hits.shape.shape[1])
    reflectance = torch.ones(3, finer[0] * finer[1], device=pixel.device)
    reflectance[:, pixel] = surface.reflectance.T
    reflectance = reflectance.reshape(3, *finer)
    shaded = shaded_normals(s, hits, pixel, surface)
    # Before the light, for which the device takes long: how many places are rough, or windows, must be waited for.
    shares = shares_past_bumps(home, s, hits, pixel, surface)
    panes, wet = panes_at_night(home, surface), water_pixels(home, s, hits)
    light = render.irradiance(
        home.shapes, home.lights, hits.position, hits.normal, shading_normals=shaded, mask=hits.mask,
        samples=max(1, samples // FINER**2), seed=s.seed & 0x7FFFFFFF,
    )  # fmt: skip
    light = light * shares[:, None]
    level = light.flatten(2)[:, :, pixel].mean((1, 2))
    light = with_lit_windows(home, pixel, surface, panes, light)
    skies = drawn_skies(s.roles, s.seed)
    light = mirroring(home, s, hits, wet, light, skies[0], max(1, samples // FINER**2))
    light, sky = _with_the_open(s, hits, light, reflectance, skies, level)
    reflectance = torch.where(sky, SKY_REFLECTANCE, reflectance)
    gloss = s.materials.gloss[s.shapes.material[hits.shape.clamp_min(0)].long()] * hits.mask
    water = is_water(s, hits)
    mask = hits.mask & (gloss == 0) & ~water
    coarse = avg_pool2d(reflectance[None], FINER)[0]
    basis = LightBasis(
        coarse,
        avg_pool2d(reflectance * light, FINER) / coarse,
        avg_pool2d(mask.float()[None], FINER)[0] == 1,
        hits.depth[:, ::FINER, ::FINER],
        avg_pool2d(shaded[None], FINER)[0],
    )
    highlight = avg_pool2d(_highlights(home, s, hits, shaded, light, gloss), FINER)
    return World(home, basis, highlight, avg_pool2d((mask | sky | water).float()[None], FINER)[0] == 1)


def _with_the_open(
    s: Scene, hits: render.Hits, light: Tensor, reflectance: Tensor, weather: tuple[list[Sky], Tensor], level: Tensor
) -> tuple[Tensor, Tensor]:
    """Return `light` (k, 3, h, w) with what is seen where nothing is hit, and where (1, h, w) that is the sky.

    The weather is that of `drawn_skies`; `level` (k,) the mean light on what is seen, before windows and mirrors.
    """
    size = (hits.shape.shape[0], hits.shape.shape[1])
    if s.place not in OUTDOORS:
        shares = [_VOID.get(role, 0.0) if s.place == "room" else 0.0 for role in s.roles]
        levels = torch.tensor(shares).to(light.device, non_blocking=True).reshape(-1, 1, 1, 1)
        return torch.where(hits.mask, light, levels), torch.zeros_like(hits.mask)
    skies, left = weather
    direction, is_sky = sky_seen_by(s.camera, size, hits.mask)
    end = horizon(skies).to(light.device)
    beyond = torch.where(is_sky, seen_sky(skies, direction, is_sky), end[:, :, None]).reshape(-1, 3, *size)
    light = hazed(light, reflectance, hits.depth, left, end, level)
    return torch.where(hits.mask, light, beyond), is_sky.reshape(1, *size)


def _highlights(home: Scene, s: Scene, hits: render.Hits, normal: Tensor, light: Tensor, gloss: Tensor) -> Tensor:
    """Return what shiny surfaces throw back (k, 1, h, w): a lobe about the mirrored direction of each light's middle.

    Whether the light gets there is taken from the irradiance. It need not be exact: these pixels are masked.
    """
    result = torch.zeros(len(light), 1, *gloss.shape[-2:], device=light.device)
    if float(home.materials.gloss.max()) == 0:
        return result
    eye = torch.tensor(s.camera.position).to(light.device, non_blocking=True)[:, None, None] - hits.position
    eye = eye / lengths(eye).clamp_min(1e-9)
    for k, kind in enumerate(home.lights.kind.tolist()):
        towards = directions_to(s.lights, kind, k, hits.position)
        if towards is None:
            continue
        half = towards + eye
        half = half / lengths(half).clamp_min(1e-9)
        cosine = (normal * towards).sum(0).clamp_min(0.05)
        lobe = (normal * half).sum(0).clamp_min(0) ** (20 + 400 * (gloss[0] * 5 % 1))
        result[k, 0] = gloss[0] * lobe * 8 * light[k].mean(0) / cosine
    return result
