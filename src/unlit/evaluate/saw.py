"""Shading Annotations in the Wild (Kovacs et al. 2017): is the shading smooth where people say so, and only there.

Shapes: h x w pixels, t thresholds, k sets of weights. Labels (h, w): 0 = a jump of normal or depth, 1 = a shadow's
boundary, 2 = smooth, 100 = nothing said. A pixel is called smooth where the shading's gradient is below a threshold;
each threshold gives a precision and a recall of "smooth", and the area under their curve is the average precision, AP.

Three ways are scored:

- `paper`, that of BigTime: gradient of log S; around the two other classes the largest in a 10 x 10 window counts.
- `original`, that of the set's authors: gradient of S divided by its largest value, the window for all classes.
- `challenge`, of later work: as `paper`, but each smooth region weighs as the mean gradient of the photograph in it, so
  that smooth shading is worth finding where the picture is not smooth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unlit.color import floored_log
from unlit.evaluate.benchmark import Values

Way = Literal["paper", "original", "challenge"]
WAYS: tuple[Way, ...] = get_args(Way)
IGNORED = 100
SMOOTH = 2
LABELS = (0, 1, SMOOTH, IGNORED)
WINDOW = 10
"""Side of the maximum filter, in pixels (Kovacs et al. 2017)."""
CLASS_WEIGHTS = np.array([1.0, 1.0, 2.0])
"""Of jumps, shadows and smooth pixels in the end, however many there are of each (Kovacs et al. 2017)."""
LARGEST_RATIO = 8.0
"""The last threshold is the log of this; later work ends at 64."""
END_PRECISION = 0.5
"""Every curve is led to this at a recall of 1: all pixels called smooth, half of the weight is."""

Gradient = NDArray[np.floating]


def thresholds(way: Way, largest_ratio: float = LARGEST_RATIO) -> NDArray[np.float64]:
    """Return the thresholds (t,) of a way, in rising order: 400 of log gradients, or 200 of gradients in [0, 1]."""
    if way == "original":
        low = np.logspace(-4, 0, 100) / 2
        return np.sort(np.concatenate([low, 1 - low]))
    logs: NDArray[np.float64] = np.log(np.r_[np.linspace(1.001, 1.5, 200), np.linspace(1.501, largest_ratio, 200)])
    return logs


def gradient_magnitude(gray: Values) -> Gradient:
    """Return the length (h, w) of the gradient by Sobel's filters, not divided by 8, mirrored at the edges."""
    from scipy.ndimage import sobel

    magnitude: Gradient = np.hypot(sobel(gray, axis=0), sobel(gray, axis=1))
    return magnitude


def confusion(
    shading: Values, labels: NDArray[np.integer], image_srgb: Values, way: Way, largest_ratio: float = LARGEST_RATIO
) -> NDArray[np.float64]:
    """Return how much of each class is called smooth and how much there is, (t + 1, 3): the last row is all of it.

    `shading` is (h, w) or (h, w, 3), linear; `image_srgb` (h, w, 3) is the photograph, encoded, and only the challenge
    looks at it. ValueError where sizes or labels are wrong.
    """
    return confusions(shading, labels, image_srgb, largest_ratio, (way,))[way]


def confusions(
    shading: Values,
    labels: NDArray[np.integer],
    image_srgb: Values,
    largest_ratio: float = LARGEST_RATIO,
    ways: Sequence[Way] = WAYS,
) -> dict[Way, NDArray[np.float64]]:
    """Return the confusions of several ways; what they have in common is computed once."""
    gray = _gray(shading)
    _check(gray, labels)
    chosen = [labels == label for label in range(3)]
    found = {}
    if "original" in ways:
        _, widest = _gradients(gray)
        largest = max(float(widest.max()), np.finfo(np.float64).tiny)
        found["original"] = [widest[c] / largest for c in chosen]
    if {"paper", "challenge"} & set(ways):
        plain, widest = _gradients(floored_log(gray))
        found["paper"] = found["challenge"] = [(plain if k == SMOOTH else widest)[c] for k, c in enumerate(chosen)]
    tables = {}
    for way in ways:
        weights = _region_weights(chosen[SMOOTH], image_srgb) if way == "challenge" else None
        tables[way] = _table(found[way], weights, thresholds(way, largest_ratio))
    return tables


def _gray(picture: Values) -> NDArray[np.float64]:
    """Return the mean of the channels (h, w); added one by one, which NumPy does several times as fast."""
    if picture.ndim == 2:
        return picture.astype(np.float64)
    total: NDArray[np.float64] = picture[..., 0].astype(np.float64)
    for k in range(1, picture.shape[-1]):
        total += picture[..., k]
    total /= picture.shape[-1]
    return total


def _check(gray: Values, labels: NDArray[np.integer]) -> None:
    if gray.shape != labels.shape:
        raise ValueError(f"the shading has shape {gray.shape}, the labels {labels.shape}; give both at one size")
    strange = ~np.isin(labels, LABELS)
    if strange.any():
        raise ValueError(f"the labels have {int(labels[strange][0])}; give 0, 1, 2 and 100 alone")


def _gradients(values: Values) -> tuple[Gradient, Gradient]:
    """Return the gradient (h, w), and the largest in the window around each pixel."""
    from scipy.ndimage import maximum_filter

    plain = gradient_magnitude(values)
    return plain, maximum_filter(plain, size=WINDOW)


def _table(
    values: list[Gradient], smooth_weights: NDArray[np.float64] | None, levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how much of each class lies below each level, (t + 1, 3); the last row is all of it."""
    table = np.zeros((len(levels) + 1, 3))
    for label, gradients in enumerate(values):
        # A value lies below all levels that come after its place among them.
        place = np.searchsorted(levels, gradients, side="right")
        table[:, label] = np.cumsum(np.bincount(place, smooth_weights if label == SMOOTH else None, len(levels) + 1))
    return table


def _region_weights(is_smooth: NDArray[np.bool_], image_srgb: Values) -> NDArray[np.float64]:
    """Return for each smooth pixel, in order, the photograph's mean gradient over its connected region."""
    from scipy.ndimage import label as connected

    regions, count = connected(is_smooth)
    places = regions[is_smooth]
    gradient = gradient_magnitude(_gray(image_srgb))[is_smooth]
    areas = np.bincount(places, minlength=count + 1)
    means: NDArray[np.float64] = np.bincount(places, gradient, count + 1) / np.maximum(areas, 1)
    return means[places]


def precision_recall(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return precision and recall (..., t) of "smooth" from summed confusions (..., t + 1, 3).

    Each class is first scaled to its weight; one that is not there counts for nothing. Where nothing is called smooth,
    nothing is called so wrongly: a precision of 1. Without smooth pixels both are NaN.
    """
    total = table[..., -1:, :]
    share = np.divide(table[..., :-1, :], total, out=np.zeros_like(table[..., :-1, :]), where=total > 0)
    called = share @ CLASS_WEIGHTS
    right = share[..., SMOOTH] * CLASS_WEIGHTS[SMOOTH]
    precision = np.divide(right, called, out=np.ones_like(called), where=called > 0)
    has_smooth = total[..., SMOOTH] > 0
    return np.where(has_smooth, precision, np.nan), np.where(has_smooth, share[..., SMOOTH], np.nan)


def average_precision(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the AP (...) of summed confusions (..., t + 1, 3): trapezoids from recall 0 to 1; NaN without smooth."""
    precision, recall = precision_recall(table)
    precision = np.concatenate([precision[..., :1], precision, np.full_like(precision[..., :1], END_PRECISION)], -1)
    recall = np.concatenate([np.zeros_like(recall[..., :1]), recall, np.ones_like(recall[..., :1])], -1)
    return np.asarray(np.trapezoid(precision, recall, axis=-1))
