"""What makes two pixels alike: the features of the reflectance term, for every pixel of every frame.

Shapes: m frames, c channels, h x w pixels, n valid pixels. Two pixels of similar intensity and chromaticity that are
not far apart probably share their reflectance, in whichever frames they are (the paper, Sec. 4.3).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unlit.color import chromaticity, intensity
from unlit.pairwise.settings import FeatureScales


def pixel_features(frames: Tensor, scales: FeatureScales | None = None) -> Tensor:
    """Return features (m, 5, h, w) of linear frames (m, 3, h, w): intensity, two chromaticities, x, y; scaled."""
    scales = scales or FeatureScales()
    m, _, h, w = frames.shape
    diagonal = scales.position * math.hypot(h, w)
    y = torch.arange(h, device=frames.device, dtype=frames.dtype).div(diagonal).reshape(1, 1, h, 1)
    x = torch.arange(w, device=frames.device, dtype=frames.dtype).div(diagonal).reshape(1, 1, 1, w)
    return torch.cat(
        [
            intensity(frames, axis=1) / scales.intensity,
            chromaticity(frames, axis=1)[:, :2] / scales.chromaticity,
            x.expand(m, 1, h, w),
            y.expand(m, 1, h, w),
        ],
        dim=1,
    )
