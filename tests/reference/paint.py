"""The mean over pixels of like reflectance by its definition: every pixel against every other. Slow and obvious."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray

from unlit.predict.paint import BRIGHT, CHROMATICITY, FLOOR, GRAY, LIGHTNESS_RANGE, SLOPE, WIDEST

Corners = dict[tuple[int, ...], float]


def paint_correction(log_reflectance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ℓ' − ℓ (h, w) for (3, h, w)."""
    h, w = log_reflectance.shape[1:]
    pixels = [log_reflectance[:, y, x] for y in range(h) for x in range(w)]
    lightness = np.array([_lightness(p) for p in pixels])
    white = sorted(lightness)[math.ceil(BRIGHT * len(lightness)) - 1]
    features = np.array([_features(p, white) for p in pixels])
    corners = [_corners(f) for f in features - features.min(0)]
    likeness = np.array([[_likeness(one, other) for other in corners] for one in corners])
    found: NDArray[np.float64] = (likeness @ lightness / likeness.sum(1) - lightness).reshape(h, w)
    return found


def _lightness(p: NDArray[np.float64]) -> float:
    low, high = LIGHTNESS_RANGE
    return max(low, float(np.log(np.exp(np.minimum(p, high)).mean())))


def _features(p: NDArray[np.float64], white: float) -> list[float]:
    first, second = _chromaticities(p)
    width = min(GRAY + SLOPE * (first**2 + second**2) ** 0.5, WIDEST)
    return [(_lightness(p) - white) / width, first / CHROMATICITY, second / CHROMATICITY]


def _chromaticities(p: NDArray[np.float64]) -> list[float]:
    r, g, b = (np.log(np.exp(min(c, LIGHTNESS_RANGE[1])) / np.exp(_lightness(p)) + FLOOR) for c in p.tolist())
    return [float(c) for c in ((r - b) / 2**0.5, (r + b - 2 * g) / 6**0.5)]


def _corners(f: NDArray[np.float64]) -> Corners:
    """Return the eight whole-numbered places around f, and how much of the pixel each has."""
    low = np.floor(f)
    corners: Corners = {}
    for corner in product((0, 1), repeat=3):
        weight = np.prod([x if c else 1 - x for c, x in zip(corner, f - low, strict=True)])
        corners[tuple(int(x) + c for c, x in zip(corner, low, strict=True))] = float(weight)
    return corners


def _likeness(one: Corners, other: Corners) -> float:
    blur = {-2: 1 / 16, -1: 4 / 16, 0: 6 / 16, 1: 4 / 16, 2: 1 / 16}
    return sum(
        u * v * float(np.prod([blur.get(i - j, 0) for i, j in zip(a, b, strict=True)]))
        for a, u in one.items()
        for b, v in other.items()
    )
