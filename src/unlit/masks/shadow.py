"""Edges that light makes in a frame, told from those of things by their color, and taken away.

Notation: s = g − G is how the gradients of a frame's log intensity differ from the usual, t the same of its
log-chromaticity. Where light from the sky alone meets sun, color changes with brightness by the same β all over the
frame: t = β s. Of a thing's edges this holds by chance only. With ⟨,⟩ the mean over a window,
α = ⟨β·t, s⟩ / (|β|² ⟨s,s⟩) is 1 at the rim of a shadow, and 0 where gray stands before gray.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from unlit.masks.structure import gradients

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

WINDOW = 9
"""Small pixels along one side of the window."""

TOLERANCE = 0.5
"""How far α may be from 1: to 0.3 of this light explains an edge, to 1.3 of it a part."""

FAINT = 2e-6
"""Of the squared change in color: below it, there is no telling light from things."""

_STEEPEST_LIGHT, _STEEPEST_COLOR = 0.3, 0.1
"""Log units a pixel: stronger gradients count as this."""


def color_by_light(light: Floats, color: Floats) -> Floats:
    """Return β (2,): how log-chromaticity (n, 2) goes with log intensity (n,), both less the usual, in a frame."""
    light = np.clip(light - np.median(light), -1.5, 1.5)
    color = np.clip(color - np.median(color, axis=0), -0.5, 0.5)
    return np.asarray(light @ color / (light @ light + np.float32(1e-3) * len(light)))


def without_light_edges(g: Floats, usual: Floats, color: Floats, beta: Floats) -> Floats:
    """Return the gradients `g` (2, y, x) of a frame with the edges that light explains replaced by the usual ones.

    `usual` (2, y, x) is G, `color` (y, x, 2) the frame's log-chromaticity less the usual.
    """
    change = g - usual
    size = np.float32(beta @ beta)
    along = gradients((color @ beta)[None] / (size + np.float32(1e-9)), _STEEPEST_COLOR / np.sqrt(size + 1e-9))[:, 0]
    bounded = np.clip(change, -_STEEPEST_LIGHT, _STEEPEST_LIGHT)
    energy = np.maximum(ndimage.uniform_filter((bounded**2).sum(axis=0), WINDOW), 0)
    alpha = ndimage.uniform_filter((along * bounded).sum(axis=0), WINDOW) / (energy + np.float32(1e-5))
    explained = np.clip(1.3 - np.abs(alpha - 1) / TOLERANCE, 0, 1) * size * energy / (size * energy + FAINT)
    return np.asarray(g - explained * change, np.float32)
