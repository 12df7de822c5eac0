"""Photograph, reflectance and shading side by side, small: what one looks at first.

Shapes: pictures are (h, w, 3), linear light in [0, 1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

if TYPE_CHECKING:
    from unlit.predict.photo import PhotoDecomposition

WIDTH = 1600
"""Of the whole, at most, in pixels."""
_PERCENTILE, _BRIGHT = 99, 0.9


def preview(photo: PhotoDecomposition) -> NDArray[np.float32]:
    """Return the three in one picture; the shading so bright that its 99th percentile is 0.9."""
    pictures = [shrunk(part, WIDTH // 3) for part in (photo.image, photo.reflectance, photo.shading)]
    pictures[2] = pictures[2] * viewing_factor(pictures[2])
    return np.clip(np.concatenate(pictures, axis=1), 0, 1)


def viewing_factor(picture: NDArray[np.float32]) -> np.float32:
    """Return what brings the 99th percentile of a picture to 0.9; 1 for black."""
    bright = float(np.percentile(picture.max(axis=-1), _PERCENTILE))
    return np.float32(_BRIGHT / bright if bright > 1e-6 else 1.0)


def shrunk(picture: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Return a picture at most `width` wide and three times as high."""
    h, w, _ = picture.shape
    scale = min(1.0, width / w, 3 * width / h)
    if scale == 1:
        return picture
    size = (max(1, round(scale * h)), max(1, round(scale * w)))
    planes = interpolate(torch.from_numpy(picture).permute(2, 0, 1)[None], size, mode="bilinear", antialias=True)
    return planes[0].permute(1, 2, 0).contiguous().numpy()
