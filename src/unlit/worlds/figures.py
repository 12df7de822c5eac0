"""Figures: one painted thing that fills the picture, mostly before nothing, under one small lamp at a time.

As statuettes, toys, cups, paper, boxes and fruit are photographed on a turntable or in a light stage: matt, with
shadows that nothing fills but the thing's own bounces.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from unlit.worlds.builder import Builder, turned, unit
from unlit.worlds.creatures import beast, growth, person
from unlit.worlds.description import Camera
from unlit.worlds.light import Lighting, drawn_to_sun
from unlit.worlds.materials import Texture
from unlit.worlds.paint import drawn_paint, matt
from unlit.worlds.palette import drawn_color, drawn_material
from unlit.worlds.sculptor import Sculptor
from unlit.worlds.wares import case, cup, fruit, paper, pot, rock, toy

Array = NDArray[np.float64]

_KINDS: dict[Callable[[Sculptor], None], float] = {
    beast: 0.24, person: 0.17, growth: 0.06, fruit: 0.09, pot: 0.09, cup: 0.08, case: 0.09, toy: 0.06, paper: 0.08,
    rock: 0.04,
}  # fmt: skip
"""What is shown, and how often."""
_ASPECT = 1.5
"""Width over height of the pictures that things are framed for."""


def figure(draw: Generator) -> tuple[Builder, Lighting, Camera]:
    """Return one thing, now and then two or three close together, that fills the view."""
    b = Builder(draw)
    count = 1 if draw.random() < 0.88 else int(draw.integers(2, 4))
    for k in range(count):
        _thing(b, np.array([0.0, 0.75 * k - 0.375 * (count - 1), 0.0]), alone=count == 1)
    stands = draw.random() < 0.22
    camera, focus, reach = _framed(draw, b, 0.12 if stands else -0.15)
    if stands:
        _ground(b)
    lighting = Lighting(draw, focus)
    _light(lighting, camera, reach, 0.3 if stands else -1.0)
    return b, lighting, camera


def _thing(b: Builder, place: Array, *, alone: bool) -> None:
    """Add a thing of any kind, in a paint, turned to any side but mostly towards the camera, upright or lying."""
    draw = b.draw
    kinds, shares = list(_KINDS), np.array(list(_KINDS.values()))
    kind = kinds[int(draw.choice(len(kinds), p=shares / shares.sum()))]
    yaw = draw.normal(0, 0.5) if kind in (paper, rock) else draw.uniform(0, 2 * np.pi)
    turn = turned(yaw)
    if draw.random() < 0.1:
        turn = turned(*draw.uniform(0, 6.3, 3))
    size = 1.0 if alone else draw.uniform(0.6, 1.0)
    # The camera looks from the side of smaller y: that is a thing's front.
    kind(Sculptor(b, drawn_paint(b, size), turned(-np.pi / 2) @ turn, size, turned(-np.pi / 2) @ place))


def _framed(draw: Generator, b: Builder, lowest: float) -> tuple[Camera, Array, float]:
    """Return a camera whose picture the shapes fill, their middle, and how far they reach from it."""
    points = b.outline()
    middle = (points.min(0) + points.max(0)) / 2
    reach = float(np.linalg.norm(points - middle, axis=1).max())
    view, fill = np.exp(draw.uniform(np.log(np.radians(8)), np.log(np.radians(45)))), draw.uniform(0.75, 1.1)
    azimuth, height = draw.normal(-np.pi / 2, 0.3), draw.uniform(lowest, 0.9)
    away = np.array([np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height), np.sin(height)])
    side = unit(np.cross([0, 0, 1.0], away))
    up = np.cross(away, side)
    distance, target = 2 * reach / np.tan(view / 2), middle
    # A nearer camera sees a thing larger, and its near parts larger still: so it is corrected several times.
    for _ in range(4):
        seen = points - target
        depth = distance - seen @ away
        x, y = seen @ side / depth, seen @ up / depth
        target = target + distance * ((x.max() + x.min()) / 2 * side + (y.max() + y.min()) / 2 * up)
        spread = max(np.ptp(y), np.ptp(x) / _ASPECT) / 2
        distance = max(distance * spread / (fill * np.tan(view / 2)), 1.15 * reach)
    x, y, z = (target + distance * away).tolist()
    to_x, to_y, to_z = (target + draw.normal(0, 0.03, 3) * reach).tolist()
    return Camera((x, y, z), (to_x, to_y, to_z), float(view)), middle, reach


def _ground(b: Builder) -> None:
    """Add what the things stand on: a plain cloth or board, more often dark than light."""
    draw = b.draw
    level = draw.uniform(0.02, 0.06) if draw.random() < 0.6 else draw.uniform(0.1, 0.8)
    stuff = b.material(matt(drawn_material(draw, 2.0, (Texture.PLAIN,), drawn_color(draw, level)), draw, 0.0))
    low = float(b.outline()[:, 2].min())
    b.quad((0, 0, low), (6, 0, 0), (0, 6, 0), stuff)
    if draw.random() < 0.6:
        b.quad((0, draw.uniform(1.2, 4.0), 0), (6, 0, 0), (0, 0, 6), stuff)


def _light(lighting: Lighting, camera: Camera, reach: float, lowest: float) -> None:
    """Add small lamps and spots from all sides that the camera sees lit, few from behind; a panel or the sky at times.

    Angles are from the camera's direction: most lamps stand within 55 degrees of it, at any clock hand, as on a stage.
    """
    draw = lighting.draw
    away = unit(np.array(camera.position) - lighting.focus)
    side = unit(np.cross([0, 0, 1.0], away))
    up = np.cross(away, side)
    for _ in range(9):
        off = draw.uniform(0.1, 0.95) if draw.random() < 0.88 else draw.uniform(0.95, 1.9)
        hand = draw.uniform(-0.6, np.pi + 0.6) if draw.random() < 0.85 else draw.uniform(0, 2 * np.pi)
        towards = np.cos(off) * away + np.sin(off) * (np.cos(hand) * side + np.sin(hand) * up)
        towards = unit([*towards[:2], max(towards[2], lowest)])
        _lamp(lighting, towards, reach * float(np.exp(draw.uniform(np.log(3.5), np.log(12)))))
    if draw.random() < 0.25:
        lighting.flash(camera.position)
    if draw.random() < 0.2:
        lighting.open_sky(drawn_to_sun(draw), None)


def _lamp(lighting: Lighting, towards: Array, distance: float) -> None:
    """Add one light in a direction: mostly a hard one."""
    draw, kind = lighting.draw, lighting.draw.random()
    position = lighting.focus + distance * towards
    small = distance * float(np.exp(draw.uniform(np.log(0.004), np.log(0.03))))
    if kind < 0.72:
        lighting.lamp(position, small)
    elif kind < 0.88:
        lighting.spot(position, lighting.focus + draw.normal(0, 0.1, 3), small, draw.uniform(0.35, 0.9))
    else:
        side = unit(np.cross(towards, [0.1, 0, 1.0]))
        half = distance * draw.uniform(0.06, 0.3)
        lighting.panel(position, side * half, np.cross(-towards, side) * half * draw.uniform(0.4, 1))
