"""Shading at the photograph's own size, a strip of rows at a time.

Shapes: the photograph is (h, w, 3), the coefficients (4, h', w') of a smaller size. Every pixel is computed from its
own color and its place alone, so that strips have no seams, memory is bounded and threads can share the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from unlit.color import LOG_FLOOR, floored_log
from unlit.processes import usable_processors

STRIP_VALUES = 1 << 19
"""Numbers in a strip of the photograph: what is computed from it stays in the processor's cache."""

DARK = 0.003
"""Below this share of white (10 of 255) light is mostly noise and rounding. Taken for deep shadow it would become a
surface of all colors: so what is darker by a factor has a reflectance that is darker by it, as far as surfaces go
(`blackest.py`)."""

SHADING_LIMIT = 30.0
"""Of logs: a prediction gone wild must not overflow the quotient that is the reflectance."""


def gray_shading(
    image: NDArray[np.float32],
    coefficients: NDArray[np.float32],
    light_color: NDArray[np.float32],
    *,
    exposure: float = 1.0,
    threads: int | None = None,
    strip_values: int = STRIP_VALUES,
) -> NDArray[np.float32]:
    """Return the gray shading (h, w), positive, of linear light `image` (h, w, 3).

    `coefficients` belong to the log of `image / exposure`; `light_color` (3,) multiplies the gray. No reflectance
    `image / (shading · light_color)` is above 1: what is brighter is light.
    """
    h, w, _ = image.shape
    across = Places(w, coefficients.shape[2])
    down = Places(h, coefficients.shape[1])
    rows_of_all = np.ascontiguousarray(coefficients.transpose(1, 2, 0))
    shading = np.empty((h, w), np.float32)

    def fill(rows: slice) -> None:
        at_rows = down.interpolated(rows_of_all, rows, axis=0)
        at_pixels = across.interpolated(at_rows, slice(0, w), axis=1)
        light = image[rows] if exposure == 1 else image[rows] * np.float32(1 / exposure)
        shading[rows] = _strip(light, at_pixels, light_color)
        if exposure != 1:
            shading[rows] *= np.float32(exposure)

    each(fill, strips(h, w, strip_values), threads)
    return shading


def strips(h: int, w: int, strip_values: int = STRIP_VALUES) -> Iterator[slice]:
    """Yield slices of rows that cover h rows of w pixels."""
    rows = max(1, strip_values // (3 * w))
    for start in range(0, h, rows):
        yield slice(start, min(h, start + rows))


def each(work: Callable[[slice], None], parts: Iterator[slice], threads: int | None) -> None:
    """Do `work` on every part, by as many threads as there are processors unless told otherwise."""
    threads = usable_processors() if threads is None else threads
    if threads == 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, parts):  # what a thread raises is raised here
            pass


class Places:
    """Where n large pixels lie among m small ones, centers in proportion, and how near to each of the two beside."""

    def __init__(self, n: int, m: int) -> None:
        place = np.clip((np.arange(n) + 0.5) * (m / n) - 0.5, 0, m - 1)
        self.first = np.minimum(place.astype(np.intp), max(0, m - 2))
        self.second = np.minimum(self.first + 1, m - 1)
        self.share = (place - self.first).astype(np.float32)

    def interpolated(self, values: NDArray[np.float32], part: slice, axis: int) -> NDArray[np.float32]:
        """Return `values` at the large pixels of `part` along `axis`, linearly between the two beside."""
        near = values.take(self.first[part], axis, mode="clip")
        far = values.take(self.second[part], axis, mode="clip")
        far -= near
        share = self.share[part]
        if axis < far.ndim - 1:
            # Repeated for each of the last axis: NumPy is slow where a number serves but a few others.
            share = np.repeat(share, far.shape[-1]).reshape(-1, *[1] * (far.ndim - 2 - axis), far.shape[-1])
        far *= share
        near += far
        interpolated: NDArray[np.float32] = near
        return interpolated


def _strip(
    light: NDArray[np.float32], coefficients: NDArray[np.float32], light_color: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the gray shading of a strip (h, w, 3), from coefficients (h, w, 4)."""
    logs = floored_log(light, LOG_FLOOR)
    log_shading = coefficients[..., 3].copy()  # side by side, which is quicker from here on
    for k in range(3):
        log_shading += coefficients[..., k] * logs[..., k]
    np.clip(log_shading, -SHADING_LIMIT, SHADING_LIMIT, out=log_shading)
    shading: NDArray[np.float32] = np.exp(log_shading, out=log_shading)
    level = light[..., 0] + light[..., 1]  # one by one: NumPy is slow over an axis of three
    level += light[..., 2]
    if level.min() < 3 * DARK:
        shading *= np.maximum(1, np.float32(3 * DARK) / np.maximum(level, np.float32(3 * LOG_FLOOR)))
    for k in range(3):
        np.maximum(shading, light[..., k] * np.float32(1 / light_color[k]), out=shading)
    return shading
