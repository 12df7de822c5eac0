"""Where a ray meets a shape, by walking along it in small steps: slow, and hard to get wrong.

A shape is given by a function of a point that is negative inside and positive outside (for surfaces without an inside:
below and above).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from unlit.worlds.description import ShapeKind

STEPS = 1500
REACH = 12.0


def inside(kind: ShapeKind, p: Tensor) -> float:
    """Negative within the unit shape of a kind that has an inside."""
    x, y, z = (float(value) for value in p)
    if kind == ShapeKind.SPHERE:
        return math.sqrt(x * x + y * y + z * z) - 1
    if kind == ShapeKind.BOX:
        return max(abs(x), abs(y), abs(z)) - 1
    if kind == ShapeKind.CYLINDER:
        return max(math.hypot(x, y), abs(z)) - 1 if abs(z) > 1 or math.hypot(x, y) > 1 else -1.0
    return max(math.hypot(x, y) - (1 - z) / 2, z - 1, -1 - z)


def bilinear(heights: Tensor, x: float, y: float) -> float:
    """The height of a grid over [−1, 1]² at a point, between its four neighbors."""
    side = heights.shape[0]
    u, v = (x + 1) / 2 * (side - 1), (y + 1) / 2 * (side - 1)
    i, j = min(max(int(u), 0), side - 2), min(max(int(v), 0), side - 2)
    a, b = u - i, v - j
    near = (1 - a) * float(heights[j, i]) + a * float(heights[j, i + 1])
    return (1 - b) * near + b * ((1 - a) * float(heights[j + 1, i]) + a * float(heights[j + 1, i + 1]))


def first_change(value: Callable[[Tensor], float | None], origin: Tensor, direction: Tensor) -> float:
    """The distance at which `value` along the ray first changes its sign; infinite if it never does.

    None, where there is nothing to meet, counts as no change.
    """
    before = value(origin)
    for step in range(1, STEPS + 1):
        low, high = REACH * (step - 1) / STEPS, REACH * step / STEPS
        after = value(origin + high * direction)
        if before is not None and after is not None and (before < 0) != (after < 0):
            for _ in range(40):
                middle = (low + high) / 2
                there = value(origin + middle * direction)
                low, high = (middle, high) if there is None or (there < 0) == (before < 0) else (low, middle)
            return high
        before = after
    return math.inf
