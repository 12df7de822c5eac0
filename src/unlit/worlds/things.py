"""Things: vessels, plants, bodies, parcels and heaps, each made of a few shapes.

Each function adds one thing of about `size` meters to a builder at a place on the ground or a table top, (x, y, z), and
returns its height.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from unlit.worlds.builder import Builder, crumpled, dome, folds, pillow, rolling, stairs, turned
from unlit.worlds.materials import Texture
from unlit.worlds.palette import drawn_greens, drawn_material, drawn_print

Place = NDArray[np.float64]


def local(at: Place, yaw: float, offset: tuple[float, float, float]) -> Place:
    """Return a place near `at`, by an offset that is turned by `yaw`."""
    moved: Place = at + turned(yaw) @ np.array(offset)
    return moved


def plant(b: Builder, at: Place, height: float) -> float:
    """Add a plant in a pot: a crown of leafy balls, or single leaves."""
    pot = b.material(drawn_material(b.draw, height / 3, vivid=0.25))
    low, radius = height * 0.3, height * 0.16
    b.rod(at, at + [0, 0, low], radius, pot)
    green = b.material(
        drawn_material(b.draw, height / 2, (Texture.FOLIAGE, Texture.FOLIAGE, Texture.NOISE, Texture.PLAIN))
    )
    b.materials[green].colors = drawn_greens(b.draw)
    top = at + [0, 0, low]
    if b.draw.random() < 0.5:
        for _ in range(int(b.draw.integers(4, 9))):
            leaf = turned(b.draw.uniform(0, 6.3), b.draw.uniform(-1.2, -0.3))
            length = height * b.draw.uniform(0.25, 0.5)
            b.ball(
                top + leaf @ [length, 0, 0],
                (length, length * b.draw.uniform(0.1, 0.35), 0.004 + 0.01 * length),
                green,
                leaf,
            )
        return height
    for _ in range(int(b.draw.integers(2, 6))):
        where = top + b.draw.normal(0, 0.16, 3) * height + [0, 0, height * 0.35]
        b.ball(where, height * b.draw.uniform(0.12, 0.26, 3), green)
    return height


def vessel(b: Builder, at: Place, size: float) -> float:
    """Add a vase, bottle or cup: round pieces on top of each other."""
    clay = b.material(drawn_material(b.draw, size))
    radius, height = size * b.draw.uniform(0.2, 0.4), size * b.draw.uniform(0.5, 1.0)
    if b.draw.random() < 0.4:
        b.rod(at, at + [0, 0, height], radius, clay)
        if b.draw.random() < 0.5:
            for angle in np.linspace(-1.2, 1.2, 5):
                offset = [radius + 0.5 * radius * np.cos(angle), 0, height / 2 + 0.3 * height * np.sin(angle)]
                b.ball(at + offset, 0.13 * radius, clay)
        return height
    b.ball(at + [0, 0, height * 0.4], (radius, radius, height * 0.4), clay)
    b.rod(at + [0, 0, height * 0.6], at + [0, 0, height], radius * b.draw.uniform(0.25, 0.6), clay)
    if b.draw.random() < 0.5:
        b.ball(at + [0, 0, height], (radius * 0.7, radius * 0.7, height * 0.04), clay)
    return height


def body(b: Builder, at: Place, size: float) -> float:
    """Add a lumpy body, as of a toy animal or a root: balls that grow into each other, of one skin."""
    skin = b.material(drawn_material(b.draw, size))
    spine = turned(b.draw.uniform(0, 6.3))
    height = size * b.draw.uniform(0.35, 0.6)
    b.ball(at + [0, 0, height / 2], spine_half(b, size, height), skin, spine)
    for _ in range(int(b.draw.integers(2, 9))):
        where = (
            at
            + spine @ (b.draw.uniform(-0.45, 0.45, 3) * [size, 0.6 * size, 0])
            + [0, 0, height * b.draw.uniform(0.1, 1.0)]
        )
        half = size * b.draw.uniform(0.06, 0.22, 3)
        b.ball(where, half, skin, turned(*b.draw.uniform(0, 6.3, 3)))
    if b.draw.random() < 0.5:
        eyes = b.material(drawn_material(b.draw, size / 8, (Texture.PLAIN, Texture.SPOTS)))
        for side in (-1, 1):
            b.ball(at + spine @ [0.3 * size, side * 0.12 * size, 0] + [0, 0, height * 0.85], 0.05 * size, eyes)
    return height


def spine_half(b: Builder, size: float, height: float) -> Place:
    """Return the half axes of a body's trunk."""
    return np.array([size * b.draw.uniform(0.25, 0.5), size * b.draw.uniform(0.15, 0.35), height / 2])


def parcel(b: Builder, at: Place, size: float) -> float:
    """Add a box with a label or two, such as a packet of tea."""
    paper = b.material(drawn_material(b.draw, size, vivid=0.3))
    yaw, half = b.draw.uniform(0, 6.3), size * b.draw.uniform(0.12, 0.45, 3)
    b.box(at + [0, 0, half[2]], half, paper, yaw)
    for side in (1, -1):
        wide, high = half[0] * b.draw.uniform(0.4, 0.95), half[2] * b.draw.uniform(0.4, 0.95)
        label = b.material(drawn_print(b.draw, 2 * wide, 2 * high))
        center = local(at, yaw, (0, -side * (half[1] + 0.002 * size), half[2]))
        b.quad(center, turned(yaw) @ [side * wide, 0, 0], [0, 0, high], label)
    return float(2 * half[2])


def pile(b: Builder, at: Place, size: float) -> float:
    """Add things on top of each other: books, plates, bricks."""
    height, is_round = 0.0, b.draw.random() < 0.3
    for _ in range(int(b.draw.integers(2, 6))):
        cover = b.material(drawn_material(b.draw, size, vivid=0.3))
        half = size * np.array([b.draw.uniform(0.25, 0.45), b.draw.uniform(0.2, 0.35), b.draw.uniform(0.02, 0.1)])
        center = at + [*(b.draw.normal(0, 0.03, 2) * size), height + half[2]]
        if is_round:
            b.rod(center - [0, 0, half[2]], center + [0, 0, half[2]], half[0], cover)
        else:
            b.box(center, half, cover, b.draw.normal(0, 0.4))
        height += 2 * half[2]
    return height


def solid(b: Builder, at: Place, size: float) -> float:
    """Add one plain body: ball, egg, cube, cylinder or cone."""
    stuff = b.material(drawn_material(b.draw, size, vivid=0.25))
    kind, half = b.draw.integers(5), size / 2
    if kind == 0:
        b.ball(at + [0, 0, half], half, stuff, turned(*b.draw.uniform(0, 6.3, 3)))
    elif kind == 1:
        axes = half * b.draw.uniform(0.5, 1, 3)
        b.ball(at + [0, 0, axes[2]], axes, stuff, b.draw.uniform(0, 6.3))
    elif kind == 2:
        sides = half * b.draw.uniform(0.4, 1, 3)
        b.box(at + [0, 0, sides[2]], sides, stuff, b.draw.uniform(0, 6.3))
    else:
        b.rod(
            at, at + [0, 0, size * b.draw.uniform(0.5, 1)], half * b.draw.uniform(0.4, 0.9), stuff, cone=bool(kind == 4)
        )
    return size


def heap(b: Builder, at: Place, size: float) -> float:
    """Add fruit, pebbles or sweets: balls of a few materials that lie about."""
    stuffs = [b.material(drawn_material(b.draw, size / 4, vivid=0.4)) for _ in range(int(b.draw.integers(1, 4)))]
    for _ in range(int(b.draw.integers(3, 9))):
        half = size * b.draw.uniform(0.08, 0.2) * b.draw.uniform(0.75, 1, 3)
        place = [*(b.draw.normal(0, 0.25, 2) * size), half[2] * 0.95]
        b.ball(at + place, half, stuffs[int(b.draw.integers(len(stuffs)))], turned(*b.draw.uniform(0, 6.3, 3)))
    return size / 3


def sheet(b: Builder, at: Place, size: float) -> float:
    """Add crumpled paper, a cloth, a carved or beaten plate that lies or leans: one relief."""
    stuff = b.material(drawn_material(b.draw, size))
    heights = [crumpled, rolling, folds, stairs, dome][int(b.draw.integers(5))](b.draw)
    tilt = b.draw.uniform(0, 1.2) if b.draw.random() < 0.5 else 0.0
    high = size * b.draw.uniform(0.04, 0.16)
    center = at + [0, 0, high + 0.5 * size * np.sin(tilt)]
    b.relief(
        center,
        (size / 2, size / 2 * b.draw.uniform(0.6, 1), high),
        heights,
        stuff,
        turned(0, 0, tilt) @ turned(b.draw.normal(0, 0.4)),
    )
    return size * 0.5


def spheres_on_a_stick(b: Builder, at: Place, size: float) -> float:
    """Add a lamp's stand, a trophy or a flower: a thin rod with bodies on it."""
    rod = b.material(drawn_material(b.draw, size, (Texture.PLAIN, Texture.WOOD, Texture.STRIPES)))
    head = b.material(drawn_material(b.draw, size / 2, vivid=0.4))
    b.rod(at, at + [0, 0, 0.05 * size], 0.18 * size, rod)
    b.rod(at, at + [0, 0, 0.8 * size], 0.03 * size, rod)
    if b.draw.random() < 0.5:
        b.rod(at + [0, 0, 0.6 * size], at + [0, 0, size * 1.1], 0.25 * size, head, cone=True)
    else:
        b.ball(at + [0, 0, 0.85 * size], size * b.draw.uniform(0.1, 0.25, 3), head)
    return size


def cushion(b: Builder, at: Place, size: float) -> float:
    """Add a cushion that lies or leans."""
    cover = b.material(drawn_material(b.draw, 2 * size, vivid=0.3))
    rotation = turned(b.draw.uniform(0, 6.3), b.draw.uniform(-0.2, 0.2), b.draw.uniform(-0.9, 0.2))
    high = size * b.draw.uniform(0.25, 0.45)
    b.relief(
        at + [0, 0, 0.3 * high],
        (size, size * b.draw.uniform(0.7, 1), high),
        pillow() + 0.04 * rolling(b.draw),
        cover,
        rotation,
    )
    return high


_THINGS: tuple[Callable[[Builder, Place, float], float], ...] = (
    vessel, body, parcel, pile, solid, heap, sheet, spheres_on_a_stick, plant, cushion,
)  # fmt: skip


def thing(b: Builder, at: Place, size: float) -> float:
    """Add any small thing of about `size`."""
    return _THINGS[int(b.draw.integers(len(_THINGS)))](b, at, size)
