"""How far a frame's colors are from the usual ones, in directions in which the color of light does not vary.

Notation: x is the log-chromaticity (log of red over green, of blue over green) of a pixel in a frame, less what is
usual at that pixel and less the light of the frame. Light moves x along one line, from the yellow of sun and lamps to
the blue of the sky; things move it anywhere. The line is found from all x of the sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from unlit.masks.usual import DEVIATION, spread, usual, without_frame_light

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unlit.masks.small import SmallFrames

    Floats = NDArray[np.float32]

STEADY = 0.02
"""Log units: colors are not taken to be steadier than this."""

READING_NOISE = 0.006
"""Linear light: how much a byte's rounding, compression and the sensor shift a channel."""

_CLIPPED = 0.25
"""Log units: farther pixels count as no more when light is looked for, since they may be things."""


def colors_apart(small: SmallFrames) -> Floats:
    """Return the log-chromaticity (m, y, x, 2) less the usual at each pixel and less the light of each frame."""
    apart = without_frame_light(small.log_chromaticity, small.trusted)
    apart -= usual(apart, small.trusted)
    return apart


def tint_distance(small: SmallFrames, apart: Floats) -> Floats:
    """Return the signed distance (m, y, x) of each color from the usual, across the line of light, in deviations."""
    known = small.trusted
    apart = _without_near_light(apart, known) * known[..., None]
    across = apart @ _across_light(apart[known])
    noise = STEADY**2 + (READING_NOISE / np.exp(small.log_intensity)) ** 2
    by_pixel = spread(across[..., None], known)[..., 0] ** 2
    by_frame = np.array([_frame_spread(a[k]) for a, k in zip(across, known, strict=True)]) ** 2
    return np.asarray(across / np.sqrt(noise + by_pixel + by_frame[:, None, None]), np.float32)


def _without_near_light(apart: Floats, known: NDArray[np.bool_]) -> Floats:
    """Return (m, y, x, 2) less its mean in a wide window: a lamp tints its surroundings, smoothly."""
    window = max(apart.shape[1:3]) // 4
    share = ndimage.uniform_filter(known.astype(np.float32), (0, window, window)) + np.float32(1e-3)
    clipped = np.clip(apart, -_CLIPPED, _CLIPPED) * known[..., None]
    return np.asarray(apart - ndimage.uniform_filter(clipped, (0, window, window, 0)) / share[..., None])


def _across_light(apart: Floats) -> Floats:
    """Return the direction (2,) in which the colors (n, 2) vary least."""
    some = np.clip(apart[::11], -_CLIPPED, _CLIPPED).astype(np.float64)
    _, directions = np.linalg.eigh(some.T @ some)
    return directions[:, 0].astype(np.float32)


def _frame_spread(across: Floats) -> float:
    """Return the deviation of one frame's known colors: lamps of many colors are no things."""
    return float(DEVIATION * np.median(np.abs(across[::3]))) if len(across) else 1.0
