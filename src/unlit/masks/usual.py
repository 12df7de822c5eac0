"""What is usual at a pixel over the frames of a sequence, and in a frame over its pixels: medians of what is known.

Shapes: m frames of y x x small pixels, c channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Known = NDArray[np.bool_]

DEVIATION = np.float32(1.4826)
"""The deviation of a normal distribution over its median absolute deviation."""


def usual(values: Floats, known: Known) -> Floats:
    """Return the median over frames of (m, y, x, c) values, of known ones (m, y, x) only: (y, x, c).

    What is not known is put at the low and the high end by turns, where it moves the median little; a pixel that is
    known in less than half of the frames may get one of the ends, and then has its mean instead.
    """
    ends = np.where(np.arange(len(values)) % 2, np.inf, -np.inf).astype(np.float32)
    filled = np.where(known[..., None], values, ends[:, None, None, None])
    half = len(values) // 2
    middle = np.partition(filled, half, axis=0)[half]
    filled_up: Floats = np.where(np.isfinite(middle), middle, values.mean(axis=0)).astype(np.float32)
    return filled_up


def without_frame_light(values: Floats, known: Known) -> Floats:
    """Return (m, y, x, c) logs less, in each frame and channel, the median of what sets them apart from the usual.

    Exposure and the color of the light shift the logs of a whole frame alike. What is usual depends on these shifts
    and they on it, so that it is done twice.
    """
    for _ in range(2):
        apart = values - usual(values, known)
        values = values - np.stack([middle_of_frame(a, k) for a, k in zip(apart, known, strict=True)])
    return values


def middle_of_frame(values: Floats, known: Known) -> Floats:
    """Return the median over the known pixels of one frame (y, x, c), (1, 1, c); zeros where none is known."""
    chosen = values[::2, ::2][known[::2, ::2]]  # a quarter is enough for a median, and takes a quarter of the time
    middle = np.median(chosen, axis=0) if len(chosen) else np.zeros(values.shape[-1])
    return middle.astype(np.float32)[None, None]


def median_of_few(pictures: list[Floats]) -> Floats:
    """Return the median, pixel by pixel, of a few pictures, sorted by exchanges of whole pictures: much faster."""
    rows = list(pictures)
    for turn in range(len(rows)):
        for k in range(turn % 2, len(rows) - 1, 2):
            rows[k], rows[k + 1] = np.minimum(rows[k], rows[k + 1]), np.maximum(rows[k], rows[k + 1])
    low, high = rows[(len(rows) - 1) // 2], rows[len(rows) // 2]
    return np.asarray((low + high) / 2, np.float32)


def spread(values: Floats, known: Known) -> Floats:
    """Return the deviation over frames of (m, y, x, c) values around zero, by their median: (y, x, c)."""
    return np.asarray(DEVIATION * usual(np.abs(values), known))
