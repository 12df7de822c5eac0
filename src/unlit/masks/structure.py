"""How far a frame's structure is from the usual one: gradients of log intensity, which light changes little.

Notation: g is the gradient of a frame, G that of a reference (both vectors), ν the strength of noise. In a window
around a pixel, with ⟨,⟩ the mean of products over the window,

    mismatch = 1 − (⟨g,G⟩ + ν) / sqrt((⟨g,g⟩ + ν) (⟨G,G⟩ + ν))

is 0 where both have the same edges, or none stronger than noise; near 1 where one has edges that the other lacks; more
where edges are reversed. A shadow multiplies the light, so its inside has g = G; only its rim stands out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from unlit.masks.small import block_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

STEEPEST = 0.5
"""Log units a pixel: stronger gradients count as this, so that one edge does not outweigh the window."""

NOISE_FACTOR, NOISE_FLOOR = 3.0, 1e-4
"""ν is so many times the median of |g − G|² in the frame, and this more."""

SIMILAR = 5
"""Frames lit most like the one looked at, whose median is its second reference."""

_LIGHT_BLOCK = 8
"""Small pixels along one side of the blocks in which frames are compared by their light."""


def gradients(logs: Floats, steepest: float = STEEPEST) -> Floats:
    """Return the gradients of (m, y, x) logs, (2, m, y, x): down, and to the right; zero at the edges."""
    g = np.zeros((2, *logs.shape), np.float32)
    g[0, :, 1:-1] = (logs[:, 2:] - logs[:, :-2]) / 2
    g[1, :, :, 1:-1] = (logs[:, :, 2:] - logs[:, :, :-2]) / 2
    return np.clip(g, -steepest, steepest, out=g)


def similar_frames(log_intensity: Floats) -> NDArray[np.intp]:
    """Return, for each of (m, y, x) frames, the numbers of those lit most like it, itself left out: (m, at most 5).

    Under direct sun edges differ from those under clouds: relief throws shadows. A frame is therefore also compared
    with its like. Light is compared on blocks, exposure aside.
    """
    blocks = np.stack([block_mean(frame[..., None], _LIGHT_BLOCK).ravel() for frame in log_intensity])
    blocks -= np.median(blocks, axis=1, keepdims=True)
    blocks = np.clip(blocks - np.median(blocks, axis=0), -1.5, 1.5)  # a thing is not to outweigh the light
    distance = ((blocks[:, None] - blocks[None]) ** 2).sum(axis=-1)
    np.fill_diagonal(distance, np.inf)
    return np.argsort(distance, axis=1, kind="stable")[:, : min(SIMILAR, (len(blocks) - 1) // 2)]


def mismatch(seen: list[Floats], references: list[Floats], noise: Floats, window: int) -> Floats:
    """Return the mismatch (y, x) of gradients (2, y, x), the best of the ways they are seen and of the references."""
    nu = np.asarray(noise, np.float32)
    own = [_mean_product(g, g, window) + nu for g in seen]
    others = [_mean_product(reference, reference, window) + nu for reference in references]
    best = np.full(own[0].shape, -np.inf, np.float32)
    for g, g_g in zip(seen, own, strict=True):
        for reference, r_r in zip(references, others, strict=True):
            np.maximum(best, (_mean_product(g, reference, window) + nu) / np.sqrt(g_g * r_r), out=best)
    return 1 - best


def _mean_product(a: Floats, b: Floats, window: int) -> Floats:
    """Return ⟨a, b⟩ around each pixel, (y, x)."""
    means: Floats = ndimage.uniform_filter(a[0] * b[0] + a[1] * b[1], window)
    return np.maximum(means, 0) if a is b else means  # rounding can leave squares below zero


def noise_strength(g: Floats, reference: Floats) -> float:
    """Return ν for a frame: most pixels differ from the reference by noise and by light, not by things."""
    return NOISE_FACTOR * float(np.median(((g - reference) ** 2).sum(axis=0)[::2, ::2])) + NOISE_FLOOR


def usual_noise(g: Floats, reference: Floats) -> Floats:
    """Return ν (y, x) by what is usual at each pixel of (2, m, y, x): leaves and dark corners are never still."""
    change = ((g - reference[:, None]) ** 2).sum(axis=0)
    half = change.shape[0] // 2
    middle = np.partition(change, half, axis=0)[half]
    return np.asarray(ndimage.uniform_filter(middle, 5) + NOISE_FLOOR, np.float32)
