"""Weiss: what the frames of a sequence have in common is reflectance, told by the median of their steps.

Weiss 2001; with a threshold, Grosse et al. 2009. Shapes: m frames, h x w pixels; `frames` (m, h, w, 3) and `image`
(h, w, 3) are linear light, nominally in [0, 1]; `mask` (h, w) has True = valid. A shadow's edge crosses a given pair of
neighbors in few frames only, so the median over the frames of a step in log light is the reflectance's own. These
medians are added up by least squares, each channel by itself. No frame tells the sums' constants: they are such that
the light on the image has no color in the mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unlit.baselines.poisson import Steps, each, least_squares_sum, steps_of
from unlit.baselines.retinex import is_large
from unlit.baselines.splitting import box_of, check, scaled

if TYPE_CHECKING:
    from unlit.baselines.splitting import Mask, Split, Values

FLOOR = 1e-3
"""Logs are taken of values no smaller than this. Lower than for a single image: the median does away with noise, while
steps that the floor flattens in the frames where a surface lies in shadow would pull it towards zero."""


def weiss(frames: Values, mask: Mask, image: Values) -> Split:
    """Return the frames' common reflectance (h, w, 3) and the shading (h, w, 3) of `image`, a picture of the same view.

    Both are linear float32 and zero outside the mask; inside, their product is the image. The largest reflectance is 1.
    ValueError where frames, image or mask cannot be used.
    """
    return _split(frames, mask, image, None)


def weiss_retinex(
    frames: Values, mask: Mask, image: Values, threshold_gray: float = 0.5, threshold_color: float = 0.03
) -> Split:
    """Return the same, where of the median steps only those count that `color_retinex` would give to the reflectance.

    Shading that is there in most frames, as where all lamps stand on one side, also has medians; they are small. The
    defaults are those most often chosen on the ten training objects of the MIT set by leaving one out, as in
    `color_retinex`, over 30 pairs; medians are less noisy than the steps of one image, so that smaller ones tell.
    """
    return _split(frames, mask, image, (threshold_gray, threshold_color))


def _split(frames: Values, mask: Mask, image: Values, thresholds: tuple[float, float] | None) -> Split:
    """Return reflectance and shading; with thresholds, of the medians that are larger only."""
    check(image, mask)
    _check_frames(frames, mask)
    box = box_of(mask)
    valid = mask[box]
    medians = _median_steps(frames[:, *box], valid)
    if thresholds is not None:
        large = each(lambda steps: is_large(steps, *thresholds), medians)
        medians = each(lambda steps, kept: np.where(kept, steps, 0.0), medians, large)
    channels = (Steps(*pair) for pair in zip(*medians, strict=True))
    log_reflectance = np.stack([least_squares_sum(steps, valid) for steps in channels], axis=-1)
    cropped = np.where(valid[..., None], image[box], 0.0).astype(np.float64)
    # What of the image's mean color the sums do not have is surface, not light.
    log_reflectance += (np.log(np.maximum(cropped, FLOOR)) - log_reflectance)[valid].mean(axis=0)
    reflectance = np.where(valid[..., None], np.exp(log_reflectance), 0.0)
    shading = np.divide(cropped, reflectance, out=np.zeros_like(cropped), where=reflectance > 0)
    return scaled(image.shape, box, reflectance, shading)


def _median_steps(frames: Values, valid: Mask) -> Steps:
    """Return the median over the frames (m, h, w, 3) of their steps, (3, h, w)."""
    found = []
    for channel in range(3):  # one after the other, for the logs and steps of all frames take several times their room
        light = np.where(valid, frames[..., channel], 0.0).astype(np.float32)
        steps = steps_of(np.log(np.maximum(light, FLOOR)))
        found.append(each(lambda values: np.median(values, axis=0).astype(np.float64), steps))
    return Steps(*(np.stack(parts) for parts in zip(*found, strict=True)))


def _check_frames(frames: Values, mask: Mask) -> None:
    """Refuse what is no sequence of the image's view."""
    if frames.ndim != 4 or len(frames) == 0 or frames.shape[1:] != (*mask.shape, 3):
        raise ValueError(f"the frames have shape {frames.shape}; give (m, h, w, 3) to fit the mask, {mask.shape}")
    if not np.isfinite(frames[:, mask]).all():
        raise ValueError("the frames have values inside the mask that are NaN or infinite; replace them")
