"""Furniture: tables, chairs, shelves, sofas, pictures and curtains, each made of a few shapes.

Each function adds one piece to a builder, at a place on the floor or on a wall; those that stand return their height.
"""

from __future__ import annotations

import numpy as np

from unlit.worlds.builder import Builder, folds
from unlit.worlds.materials import Texture
from unlit.worlds.palette import drawn_color, drawn_material, drawn_print
from unlit.worlds.things import Place, cushion, local, thing


def table(b: Builder, at: Place, yaw: float, half: tuple[float, float], height: float) -> float:
    """Add a table with a top of half sides `half`."""
    wood = b.material(drawn_material(b.draw, 2 * max(half)))
    legs = wood if b.draw.random() < 0.6 else b.material(drawn_material(b.draw, height, (Texture.PLAIN, Texture.WOOD)))
    thick = b.draw.uniform(0.012, 0.04)
    if b.draw.random() < 0.3:
        b.rod(local(at, yaw, (0, 0, height - 2 * thick)), local(at, yaw, (0, 0, height)), max(half), wood)
        b.rod(at, local(at, yaw, (0, 0, height - 2 * thick)), 0.1 * max(half), legs)
        return height
    b.box(local(at, yaw, (0, 0, height - thick)), (*half, thick), wood, yaw)
    width = b.draw.uniform(0.015, 0.05)
    for x in (-1, 1):
        for y in (-1, 1):
            foot = (x * (half[0] - 2 * width), y * (half[1] - 2 * width), (height - 2 * thick) / 2)
            b.box(local(at, yaw, foot), (width, width, (height - 2 * thick) / 2), legs, yaw)
    return height


def chair(b: Builder, at: Place, yaw: float) -> float:
    """Add a chair that looks along y."""
    frame = b.material(drawn_material(b.draw, 0.5, (Texture.PLAIN, Texture.WOOD, Texture.PLAIN, Texture.NOISE)))
    cloth = frame if b.draw.random() < 0.5 else b.material(drawn_material(b.draw, 0.5))
    seat, side = b.draw.uniform(0.4, 0.5), b.draw.uniform(0.18, 0.26)
    b.box(local(at, yaw, (0, 0, seat)), (side, side, 0.025), cloth, yaw)
    top = b.draw.uniform(0.3, 0.55)
    b.box(local(at, yaw, (0, -side, seat + top / 2 + 0.05)), (side, 0.018, top / 2), cloth, yaw)
    for x in (-1, 1):
        for y in (-1, 1):
            foot = local(at, yaw, (x * side * 0.9, y * side * 0.9, 0))
            b.rod(foot, foot + [0, 0, seat], 0.018, frame)
    return seat + top


def shelf(b: Builder, at: Place, yaw: float, width: float, height: float, depth: float = 0.28) -> float:
    """Add a shelf with its back along x, filled with books and things."""
    wood = b.material(drawn_material(b.draw, height, (Texture.PLAIN, Texture.WOOD, Texture.PLAIN)))
    boards = int(b.draw.integers(2, 5))
    for x in (-1, 1):
        b.box(local(at, yaw, (x * width / 2, 0, height / 2)), (0.015, depth / 2, height / 2), wood, yaw)
    for k in range(boards + 1):
        level = 0.03 + k * (height - 0.06) / boards
        b.box(local(at, yaw, (0, 0, level)), (width / 2, depth / 2, 0.012), wood, yaw)
        if k < boards:
            _row(b, local(at, yaw, (0, 0, level + 0.012)), yaw, width * 0.94, (height - 0.06) / boards * 0.9, depth)
    return height


def _row(b: Builder, at: Place, yaw: float, width: float, height: float, depth: float) -> None:
    """Fill a board: books as a few blocks with striped backs, or a thing."""
    left = -width / 2
    while left < width / 2 - 0.08:
        block = min(float(b.draw.uniform(0.06, 0.4)), width / 2 - left)
        tall = height * b.draw.uniform(0.5, 0.95)
        if b.draw.random() < 0.25:
            thing(b, local(at, yaw, (left + block / 2, 0, 0)), min(block, tall, depth) * 0.8)
        elif b.draw.random() < 0.75:
            spines = b.material(
                drawn_material(
                    b.draw, block, (Texture.STRIPES, Texture.BLOCKS, Texture.TEXT, Texture.PLAIN), vivid=0.35
                )
            )
            b.box(
                local(at, yaw, (left + block / 2, 0, tall / 2)), (block / 2 * 0.95, depth * 0.4, tall / 2), spines, yaw
            )
        left += block


def sofa(b: Builder, at: Place, yaw: float) -> float:
    """Add a sofa or bed: low boxes with cushions."""
    cloth = b.material(drawn_material(b.draw, 1.0))
    width, depth, seat = b.draw.uniform(0.6, 1.2), b.draw.uniform(0.4, 0.9), b.draw.uniform(0.3, 0.45)
    b.box(local(at, yaw, (0, 0, seat / 2)), (width, depth, seat / 2), cloth, yaw)
    b.box(local(at, yaw, (0, -depth, seat + 0.15)), (width, 0.09, 0.3), cloth, yaw)
    if b.draw.random() < 0.6:
        for side in (-1, 1):
            b.box(local(at, yaw, (side * width, 0, seat * 0.7)), (0.08, depth, seat * 0.7), cloth, yaw)
    for _ in range(int(b.draw.integers(1, 4))):
        x, y = b.draw.uniform(-0.8, 0.8) * width, b.draw.uniform(-0.6, 0.3) * depth
        cushion(b, local(at, yaw, (x, y, seat)), b.draw.uniform(0.18, 0.3))
    return seat + 0.45


def picture(b: Builder, center: Place, right: Place, half: tuple[float, float]) -> None:
    """Add a framed picture on a wall; `right` runs along the wall, and the wall's front is at right × up's side."""
    front = np.cross(right, [0, 0, 1.0])
    frame = b.material(drawn_material(b.draw, 0.3, (Texture.PLAIN, Texture.WOOD)))
    rotation = np.stack([right, -front, [0, 0, 1.0]], 1)
    b.box(center, (half[0] + 0.04, 0.015, half[1] + 0.04), frame, rotation)
    b.quad(
        center + 0.018 * front,
        right * half[0],
        np.array([0, 0, half[1]]),
        b.material(drawn_print(b.draw, 2 * half[0], 2 * half[1])),
    )


def curtain(b: Builder, center: Place, right: Place, half: tuple[float, float]) -> None:
    """Add a curtain in folds that hangs along a wall."""
    cloth = b.material(drawn_material(b.draw, 2 * half[1], color=drawn_color(b.draw)))
    front = np.cross(right, [0, 0, 1.0])
    rotation = np.stack([right, [0, 0, 1.0], front], 1)
    b.relief(center, (half[0], half[1], b.draw.uniform(0.02, 0.07)), folds(b.draw), cloth, rotation)
