"""What stands out of the camera's sight between the sun and what is seen: only its shadow comes into the picture.

A house behind the camera, a hill, a wall, a fence, a crown of leaves, a post. Each is made for one sun: a place in view
is chosen, and from there towards the sun the caster stands, with its border through that line. Other suns may pass it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from unlit.worlds.builder import Builder, frame_along, turned, unit
from unlit.worlds.description import Camera
from unlit.worlds.light import Lighting
from unlit.worlds.materials import Texture
from unlit.worlds.palette import drawn_material

Array = NDArray[np.float64]
Caster = Callable[[Builder, Array, Array, float], None]
"""Adds shapes by the place on the line to the sun, the way to the sun, and half the width of what is seen."""
_ASPECT, _MARGIN = 1.6, 1.12
"""Pictures are no wider than this, and a caster keeps away from the border by this factor."""
_TRIES = 20
_MOST = 30
"""Shapes that casters of one scene may have: more would make every ray slower."""


def add_casters(b: Builder, lighting: Lighting, camera: Camera) -> None:
    """Add casters for two or more of the suns."""
    draw = b.draw
    suns = lighting.to_suns()
    most = len(b) + _MOST
    for k in draw.permutation(len(suns))[: int(draw.integers(2, 6))]:
        for _ in range(_TRIES):
            if _tried(b, suns[int(k)], camera, most):
                break


def _tried(b: Builder, to_sun: Array, camera: Camera, most: int) -> bool:
    """Add a caster for a sun, if one by chance is out of sight and shapes stay within `most`; whether it is added."""
    draw = b.draw
    ground, wide = _in_view(b, camera)
    distance = wide * float(np.exp(draw.uniform(np.log(1.0), np.log(12))))
    apart = Builder(draw)
    stuff = (Texture.PLAIN, Texture.BRICK, Texture.NOISE)
    apart.material(drawn_material(draw, 3.0, stuff, vivid=0.05))
    kinds: tuple[Caster, ...] = (_house, _house, _hill, _crown, _crown, _fence, _wall, _wall, _wall, _post)
    kinds[int(draw.integers(len(kinds)))](apart, ground + distance * to_sun, to_sun, wide)
    if len(b) + len(apart) > most or not _is_hidden(apart, camera):
        return False
    b.join(apart)
    return True


def _in_view(b: Builder, camera: Camera) -> tuple[Array, float]:
    """Return a place about the ground in the middle of the picture, and half the width of what is seen there."""
    draw = b.draw
    position, target = np.array(camera.position), np.array(camera.target)
    ahead = target - position
    side = unit(np.cross(ahead, [0, 0, 1.0]))
    reach = float(np.linalg.norm(ahead)) * np.tan(camera.view / 2)
    to = target + side * draw.uniform(-0.7, 0.7) * reach - [0, 0, draw.uniform(0.1, 0.7) * reach]
    way = to - position
    share = min(2.5, position[2] / max(-way[2], 1e-3)) if way[2] < 0 else 1.0
    place: Array = position + share * way
    return place * [1, 1, 0] + [0, 0, max(0.0, place[2])], max(share, 0.5) * reach * 1.5


def _is_hidden(apart: Builder, camera: Camera) -> bool:
    """Whether no shape comes into view, and none holds the camera or stands right before or over it."""
    position = np.array(camera.position)
    ahead = unit(np.array(camera.target) - position)
    side = unit(np.cross(ahead, [0, 0, 1.0]))
    up = np.cross(side, ahead)
    seen = apart.filled() - position
    depth, half = seen @ ahead, np.tan(camera.view / 2) * _MARGIN
    within = (np.abs(seen @ up) < half * depth + 0.3) & (np.abs(seen @ side) < _ASPECT * half * depth + 0.3)
    points = seen.reshape(len(apart), -1, 3)
    holds = (points.min(1) < 1.0).all(1) & (points.max(1) > -1.0).all(1)
    return not bool((within & (depth > -0.3)).any() or holds.any())


def _house(b: Builder, at: Array, to_sun: Array, wide: float) -> None:
    """A house down to the ground, whose roof's edge is on the line; a chimney on it at times."""
    draw = b.draw
    half, yaw = wide * draw.uniform(0.4, 1.6, 2), np.arctan2(to_sun[1], to_sun[0]) + draw.normal(np.pi / 2, 0.5)
    across = np.array([np.cos(yaw), np.sin(yaw), 0]) * draw.uniform(-1, 1) * half[0]
    away = unit(to_sun * [1, 1, 0]) * half[1]
    tall = at[2] / 2 + 0.5
    b.box(at - [0, 0, tall] + across + away, (*half, tall), 0, yaw)
    if draw.random() < 0.4:
        size = 0.08 * wide
        b.box(at + [0, 0, 2 * size] + across * 0.6 + away, (size, size, 2 * size), 0, yaw)


def _wall(b: Builder, at: Array, to_sun: Array, wide: float) -> None:
    """A wall, a roof's edge or a bridge, across the light: straight borders, mostly along or across the horizon."""
    draw = b.draw
    half = wide * np.array([draw.uniform(0.6, 2.2), draw.uniform(0.5, 1.8), 0.02])
    roll = draw.choice([0.0, np.pi / 2]) + draw.normal(0, 0.25)
    rotation = frame_along(to_sun) @ turned(roll)
    b.box(at - rotation @ (half * [draw.uniform(-0.7, 0.7), draw.choice([-1, 1]), 0]), half, 0, rotation)


def _hill(b: Builder, at: Array, to_sun: Array, wide: float) -> None:
    """A hill or a mountain: its round top is on the line."""
    half = wide * b.draw.uniform(0.7, 2.5, 2) + 0.5 * at[2]
    away = unit(to_sun * [1, 1, 0]) * half.max()
    b.ball([at[0] + away[0], at[1] + away[1], 0.0], (*half, max(at[2], 1.0) * 1.15), 0)


def _crown(b: Builder, at: Array, to_sun: Array, wide: float) -> None:
    """A crown of leaves with gaps, and some boughs."""
    draw = b.draw
    size = wide * draw.uniform(0.3, 0.9)
    for _ in range(int(draw.integers(7, 14))):
        b.ball(at + draw.normal(0, 0.5, 3) * size, size * draw.uniform(0.12, 0.5, 3), 0)
    for _ in range(2):
        b.rod(at - [0, 0, size], at + draw.normal(0, 0.8, 3) * size, 0.04 * size, 0)


def _fence(b: Builder, at: Array, to_sun: Array, wide: float) -> None:
    """Pickets or bars in a row, and a rail."""
    draw = b.draw
    along = unit(np.cross(to_sun, [0, 0, 1.0]) + draw.normal(0, 0.2, 3) * [1, 1, 0])
    count, high = int(draw.integers(6, 14)), wide * draw.uniform(0.3, 1)
    gap = wide * draw.uniform(0.08, 0.25)
    thick = gap * draw.uniform(0.08, 0.4)
    for k in range(count):
        foot = at + along * gap * (k - count / 2) - [0, 0, high]
        b.rod(foot, foot + [0, 0, 2 * high], thick, 0)
    b.rod(at - along * gap * count / 2, at + along * gap * count / 2, thick, 0)


def _post(b: Builder, at: Array, to_sun: Array, wide: float) -> None:
    """Posts with lamps or signs, and wires between them."""
    draw = b.draw
    along = unit(np.cross(to_sun, [0, 0, 1.0]))
    for k in range(int(draw.integers(1, 4))):
        top = at + along * wide * draw.uniform(0.2, 0.6) * k
        b.rod(top * [1, 1, 0], top, wide * draw.uniform(0.01, 0.04), 0)
        b.ball(top, wide * draw.uniform(0.03, 0.12, 3), 0)
        if k:
            b.rod(at, top, 0.006 * wide, 0)
