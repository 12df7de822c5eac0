"""The sky of a fixed view, found by what it does over time: clouds pass, while edges of the ground stay where they are.

Notation: g are the gradients of the m frames' log intensity (y x x small pixels). S = |mean of g over frames| is strong
where edges stay, A = mean of |g| also where they pass. Passing edges leave about A / sqrt(m) in S.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import ndimage

from unlit.masks.structure import gradients

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unlit.masks.small import SmallFrames

    Floats = NDArray[np.float32]

STEEPEST = 0.15
"""Log units a pixel: stronger gradients count as this, so that a single frame's edge does not count for many."""

PLAIN, LAID_OUT = 0.012, 0.025
"""Log units a pixel, of S: less than PLAIN in what may be sky, more than LAID_OUT in what is not."""

OTHER = 0.08
"""Log units: plain parts that are brighter, darker or bluer than the sky beside them by more, on average over the
frames and beyond chance, are something else: snow, a roof. Clouds are now here, now there."""

BRIGHT = 0.5
"""Sky is brighter than this share of its frame, on average over the frames."""

BLUER = 0.02
"""Log units: by how much the sky's blue over green is above that of the ground, usually."""

SMALLEST, WIDEST = 0.005, 0.1
"""A sky fills at least the first share of the picture, and the second of its top row."""

FEWEST = 4
"""Frames: with fewer, clouds do not pass."""


def sky(small: SmallFrames) -> NDArray[np.bool_]:
    """Return the region (y, x) that is sky; nothing where no region behaves like one."""
    logs = small.log_intensity
    nothing = np.zeros(logs.shape[1:], bool)
    if len(logs) < FEWEST:
        return nothing
    staying, passing = edges_over_time(logs)
    left = ndimage.uniform_filter(passing, 7) / np.float32(np.sqrt(2 * len(logs)))
    around = ndimage.uniform_filter(ndimage.gaussian_filter(staying, 0.7) - left, 3)
    sure = _surely_sky((ndimage.maximum_filter(around, 3) < PLAIN) & (brightness_rank(logs) > BRIGHT))
    if not sure.any():
        return nothing
    plain = (around < PLAIN) & ~ndimage.binary_dilation(sure, iterations=4)
    found = _grown(sure, ndimage.binary_erosion(around > LAID_OUT) | _other_than_sky(plain, sure, small), staying)
    return found if _is_sky(found, small) else nothing


def edges_over_time(logs: Floats) -> tuple[Floats, Floats]:
    """Return S and A of (m, y, x) logs, each (y, x)."""
    g = gradients(logs, STEEPEST)
    return np.hypot(*g.mean(axis=1)), np.hypot(g[0], g[1]).mean(axis=0)


def brightness_rank(logs: Floats) -> Floats:
    """Return the share of its frame that a pixel is brighter than, averaged over (m, y, x) frames: (y, x)."""
    rank = np.zeros(logs.shape[1:])
    for frame in logs:
        level = ((frame - frame.min()) * (1023 / max(float(np.ptp(frame)), 1e-6))).astype(np.intp)
        counts = np.bincount(level.ravel(), minlength=1024)
        rank += ((np.cumsum(counts) - counts / 2) / frame.size)[level]
    return (rank / len(logs)).astype(np.float32)


def _surely_sky(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return what of `mask` (y, x) is connected to the top of the picture, by more than a gap between two edges."""
    core = _from_the_top(ndimage.binary_erosion(mask, iterations=2, border_value=1))
    return np.asarray(ndimage.binary_dilation(core, iterations=2) & mask)


def _from_the_top(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the connected parts of `mask` (y, x) that reach the top of the picture, or nearly."""
    parts, _ = ndimage.label(mask)
    top = parts[: max(2, len(mask) // 50)]
    return np.asarray(np.isin(parts, top[top > 0]))


def _other_than_sky(plain: NDArray[np.bool_], sure: NDArray[np.bool_], small: SmallFrames) -> NDArray[np.bool_]:
    """Return the parts of `plain` (y, x) that do not go with the sky beside them, or have none beside them."""
    parts, _ = ndimage.label(plain)
    other = np.zeros(plain.shape, bool)
    for number, place in enumerate(ndimage.find_objects(parts), 1):
        wide = tuple(slice(max(0, side.start - 12), side.stop + 12) for side in place)
        part = parts[wide] == number
        if part.sum() >= 20:
            beside = ndimage.binary_dilation(part, iterations=12) & sure[wide]
            other[wide] |= part & _differs(part, beside, wide, small)
    return other


def _differs(
    part: NDArray[np.bool_], beside: NDArray[np.bool_], place: tuple[slice, ...], small: SmallFrames
) -> np.bool_:
    if not beside.any():
        return np.bool_(True)
    frames = (slice(None), *place)
    for values in (small.log_intensity[frames], small.log_chromaticity[..., 1][frames]):
        difference = values[:, part].mean(axis=1) - values[:, beside].mean(axis=1)
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        if abs(difference.mean()) > max(OTHER, 4 * error):
            return np.bool_(True)
    return np.bool_(False)


def _grown(sure: NDArray[np.bool_], never: NDArray[np.bool_], staying: Floats) -> NDArray[np.bool_]:
    """Return the surely sky grown to the strongest edge between it and what surely is not: a watershed of S."""
    from skimage.segmentation import watershed  # takes a while to import

    marks = np.where(sure, 1, np.where(never, 2, 0))
    marks[-1][marks[-1] == 0] = 2  # nobody films with the sky below
    ridges = ndimage.gaussian_filter(staying, 0.7)
    found = watershed(ridges, marks) == 1  # type: ignore[no-untyped-call]  # scikit-image has no types
    return _from_the_top(np.asarray(ndimage.binary_fill_holes(found)))


def _is_sky(found: NDArray[np.bool_], small: SmallFrames) -> bool:
    """Return whether the region (y, x) is large enough, wide enough at the top, and bluer than the rest."""
    if found.mean() < SMALLEST or found[0].mean() < WIDEST or found.all():
        return False
    blue = small.log_chromaticity[..., 1]
    bluer = [np.median(frame[found]) - np.median(frame[~found]) for frame in blue]
    return bool(np.median(bluer) > BLUER)
