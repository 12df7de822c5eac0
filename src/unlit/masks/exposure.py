"""Pixels whose light is not known: cut off at white, lost in black, or never there.

Shapes: m frames, h x w pixels. Masks are True where a pixel is to be left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNCHANGED = 3
"""Bytes: what differs by no more than this in all frames, compression included, never changes."""

BORDER_LIMIT = 64
"""Bytes: only dark bars count as borders. A sky that is cut off at white in every frame never changes either."""

FEWEST_FOR_BORDERS = 3
"""Frames: with fewer, plain things may well stay as they are."""


def strongest_channel(frames_u8: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the largest of the three channels of (m, h, w, 3): (m, h, w)."""
    # Many times as fast as a maximum over the last axis, which is three long.
    return np.maximum(np.maximum(frames_u8[..., 0], frames_u8[..., 1]), frames_u8[..., 2])


def saturated(strongest: NDArray[np.uint8], level: int) -> NDArray[np.bool_]:
    """Return where the strongest channel (m, h, w) is `level` or more."""
    return np.asarray(strongest >= level)


def dark(strongest: NDArray[np.uint8], level: int) -> NDArray[np.bool_]:
    """Return where the strongest channel (m, h, w) is not above `level`."""
    return np.asarray(strongest <= level)


def border(frames_u8: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return the dark bars and corners of (m, h, w, 3) frames that never change, as one mask (h, w).

    They touch the edge of the picture, and fill it to a depth of at least two pixels. A sequence whose light does not
    change has none: there everything would be a border.
    """
    _, h, w, _ = frames_u8.shape
    if len(frames_u8) < FEWEST_FOR_BORDERS:
        return np.zeros((h, w), bool)
    highest, lowest = frames_u8.max(axis=0), frames_u8.min(axis=0)
    still = ((highest - lowest <= UNCHANGED) & (highest <= BORDER_LIMIT)).all(axis=-1)
    # Padding with the edge itself keeps what touches it; opening takes away single lines and dots.
    opened = ndimage.binary_opening(np.pad(still, 2, mode="edge"), np.ones((3, 3), bool))[2:-2, 2:-2]
    found = _touching_the_edge(opened)
    return found if found.mean() < 0.5 else np.zeros((h, w), bool)


def _touching_the_edge(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the connected parts of `mask` (h, w) that reach the edge of the picture."""
    parts, _ = ndimage.label(mask)
    ring = np.concatenate([parts[0], parts[-1], parts[:, 0], parts[:, -1]])
    return np.asarray(np.isin(parts, ring[ring > 0]))
