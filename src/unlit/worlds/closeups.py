"""Close-ups: a few things on a table, before a wall, or before nothing; and flat things seen from the front.

Things are about a meter large, whatever they are: size cannot be seen, and very small ones would lose their contact
shadows to rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.worlds.builder import Builder, crumpled, folds, frame_along, rolling, stairs, turned
from unlit.worlds.description import Camera
from unlit.worlds.furniture import picture
from unlit.worlds.light import Lighting, add_day, add_lamps_around, drawn_sun_radius, drawn_to_sun
from unlit.worlds.materials import Texture
from unlit.worlds.palette import drawn_material, drawn_print
from unlit.worlds.things import body, cushion, heap, parcel, plant, sheet, solid, thing, vessel

Array = NDArray[np.float64]


def closeup(draw: Generator) -> tuple[Builder, Lighting, Camera]:
    """Return one to seven things on a table, on the ground, or before nothing at all."""
    b = Builder(draw)
    alone = draw.random() < 0.4
    count = 1 if alone else int(draw.integers(2, 8))
    ground = draw.random()
    spread = 0.0 if alone else 0.35 * np.sqrt(count)
    height = 0.0
    for _ in range(count):
        at = np.array([*(draw.uniform(-1, 1, 2) * spread), 0.0])
        pick = (
            (body, body, vessel, parcel, sheet, heap, solid, cushion, plant)[int(draw.integers(9))] if alone else thing
        )
        height = max(height, pick(b, at, draw.uniform(0.6, 1.1) if alone else draw.uniform(0.3, 0.9)))
    if ground > 0.3:
        _ground(b, spread)
    focus = np.array([0, 0, min(0.6, height * 0.45)])
    camera = _camera(draw, focus, 0.62 + 0.9 * spread)
    lighting = Lighting(draw, focus)
    add_lamps_around(lighting, int(draw.integers(4, 7)), 1.0 + spread)
    for _ in range(2):
        lighting.sun(drawn_to_sun(draw, 0.15, 1.2), drawn_sun_radius(draw))
    lighting.open_sky(drawn_to_sun(draw), None if draw.random() < 0.5 else draw.uniform(2, 8))
    lighting.flash(camera.position)
    return b, lighting, camera


def _ground(b: Builder, spread: float) -> None:
    """Add a table top, a cloth or rough ground; half of the time a wall behind it."""
    draw = b.draw
    stuff = b.material(drawn_material(draw, 1.5))
    reach = 3.0 + 2 * spread
    if draw.random() < 0.25:
        heights = (rolling, crumpled)[int(draw.integers(2))](draw)
        b.relief((0, 0, -0.12), (reach, reach, 0.1), heights, stuff)
    else:
        b.box((0, 0, -0.05), (reach, reach, 0.05), stuff, draw.uniform(0, 1.5))
    if draw.random() < 0.5:
        wall = b.material(drawn_material(draw, 2.5))
        away = reach * draw.uniform(0.3, 0.8)
        if draw.random() < 0.3:
            b.relief((0, away, 1.0), (reach, 2.0, 0.15), folds(draw), wall, turned(0, 0, np.pi / 2))
        else:
            b.quad((0, away, 1.5), (reach, 0, 0), (0, 0, 3.0), wall)


def _camera(draw: Generator, focus: Array, width: float) -> Camera:
    """Return a camera from the side of smaller y, that sees about `width` meters at the focus."""
    view = np.radians(draw.uniform(18, 50))
    distance = width * draw.uniform(0.55, 1.1) / np.tan(view / 2) / 1.3
    azimuth, height = draw.normal(-np.pi / 2, 0.5), draw.uniform(0.05, 1.1)
    away = np.array([np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height), np.sin(height)])
    x, y, z = (focus + distance * away).tolist()
    target = focus + draw.normal(0, 0.08, 3) * width
    return Camera((x, y, max(z, 0.08)), (float(target[0]), float(target[1]), float(target[2])), float(view))


def board(draw: Generator) -> tuple[Builder, Lighting, Camera]:
    """Return a wall seen from the front, with prints, reliefs and things in front of it that cast shadows."""
    b = Builder(draw)
    ground = b.material(drawn_material(draw, 2.0))
    kind = draw.random()
    upright = turned(0, 0, np.pi / 2)
    if kind < 0.35:
        heights = (rolling, crumpled, folds, stairs)[int(draw.integers(4))](draw)
        b.relief((0, 0.1, 0), (2.6, 2.6, draw.uniform(0.05, 0.3)), heights, ground, upright)
    else:
        b.quad((0, 0.1, 0), (4, 0, 0), (0, 0, 4), ground)
    for _ in range(int(draw.integers(2, 7))):
        _pinned(b, np.array([draw.uniform(-1.4, 1.4), -0.2, draw.uniform(-1, 1)]))
    if draw.random() < 0.6:
        _lattice(b)
    view = np.radians(draw.uniform(25, 50))
    distance = draw.uniform(0.9, 1.6) / np.tan(view / 2)
    camera = Camera(
        (draw.normal(0, 0.4) * distance, -distance, draw.normal(0, 0.3) * distance), (0.0, 0.0, 0.0), float(view)
    )
    lighting = Lighting(draw, np.zeros(3))
    _light_front(lighting, camera)
    return b, lighting, camera


def _pinned(b: Builder, at: Array) -> None:
    """Add a print, or a body that stands out from the wall."""
    draw = b.draw
    kind = draw.random()
    if kind < 0.4:
        picture(b, at * [1, 0, 1], np.array([1.0, 0, 0]), (draw.uniform(0.2, 0.7), draw.uniform(0.2, 0.6)))
    elif kind < 0.55:
        half = draw.uniform(0.2, 0.6, 2)
        leaning = frame_along((draw.normal(0, 0.2), -1, draw.normal(0, 0.2)))
        b.quad(
            at * [1, 0.3, 1],
            leaning[:, 0] * half[0],
            leaning[:, 1] * half[1],
            b.material(drawn_print(draw, *(2 * half).tolist())),
        )
    else:
        (solid, vessel, body, sheet)[int(draw.integers(4))](b, at, draw.uniform(0.3, 0.8))


def _lattice(b: Builder) -> None:
    """Add rods between the lights and the wall, out of the camera's sight: their shadows are all that is seen."""
    draw = b.draw
    stuff = b.material(drawn_material(draw, 0.5, (Texture.PLAIN,)))
    height, tilt = draw.uniform(1.8, 2.6), draw.uniform(-0.4, 0.4)
    for k in range(int(draw.integers(3, 12))):
        x = -2.5 + 0.5 * k
        b.rod((x, -1.2, height), (x + tilt, -0.2, height), draw.uniform(0.02, 0.08), stuff)
    if draw.random() < 0.5:
        for _ in range(6):
            b.ball(draw.uniform(-1, 1, 3) * [2.5, 0.4, 0.2] + [0, -0.8, height], draw.uniform(0.1, 0.35, 3), stuff)


def _light_front(lighting: Lighting, camera: Camera) -> None:
    """Add lights from above and the sides, in front of a wall."""
    draw = lighting.draw
    for _ in range(int(draw.integers(4, 7))):
        angle, out = draw.uniform(-0.3, np.pi + 0.3), draw.uniform(0.25, 1.2)
        away = np.array([np.cos(angle) * np.cos(out), -np.sin(out), np.sin(angle) * np.cos(out)])
        distance = draw.uniform(3, 6)
        position = away * distance
        if draw.random() < 0.6:
            lighting.lamp(position, distance * float(np.exp(draw.uniform(np.log(0.01), np.log(0.2)))))
        else:
            lighting.spot(position, draw.normal(0, 0.4, 3), 0.05, draw.uniform(0.2, 0.6))
    for _ in range(2):
        lighting.sun((draw.uniform(-1, 1), -draw.uniform(0.2, 1.2), draw.uniform(0.3, 1.2)), drawn_sun_radius(draw))
    lighting.open_sky((0.2, -0.5, 0.7), None)
    lighting.flash(camera.position)


def heap_of_shapes(draw: Generator) -> tuple[Builder, Lighting, Camera]:
    """Return shapes of all kinds and sizes in no order, of any material: nothing can be recognized here."""
    b = Builder(draw)
    if draw.random() < 0.7:
        b.quad((0, 0, -1.2), (9, 0, 0), (0, 9, 0), b.material(drawn_material(draw, 2)))
    if draw.random() < 0.6:
        b.quad((0, 2.6, 0), (9, 0, 0), (0, 0, 9), b.material(drawn_material(draw, 2)))
    for _ in range(int(draw.integers(12, 50))):
        size = float(np.exp(draw.uniform(np.log(0.1), np.log(0.9))))
        at, stuff = draw.uniform(-1, 1, 3) * [1.8, 1.6, 1.1], b.material(drawn_material(draw, 2 * size))
        rotation = turned(*draw.uniform(0, 6.3, 3))
        kind = draw.integers(4)
        if kind == 0:
            b.ball(at, size * draw.uniform(0.3, 1, 3), stuff, rotation)
        elif kind == 1:
            b.box(at, size * draw.uniform(0.15, 1, 3), stuff, rotation)
        elif kind == 2:
            b.rod(
                at,
                at + rotation @ [0, 0, 2 * size],
                size * draw.uniform(0.1, 0.6),
                stuff,
                cone=bool(draw.random() < 0.4),
            )
        else:
            b.relief(at, size * np.array([1, 1, 0.4]), rolling(draw), stuff, rotation)
    view = np.radians(draw.uniform(30, 60))
    camera = Camera((draw.normal(0, 1), -1.9 / np.tan(view / 2), draw.uniform(-0.5, 2)), (0.0, 0.0, 0.0), float(view))
    lighting = Lighting(draw, np.zeros(3))
    add_lamps_around(lighting, int(draw.integers(3, 6)), 2.5, (-0.2, 1.4))
    add_day(lighting, 2)
    lighting.flash(camera.position)
    return b, lighting, camera
