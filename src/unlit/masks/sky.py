"""The sky of a fixed view: first version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unlit.masks.small import SmallFrames


def sky(small: SmallFrames) -> NDArray[np.bool_]:
    """Return the region (y, x) that is sky."""
    logs = small.log_intensity
    static = np.hypot(
        np.clip(ndimage.gaussian_filter(logs, (0, 1, 1), order=(0, 1, 0)), -0.3, 0.3).mean(0),
        np.clip(ndimage.gaussian_filter(logs, (0, 1, 1), order=(0, 0, 1)), -0.3, 0.3).mean(0),
    )
    plain = ndimage.uniform_filter(static, 3) < 0.02
    bright = (logs > np.median(logs, axis=(1, 2), keepdims=True)).mean(0) > 0.5
    parts, _ = ndimage.label(plain & bright)
    top = np.unique(parts[0])
    return np.asarray(np.isin(parts, top[top > 0]))
