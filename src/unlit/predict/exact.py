"""How a photograph is shared out between reflectance and shading so that R · S = I exactly.

Notation, per pixel and in logs: i (3) the photograph; r̂ (3), ŝ (1) and c (3) what the network says of reflectance, gray
shading and the light's color; ē the mean over the channels of i − r̂ − ŝ − c, what it leaves unexplained. We look for r
and a gray s with i = r + s + c exactly, as near to the network's as can be, and with a smooth correction:

    minimise  |r − r̂|² + 3 (1/λ − 1) (s − ŝ)²,  so that without smoothness  s = ŝ + λ ē,  r = i − s − c.

Of the residual's gray part the shading gets the share λ and the reflectance the rest; of its color, which one light
cannot have, the reflectance gets all here, and `colored_light.py` takes some of it back. Fine grain in the residual is
the surface's texture, which the network has not drawn: so the correction λ ē is first smoothed along the photograph's
edges (`SMOOTH_RIDGE`), and what smoothing takes away goes to the reflectance too. Of the light's color c only
`COLOR_SHARE` is believed. Bounds follow: no surface reflects more than all light, so that what is brighter than white
is light; and none reflects next to nothing, so that what is black is in the dark (`blackest.py`, `darkness.py`).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from unlit.model.decomposition import Decomposition
from unlit.predict.full_size import strips
from unlit.predict.guided import applied, linear_coefficients

SHADING_SHARE = 0.5
"""λ: network's R and S are trusted alike."""

COLOR_SHARE = 0.5
"""One color for the light of a whole picture is a guess, and most cameras have guessed before. On rendered days for
validation half is better than a quarter or none, and nearly as good as all; under white light it costs next to nothing,
and all costs a tenth (docs/trials-predict.md)."""

SMOOTH_RADIUS = 2
"""Pixels of a picture of half the size: the correction is smooth, and measures the same as at full size."""
SMOOTH_RIDGE = 0.1
"""With so strong a ridge the correction follows steps of a factor of two or more and leaves texture alone."""

CLIPPED = 0.998
"""Linear light from here on is white: the second brightest step of 8 bits is 0.991."""

BRIGHT = 0.99
"""If more than the rest of the pixels would reflect more than all light, all are scaled down."""


def residual(log_image: Tensor, said: Decomposition) -> Tensor:
    """Return ē (1, h, w) for the log of one image (3, h, w)."""
    return (log_image - said.log_reflectance[0] - said.log_light[0]).mean(0, keepdim=True)


def shading_coefficients(log_image: Tensor, said: Decomposition, share: float = SHADING_SHARE) -> Tensor:
    """Return the coefficients (4, h, w) that, applied to the log of the image at any size, give the log of gray S.

    `log_image` is (3, h, w), what the network saw; `said` its answer for this one image.
    """
    drawn = linear_coefficients(log_image, said.log_shading[0])
    if share == 0:
        return drawn
    size, half = list(log_image.shape[1:]), [(side + 1) // 2 for side in log_image.shape[1:]]
    small = interpolate(torch.cat([log_image, residual(log_image, said)])[None], half, mode="area")[0]
    correction = linear_coefficients(small[:3], small[3:], SMOOTH_RADIUS, SMOOTH_RIDGE)
    return drawn + share * interpolate(correction[None], size, mode="bilinear")[0]


def brightness_excess(log_image: Tensor, coefficients: Tensor, light_color: Tensor) -> float:
    """Return the log by which the shading must grow so that `BRIGHT` of the pixels reflect no more than white.

    For the log of an image (3, h, w), its coefficients and a log light color (3,). Zero where they do already: surfaces
    may well all be dark.
    """
    log_shading = applied(coefficients, log_image)
    brightest = (log_image - light_color[:, None, None] - log_shading).amax(0).flatten()
    place = min(brightest.numel(), 1 + int(BRIGHT * brightest.numel()))
    return max(0.0, float(torch.kthvalue(brightest, place).values))


def lost_light(image: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return (h, w), True where an image (h, w, 3) has lost how bright it was: a channel at white, or all at black.

    Only what ends at white can be clipped there: in a picture with brighter light, as EXR may have it, 1 is a number
    like others.
    """
    h, w, _ = image.shape
    black, white, is_bounded = np.empty((h, w), np.bool_), np.empty((h, w), np.bool_), True
    for rows in strips(h, w):
        strip = image[rows]
        brightest = np.maximum(np.maximum(strip[..., 0], strip[..., 1]), strip[..., 2])
        black[rows], white[rows] = brightest <= 0, brightest >= CLIPPED
        is_bounded &= bool(brightest.max() <= 1 + 1e-6)
    return black | white if is_bounded else black
