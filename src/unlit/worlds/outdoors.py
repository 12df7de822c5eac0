"""Places under the sky: streets, gardens, ruins, seen from near and from high above."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.worlds.builder import Builder, dome, rolling, stairs, turned
from unlit.worlds.calm import GROUND, ROOFS, WALLS, drawn_calm
from unlit.worlds.casters import add_casters
from unlit.worlds.clutter import CROWD, RUBBLE, SHRUBS, add_heap, wooded
from unlit.worlds.description import Camera
from unlit.worlds.facades import House, drawn_trim, dress
from unlit.worlds.landscape import drawn_water, rock, tree
from unlit.worlds.light import Lighting, add_day, add_lamps_around
from unlit.worlds.materials import Texture
from unlit.worlds.palette import drawn_color, drawn_leaves, drawn_material
from unlit.worlds.things import thing
from unlit.worlds.traffic import car, cars, passer, railing

Array = NDArray[np.float64]

_GROUND = (
    Texture.NOISE,
    Texture.PATCHES,
    Texture.SPECKLE,
    Texture.BRICK,
    Texture.FOLIAGE,
    Texture.PLAIN,
    Texture.CELLS,
    Texture.RUST,
)
_FACADE = (
    Texture.PLAIN,
    Texture.PLAIN,
    Texture.BRICK,
    Texture.BRICK,
    Texture.NOISE,
    Texture.RUST,
    Texture.STRIPES,
    Texture.CELLS,
    Texture.PATCHES,
)
_OPEN = 0.15
"""How often a side of a street has no houses."""
_CARS, _PEOPLE, _RAILING = 0.35, 0.4, 0.25
"""How often cars stand along a street, people go there, and there is a railing."""
_NEAREST, _MOST = 20, 60
"""Shapes of a row's houses: until there are so many, windows stand out; then the row ends."""
_FULL = 220
"""Shapes of a scene from which on nobody else comes: what throws shadows is yet to come."""
_MARKET, _BED, _FALLEN, _WOODED = 0.6, 0.45, 0.5, 0.7
"""How often much that is small stands in a street, shrubs or rubble in a garden, and rubble in a ruin; and how often
crowns of a wooded hill are shapes."""
_DRESSED = 0.75
"""How often houses have something that stands out of their walls."""
_POND = 0.12
"""How often a fifth to a half of a garden, where it is low, is under water."""


def street(draw: Generator) -> tuple[Builder, Lighting, Camera]:
    """Return a street: houses with windows at both sides, posts, trees, signs, cars, people."""
    b = Builder(draw)
    half, length = draw.uniform(3, 8), draw.uniform(25, 80)
    b.box((0, length / 2 - 5, -0.5), (60, length, 0.5), b.material(drawn_calm(draw, 6, _GROUND, GROUND)))
    kerb = b.material(drawn_calm(draw, 3, (Texture.PLAIN, Texture.BRICK, Texture.SPECKLE), GROUND))
    for side in (-1, 1):
        b.box((side * (half + 5), length / 2 - 5, 0.05), (5.6, length, 0.08), kerb)
        if draw.random() >= _OPEN:
            _row(b, side, half + 5, length)
    for _ in range(int(draw.integers(2, 8))):
        along_street(
            b, np.array([draw.choice([-1, 1]) * half * draw.uniform(0.6, 1.1), draw.uniform(3, length * 0.6), 0])
        )
    _traffic(b, half, length)
    if draw.random() < 0.45:
        camera, focus = _from_above(draw, (half + 9, 15.0), (9, 28)), np.array([0, 15.0, 2.0])
    else:
        eye, view = draw.uniform(1.4, 6), np.radians(draw.uniform(35, 65))
        start, to = draw.uniform(-0.7, 0.7) * half, draw.normal(0, 0.5) * half
        camera = Camera((start, -3.0, eye), (to, 12.0, eye + draw.normal(0, 1.2)), float(view))
        focus = np.array([0, 10.0, 1.5])
    return b, daylight(b, focus, camera, 6.0), camera


def _ahead(draw: Generator, half: float) -> float:
    """Return how far away the middle of what is `half` deep lies: all of it before the camera."""
    return half + float(np.exp(draw.uniform(np.log(1.0), np.log(20.0))))


def _traffic(b: Builder, half: float, length: float) -> None:
    """Add cars along the kerb of a street, people between its houses, a railing beside it, if there is room for more.

    All stand on the road, at a height of 0, or sunk a little into the pavement beside it.
    """
    draw = b.draw
    if draw.random() < _CARS and len(b) < _FULL:
        first = np.array([draw.choice([-1, 1]) * half * 0.8, draw.uniform(2, 8), 0])
        cars(b, first, first + [0, draw.uniform(8, min(35, 1.5 * length - 14)), 0])
    for _ in range(int(draw.integers(1, 6)) if draw.random() < _PEOPLE and len(b) < _FULL else 0):
        passer(b, np.array([draw.uniform(-1, 1) * min(1.2 * half, half + 0.6), draw.uniform(3, 20), 0]))
    if draw.random() < _RAILING and len(b) < _FULL:
        post = np.array([draw.choice([-1, 1]) * (half + draw.uniform(0.3, 0.7)), draw.uniform(2, 8), 0])
        railing(b, post, post + [0, draw.uniform(4, 15), 0])
    for _ in range(int(draw.integers(2, 6)) if draw.random() < _MARKET else 0):
        heap = CROWD if draw.random() < 0.7 else SHRUBS
        sides = heap.drawn_half(draw, draw.uniform(0.15, 0.6))
        add_heap(b, np.array([draw.uniform(-1, 1) * half, _ahead(draw, float(sides[1])), 0]), sides, heap)


def _row(b: Builder, side: float, away: float, length: float) -> None:
    """Add houses along one side of a street, of much the same height; the nearest have windows that stand out."""
    draw = b.draw
    y, usual, first = draw.uniform(-6, 2), draw.uniform(3.5, 16), len(b)
    while y < length and len(b) - first < _MOST:
        width = draw.uniform(4, 12)
        at, height = np.array([side * away, y + width / 2, 0]), usual * draw.uniform(0.75, 1.25)
        if len(b) - first < _NEAREST:
            house(b, at, side, (4, width / 2), height)
        else:
            _body(b, at, side, (4, width / 2), height, (*_FACADE[:4], *(Texture.WINDOWS,) * 8))
        y += width + (draw.uniform(0, 4) if draw.random() < 0.25 else 0.0)


def _from_above(draw: Generator, reach: tuple[float, float], height: tuple[float, float]) -> Camera:
    """Return a camera as a webcam hangs: high, away from what it looks at, over roofs and squares."""
    aside, ahead = reach
    x, y, z = draw.uniform(-1, 1) * aside, -draw.uniform(0.3, 1.2) * ahead, draw.uniform(*height)
    target = (draw.normal(0, 0.25) * aside, ahead * draw.uniform(0.6, 1.1), draw.uniform(0, 0.15) * z)
    return Camera((x, y, z), target, float(np.radians(draw.uniform(22, 50))))


def house(b: Builder, at: Array, side: float, half: tuple[float, float], height: float) -> None:
    """Add a house whose front looks to the street at x = 0."""
    draw = b.draw
    _body(b, at, side, half, height, (*_FACADE, Texture.WINDOWS, Texture.WINDOWS))
    glass = b.material(drawn_material(draw, 0.5, (Texture.PLAIN,), drawn_color(draw, draw.uniform(0.03, 0.15))))
    frame = b.material(drawn_material(draw, 0.5, (Texture.PLAIN, Texture.WOOD)))
    wide, high = draw.uniform(0.4, 0.8), draw.uniform(0.5, 0.9)
    floors, columns = max(1, int(height / 3.2)), max(1, int(half[1] / 1.5))
    for floor in range(min(floors, 3)):
        for column in range(min(columns, 3)):
            y = ((column + 0.5) / min(columns, 3) - 0.5) * 2 * half[1]
            center = at + [-side * half[0], y, 1.5 + 3.0 * floor]
            b.box(center, (0.08, wide, high), frame)
            b.box(center + [-side * 0.02, 0, 0], (0.08, wide * 0.85, high * 0.88), glass)


def _body(
    b: Builder, at: Array, side: float, half: tuple[float, float], height: float, fronts: tuple[Texture, ...]
) -> None:
    """Add the walls of a house, of one of `fronts`, its roof, and mostly what stands out of it."""
    b.box(at + [0, 0, height / 2], (*half, height / 2), b.material(drawn_calm(b.draw, 3, fronts, WALLS, 0.06)))
    roof, rise = _roof(b, at + [0, 0, height], half)
    if b.draw.random() < _DRESSED:
        dress(b, House(at, half, height, (-side, 0), roof, rise, room=2.5, is_alone=False), drawn_trim(b))


def _roof(b: Builder, at: Array, half: tuple[float, float]) -> tuple[int, float]:
    """Add a roof over all of a house, whose walls end at the height of `at`: a gable, a barrel, or a flat one.

    Its material's number is returned, and how high it is.
    """
    draw = b.draw
    roof = b.material(drawn_calm(draw, 2, (Texture.BRICK, Texture.PLAIN, Texture.STRIPES), ROOFS, 0.1))
    kind = draw.random()
    if kind < 0.42:
        rise = half[0] * draw.uniform(0.4, 1.0)
        b.gable(at, (half[0] * 1.08, half[1] * 1.03, rise), roof)
        return roof, rise
    b.box(at, (half[0] * 1.02, half[1] * 1.02, 0.1), roof)
    if kind < 0.65:
        b.rod(at - [0, half[1], 0], at + [0, half[1], 0], half[0] * 0.8, roof)
        return roof, half[0] * 0.8
    return roof, 0.0


def along_street(b: Builder, at: Array) -> None:
    """Add a tree, a post with a sign, a car or a bin."""
    draw = b.draw
    kind = draw.random()
    if kind < 0.45:
        tree(b, at, draw.uniform(2.5, 6))
    elif kind < 0.7:
        post = b.material(drawn_material(draw, 1.0, (Texture.PLAIN, Texture.RUST, Texture.STRIPES)))
        b.rod(at, at + [0, 0, 3.0], 0.06, post)
        sign = b.material(
            drawn_material(draw, 0.8, (Texture.TEXT, Texture.BLOCKS, Texture.STRIPES, Texture.PLAIN), vivid=0.7)
        )
        b.box(at + [0, -0.08, 2.4], (0.5, 0.03, 0.4), sign)
    elif kind < 0.85:
        car(b, at)
    else:
        thing(b, at, draw.uniform(0.6, 1.6))


def garden(draw: Generator) -> tuple[Builder, Lighting, Camera]:
    """Return uneven ground with rocks, trees and things, at times before a wall or hills."""
    b = Builder(draw)
    meadow = drawn_leaves(draw, 1.5) if draw.random() < 0.35 else drawn_calm(draw, 3, _GROUND, GROUND)
    ground = b.material(meadow)
    heights, high = rolling(draw, 0.9), draw.uniform(0.05, 0.55)
    b.relief((0, 8, -0.6), (22, 22, high), heights, ground)
    if draw.random() < _POND:
        level = -0.6 + high * float(np.quantile(heights, draw.uniform(0.2, 0.55)))
        b.quad((0, 8, level), (22, 0, 0), (0, 22, 0), b.material(drawn_water(draw)))
    if draw.random() < 0.5:
        wall = b.material(drawn_calm(draw, 3, _FACADE, WALLS, 0.06))
        y, high = draw.uniform(5, 12), draw.uniform(1, 4)
        b.box(
            (draw.normal(0, 3), y, high / 2 - 0.5),
            (draw.uniform(3, 14), 0.2, high / 2 + 0.5),
            wall,
            draw.normal(0, 0.2),
        )
    if draw.random() < 0.5:
        is_green, high = draw.random() < 0.6, draw.uniform(6, 16)
        hill = b.material(drawn_leaves(draw, 6) if is_green else drawn_calm(draw, 8, _GROUND, GROUND))
        heights = dome(draw, 0.5)
        if is_green and draw.random() < _WOODED:
            heights = wooded(draw, heights, 40, high)
        b.relief((draw.normal(0, 5), 34, -3), (40, 14, high), heights, hill)
    for _ in range(int(draw.integers(3, 9))):
        rock(b, np.array([draw.normal(0, 4), draw.uniform(1, 12), -0.4]), draw.uniform(0.3, 1.8))
    for _ in range(int(draw.integers(1, 5))):
        tree(b, np.array([draw.normal(0, 5), draw.uniform(3, 14), -0.5]), draw.uniform(2, 6))
    for _ in range(int(draw.integers(0, 4))):
        thing(b, np.array([draw.normal(0, 2), draw.uniform(1, 6), -0.3]), draw.uniform(0.4, 1.2))
    for _ in range(int(draw.integers(1, 4)) if draw.random() < _BED else 0):
        heap = SHRUBS if draw.random() < 0.7 else RUBBLE
        half = heap.drawn_half(draw, draw.uniform(0.4, 2.5))
        add_heap(b, np.array([draw.normal(0, 6), _ahead(draw, float(half[1])), -0.6]), half, heap)
    if draw.random() < 0.35:
        camera = _from_above(draw, (6.0, 8.0), (4, 14))
    else:
        start, to = (draw.normal(0, 1), -3.5, draw.uniform(0.6, 4)), (draw.normal(0, 1), 6.0, draw.uniform(-0.5, 1.5))
        camera = Camera(start, to, float(np.radians(draw.uniform(30, 60))))
    return b, daylight(b, np.array([0, 5.0, 0.5]), camera, 4.0), camera


def ruin(draw: Generator) -> tuple[Builder, Lighting, Camera]:
    """Return walls, columns, steps and blocks in the open."""
    b = Builder(draw)
    stone = [b.material(drawn_calm(draw, 2, _FACADE, WALLS)) for _ in range(3)]
    b.quad((0, 5, 0), (25, 0, 0), (0, 25, 0), b.material(drawn_calm(draw, 3, _GROUND, GROUND)))
    for k in range(int(draw.integers(0, 7))):
        x, y, high = -4 + 1.6 * k, draw.uniform(3, 8), draw.uniform(1, 4)
        b.rod((x, y, 0), (x, y, high), 0.35, stone[0])
        b.box((x, y, high), (0.5, 0.5, 0.12), stone[0])
    for _ in range(int(draw.integers(2, 6))):
        at, half = (
            np.array([draw.normal(0, 4), draw.uniform(3, 12), 0]),
            np.array([draw.uniform(0.5, 4), 0.25, draw.uniform(0.4, 3)]),
        )
        b.box(
            at + [0, 0, half[2]],
            half,
            stone[int(draw.integers(3))],
            draw.choice([0.0, np.pi / 2]) + draw.normal(0, 0.1),
        )
    for k in range(int(draw.integers(0, 6))):
        b.box((3, 6 + 0.35 * k, 0.1 + 0.2 * k), (2.0, 0.18, 0.1 + 0.2 * k), stone[1])
    for _ in range(int(draw.integers(3, 9))):
        thing(b, np.array([draw.normal(0, 2.5), draw.uniform(0, 6), 0]), draw.uniform(0.4, 1.5))
    if draw.random() < _FALLEN:
        half = RUBBLE.drawn_half(draw, draw.uniform(0.5, 2))
        add_heap(b, np.array([draw.normal(0, 4), _ahead(draw, float(half[1])), 0]), half, RUBBLE)
    if draw.random() < 0.4:
        b.relief((0, 11, 2), (6, 3, 0.3), stairs(draw), stone[2], turned(0, 0, np.pi / 2))
    start, to = (draw.normal(0, 1.5), -4, draw.uniform(0.8, 4)), (draw.normal(0, 1), 5.0, draw.uniform(0.3, 1.8))
    camera = Camera(start, to, float(np.radians(draw.uniform(30, 60))))
    return b, daylight(b, np.array([0, 4.0, 0.8]), camera, 4.0), camera


def daylight(b: Builder, focus: Array, camera: Camera, reach: float) -> Lighting:
    """Return a day of sun and sky, and the lamps of the night; what stands out of sight throws its shadow into view."""
    draw = b.draw
    lighting = Lighting(draw, focus)
    add_day(lighting, int(draw.integers(4, 6)))
    if draw.random() < 0.85:
        add_casters(b, lighting, camera)
    add_lamps_around(lighting, int(draw.integers(1, 3)), reach, (0.2, 1.2))
    lighting.flash(camera.position)
    return lighting
