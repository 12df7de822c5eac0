"""Bell: a picture has few reflectances, alike pixels share one, and the shading they leave is smooth.

Bell, Bala & Snavely 2014 (Intrinsic Images in the Wild). Shapes: h x w pixels, n of them valid, k labels; `image`
(h, w, 3) is linear light, nominally in [0, 1]. Each label is a reflectance: a chromaticity and a level, the log of its
brightness. Two steps take turns. One chooses a label for every pixel, by mean field in a dense random field: alike
pixels (near, of like brightness and chromaticity) should have alike reflectances, and the shading that a label leaves
should be near to the last one, blurred. The other keeps the labels and moves their levels, so that the shading does
not jump from one label to the next. The blur narrows from turn to turn.

Everything is divided by the weight of the pairwise term, so that an energy of 1 is a factor e of reflectance between a
pixel and all that are like it. The field is almost cold: nearly every pixel is sure of its label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import dctn, idctn

from unlit.baselines.clusters import k_means, means_of
from unlit.baselines.mean_field import DenseField
from unlit.baselines.regions import continuous_levels, neighbor_pairs
from unlit.baselines.splitting import View, split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unlit.baselines.splitting import Mask, Split, Values

    Floats = NDArray[np.float64]
    Labels = NDArray[np.intp]

FLOOR = 1e-3
"""Logs are taken of values no smaller than this."""

GRAY_POINT = 0.5
"""The shading that costs nothing by itself."""


@dataclass(frozen=True)
class BellSettings:
    """What the method depends on.

    The scales of likeness are those of the reflectance term (`FeatureScales`); the rest could not be checked in print.
    `shading` was set on the MIT training objects: docs/trials-baselines.md.
    """

    labels: int = 20
    """Reflectances to begin with."""
    turns: int = 10
    """How often labels and levels are found; later turns change little."""
    rounds: int = 5
    """Of mean field in a turn, from the labels of the turn before."""
    cluster_intensity: float = 0.5
    """How much a difference of brightness counts beside one of chromaticity when pixels are first clustered."""
    position: float = 0.1
    """Pixels are near within this share of the picture's diagonal."""
    intensity: float = 0.12
    """And alike within this difference of brightness,"""
    chromaticity: float = 0.025
    """and within this difference of chromaticity."""
    shading: float = 0.5
    """Weight of the squared difference from the last shading, blurred."""
    gray: float = 0.05
    """Weight of the difference, in logs, between the shading and the gray point."""
    temperature: float = 0.01
    """The energy whose probability is one e-th."""
    blur: float = 0.1
    """The width of the blur in the first turn, as a share of the diagonal; in turn t it is this over t."""
    level_rounds: int = 20
    """Of weighted least squares, when levels are moved."""


def bell(image: Values, mask: Mask, settings: BellSettings | None = None) -> Split:
    """Return reflectance (h, w, 3) and gray shading (h, w).

    Both are linear float32 and zero outside the mask; inside, their product is the image. The largest reflectance is 1.
    ValueError where the image or the mask cannot be used.
    """
    chosen = settings or BellSettings()
    return split(image, mask, lambda view: _log_shading(view, chosen), FLOOR)


def _log_shading(view: View, settings: BellSettings) -> Floats:
    """Return the log-shading (h, w) that the last turn leaves."""
    # Light beyond white, as in pictures of high range, is brought into the range that the scales are meant for.
    light = view.light[:, view.valid]
    light = light / max(1.0, float(np.quantile(light, 0.999)))
    log_gray = np.log(light.mean(axis=0))
    looks = np.stack([np.minimum(light.mean(axis=0), 1), *(light[:2] / light.sum(axis=0))], axis=-1)
    labels = k_means(looks * [settings.cluster_intensity, 1, 1], settings.labels).labels
    levels = means_of(log_gray[:, None], labels)[:, 0]
    log_chromaticity = _log_chromaticity(means_of(looks[:, 1:], labels))
    field, pairs = DenseField(_features(looks, view.valid, settings)), neighbor_pairs(view.valid)
    probability = np.eye(len(levels), dtype=np.float32)[labels]
    smooth = None
    for turn in range(1, settings.turns + 1):
        unary = _unary(log_gray[:, None] - levels, smooth, settings)
        cost = _cost(log_chromaticity + levels[:, None], settings)
        probability = field.mean_field(unary, cost, probability, settings.rounds)
        labels = probability.argmax(axis=-1)
        levels = _moved(levels, labels, continuous_levels(labels, pairs, log_gray, levels, settings.level_rounds))
        smooth = _blurred(log_gray - levels[labels], view.valid, settings.blur / turn)
    return _placed(log_gray - levels[labels], view.valid)


def _features(looks: Floats, valid: Mask, settings: BellSettings) -> NDArray[np.float32]:
    """Return what makes pixels alike (n, 5): brightness, two chromaticities, x, y; scaled."""
    y, x = np.nonzero(valid)
    near = settings.position * float(np.hypot(*valid.shape))
    scales = np.array([settings.intensity, settings.chromaticity, settings.chromaticity, near, near])
    return np.asarray(np.column_stack([looks, x, y]) / scales, np.float32)


def _log_chromaticity(chromaticity: Floats) -> Floats:
    """Return the logs (k, 3) of chromaticities of which two (k, 2) are given."""
    whole = np.column_stack([chromaticity, 1 - chromaticity.sum(axis=-1)])
    logs: Floats = np.log(np.maximum(3 * whole, FLOOR))
    return logs


def _unary(log_shading: Floats, smooth: Floats | None, settings: BellSettings) -> NDArray[np.float32]:
    """Return what each label costs by itself (n, k), for the log-shading (n, k) that it would leave."""
    cost = settings.gray * np.abs(log_shading - np.log(GRAY_POINT))
    if smooth is not None:
        cost += settings.shading * (log_shading - smooth[:, None]) ** 2
    return np.asarray(cost / settings.temperature, np.float32)


def _cost(log_reflectance: Floats, settings: BellSettings) -> NDArray[np.float32]:
    """Return what two labels cost together (k, k): the mean over the channels of the difference of logs (k, 3)."""
    difference = np.abs(log_reflectance[:, None] - log_reflectance).mean(axis=-1)
    return np.asarray(difference / settings.temperature, np.float32)


def _moved(before: Floats, labels: Labels, levels: Floats) -> Floats:
    """Return the levels, all moved alike so that the median over the pixels is as before: borders tell no constant."""
    return levels + np.median(before[labels]) - np.median(levels[labels])


def _blurred(values: Floats, valid: Mask, share: float) -> Floats:
    """Return means (n,) of values (n,) under a Gaussian as wide as this share of the diagonal; valid pixels only."""
    sigma = share * float(np.hypot(*valid.shape))
    # Cosine transforms: the width costs nothing, and the picture is mirrored at its edges.
    down, right = (np.exp(-0.5 * (sigma * np.pi * np.arange(side) / side) ** 2) for side in valid.shape)
    total, weight = (
        idctn(dctn(part) * (down[:, None] * right)) for part in (_placed(values, valid), valid.astype(np.float64))
    )
    blurred: Floats = (total / np.maximum(weight, FLOOR))[valid]
    return blurred


def _placed(values: Floats, valid: Mask) -> Floats:
    """Return values (n,) of the valid pixels in their places (h, w), zero elsewhere."""
    placed = np.zeros(valid.shape)
    placed[valid] = values
    return placed
