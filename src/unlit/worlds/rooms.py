"""Rooms: walls with windows, doors and bars, furniture along them, and light through openings and from lamps.

The room's floor is [0, width] x [0, depth]; the camera stands near y = 0 and looks towards larger y.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.worlds.builder import Builder, rolling, unit
from unlit.worlds.description import Camera
from unlit.worlds.furniture import chair, picture, shelf, sofa, table
from unlit.worlds.light import Lighting, drawn_sun_radius
from unlit.worlds.materials import Texture
from unlit.worlds.palette import drawn_color, drawn_material
from unlit.worlds.things import plant, thing
from unlit.worlds.walls import Hole, Wall, build_wall, drawn_holes, drawn_paints, wall_paint, walls_of

Array = NDArray[np.float64]
_FLOORS = (
    Texture.WOOD,
    Texture.WOOD,
    Texture.BRICK,
    Texture.CHECKS,
    Texture.PLAIN,
    Texture.NOISE,
    Texture.SPECKLE,
    Texture.MARBLE,
    Texture.WEAVE,
)


def room(draw: Generator) -> tuple[Builder, Lighting, Camera]:
    """Return a room, its lights and a camera in it."""
    b = Builder(draw)
    width, depth, height = draw.uniform(2.4, 6), draw.uniform(2.5, 7), draw.uniform(2.2, 3.4)
    walls = walls_of(width, depth, height)
    paints = drawn_paints(draw)
    holes = drawn_holes(draw, walls)
    for wall, paint, hole in zip(walls, paints, holes, strict=True):
        build_wall(b, wall, hole, paint)
    floor = b.material(drawn_material(draw, 2.0, _FLOORS))
    b.quad((width / 2, depth / 2, 0), (width / 2, 0, 0), (0, depth / 2, 0), floor)
    has_ceiling = draw.random() < 0.85
    if has_ceiling:
        ceiling = b.material(wall_paint(draw, drawn_color(draw, draw.uniform(0.5, 0.88), 0.02)))
        b.quad((width / 2, depth / 2, height), (width / 2, 0, 0), (0, depth / 2, 0), ceiling)
    things = len(b)
    _furnish(b, walls, holes, width, depth)
    camera = _camera(draw, b.centers()[things:], (width, depth, height))
    lighting = _lighting(b, walls, holes, camera, (width, depth, height), has_ceiling=has_ceiling)
    return b, lighting, camera


def _furnish(b: Builder, walls: list[Wall], holes: list[Hole | None], width: float, depth: float) -> None:
    """Put furniture along the walls and in the middle, until the room is as full as chance wants it."""
    draw = b.draw
    most = len(b) + int(draw.integers(12, 52))
    for wall, hole in zip(walls, holes, strict=True):
        for _ in range(int(draw.integers(0, 3))):
            along = draw.uniform(0.3, wall.length - 0.3)
            if hole is None or not hole[0] - 0.5 < along < hole[1] + 0.5:
                _against(b, wall, along)
    while len(b) < most:
        at = np.array([draw.uniform(0.15, 0.85) * width, draw.uniform(0.35, 0.92) * depth, 0.0])
        _in_the_middle(b, at)


def _against(b: Builder, wall: Wall, along: float) -> None:
    """Add something at or on a wall."""
    draw = b.draw
    kind = draw.random()
    yaw = float(np.arctan2(wall.right[1], wall.right[0]))
    if kind < 0.35:
        half = (draw.uniform(0.15, 0.5), draw.uniform(0.15, 0.45))
        picture(b, wall.at(along, draw.uniform(1.2, 1.8), 0.02), -wall.right, half)
    elif kind < 0.6:
        shelf(b, wall.at(along, 0, 0.2), yaw, draw.uniform(0.5, 1.3), draw.uniform(0.7, 2.0))
    elif kind < 0.75:
        sofa(b, wall.at(along, 0, 0.8), yaw)
    elif kind < 0.9:
        plant(b, wall.at(along, 0, 0.35), draw.uniform(0.5, 1.5))
    else:
        thing(b, wall.at(along, 0, 0.5), draw.uniform(0.3, 0.8))


def _in_the_middle(b: Builder, at: Array) -> None:
    """Add a table with things on it, a chair, a rug or something large on the floor."""
    draw = b.draw
    kind, yaw = draw.random(), float(draw.choice([0, np.pi / 2]) if draw.random() < 0.5 else draw.uniform(0, 6.3))
    if kind < 0.4:
        half = (draw.uniform(0.3, 0.8), draw.uniform(0.25, 0.5))
        top = table(b, at, yaw, half, draw.uniform(0.35, 0.8))
        for _ in range(int(draw.integers(1, 5))):
            offset = draw.uniform(-0.7, 0.7, 2) * half[1]
            thing(b, at + [*offset, top], draw.uniform(0.12, 0.35))
    elif kind < 0.6:
        chair(b, at, yaw)
    elif kind < 0.75:
        rug = b.material(drawn_material(draw, 1.2, vivid=0.35))
        b.box(at + [0, 0, 0.006], (*draw.uniform(0.4, 1.2, 2), 0.006), rug, yaw)
    elif kind < 0.8:
        cloth = b.material(drawn_material(draw, 1.0))
        b.relief(at + [0, 0, 0.12], (0.5, 0.5, 0.1), rolling(draw, 1.2), cloth, yaw)
    else:
        thing(b, at, draw.uniform(0.25, 0.9))


def _camera(draw: Generator, things: Array, size: tuple[float, float, float]) -> Camera:
    """Return a camera near the fourth wall or further in, that looks at one of the things (n, 3), or past them."""
    width, depth, height = size
    step = draw.uniform(0.02, 0.35)
    position = (draw.uniform(0.2, 0.8) * width, step * depth, draw.uniform(0.7, min(2.0, height - 0.3)))
    target = np.array([draw.uniform(0.15, 0.85) * width, draw.uniform(0.75, 1.0) * depth, draw.uniform(0.2, 1.5)])
    ahead = things[things[:, 1] > (step + 0.25) * depth]
    if len(ahead) and draw.random() < 0.8:
        target = ahead[int(draw.integers(len(ahead)))] + draw.normal(0, 0.2, 3)
    x, y, z = target.tolist()
    return Camera(position, (x, y, z), float(np.radians(draw.uniform(30, 68))))


def _lighting(
    b: Builder,
    walls: list[Wall],
    holes: list[Hole | None],
    camera: Camera,
    size: tuple[float, float, float],
    *,
    has_ceiling: bool,
) -> Lighting:
    """Return lights: through every opening a panel and the sun, lamps below the ceiling and on the floor, a flash."""
    draw, (width, depth, height) = b.draw, size
    focus = 0.4 * np.array(camera.position) + 0.6 * np.array(camera.target)
    lighting = Lighting(draw, focus)
    for wall, hole in zip(walls, holes, strict=True):
        if hole is not None:
            _through(lighting, wall, hole, width, depth)
    lamps = max(2, 7 - len(lighting))
    for _ in range(lamps):
        position = np.array(
            [draw.uniform(0.12, 0.88) * width, draw.uniform(0.1, 0.9) * depth, draw.uniform(0.45, 0.92) * height]
        )
        kind = draw.random()
        if kind < 0.5:
            lighting.lamp(position, draw.uniform(0.02, 0.15))
        elif kind < 0.7:
            lighting.spot(
                position,
                (position[0] + draw.normal(0, 0.8), position[1] + draw.normal(0, 0.8), 0),
                0.04,
                draw.uniform(0.3, 0.8),
            )
        else:
            half = draw.uniform(0.1, 0.6)
            lighting.panel((*position[:2], height - 0.08), (0, half, 0), (draw.uniform(0.05, 0.4), 0, 0))
    # The fourth wall is missing: a wide soft light comes from there, as from a large window behind the camera.
    lighting.panel(
        (width / 2, -0.3, height / 2), (draw.uniform(0.2, 0.5) * width, 0, 0), (0, 0, -0.4 * height), "window"
    )
    if not has_ceiling:
        lighting.open_sky((0.3, 0.3, 0.8), None)
    lighting.flash(camera.position)
    return lighting


def _through(lighting: Lighting, wall: Wall, hole: Hole, width: float, depth: float) -> None:
    """Add what comes in by an opening: the sky as a panel, and twice the sun, low and high, on something in view."""
    draw = lighting.draw
    left, right, low, high = hole
    middle = wall.at((left + right) / 2, (low + high) / 2, -0.06)
    # The cross product of the edges points into the room.
    lighting.panel(middle, wall.right * (right - left) / 2, (0, 0, -(high - low) / 2), "window")
    for drop in (draw.uniform(0.0, 0.5), draw.uniform(0.3, 1.0)):
        target = np.array([draw.uniform(0.2, 0.8) * width, draw.uniform(0.4, 0.9) * depth, low * (1 - drop)])
        to_sun = unit(wall.at((left + right) / 2, draw.uniform(0.5 * (low + high), high)) - target)
        if to_sun[2] > 0.02:
            lighting.sun(to_sun, drawn_sun_radius(draw))
