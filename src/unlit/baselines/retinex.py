"""Retinex: large changes of brightness or color belong to the reflectance, small ones to the shading.

Grosse et al. 2009, after Horn 1974. Shapes: h x w pixels; `image` (h, w, 3) is linear light, nominally in [0, 1];
`mask` (h, w) has True = valid. A step is the difference of logs from a pixel to the one below it or to its right, both
valid. The steps given to the reflectance do not add up to zero around every loop, so the log-reflectance is that whose
steps come nearest to them by least squares (Poisson's equation on the mask). The rest is shading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unlit.baselines.poisson import each, least_squares_sum, steps_of
from unlit.baselines.splitting import View, split

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from unlit.baselines.splitting import Mask, Split, Values


def gray_retinex(image: Values, mask: Mask, threshold: float = 0.37) -> Split:
    """Return reflectance (h, w, 3) and gray shading (h, w), told apart by brightness alone.

    A step in the log of the channels' mean belongs to the reflectance where it is larger than `threshold`. The default
    was chosen as those of `color_retinex` were, over 29 values from 0.001 to 10. All else is as there.
    """
    return _split(image, mask, lambda gray, _: np.abs(gray) > threshold)


def color_retinex(image: Values, mask: Mask, threshold_gray: float = 1.0, threshold_color: float = 0.075) -> Split:
    """Return reflectance (h, w, 3) and gray shading (h, w), told apart by brightness and color.

    With a step in the logs of R, G and B, its mean is the change of brightness and what is left, a 3-vector, that of
    color. A step belongs to the reflectance where the one is larger than `threshold_gray` or the other longer than
    `threshold_color`.

    Both results are linear float32 and zero outside the mask; inside, their product is the image. Between pieces of the
    mask that do not touch, the reflectance is taken to change as little as it can. The scale, which nothing tells, is
    such that the largest reflectance is 1. ValueError where the image or the mask cannot be used.

    The defaults were chosen on the ten training objects of the MIT set by leaving one out: over the 25 pairs of
    Grosse et al. (five values each, from 0.03 to 1), whichever object is left out, they have the least local error
    (mean of reflectance and shading) on the other nine. A grid three times as fine, up to 3 for gray, chose 1.3 for
    gray most often and had a larger local error, though a smaller mean squared one, on the objects left out.
    """
    return _split(image, mask, lambda _, rgb: is_large(rgb, threshold_gray, threshold_color))


def is_large(rgb_steps: NDArray[Any], threshold_gray: float, threshold_color: float) -> NDArray[np.bool_]:
    """Return which steps in log RGB (3, h, w) change brightness or color by more than the thresholds, (h, w)."""
    brightness = rgb_steps.mean(axis=0)
    color = np.sqrt(np.sum((rgb_steps - brightness) ** 2, axis=0))
    found: NDArray[np.bool_] = (np.abs(brightness) > threshold_gray) | (color > threshold_color)
    return found


def _split(image: Values, mask: Mask, is_reflectance: Callable[..., NDArray[np.bool_]]) -> Split:
    """Split an image by what `is_reflectance` says of steps in log gray (h, w) and log RGB (3, h, w)."""

    def log_shading(view: View) -> NDArray[np.float64]:
        log_gray = view.log_gray
        gray_steps, rgb_steps = steps_of(log_gray), steps_of(np.log(view.light))
        kept = each(lambda gray, rgb: np.where(is_reflectance(gray, rgb), gray, 0.0), gray_steps, rgb_steps)
        return log_gray - least_squares_sum(kept, view.valid)

    return split(image, mask, log_shading)
