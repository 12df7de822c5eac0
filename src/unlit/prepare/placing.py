"""The chosen frames of a shot as they are stored: at their size, and moved so that all show exactly one view.

The small copies told the motion to a tenth of *their* pixels. Here it is measured again at full size, against the mean
field of all chosen frames, each moved by what is known already: that mean has the edges that stay, since shadows differ
from frame to frame. Frames are moved in linear light, by a Lanczos filter, and only where they moved by more than a
tenth of a pixel; what is not moved stays as it was, to the last bit.

Shapes: m frames, h x w pixels.
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import OpenImageIO
from scipy import ndimage

from unlit.color import linear_to_srgb, srgb_to_linear
from unlit.prepare.registration import Motion, moved_back, orientation, packed, register, unpacked
from unlit.prepare.source import FullFrame, encoded_u8, resized, small_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Pixels = NDArray[Any]

_STILL = 0.1
"""Pixels: a frame that moved less is not touched."""
_UNMOVED = 0.25
"""Pixels: a frame that moved less is measured where it is; it adds little blur to the mean."""
_PLAIN = 0.4
"""Pixels: a turn or zoom that moves the corners less is left out, since a shift alone is sharper and quicker."""
_SURE = 12.0
"""The height of a peak below which the motion of the small copies is trusted instead."""
_NEAR = 0.01
"""The share of the longer side by which small copies may have been wrong."""
_LOBES = 3


@dataclass(frozen=True)
class Placed:
    """Frames of one view, in place."""

    frames: tuple[Pixels, ...]
    """m of (h, w, 3): uint8 or uint16, sRGB-encoded; or float32, linear."""
    frames_u8: NDArray[np.uint8]
    """(m, h, w, 3): the same in bytes, to look at."""
    borders: NDArray[np.bool_]
    """(m, h, w): where moving a frame left no picture."""
    invalid: NDArray[np.bool_] | None
    """(m, h, w): what masks that came with the frames leave out."""
    motions: tuple[Motion, ...]
    """From the common place to the frame's own."""


def read_small_enough(frames: Iterable[FullFrame], max_pixels: float) -> list[FullFrame]:
    """Return frames of no more than so many pixels: larger ones are made smaller, in linear light."""
    return [_small_enough(frame, max_pixels) for frame in frames]


def _small_enough(frame: FullFrame, max_pixels: float) -> FullFrame:
    size = (frame.pixels.shape[0], frame.pixels.shape[1])
    wanted = small_size(size, max_pixels)
    if wanted == size:
        return frame
    valid = None
    if frame.valid is not None:  # a pixel counts only if all that it covers does
        cover = resized(np.repeat(frame.valid[..., None], 3, -1).astype(np.float32), wanted)
        valid = cover[..., 0] > 0.999
    return FullFrame(frame.index, _encoded(resized(_linear(frame.pixels), wanted), frame.pixels.dtype), valid)


def _linear(pixels: Pixels) -> NDArray[np.float32]:
    if pixels.dtype == np.float32:
        return pixels
    most = np.iinfo(pixels.dtype).max
    table = srgb_to_linear(np.arange(most + 1, dtype=np.float32) / np.float32(most))
    return np.asarray(table[pixels], np.float32)


def _encoded(pixels: NDArray[np.float32], kind: np.dtype[Any]) -> Pixels:
    """Return linear light as it was stored before."""
    if kind == np.float32:
        return np.maximum(pixels, 0)
    most = np.iinfo(kind).max
    return np.asarray(np.rint(most * linear_to_srgb(np.clip(pixels, 0, 1))), kind)


def _bytes(pixels: Pixels) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels
    return encoded_u8(pixels) if pixels.dtype == np.float32 else np.asarray(pixels >> 8, np.uint8)


def in_place(frames: Sequence[FullFrame], motions: Sequence[Motion], threads: int = 1) -> Placed:
    """Return frames moved to one place. `motions` are those of the small copies, in pixels of these frames."""
    as_bytes = [_bytes(frame.pixels) for frame in frames]
    with ThreadPoolExecutor(threads) as pool:
        refined = _plain_motions(_refined(as_bytes, motions, pool), *as_bytes[0].shape[:2])
        moved, borders, invalid = zip(*pool.map(_moved, frames, refined), strict=True)
    has_masks = any(frame.valid is not None for frame in frames)
    return Placed(
        moved,
        np.stack([_bytes(pixels) for pixels in moved]),
        np.stack(borders),
        np.stack(invalid) if has_masks else None,
        tuple(refined),
    )


def _refined(frames_u8: Sequence[NDArray[np.uint8]], motions: Sequence[Motion], pool: Executor) -> list[Motion]:
    """Return the motions measured again at full size, against the mean of all frames."""
    h, w = frames_u8[0].shape[:2]
    first = [Motion() if motion.farthest(h, w) < _UNMOVED else motion for motion in motions]
    kept = list(pool.map(lambda pixels, motion: packed(orientation(_back(pixels, motion))), frames_u8, first))
    total = np.zeros(frames_u8[0].shape[:2], np.complex64)
    for parts in kept:
        total += unpacked(parts)
    return list(pool.map(partial(_refined_motion, total / np.float32(len(kept))), kept, first, motions))


def _back(pixels_u8: NDArray[np.uint8], motion: Motion) -> NDArray[np.uint8]:
    return pixels_u8 if motion == Motion() else moved_back(pixels_u8, motion)


def _refined_motion(reference: NDArray[np.complex64], parts: NDArray[np.int8], first: Motion, motion: Motion) -> Motion:
    """Return what a frame's motion is more exactly than `motion`, given its field when moved back by `first`."""
    match = register(reference, unpacked(parts), likely=Motion())
    is_sure = match.height >= _SURE and match.motion.farthest(*reference.shape) < _NEAR * max(reference.shape)
    return match.motion.after(first) if is_sure else motion


def _plain_motions(motions: list[Motion], h: int, w: int) -> list[Motion]:
    """Return the motions from the middle one, and turns and zooms that nobody would see left out."""
    middle = np.array([np.median([motion.dx for motion in motions]), np.median([motion.dy for motion in motions])])
    plain = []
    for motion in motions:
        dx, dy = motion.matrix @ -middle + (motion.dx, motion.dy)
        own = Motion(float(dx), float(dy), motion.zoom, motion.turn)
        if Motion(0, 0, own.zoom, own.turn).farthest(h, w) < _PLAIN:
            own = Motion(own.dx, own.dy)
        plain.append(Motion() if own.farthest(h, w) < _STILL else own)
    return plain


def _moved(frame: FullFrame, motion: Motion) -> tuple[Pixels, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return a frame moved back, where that left no picture, and what its mask leaves out."""
    h, w = frame.pixels.shape[:2]
    invalid = np.zeros((h, w), bool) if frame.valid is None else ~frame.valid
    if motion == Motion():
        return frame.pixels, np.zeros((h, w), bool), invalid
    linear = _linear(frame.pixels)
    is_shift = motion.zoom == 1 and motion.turn == 0
    moved = _shifted(linear, motion) if is_shift else _warped(linear, motion)
    y, x = _places(h, w, motion)
    outside = (x < 0) | (x > w - 1) | (y < 0) | (y > h - 1)
    if invalid.any():
        rows, columns = (np.clip(np.rint(v).astype(int), 0, n - 1) for v, n in ((y, h), (x, w)))
        invalid = ndimage.binary_dilation(invalid)[rows, columns]
    return _encoded(moved, frame.pixels.dtype), outside, invalid


def _places(h: int, w: int, motion: Motion) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return from which row and column of the frame each pixel comes."""
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    x, y = x - (w - 1) / 2, y - (h - 1) / 2
    (a, b), (c, d) = motion.matrix
    return c * x + d * y + motion.dy + (h - 1) / 2, a * x + b * y + motion.dx + (w - 1) / 2


def _shifted(pixels: NDArray[np.float32], motion: Motion) -> NDArray[np.float32]:
    """Return a picture shifted back, one axis after the other."""
    for axis, shift in ((0, motion.dy), (1, motion.dx)):
        whole = int(np.floor(shift))
        n = pixels.shape[axis]
        pixels = np.take(pixels, np.clip(np.arange(-_LOBES, n + _LOBES) + whole, 0, n - 1), axis)
        if shift != whole:
            pixels = ndimage.correlate1d(pixels, _lanczos(shift - whole), axis, origin=-1)
        pixels = np.take(pixels, np.arange(_LOBES, n + _LOBES), axis)
    return pixels


def _lanczos(fraction: float) -> NDArray[np.float64]:
    """Return the weights of the pixels −2 to 3 for the value at `fraction` of the way from pixel 0 to 1."""
    t = fraction - np.arange(1 - _LOBES, 1 + _LOBES)
    weights = np.sinc(t) * np.sinc(t / _LOBES)
    return np.asarray(weights / weights.sum())


def _warped(pixels: NDArray[np.float32], motion: Motion) -> NDArray[np.float32]:
    """Return a picture turned and zoomed back; OpenImageIO maps old places to new ones, and a pixel's middle is ½."""
    h, w = pixels.shape[:2]
    inverse = np.linalg.inv(motion.matrix)
    middle = np.array([w / 2, h / 2])
    offset = middle - inverse @ (middle + (motion.dx, motion.dy))  # noqa: RUF005  # a sum of vectors, no concatenation
    (a, b), (c, d) = inverse
    matrix = (a, c, 0, b, d, 0, offset[0], offset[1], 1)
    made = OpenImageIO.ImageBufAlgo.warp(OpenImageIO.ImageBuf(pixels), matrix, "lanczos3", 0.0, False, "WrapClamp")
    OpenImageIO.geterror()  # what nobody asks for is printed at exit
    return np.asarray(made.get_pixels(OpenImageIO.FLOAT), np.float32).reshape(pixels.shape)
