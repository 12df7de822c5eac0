"""What goes and stands in streets and squares: people who pass, cars, railings. Lengths are meters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unlit.worlds.builder import Builder, turned
from unlit.worlds.materials import Texture
from unlit.worlds.palette import drawn_color, drawn_material

Array = NDArray[np.float64]


def passer(b: Builder, at: Array) -> None:
    """Add somebody, as small as they are seen: legs, a body and a head."""
    draw = b.draw
    trousers, coat, skin = (
        b.material(drawn_material(draw, 0.5, (Texture.PLAIN,), drawn_color(draw, level, vivid)))
        for level, vivid in ((draw.uniform(0.03, 0.3), 0.1), (None, 0.4), (draw.uniform(0.08, 0.5), 0.0))
    )
    step = turned(draw.uniform(0, 6.3)) @ [draw.uniform(0.05, 0.25), 0, 0]
    for side in (-1, 1):
        b.rod(at + side * step, at + [0, 0, 0.85], 0.1, trousers)
    b.ball(at + [0, 0, 1.15], (0.25, 0.2, 0.38), coat)
    b.ball(at + [0, 0, 1.62], 0.13, skin)


def car(b: Builder, at: Array, yaw: float = 0.0) -> None:
    """Add a car or a van, along y unless it is turned: body, cabin with dark glass, wheels."""
    draw = b.draw
    paint = drawn_material(draw, 2.0, (Texture.PLAIN, Texture.PLAIN, Texture.RUST, Texture.STRIPES), vivid=0.5)
    body = b.material(paint)
    dark, darker = (
        b.material(drawn_material(draw, 0.5, (Texture.PLAIN,), drawn_color(draw, level, 0.0))) for level in (0.06, 0.04)
    )
    turn, high = turned(yaw), draw.uniform(0.25, 0.6)
    b.box(at + [0, 0, 0.75], (0.8, 1.9, 0.4), body, yaw)
    b.box(at + [0, 0, 1.15 + high], (0.7, 1.1, high), dark, yaw)
    b.box(at + [0, 0, 1.15 + 2 * high], (0.72, 0.95, 0.05), body, yaw)
    for y in (-1.2, 1.2):
        b.rod(at + turn @ [-0.85, y, 0.32], at + turn @ [0.85, y, 0.32], 0.32, darker)


def cars(b: Builder, start: Array, end: Array) -> None:
    """Add cars that are parked one before another, from one place on the ground to another; some places are free."""
    along = end - start
    count = int(np.linalg.norm(along) / b.draw.uniform(4.6, 6))
    for k in range(count):
        if b.draw.random() < 0.8:
            car(b, start + (k + 0.5) / count * along, float(np.arctan2(-along[0], along[1])))


def railing(b: Builder, start: Array, end: Array) -> None:
    """Add a railing or a fence from one place on the ground to another: posts, and one rail or two."""
    draw = b.draw
    stuff = b.material(drawn_material(draw, 0.5, (Texture.PLAIN, Texture.PLAIN, Texture.WOOD, Texture.RUST)))
    high, thick, count = draw.uniform(0.6, 1.4), draw.uniform(0.02, 0.06), int(draw.integers(5, 16))
    for k in range(count):
        foot = start + (end - start) * k / (count - 1)
        b.rod(foot, foot + [0, 0, high], thick, stuff)
    for share in (1.0, 0.5)[: int(draw.integers(1, 3))]:
        b.rod(start + [0, 0, share * high], end + [0, 0, share * high], thick, stuff)
