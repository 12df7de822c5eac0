"""Directions spread evenly over the solid angle of a rectangle (Ureña, Fajardo & King 2013).

Shapes: r points. A point sees the rectangle [x₀, x₁] x [y₀, y₁] at height z > 0 above itself.

Points spread evenly over the rectangle's area are fine from afar. From near, as on the sill below a window, a few of
them give nearly all the light, which is noise.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TINY = 1e-20


def rectangle_point(
    x0: Tensor, x1: Tensor, y0: Tensor, y1: Tensor, z: Tensor, u: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return x and y (r,) of a point of the rectangle, chosen by u and v, and the rectangle's solid angle (r,)."""
    # The z-parts of the normals of the four planes through the point and the sides.
    n0, n2 = -y0 / (z * z + y0 * y0).sqrt(), y1 / (z * z + y1 * y1).sqrt()
    n1, n3 = x1 / (z * z + x1 * x1).sqrt(), -x0 / (z * z + x0 * x0).sqrt()
    angles = [(-a * b).clamp(-1, 1).acos() for a, b in ((n0, n1), (n1, n2), (n2, n3), (n3, n0))]
    k = 2 * math.pi - angles[2] - angles[3]
    solid = (angles[0] + angles[1] - k).clamp_min(0)
    turn = u * solid + k
    sine = turn.sin()
    f = (turn.cos() * n0 - n2) / torch.where(sine.abs() < TINY, TINY, sine)
    c = (torch.where(f > 0, 1.0, -1.0) / (f * f + n0 * n0).clamp_min(TINY).sqrt()).clamp(-1, 1)
    x = c * z / (1 - c * c).clamp_min(TINY).sqrt()
    x = torch.minimum(torch.maximum(x, x0), x1)
    across = (x * x + z * z).sqrt()
    h0, h1 = y0 / (across * across + y0 * y0).sqrt(), y1 / (across * across + y1 * y1).sqrt()
    h = h0 + v * (h1 - h0)
    y = h * across / (1 - h * h).clamp_min(TINY).sqrt()
    return x, torch.minimum(torch.maximum(y, y0), y1), solid
