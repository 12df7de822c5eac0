"""Bodies with heads, limbs and tails: animals, people, dolls, and growths that are neither.

Each function models one thing with a sculptor; coordinates are as said there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unlit.worlds.builder import turned
from unlit.worlds.sculptor import Sculptor

Array = NDArray[np.float64]


def beast(s: Sculptor) -> None:
    """Model an animal on four legs: standing, crouching or sitting."""
    draw = s.draw
    stand, length = draw.uniform(0.12, 0.42), draw.uniform(0.25, 0.45)
    fat, rise = draw.uniform(0.13, 0.26), draw.uniform(-0.1, 0.3)
    hip = np.array([-length, 0, stand + 0.5 * fat])
    chest = np.array([length * 0.7, 0, stand + 0.5 * fat + max(rise, 0)])
    belly = (hip + chest) / 2 + [0, 0, draw.uniform(-0.06, 0.1)]
    s.bone(hip, chest, fat * draw.uniform(0.9, 1.15), "body")
    s.ball(hip, fat * draw.uniform(0.75, 1.15, 3), "body")
    s.ball(chest, fat * draw.uniform(0.75, 1.1, 3), "body", turned(0, -rise))
    if draw.random() < 0.6:
        s.ball(belly - [-0.05, 0, 0.3 * fat], (length * 0.7, fat * 0.85, fat * 0.8), "under", turned(0, -rise))
    _legs(s, (hip, chest), fat, stand)
    neck = chest + [draw.uniform(0.05, 0.2), 0, draw.uniform(0.02, 0.35)]
    s.bone(chest, neck, fat * draw.uniform(0.55, 0.85), "body")
    head(s, neck + [0.04, 0, 0.03], draw.uniform(0.1, 0.2))
    if draw.random() < 0.8:
        up, thick = draw.uniform(-0.2, 0.6), draw.uniform(0.02, 0.13)
        bend, end = hip + [-0.25, draw.normal(0, 0.1), up * 0.3], hip + [-0.15, draw.normal(0, 0.2), up]
        if draw.random() < 0.4:
            s.limb((hip, bend, end), (thick, thick * draw.uniform(0.4, 1.4)), "tail")
        else:
            s.tube((hip, bend, end), 0.6 * thick, "tail", 5, 0.3)


def _legs(s: Sculptor, roots: tuple[Array, Array], fat: float, stand: float) -> None:
    """Add four legs with feet; each is bent a little differently."""
    draw = s.draw
    thick, splay = draw.uniform(0.045, 0.1), draw.uniform(0.6, 1.2) * fat
    for root, haunch in zip(roots, (1.0, draw.uniform(0.5, 0.8)), strict=True):
        swing = draw.uniform(-0.1, 0.1)
        for side in (-1.0, 1.0):
            top = root * [1, 0, 1] + [swing, side * splay * 0.7, -0.2 * fat]
            knee = top + [draw.normal(0.05, 0.08), side * 0.04, -0.5 * stand]
            foot = np.array([top[0] + draw.normal(0, 0.08), side * splay, 0.3 * thick])
            s.ball(top, (haunch * fat * 0.8, haunch * fat * 0.45, haunch * fat * 0.9), "body")
            s.limb((top, knee, foot), (thick * 1.3, thick * 0.8), "limbs")
            s.ball(foot + [0.5 * thick, 0, 0], (thick * 1.8, thick * 1.1, thick * 0.7), "feet")


def head(s: Sculptor, at: Array, radius: float) -> None:
    """Add a head that looks along x, turned a little: snout or beak, ears or horns, eyes."""
    draw = s.draw
    turn = turned(draw.normal(0, 0.4), draw.normal(0.1, 0.2))
    half = radius * np.array([draw.uniform(0.9, 1.2), draw.uniform(0.75, 1.0), draw.uniform(0.8, 1.1)])
    s.ball(at, half, "head", turn)
    snout, kind = draw.uniform(0.3, 1.1) * radius, draw.random()
    if kind < 0.7:
        s.ball(at + turn @ [half[0] * 0.7, 0, -0.25 * radius], (snout, 0.5 * radius, 0.4 * radius), "snout", turn)
    elif kind < 0.85:
        s.rod(at + turn @ [half[0] * 0.7, 0, 0], at + turn @ [half[0] + snout, 0, -0.1 * radius], 0.3 * radius,
              "detail", cone=True)  # fmt: skip
    long, ears = draw.uniform(0.25, 1.0) * radius, draw.random()
    for side in (-1.0, 1.0):
        s.ball(at + turn @ [0.75 * half[0], side * 0.45 * half[1], 0.4 * half[2]], 0.14 * radius, "eye")
        root = at + turn @ [-0.2 * radius, side * 0.6 * radius, 0.6 * radius]
        if ears < 0.5:
            lean = turn @ turned(0, 0, side * -0.4)
            s.ball(root + [0, 0, 0.5 * long], (0.15 * radius, 0.3 * radius, long), "ears", lean)
        elif ears < 0.7:
            s.rod(root, root + turn @ [-0.1, side * 0.05, 1.6 * long], 0.3 * radius, "ears", cone=True)
    if draw.random() < 0.3:
        s.ball(at + turn @ [half[0] * 0.7 + snout, 0, -0.15 * radius], 0.13 * radius, "detail")


def person(s: Sculptor) -> None:
    """Model a figure on two legs or none: a doll, a snowman, a saint, a sitting bear."""
    draw = s.draw
    sits, fat = draw.random() < 0.4, draw.uniform(0.11, 0.22)
    low = fat * 0.9 if sits else draw.uniform(0.2, 0.4)
    hip = np.array([0, 0, low])
    chest = hip + [draw.normal(0, 0.04), draw.normal(0, 0.04), draw.uniform(0.2, 0.35)]
    s.bone(hip, chest, fat, "body")
    s.ball(hip, fat * draw.uniform(0.9, 1.2, 3), "body")
    s.ball(chest, fat * draw.uniform([0.6, 0.9, 0.6], [0.9, 1.2, 0.9]), "body")
    s.bone(chest, chest + [0, 0, fat], 0.45 * fat, "head")
    if draw.random() < 0.5:
        s.ball((hip + chest) / 2 + [0.35 * fat, 0, -0.02], (fat * 0.85, fat * 0.75, 0.17), "under")
    radius = draw.uniform(0.08, 0.15)
    head(s, chest + [0.02, 0, fat * 0.5 + radius], radius)
    if not sits and draw.random() < 0.35:
        s.rod((0, 0, -0.05), hip + [0, 0, 0.22], fat * draw.uniform(1.3, 2.0), "skirt", cone=True)
    thick = draw.uniform(0.035, 0.075)
    for side in (-1.0, 1.0):
        foot = np.array([draw.uniform(0.25, 0.4), side * draw.uniform(0.1, 0.2), thick]) if sits else np.array(
            [draw.normal(0, 0.06), side * draw.uniform(0.05, 0.14), thick])  # fmt: skip
        knee = (hip + foot) / 2 + ([0, side * 0.06, 0.1] if sits else [0.05, side * 0.03, 0])
        s.limb((hip + [0, side * 0.6 * fat, 0], knee, foot), (thick * 1.5, thick), "legs")
        s.ball(foot + [0.5 * thick, 0, 0], (1.7 * thick, thick, 0.8 * thick), "feet")
        shoulder = chest + [0, side * fat * 0.8, 0.02]
        hand = chest + [draw.uniform(-0.05, 0.3), side * draw.uniform(0.05, 0.35), draw.uniform(-0.3, 0.25)]
        elbow = (shoulder + hand) / 2 + [-0.05, side * 0.12, -0.08]
        s.limb((shoulder, elbow, hand), (thick * 1.1, thick * 0.8), "arms")
        s.ball(hand, 1.1 * thick, "hands")


def growth(s: Sculptor) -> None:
    """Model limbs that grow from a lump: a root, a hand, a coral, a driftwood."""
    draw = s.draw
    core = draw.uniform(0.12, 0.26, 3)
    s.ball((0, 0, 0.4), core, "body", turned(*draw.uniform(0, 6.3, 3)))
    for k in range(int(draw.integers(3, 7))):
        way = turned(draw.uniform(0, 6.3), draw.uniform(-1.4, 0.7)) @ np.array([draw.uniform(0.25, 0.5), 0, 0])
        bend = way * 0.5 + draw.normal(0, 0.12, 3)
        thick = draw.uniform(0.03, 0.12)
        root = np.array([0, 0, 0.4])
        part = ("body", "limbs", "arms")[k % 3]
        if draw.random() < 0.5:
            s.limb((root, root + bend, root + way), (thick, thick * draw.uniform(0.4, 1.2)), part)
        else:
            s.tube((root, root + bend, root + way), 0.7 * thick, part, 5, 0.3)
        if draw.random() < 0.4:
            s.ball(root + way, thick * draw.uniform(0.8, 1.8, 3), "hands")
