"""What comes and goes in a fixed view, found by statistics over the sequence that tolerate changing light.

Two things are looked at, neither of which a shadow, exposure or the color of the light moves much: structure
(`unlit.masks.structure`, `unlit.masks.shadow`) and color across the line of light (`unlit.masks.tint`). Shapes: m
frames of y x x small pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from unlit.masks.shadow import color_by_light, without_light_edges
from unlit.masks.structure import gradients, mismatch, noise_strength, similar_frames, usual_noise
from unlit.masks.tint import colors_apart, tint_distance
from unlit.masks.usual import median_of_few, usual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from unlit.masks.small import SmallFrames

    Floats = NDArray[np.float32]

FEWEST = 4
"""Frames: with fewer there is no telling what is usual."""

FINE, COARSE = 1 / 60, 1 / 20
"""Windows of structure, as shares of the root of the picture's area; never less than 5 and 9 small pixels."""

CLOSED = 1 / 36
"""Half the width of gaps in a thing that are closed, as a share of the root of the picture's area."""

FARTHEST = 8.0
"""Deviations: a color farther from the usual counts as no more."""

# Weights of the evidence, from a logistic regression on labelled frames and composited clips (docs/masks.md), rounded.
OF_FINE, OF_COARSE, OF_FRAME, OF_TINT, OF_WIDE_TINT = 1.2, 5.0, -7.0, 0.2, 0.3
LOW, HIGH = 1.65, 2.6
"""Evidence from LOW on belongs to a thing if it is connected to some of HIGH."""


def moving(small: SmallFrames, sensitivity: float) -> NDArray[np.bool_]:
    """Return where things are that come and go: (m, y, x), the size of `small`."""
    found = np.zeros(small.trusted.shape, bool)
    if len(found) >= FEWEST:
        apart = colors_apart(small)
        tint = tint_distance(small, apart)
        for i, evidence in enumerate(structure_evidence(small, apart)):
            evidence += tint_evidence(tint[i])
            found[i] = things(evidence * np.float32(sensitivity), small.log_intensity[i])
    return found


def structure_evidence(small: SmallFrames, apart: Floats) -> Iterator[Floats]:
    """Yield, frame by frame, how much of the structure is not the usual: (y, x). `apart` is that of the colors."""
    logs, known = small.log_intensity, small.trusted
    g = gradients(logs)
    side = np.sqrt(np.prod(logs.shape[1:]))
    fine, coarse = max(5, round(side * FINE) | 1), max(9, round(side * COARSE) | 1)
    usual_light = usual(logs[..., None], known)[..., 0]
    expected = np.median(g, axis=1)
    restless = usual_noise(g, expected)
    for i, like in enumerate(similar_frames(logs)):
        noise = np.maximum(noise_strength(g[:, i], expected), restless)
        seen = [g[:, i]]
        if known[i].any():
            beta = color_by_light((logs[i] - usual_light)[known[i]], apart[i][known[i]])
            seen = [without_light_edges(g[:, i], expected, apart[i], beta), *seen]
        references = [expected, median_of_few([g[:, j] for j in like])]
        near, wide = (mismatch(seen, references, noise, window) for window in (fine, coarse))
        # Where the whole frame is unlike the others, as by night, a mismatch says less.
        yield np.float32(OF_FINE) * near + np.float32(OF_COARSE) * wide + np.float32(OF_FRAME * np.median(near))


def tint_evidence(tint: Floats) -> Floats:
    """Return what the colors of a frame, `tint` (y, x) deviations from the usual, say of things."""
    near, wide = (np.minimum(np.abs(ndimage.uniform_filter(tint, window)), FARTHEST) for window in (3, 9))
    return np.asarray(np.float32(OF_TINT) * near + np.float32(OF_WIDE_TINT) * wide)


def things(evidence: Floats, guide: Floats) -> NDArray[np.bool_]:
    """Return the regions (y, x) of evidence that are things, drawn along the edges of the frame, `guide` (y, x)."""
    evidence = drawn_to_edges(evidence, guide)
    parts, count = ndimage.label(evidence > LOW)
    strong = np.zeros(count + 1, bool)
    strong[parts[evidence > HIGH]] = True
    return np.asarray(ndimage.binary_fill_holes(closed(strong[parts], round(np.sqrt(evidence.size) * CLOSED))))


def closed(mask: NDArray[np.bool_], reach: int) -> NDArray[np.bool_]:
    """Return `mask` (y, x) with gaps of up to twice `reach` filled: the plain middle of a thing has no structure."""
    if reach < 1 or not mask.any():
        return mask
    padded = np.pad(mask, reach, mode="edge")  # a closing starts from outside, and would open what the edge cuts
    return np.asarray(ndimage.binary_closing(padded, iterations=reach)[reach:-reach, reach:-reach])


def drawn_to_edges(values: Floats, guide: Floats, window: int = 9, softness: float = 0.1) -> Floats:
    """Return `values` (y, x) smoothed where `guide` (y, x) is smooth: a guided filter (He et al. 2010)."""
    mean_guide, mean_values = ndimage.uniform_filter(guide, window), ndimage.uniform_filter(values, window)
    variance = ndimage.uniform_filter(guide * guide, window) - mean_guide**2
    slope = ndimage.uniform_filter(guide * values, window) - mean_guide * mean_values
    slope /= np.maximum(variance, 0) + np.float32(softness**2)
    offset = mean_values - slope * mean_guide
    return np.asarray(ndimage.uniform_filter(slope, window) * guide + ndimage.uniform_filter(offset, window))
