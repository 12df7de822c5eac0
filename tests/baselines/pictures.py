"""Pictures whose answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def slope(h: int = 30, w: int = 40) -> Array:
    """A shading (h, w) that changes slowly, from 0.2 to 0.8."""
    y, x = np.mgrid[:h, :w]
    return np.asarray(0.5 + 0.3 * np.sin(x / w * 2.5 - 1) * np.cos(y / h))


def patches(colors: list[tuple[float, float, float]], h: int = 30, w: int = 40) -> Array:
    """A reflectance (h, w, 3) of upright stripes."""
    stripe = np.arange(w) * len(colors) // w
    return np.broadcast_to(np.array(colors)[stripe], (h, w, 3))


def scale_free_error(estimate: Array, truth: Array) -> float:
    """The largest difference of logs, after the best common factor."""
    difference = np.log(estimate / truth)
    return float(np.ptp(difference)) / 2
