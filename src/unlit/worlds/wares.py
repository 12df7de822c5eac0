"""Things without limbs that fill a picture: fruit, pots and cups, boxes and toys, paper, rocks.

Each function models one thing with a sculptor; coordinates are as said there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unlit.worlds.builder import GRID, crumpled, folds, pillow, rolling, stairs, turned
from unlit.worlds.paint import matt
from unlit.worlds.palette import drawn_print
from unlit.worlds.sculptor import Sculptor

Array = NDArray[np.float64]
_ACROSS = np.broadcast_to(np.linspace(-1, 1, GRID), (GRID, GRID))
_ARC: Array = (np.sqrt(2 - _ACROSS**2) - 1) / (np.sqrt(2) - 1)
"""Heights of a quarter of a round wall: an arc over its chord, 0 at its sides and 1 in the middle."""
_FACING = turned(np.pi / 2) @ turned(0, 0, np.pi / 2)
"""Leads a relief's x to y, its y to z, and its heights along x: upright, looking to the front."""


def fruit(s: Sculptor) -> None:
    """Model an apple, a pear, a pumpkin, a pepper: lobes about an axis, a stem in the dimple."""
    draw = s.draw
    lobes, wide, high = int(draw.integers(5, 12)), draw.uniform(0.22, 0.4), draw.uniform(0.25, 0.45)
    inner = wide * draw.uniform(0.25, 0.5)
    for angle in np.arange(lobes) * 2 * np.pi / lobes + draw.uniform(0, 6):
        away = np.array([np.cos(angle), np.sin(angle), 0])
        half = (wide * draw.uniform(0.95, 1.05), wide * draw.uniform(0.8, 1.0), high)
        s.ball(away * inner + [0, 0, high], half, "body", turned(angle, draw.normal(0, 0.04)))
    top = 1.55 * high
    if draw.random() < 0.35:
        s.ball((0, 0, 1.7 * high), (wide * 0.7, wide * 0.7, high * 0.9), "body")
        top = 2.4 * high
    if draw.random() < 0.7:
        end = [draw.normal(0, 0.08), draw.normal(0, 0.08), top + draw.uniform(0.2, 0.35)]
        s.tube(((0, 0, top - 0.1), (0, 0, top + 0.1), end), 0.025, "stem", 4, 0.3)
        if draw.random() < 0.5:
            s.ball((0.12, 0.05, top + 0.1), (0.16, 0.07, 0.012), "leaf", turned(draw.uniform(0, 6), 0.3))


def pot(s: Sculptor) -> None:
    """Model a jug, a teapot, a bottle or a vase: round pieces on one axis, with handle, spout and lid."""
    draw = s.draw
    wide, high = draw.uniform(0.2, 0.38), draw.uniform(0.25, 0.5)
    s.ball((0, 0, high), (wide, wide, high), "body")
    if draw.random() < 0.6:
        s.ball((0, 0, 0.7 * high), (1.1 * wide, 1.1 * wide, 0.6 * high), "body")
    s.rod((0, 0, 0), (0, 0, 0.3 * high), wide * draw.uniform(0.5, 0.8), "foot")
    neck = wide * draw.uniform(0.2, 0.7)
    top = high * draw.uniform(1.9, 2.5)
    s.rod((0, 0, high), (0, 0, top), neck, "neck")
    s.ball((0, 0, top), (neck * draw.uniform(1.1, 1.6), neck * draw.uniform(1.1, 1.6), 0.035), "rim")
    if draw.random() < 0.5:
        s.ball((0, 0, top + 0.05), (0.8 * neck, 0.8 * neck, 0.06), "lid")
        s.ball((0, 0, top + 0.13), 0.045, "detail")
    if draw.random() < 0.7:
        _handle(s, wide * 0.9, (0.5 * high, min(top, 1.6 * high)))
    if draw.random() < 0.4:
        s.tube(((wide * 0.7, 0, 0.8 * high), (wide * 1.4, 0, 0.8 * high), (wide * 1.6, 0, 1.7 * high)),
               draw.uniform(0.035, 0.06), "spout", 6, 0.4)  # fmt: skip
    for k in range(int(draw.integers(0, 3))):
        z = high * (0.6 + 0.4 * k)
        s.rod((0, 0, z - 0.012), (0, 0, z + 0.012), wide * 1.12, "ring")


def _handle(s: Sculptor, away: float, heights: tuple[float, float]) -> None:
    """Add a handle at the side of smaller x."""
    low, high = heights
    out, thick = away + s.draw.uniform(0.1, 0.3), s.draw.uniform(0.02, 0.045)
    middle = (low + high) / 2
    s.tube(((-away * 0.8, 0, high), (-out, 0, high), (-out, 0, middle)), thick, "handle", 5)
    s.tube(((-out, 0, middle), (-out, 0, low), (-away * 0.8, 0, low)), thick, "handle", 5)


def cup(s: Sculptor) -> None:
    """Model a cup, a bucket or a tin that is open above, so that one side throws its shadow into it."""
    draw = s.draw
    wide, high = draw.uniform(0.2, 0.36), draw.uniform(0.2, 0.45)
    wall = s.paint.of("body")
    # A quarter of a circle of this radius: its chord, how far the chord lies out, and the arc over it.
    half, bulge = wide / np.sqrt(2), wide * (1 - 1 / np.sqrt(2))
    for quarter in range(4):
        turn = turned(quarter * np.pi / 2 + 0.3)
        s.relief(turn @ [half, 0, high], (half, high, bulge), _ARC, wall, turn @ _FACING)
    s.rod((0, 0, 0), (0, 0, 0.05), wide * 0.99, "body")
    if draw.random() < 0.5:
        s.rod((0, 0, 0.05), (0, 0, high * draw.uniform(0.8, 1.7)), wide * 0.97, "filling")
    if draw.random() < 0.6:
        _handle(s, wide, (0.5 * high, 1.5 * high))
    for _ in range(int(draw.integers(0, 6))):
        angle, z = draw.uniform(-2, 2), draw.uniform(0.3, 1.7) * high
        s.ball((wide * np.cos(angle), wide * np.sin(angle), z), (0.02, 0.08, 0.08), "detail", turned(angle))


def case(s: Sculptor) -> None:
    """Model a box with prints on its sides; closed, or open above with thin walls."""
    draw = s.draw
    half = draw.uniform(0.14, 0.42, 3)
    if draw.random() < 0.5:
        thin = draw.uniform(0.01, 0.03)
        for axis, side in ((0, -1), (0, 1), (1, -1), (1, 1), (2, -1)):
            center, sides = np.array([0, 0, half[2]]), half.copy()
            center[axis] += side * (half[axis] - thin)
            sides[axis] = thin
            s.box(center, sides, "body" if axis < 2 else "foot")
    else:
        s.box((0, 0, half[2]), half, "body")
    for angle, (out, wide) in zip((0, np.pi / 2, np.pi, 1.5 * np.pi), [half[:2], half[1::-1]] * 2, strict=True):
        _side(s, turned(angle), float(out), (float(wide), float(half[2])))


def _side(s: Sculptor, turn: Array, out: float, half: tuple[float, float]) -> None:
    """Put a label, a relief or nothing on one side of a box."""
    draw, kind = s.draw, s.draw.random()
    wide, high = half[0] * draw.uniform(0.5, 0.97), half[1] * draw.uniform(0.5, 0.97)
    if kind < 0.5:
        label = s.b.material(matt(drawn_print(draw, 2 * wide * s.size, 2 * high * s.size), draw))
        s.quad(turn @ [out + 0.003, 0, half[1]], turn @ [0, wide, 0], (0, 0, high), label)
    elif kind < 0.75:
        for _ in range(int(draw.integers(1, 5))):
            y, z = draw.uniform(-0.6, 0.6) * half[0], half[1] * draw.uniform(0.4, 1.6)
            s.ball(turn @ [out, y, z], draw.uniform(0.03, 0.3, 3) * min(half), "detail", turn)


def toy(s: Sculptor) -> None:
    """Model a car, a telephone, a house: blocks and rounds put together in order."""
    draw = s.draw
    length, wide, low = draw.uniform(0.3, 0.48), draw.uniform(0.12, 0.25), draw.uniform(0.1, 0.2)
    s.box((0, 0, 0.08 + low), (length, wide, low), "body")
    back, cabin = draw.uniform(-0.1, 0.1), draw.uniform(0.4, 0.7) * length
    top = 0.08 + 2 * low
    if draw.random() < 0.5:
        s.box((back, 0, top + 0.1), (cabin, wide * 0.9, 0.1), "head")
    else:
        s.rod((back, -wide, top), (back, wide, top), cabin * 0.6, "head")
    for x in (-0.6, 0.6) if draw.random() < 0.7 else ():
        for y in (-1.0, 1.0):
            s.rod((x * length, y * wide * 0.9, 0.12), (x * length, y * wide * 1.2, 0.12), 0.12, "limbs")
    for _ in range(int(draw.integers(2, 9))):
        where = [draw.uniform(-1, 1) * length, draw.choice([-1, 1]) * wide, 0.08 + low * draw.uniform(0.6, 1.8)]
        s.ball(where, draw.uniform(0.02, 0.07, 3), "detail")
    if draw.random() < 0.5:
        s.tube(((-0.3, 0, top + 0.2), (0, 0, top + 0.45), (0.3, 0, top + 0.2)), 0.06, "handle", 6)
        for x in (-0.3, 0.3):
            s.ball((x, 0, top + 0.18), (0.1, 0.1, 0.08), "hands")


def paper(s: Sculptor) -> None:
    """Model a crumpled or folded sheet, a sachet, a carved tile: one or two reliefs that face the viewer."""
    draw = s.draw
    wide, high = draw.uniform(0.3, 0.5), draw.uniform(0.3, 0.5)
    stuff = s.b.material(matt(drawn_print(draw, 2 * wide * s.size, 2 * high * s.size), draw))
    stuff = stuff if draw.random() < 0.5 else s.paint.of("body")
    kind = int(draw.integers(5))
    if kind == 4:
        heights, deep = np.clip(pillow() + 0.12 * crumpled(draw) + 0.06 * rolling(draw, 1.4) - 0.3, -1, 1), 0.12
    else:
        heights, deep = (crumpled, crumpled, folds, stairs)[kind](draw), draw.uniform(0.08, 0.25)
    tilt = turned(draw.normal(0, 0.3), draw.normal(-0.3, 0.3)) @ turned(0, 0, draw.normal(0, 0.25))
    s.relief((0, 0, high), (wide, high, deep), heights, stuff, tilt @ _FACING)
    if draw.random() < 0.3:
        behind = tilt @ turned(0.5) @ _FACING
        s.relief((-0.1, 0.1, high), (wide, high, deep), crumpled(draw), s.paint.of("back"), behind)


def rock(s: Sculptor) -> None:
    """Model a stone, a nut or a clod: round lumps and blocks that grow into each other, with sharp and blunt edges."""
    draw = s.draw
    half, edgy = draw.uniform(0.2, 0.42, 3), draw.random()
    for _ in range(int(draw.integers(6, 15))):
        center, turn = draw.normal(0, 0.28, 3) * half + [0, 0, 0.45], turned(*draw.uniform(0, 6.3, 3))
        if draw.random() < edgy:
            s.box(center, 0.62 * half * draw.uniform(0.6, 1.1, 3), "body", turn)
        else:
            s.ball(center, half * draw.uniform(0.5, 0.9, 3), "body", turn)
