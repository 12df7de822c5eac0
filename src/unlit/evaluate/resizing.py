"""Bilinear resizing of pictures, as the protocols of IIW and SAW have it for results of another size.

Shapes: h x w pixels. Pixels are areas: their middles lie half a pixel inside, and beyond the outermost ones the values
stay as they are. No averaging where a picture shrinks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def resized(picture: NDArray[np.floating[Any]], size: tuple[int, int]) -> NDArray[np.floating[Any]]:
    """Return `picture` (h, w) or (h, w, c) with `size` (h', w'), linear in between."""
    for axis in (0, 1):
        if picture.shape[axis] != size[axis]:
            picture = _resized_along(picture, axis, size[axis])
    return picture


def _resized_along(values: NDArray[np.floating[Any]], axis: int, length: int) -> NDArray[np.floating[Any]]:
    before = values.shape[axis]
    place = np.clip((np.arange(length) + 0.5) * before / length - 0.5, 0, before - 1)
    low = np.floor(place).astype(np.intp)
    high = np.minimum(low + 1, before - 1)
    share = (place - low).astype(values.dtype).reshape([-1 if k == axis else 1 for k in range(values.ndim)])
    first, second = np.take(values, low, axis), np.take(values, high, axis)
    mixed: NDArray[np.floating[Any]] = first + share * (second - first)
    return mixed
