"""Towns and mountains as a webcam on a tower sees them: many small houses, woods, snow, and a horizon."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.worlds.builder import GRID, Builder, dome, rolling
from unlit.worlds.calm import GROUND, ROCK, ROOFS, WALLS, drawn_calm
from unlit.worlds.clutter import CROWD, ROOFTOPS, RUBBLE, SHRUBS, WOODS, add_heap, wooded
from unlit.worlds.description import Camera
from unlit.worlds.facades import House, drawn_trim, dress
from unlit.worlds.landscape import drawn_water, tree
from unlit.worlds.light import Lighting
from unlit.worlds.materials import Texture
from unlit.worlds.outdoors import daylight
from unlit.worlds.palette import Material, drawn_color, drawn_leaves, drawn_material
from unlit.worlds.squares import add_square

Array = NDArray[np.float64]

_FIELDS = (Texture.PATCHES, Texture.CELLS, Texture.NOISE, Texture.FOLIAGE, Texture.PLAIN, Texture.BLOCKS)
_WALLS = (
    Texture.WINDOWS, Texture.WINDOWS, Texture.WINDOWS, Texture.PLAIN, Texture.BRICK, Texture.STRIPES, Texture.PLAID,
    Texture.RUST,
)  # fmt: skip
_ROOFS = (Texture.PLAIN, Texture.BRICK, Texture.RUST, Texture.STRIPES)
_WINTER, _VALLEY, _SQUARE, _WATER, _CITY = 0.1, 0.4, 0.4, 0.3, 0.35
"""How often ground and roofs of houses are under snow, there is the side of a valley, the camera hangs over a square,
there is water, and a town is large."""
_FIRS = 0.35
"""Share of woods that are of firs."""
_DRESSED, _NEAR = 0.8, 60.0
"""How often houses have something that stands out of their walls, up to how many meters away; less so beyond."""
_FULL = 210
"""Shapes of a scene from which on there are no more houses: woods, trees and what throws shadows are yet to come."""
_HEAPS, _WOODED = 0.75, 0.7
"""How often much that is small stands about, and crowns of woods on hills and slopes are shapes."""
_SORTS = ((CROWD, 2.0, 40.0), (SHRUBS, 2.0, 60.0), (RUBBLE, 2.0, 40.0), (WOODS, 20.0, 250.0), (ROOFTOPS, 60.0, 300.0))
"""What stands about, and how far from the middle its near end is, in meters, least and most."""
_LEVEL = 0.15
"""Meters of the water above the flat ground: hills are shores and islands."""
_TRIES = 8
"""To find a place on land."""
_SLOPES = (Texture.PLAIN, Texture.PATCHES, Texture.NOISE, Texture.CELLS, Texture.RUST)


def vista(draw: Generator) -> tuple[Builder, Lighting, Camera]:
    """Return a town on a plain or by mountains, from above."""
    b, camera = Builder(draw), _camera(draw)
    snow = _drawn_snow(draw) if draw.random() < _WINTER else None
    ground = b.material(_drawn_ground(draw) if snow is None else snow)
    b.quad((0, 0, 0), (4000, 0, 0), (0, 4000, 0), ground)
    if draw.random() < 0.5:
        b.relief((0, 60, -0.5), (140, 110, draw.uniform(0.5, 3)), rolling(draw, 0.9), ground)
    water = _water(b) if draw.random() < _WATER else None
    for _ in range(int(draw.integers(0, 4))):
        _mountain(b)
    if draw.random() < _VALLEY:
        _slope(b)
    if draw.random() < _SQUARE and (at := _place(draw, camera, 8, 40, water)) is not None:
        # Above the water, if there is some: it may reach into it.
        half = np.array([draw.uniform(6, 22), draw.uniform(5, 14)])
        add_square(b, np.array([*at, 0.0 if water is None else _LEVEL]), half)
    houses, far = (int(draw.integers(30, 80)), 400.0) if draw.random() < _CITY else (int(draw.integers(6, 41)), 150.0)
    _town(b, houses, far, camera, ground if snow is not None else None, water)
    for _ in range(int(draw.integers(0, 7)) if draw.random() < 0.5 else 0):
        if (at := _place(draw, camera, 60, 180, water)) is not None:
            _tower(b, np.array([*at, 0]))
    for _ in range(int(draw.integers(1, 4))):
        if (at := _place(draw, camera, 15, 110, water)) is not None:
            _woods(b, int(draw.integers(3, 9)), at)
    for _ in range(int(draw.integers(0, 3))):
        if (at := _place(draw, camera, 4, 25, water)) is not None:
            tree(b, np.array([*at, 0]), draw.uniform(4, 9))
    _heaps(b, camera, water)
    return b, daylight(b, np.array([0, 60.0, 3.0]), camera, 25.0), camera


def _drawn_ground(draw: Generator) -> Material:
    """Return meadows or fields."""
    return drawn_leaves(draw, 6) if draw.random() < 0.35 else drawn_calm(draw, 20, _FIELDS, GROUND, 0.02)


def _drawn_snow(draw: Generator) -> Material:
    """Return snow, in a winter when it lies everywhere; paths and stones show through here and there."""
    snow = drawn_material(draw, 10, (Texture.PLAIN, Texture.PLAIN, Texture.PATCHES, Texture.RUST))
    snow.colors = np.stack([drawn_color(draw, level, 0.0) for level in (draw.uniform(0.7, 0.9), 0.8, 0.3, 0.1)])
    snow.gloss = 0.0
    return snow


def _camera(draw: Generator) -> Camera:
    """Return a camera on a roof or tower; its horizon lies in the upper part of the picture, or just above."""
    high, view = np.exp(draw.uniform(np.log(6), np.log(50))), float(np.radians(draw.uniform(20, 50)))
    slope = (draw.uniform(-0.05, 0.55) - 0.5) * 2 * np.tan(view / 2)
    return Camera((0.0, -15.0, high), (draw.normal(0, 4), 85.0, high + 100 * slope), view)


def _place(
    draw: Generator, camera: Camera, near: float, far: float, water: Array | None, gap: float | None = None
) -> Array | None:
    """Return a place (2,) on land, in view or nearly, between two distances, in a grid of `gap` meters if there is one.

    None where water leaves none that is soon found.
    """
    for _ in range(_TRIES):
        away = np.exp(draw.uniform(np.log(near), np.log(far)))
        place = np.array([draw.uniform(-1, 1) * (away + 15) * np.tan(camera.view / 2) * 1.6, away])
        place = place if gap is None else np.round(place / gap) * gap
        shore = 0.5 * (gap or 0.0)
        if water is None or not bool(((place > water[0] - shore) & (place < water[1] + shore)).all()):
            return place
    return None


def _water(b: Builder) -> Array:
    """Add a river, a lake or the sea, and return its lowest and highest x and y (2, 2)."""
    draw = b.draw
    kind = draw.random()
    if kind < 0.35:  # a river, across or along the way one looks
        half = np.array([2000.0, draw.uniform(6, 30)])
        half = half if draw.random() < 0.6 else half[::-1]
    else:
        half = draw.uniform([15, 10], [120, 60]) if kind < 0.7 else np.array([4000.0, 2000.0])
    along = half[1] > 1000 > half[0]
    middle = np.array([draw.normal(0, 12), 0.0 if along else half[1] + draw.uniform(20, 90)])
    b.quad((*middle, _LEVEL), (half[0], 0, 0), (0, half[1], 0), b.material(drawn_water(draw)))
    return np.stack([middle - half, middle + half])


def _mountain(b: Builder) -> None:
    """Add a hill or a peak behind the town: woods, rock, or snow on rock."""
    draw = b.draw
    far, size = draw.uniform(90, 260), draw.uniform(40, 150)
    kind = draw.random()
    slope = drawn_leaves(draw, 15) if kind < 0.5 else drawn_calm(draw, size * 0.5, _SLOPES, ROCK, 0.02)
    slope.gloss = 0.0
    if kind > 0.7:
        snow, rock = drawn_color(draw, draw.uniform(0.6, 0.88), 0.0), drawn_color(draw, draw.uniform(0.08, 0.3), 0.02)
        slope.texture = int(draw.choice([int(Texture.PATCHES), int(Texture.NOISE), int(Texture.RUST)]))
        slope.colors = np.stack([snow, rock, 0.5 * (snow + rock), snow])
    high = size * draw.uniform(0.2, 0.9)
    heights = dome(draw, draw.uniform(0.4, 1.2))
    if kind < 0.5 and draw.random() < _WOODED:
        heights = wooded(draw, heights, size, high)
    b.relief((draw.normal(0, 90), far + size, -0.1 * high), (size, size, high), heights, b.material(slope))


def _slope(b: Builder) -> None:
    """Add the side of a valley, at either hand or ahead: it may lie in shade while the sun is on the town."""
    draw = b.draw
    half = draw.uniform(120, 350, 2)
    high, near = draw.uniform(0.25, 0.9) * half[0], draw.uniform(25, 120)
    side = draw.choice([0.0, np.pi / 2, np.pi])  # to the right, ahead, to the left
    rise = np.linspace(0, 1, GRID) ** draw.uniform(0.7, 1.4)
    heights = rise[None] * (0.85 + 0.15 * rolling(draw, 1.2)) - 0.02
    middle = np.array([np.cos(side), np.sin(side), 0]) * (near + half[0])
    kind = draw.random()
    stuff = drawn_leaves(draw, 20) if kind < 0.75 else drawn_calm(draw, 30, _SLOPES, ROCK, 0.02)
    stuff.gloss = 0.0
    if kind < 0.75 and draw.random() < _WOODED:
        heights = wooded(draw, heights, float(half.min()), high)
    b.relief(middle + [0, draw.uniform(20, 120), 0], (*half, high), heights, b.material(stuff), side)


def _town(b: Builder, houses: int, far: float, camera: Camera, snow: int | None, water: Array | None) -> None:
    """Add houses along a few streets, of a few kinds of walls and roofs, as towns have; or with `snow` on roofs.

    The last are `far` meters away.
    """
    draw = b.draw
    walls = [b.material(drawn_calm(draw, 4, _WALLS, WALLS, 0.08)) for _ in range(int(draw.integers(2, 6)))]
    roofs = [b.material(drawn_calm(draw, 3, _ROOFS, ROOFS, 0.1)) for _ in range(int(draw.integers(1, 4)))]
    roofs = roofs if snow is None else [snow]
    trims = [drawn_trim(b) for _ in range(3)]
    gap = draw.uniform(7, 14)
    for _ in range(houses):
        if len(b) > _FULL:
            break
        place = _place(draw, camera, 18, far, water, gap)
        if place is None:
            continue
        x, y = place + draw.normal(0, 0.8, 2)
        half, high = draw.uniform(0.25, 0.48, 2) * gap, draw.uniform(3, 12)
        at = np.array([x, y, 0])
        b.box(at + [0, 0, high / 2], (*half, high / 2), walls[int(draw.integers(len(walls)))])
        roof = roofs[int(draw.integers(len(roofs)))]
        rise = half[0] * draw.uniform(0.4, 1.1) if draw.random() < 0.75 else 0.0
        if rise:
            b.gable(at + [0, 0, high], (half[0] * 1.1, half[1] * 1.05, rise), roof)
        else:
            b.box(at + [0, 0, high], (half[0] * 1.02, half[1] * 1.02, 0.3), roof)
        if draw.random() < _DRESSED * min(1.0, _NEAR / y):
            trim = trims[int(draw.integers(len(trims)))]
            # The next house before it may be as near as this.
            room = float(0.52 * gap - half[1])
            dress(b, House(at, (float(half[0]), float(half[1])), high, (0, -1), roof, rise, room, is_alone=True), trim)


def _tower(b: Builder, at: Array) -> None:
    """Add an office tower or a steeple."""
    draw = b.draw
    high, half = draw.uniform(15, 60), draw.uniform(2.5, 7, 2)
    front = b.material(drawn_calm(draw, 6, _WALLS, WALLS, 0.1))
    b.box(at + [0, 0, high / 2], (*half, high / 2), front)
    roof = b.material(drawn_calm(draw, 4, _ROOFS, ROOFS, 0.1))
    b.box(at + [0, 0, high], (half[0] * 1.02, half[1] * 1.02, 0.3), roof)
    if draw.random() < 0.4:
        b.rod(at + [0, 0, high], at + [0, 0, high * draw.uniform(1.2, 1.8)], float(half.min()), roof, cone=True)


def _woods(b: Builder, crowns: int, middle: Array) -> None:
    """Add trees about a place, each one ball or, in every third wood, a cone: they are far away."""
    draw = b.draw
    green = b.material(drawn_leaves(draw, 2))
    are_firs = draw.random() < _FIRS
    for _ in range(crowns):
        x, y = middle + draw.normal(0, 6, 2)
        size, y = draw.uniform(1.5, 4, 3), max(y, 3.0)
        if are_firs:
            b.rod((x, y, 0.3), (x, y, size[2] * 3), size[0] * 0.7, green, cone=True)
        else:
            b.ball((x, y, size[2] * 0.9), size, green)


def _heaps(b: Builder, camera: Camera, water: Array | None) -> None:
    """Add crowds near by, shrubs and rubble, woods and roofs far away."""
    draw = b.draw
    for _ in range(int(draw.integers(2, 8)) if draw.random() < _HEAPS else 0):
        heap, first, last = _SORTS[int(draw.integers(len(_SORTS)))]
        half = heap.drawn_half(draw, draw.uniform(0.5, 2))
        reach = float(np.hypot(*half))  # the camera must not stand in it
        if (at := _place(draw, camera, first + reach, last + reach, water)) is not None:
            add_heap(b, np.array([*at, 0.0 if water is None else _LEVEL]), half, heap, draw.uniform(0, np.pi))
