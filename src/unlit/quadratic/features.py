"""What can be seen of pairs of pixels, of pixels, and of the whole that tells paint from light.

Shapes: h x w pixels, n of them valid; f features. Chromaticities are RGB vectors at length 1. Every feature is shifted
and scaled so that it is near 0 and of size 1 on pictures whose mean is .2: weights can then be linear in them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt, gaussian_filter

from unlit.baselines.splitting import DARK_FLOOR, View
from unlit.quadratic.pairs import KINDS, Floats, Mask, both, ends, first, second

PAIR_FEATURES, PIXEL_FEATURES, GUESSES = 13, 3, 4
"""How many there are of each."""
BLURS = (0, 1, 2)
"""Standard deviations, in pixels, at which chromaticities are looked at."""
COLOR_NOISE = 0.003
"""Differences of chromaticity below this are noise."""
COLOR_STEP = 0.02
"""A difference of chromaticity that often is paint: Zhao's threshold."""
NEIGHBORHOOD = 4
"""Standard deviation, in pixels, of the surroundings whose roughness is measured."""
BROAD = 8
"""The same of the blurred picture that the shading may resemble."""


def chromaticities(view: View) -> dict[int, Floats]:
    """Return the chromaticity (3, h, w) of a view, for each blur."""
    return {sigma: _unit(blurred(view, sigma) if sigma else view.light) for sigma in BLURS}


def pair_features(view: View, chroma: dict[int, Floats]) -> list[NDArray[np.float32]]:
    """Return features (f, ...) of the pairs of each kind."""
    texture, bumps = roughness(chroma[0], view.valid), roughness(view.log_gray[None], view.valid)
    return [_of_kind(view.log_gray, chroma, texture, bumps, view.valid, kind).astype(np.float32) for kind in KINDS]


def _of_kind(
    log_gray: Floats, chroma: dict[int, Floats], texture: Floats, bumps: Floats, valid: Mask, kind: tuple[int, int]
) -> Floats:
    def change(values: Floats, further: int) -> Floats:
        one, two = ends(values, valid, kind, further)
        return two - one

    def length(values: Floats, further: int) -> Floats:
        lengths: Floats = np.sqrt(np.sum(change(values, further) ** 2, axis=0))
        return lengths

    def color(sigma: int, further: int) -> Floats:
        return np.log((length(chroma[sigma], further) + COLOR_NOISE) / (COLOR_STEP + COLOR_NOISE))

    def mean(values: Floats) -> Floats:
        return (first(values, *kind) + second(values, *kind)) / 2

    saturation = np.sqrt(np.sum((mean(chroma[2]) - 3**-0.5) ** 2, axis=0))
    # A unit vector's sum is greatest for gray: where it grows, the color fades.
    faded = change(chroma[1].sum(0), 1) / (length(chroma[1], 1) + COLOR_NOISE)
    return np.stack([
        np.ones_like(saturation),
        color(0, 0), color(0, 1), color(1, 1), color(2, 3),
        _brightness(mean(log_gray)),
        np.log(np.abs(change(log_gray, 0)) + 0.01) + 3.5,
        np.log(np.abs(change(log_gray, 2)) + 0.02) + 2.5,
        _colorfulness(mean(texture)),
        (saturation - 0.25) / 0.2,
        (np.log(mean(bumps) + 0.01) + 3.3) / 0.6,
        faded * np.tanh(change(log_gray, 1) / 0.02),
        np.abs(faded),
    ])  # fmt: skip


def pixel_features(view: View, chroma: dict[int, Floats]) -> NDArray[np.float32]:
    """Return features (f, n) of the valid pixels: one, brightness, and how much the color changes around."""
    bright = _brightness(view.log_gray[view.valid])
    texture = _colorfulness(roughness(chroma[0], view.valid)[view.valid])
    return np.stack([np.ones_like(bright), bright, texture]).astype(np.float32)


def guesses(view: View) -> NDArray[np.float32]:
    """Return pictures (4, n), of mean 0, that the log-shading may resemble.

    They are the blurred image, two functions of the depth inside the silhouette, and the height.
    """
    valid = view.valid
    depth = distance_transform_edt(np.pad(valid, 1))[1:-1, 1:-1][valid]
    height = -np.nonzero(valid)[0] / valid.shape[0]
    broad = np.log(blurred(view, BROAD).mean(0))[valid]
    found = np.stack([broad, np.log(depth + 2), np.sqrt(depth / depth.max()), height])
    centered: NDArray[np.float32] = (found - found.mean(1, keepdims=True)).astype(np.float32)
    return centered


def blurred(view: View, sigma: float) -> Floats:
    """Return the light (3, h, w) blurred over the valid pixels alone."""
    weight = np.maximum(gaussian_filter(view.valid.astype(np.float64), sigma), 1e-6)
    light = np.stack([gaussian_filter(channel * view.valid, sigma) for channel in view.light]) / weight
    return np.maximum(light, DARK_FLOOR)


def roughness(values: Floats, valid: Mask) -> Floats:
    """Return the mean length of the steps of values (c, h, w) between neighbors around each pixel, (h, w)."""
    total, count = np.zeros(valid.shape), np.zeros(valid.shape)
    for kind, usable in zip(KINDS[:2], both(valid)[:2], strict=True):
        lengths = np.sqrt(np.sum((second(values, *kind) - first(values, *kind)) ** 2, axis=0))
        for end in (first, second):
            end(total, *kind)[...] += lengths * usable
            end(count, *kind)[...] += usable
    mean: Floats = gaussian_filter(total, NEIGHBORHOOD) / np.maximum(gaussian_filter(count, NEIGHBORHOOD), 1e-6)
    return mean


def _unit(light: Floats) -> Floats:
    unit: Floats = light / np.sqrt(np.sum(light**2, axis=0))
    return unit


def _brightness(log_gray: Floats) -> Floats:
    return (log_gray + 1.9) / 0.8


def _colorfulness(texture: Floats) -> Floats:
    return (np.log(texture + COLOR_NOISE) + 4.6) / 0.6
