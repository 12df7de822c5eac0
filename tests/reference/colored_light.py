"""Light of several colors, pixel by pixel: what `unlit.predict.colored_light` is held to."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from unlit.predict.colored_light import FLOOR, MOST, RIDGE

Array = NDArray[np.float64]


def color(values: list[float]) -> list[float]:
    """χ of one pixel's linear values."""
    mean = sum(values) / 3
    logs = [math.log(v / mean + FLOOR) for v in values]
    return [v - sum(logs) / 3 for v in logs]


def color_share(image: Array, light: list[float], reflectance: Array) -> Array:
    """a (h, w) for linear image and reflectance (h, w, 3)."""
    h, w, _ = image.shape
    found = np.zeros((h, w))
    for y in range(h):
        for x in range(w):
            product = square = 0.0
            count = 0
            for v in range(max(0, y - 1), min(h, y + 2)):
                for u in range(max(0, x - 1), min(w, x + 2)):
                    own = color([image[v, u, k] / light[k] for k in range(3)])
                    said = color([float(value) for value in reflectance[v, u]])
                    product += sum(a * (a - b) for a, b in zip(own, said, strict=True))
                    square += sum(a * a for a in own)
                    count += 1
            found[y, x] = min(MOST, max(0.0, product / count / (square / count + RIDGE)))
    return found


def shading(gray: float, image: list[float], share: float, light: list[float]) -> list[float]:
    """S of one pixel."""
    white = [max(0.0, image[k]) / light[k] for k in range(3)]
    mean = sum(white) / 3
    return [gray * light[k] * (1 - share + share * white[k] / mean if mean > 0 else 1.0) for k in range(3)]
