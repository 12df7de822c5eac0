"""What comes and goes in a fixed view, found by statistics over the sequence that tolerate changing light.

First, where there may be things: by structure (`unlit.masks.structure`, `unlit.masks.shadow`) and by color across the
line of light (`unlit.masks.tint`), neither of which a shadow, exposure or the color of the light moves much. Windows
tell this, and so its edges are blurred. Then, pixel by pixel, what of it light cannot explain (`unlit.masks.ratio`),
which takes away rims of shadows and finds the outlines. Shapes: m frames of y x x small pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from unlit.masks.ratio import noise, unexplained, usual_roughness
from unlit.masks.shadow import color_by_light, without_light_edges
from unlit.masks.structure import gradients, mismatch, noise_strength, similar_frames, usual_noise
from unlit.masks.tint import colors_apart, tint_distance
from unlit.masks.usual import median_of_few, middle_of_frame, usual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from unlit.masks.small import SmallFrames

    Floats = NDArray[np.float32]
    Mask = NDArray[np.bool_]

FEWEST = 4
"""Frames: with fewer there is no telling what is usual."""

FINE, COARSE, LIT = 1 / 60, 1 / 20, 1 / 8
"""Windows, as shares of the root of the picture's area: two of structure, at least 5 and 9 small pixels; of light."""

CLOSED = 1 / 36
"""Half the width of gaps in a thing that are closed, as a share of the root of the picture's area."""

FARTHEST = 8.0
"""Deviations: a color farther from the usual counts as no more."""

# Weights of the evidence, from a logistic regression on labelled frames (docs/masks.md), rounded. Where structure
# usually differs a little, things come and go: what is seen there now is more likely to be one of them.
OF_FINE, OF_COARSE, OF_FRAME, OF_PLACE, OF_TINT, OF_NOTHING = 4.0, 7.0, -8.0, 17.0, 0.5, -3.5
LOW, HIGH = 1.7, 3.3
"""Evidence from LOW on may belong to a thing if it is connected to some of HIGH."""

BEYOND_LIGHT = 2.0
"""What light cannot explain by so much, in squared deviations, is a thing."""

_PLACE = 9
"""Small pixels along one side of the window in which places and colors are looked at."""

_BLURRED = 2
"""Small pixels by which a thing may reach beyond its evidence."""


def moving(small: SmallFrames, sensitivity: float) -> Mask:
    """Return where things are that come and go: (m, y, x), the size of `small`."""
    found = np.zeros(small.trusted.shape, bool)
    if len(found) < FEWEST:
        return found
    apart = apart_from_usual(small)
    tint = tint_distance(small, apart[..., 1:])
    evidence, usual_mismatch = structure_evidence(small, apart)
    place = np.float32(OF_PLACE) * ndimage.uniform_filter(usual_mismatch, _PLACE) + np.float32(OF_NOTHING)
    roughness = usual_roughness(apart)
    for i in range(len(found)):
        whole = (evidence[i] + place + tint_evidence(tint[i])) * np.float32(sensitivity)
        candidates = connected(whole > LOW, whole > HIGH)
        if candidates.any():
            variance = noise(roughness, small.log_intensity[i])
            found[i] = things(candidates, apart[i], small.trusted[i], variance)
    return found


def apart_from_usual(small: SmallFrames) -> Floats:
    """Return log intensity and log-chromaticity (m, y, x, 3) less each frame's light and each pixel's usual."""
    logs = small.log_intensity[..., None]
    logs = logs - np.stack([middle_of_frame(frame, k) for frame, k in zip(logs, small.trusted, strict=True)])
    return np.concatenate([logs - usual(logs, small.trusted), colors_apart(small)], axis=-1)


def structure_evidence(small: SmallFrames, apart: Floats) -> tuple[NDArray[np.float16], Floats]:
    """Return how much of the structure of each frame is not the usual, (m, y, x), and how much mostly is, (y, x)."""
    evidence = np.empty(small.trusted.shape, np.float16)
    fine = np.empty_like(evidence)  # half of the digits are enough, and take half of the memory
    for i, (near, wide) in enumerate(mismatches(small, apart)):
        frame = np.float32(OF_FRAME) * np.median(wide[::2, ::2])
        evidence[i] = np.float32(OF_FINE) * near + np.float32(OF_COARSE) * wide + frame
        fine[i] = near
    half = len(fine) // 2
    return evidence, np.partition(fine, half, axis=0)[half].astype(np.float32)


def mismatches(small: SmallFrames, apart: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield, frame by frame, the mismatch of structure in a small and in a large window, (y, x) each."""
    logs, known = small.log_intensity, small.trusted
    g = gradients(logs)
    side = np.sqrt(np.prod(logs.shape[1:]))
    fine, coarse = max(5, round(side * FINE) | 1), max(9, round(side * COARSE) | 1)
    expected = np.median(g, axis=1)
    restless = usual_noise(g, expected)
    for i, like in enumerate(similar_frames(logs)):
        strength = np.maximum(noise_strength(g[:, i], expected), restless)
        seen = [g[:, i]]
        if known[i].any():
            light, color = apart[i, ..., 0], apart[i, ..., 1:]
            beta = color_by_light(light[known[i]], color[known[i]])
            seen = [without_light_edges(g[:, i], expected, color, beta), *seen]
        references = [expected, median_of_few([g[:, j] for j in like])]
        yield mismatch(seen, references, strength, fine), mismatch(seen, references, strength, coarse)


def tint_evidence(tint: Floats) -> Floats:
    """Return what the colors of a frame, `tint` (y, x) deviations from the usual, say of things."""
    distance = np.abs(ndimage.uniform_filter(tint, _PLACE))
    return np.asarray(np.float32(OF_TINT) * np.minimum(distance, np.float32(FARTHEST)))


def things(candidates: Mask, apart: Floats, known: Mask, variance: Floats) -> Mask:
    """Return what of `candidates` (y, x), and beside them, light does not explain: their outlines, filled.

    `apart` (y, x, 3) is how the frame differs from the usual, `variance` (y, x, 3) its noise. Where a pixel is not
    `known` (y, x) there is no telling, and candidates stay.
    """
    side = np.sqrt(candidates.size)
    around = ndimage.binary_dilation(candidates, iterations=_BLURRED)
    beyond = unexplained(apart, known & ~around, variance, round(side * LIT))
    found = around & (ndimage.uniform_filter(beyond, 3) > BEYOND_LIGHT) | candidates & ~known
    found = connected(found, found & candidates)
    return np.asarray(ndimage.binary_fill_holes(closed(found, round(side * CLOSED))))


def connected(mask: Mask, seeds: Mask) -> Mask:
    """Return the connected parts of `mask` (y, x) that have some of `seeds` (y, x)."""
    parts, count = ndimage.label(mask)
    chosen = np.zeros(count + 1, bool)
    chosen[parts[seeds]] = True
    chosen[0] = False
    return np.asarray(chosen[parts])


def closed(mask: Mask, reach: int) -> Mask:
    """Return `mask` (y, x) with gaps of up to twice `reach` filled: some of a thing may look like the ground."""
    if reach < 1 or not mask.any():
        return mask
    padded = np.pad(mask, reach, mode="edge")  # a closing starts from outside, and would open what the edge cuts
    return np.asarray(ndimage.binary_closing(padded, iterations=reach)[reach:-reach, reach:-reach])
