"""A scene from a number: shapes, materials, lights and a camera, the same on every machine.

What is drawn comes from NumPy's generators. The first draw decides what kind of place it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator

from unlit.worlds.builder import Builder
from unlit.worlds.closeups import board, closeup, heap_of_shapes
from unlit.worlds.description import Camera, Lights, Shapes
from unlit.worlds.figures import figure
from unlit.worlds.light import Lighting, Role
from unlit.worlds.materials import Materials
from unlit.worlds.outdoors import garden, ruin, street
from unlit.worlds.palette import stacked
from unlit.worlds.rooms import room
from unlit.worlds.vistas import vista

EDITION = 9
"""Which scenes the numbers mean: counted on when they become others. 2: with skies, haze and vistas.
3: with deeper and warmer skies.
4: bumps stand in each other's light, leaves are relief more than paint, haze comes and goes, coats are more common.
5: bumps on both sides of sheets and on roofs are lit as they are, and leave what is hardly rough its light; bounced
light meets colors as textures have them; flat roofs have no windows.
6: water, rows of houses, larger towns, windows lit at night; bumps finer than a pixel take light, too; duller leaves,
less haze.
7: ground, walls, roofs and rock have colors that such things have; darker leaves; firs.
8: houses have eaves, ledges, balconies, chimneys, windows set back; cars, people, railings in streets; walls and stone
are darker; photographs are printed on posters and labels alone, and on fewer of them.
9: much that is small and stands side by side: crowds, goods, shrubs, rubble, far roofs, crowns of woods."""

_WORLDS = 5
"""First number of the seeds of scenes: the same numbers mean other draws elsewhere."""

LIGHTS = 8
"""Of every scene: so bases of several can be stacked."""

PLACES: dict[str, tuple[float, Callable[[Generator], tuple[Builder, Lighting, Camera]]]] = {
    "room": (0.15, room),
    "closeup": (0.15, closeup),
    "figure": (0.18, figure),
    "board": (0.05, board),
    "street": (0.13, street),
    "garden": (0.08, garden),
    "ruin": (0.04, ruin),
    "shapes": (0.04, heap_of_shapes),
    "vista": (0.18, vista),
}
"""Kinds of places, and how often each comes."""


@dataclass(frozen=True)
class Scene:
    """Everything that is seen and shines."""

    shapes: Shapes
    lights: Lights
    camera: Camera
    materials: Materials
    roles: tuple[Role, ...]
    """What each light is."""
    sun_heights: tuple[float, ...]
    """Radians above the horizon, for each light; 0 for those that are no sun."""
    place: str
    """One of `PLACES`."""
    seed: int

    def to(self, device: torch.device | str) -> Scene:
        """Return the same on another device."""
        shapes = Shapes(*(values.to(device) for values in vars(self.shapes).values()))
        lights = Lights(*(values.to(device) for values in vars(self.lights).values()))
        materials = self.materials.to(device)
        return Scene(shapes, lights, self.camera, materials, self.roles, self.sun_heights, self.place, self.seed)


def scene(seed: int, place: str | None = None) -> Scene:
    """Return the scene of a number; `place` asks for a kind of place instead of leaving it to chance."""
    draw = np.random.default_rng((_WORLDS, seed))
    names = list(PLACES)
    drawn = str(draw.choice(names, p=[share for share, _ in PLACES.values()]))
    chosen = drawn if place is None else place
    if chosen not in PLACES:
        raise ValueError(f"place must be one of {', '.join(names)}, not {place!r}")
    builder, lighting, camera = PLACES[chosen][1](draw)
    lighting.limit(LIGHTS)
    return Scene(
        builder.shapes(),
        lighting.lights(),
        _plain(camera),
        stacked(builder.materials),
        tuple(lighting.roles),
        tuple(lighting.heights),
        chosen,
        seed,
    )


def _plain(camera: Camera) -> Camera:
    """Return the camera in Python's own floats: torch would make float64 of NumPy's."""
    (a, b, c), (d, e, f) = (map(float, place) for place in (camera.position, camera.target))
    return Camera((a, b, c), (d, e, f), float(camera.view))
