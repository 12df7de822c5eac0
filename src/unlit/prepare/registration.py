"""How a frame's view lies to another's: shift, turn and zoom to a fraction of a pixel, whatever the light.

Light changes brightness, color and the contrast of edges, even its sign; it seldom changes where the edges of things
are and which way they run. So a picture becomes a field of orientations: at each pixel the square of its gradient as
a complex number, whose angle is twice the edge's (so that a contrast turned round is the same), and whose length says
whether there is an edge at all. Two fields are correlated through their Fourier transforms, half whitened. Shadows
have edges too, which wander; each disagrees with all others, so they lower the peak but do not move it.

Shapes: h x w pixels, b blocks. Coordinates are (x, y) in pixels from the picture's middle. `Motion` says where a point
of the reference is seen in the frame: q = zoom · R(turn) p + (dx, dy).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import fft, ndimage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Field = NDArray[np.complex64]

LUMA = np.array([0.299, 0.587, 0.114], np.float32)
_NOISE = 0.003
"""Gradients of this size, a pixel, are noise: sRGB-encoded, 1 = white."""
_EDGE = 0.08
"""The share of a picture's side over which a field fades out: the transform takes left and right for neighbors."""
_CHANCE = 6.0
"""The height up to which a peak may be chance, in a block."""
_GRID = 3
"""Blocks along each side whose own shifts tell turn and zoom."""


@dataclass(frozen=True)
class Motion:
    """Where a point of the reference, from the middle, is seen in the frame: q = zoom · R(turn) p + (dx, dy)."""

    dx: float = 0.0
    dy: float = 0.0
    zoom: float = 1.0
    turn: float = 0.0
    """Radians, from x to y."""

    @property
    def matrix(self) -> NDArray[np.float64]:
        """(2, 2), of (x, y)."""
        c, s = self.zoom * np.cos(self.turn), self.zoom * np.sin(self.turn)
        return np.array([[c, -s], [s, c]])

    def farthest(self, h: int, w: int) -> float:
        """Return by how many pixels the corner of a picture of h x w moves that moves most."""
        corners = np.array([[x, y] for x in (-w / 2, w / 2) for y in (-h / 2, h / 2)])
        moved = corners @ self.matrix.T + (self.dx, self.dy) - corners
        return float(np.hypot(*moved.T).max())

    def after(self, first: Motion) -> Motion:
        """Return the motion that `first` and then this one make of a frame moved back by `first` and measured again.

        Such a frame shows at p what the frame itself shows at first(p); so a point of the reference at p is found in
        the frame at first(this(p)).
        """
        own = complex(first.zoom * np.cos(first.turn), first.zoom * np.sin(first.turn))
        shift = own * complex(self.dx, self.dy) + complex(first.dx, first.dy)
        return Motion(shift.real, shift.imag, first.zoom * self.zoom, first.turn + self.turn)

    def scaled(self, factor: float) -> Motion:
        """Return the same motion of a picture that is larger by `factor`."""
        return Motion(self.dx * factor, self.dy * factor, self.zoom, self.turn)


@dataclass(frozen=True)
class Match:
    """A motion, and how far its peak stands out."""

    motion: Motion
    height: float
    """The peak of the correlation in standard deviations of the rest: about 5 by chance, 10 to 100 for one view."""


def orientation(pixels_u8: NDArray[np.uint8]) -> Field:
    """Return the field of orientations (h, w) of an 8-bit sRGB picture (h, w, 3)."""
    gray = ndimage.gaussian_filter(pixels_u8 @ (LUMA / 255), 1.0, truncate=3)
    gx = ndimage.correlate1d(gray, [-0.5, 0, 0.5], 1, mode="nearest")
    gy = ndimage.correlate1d(gray, [-0.5, 0, 0.5], 0, mode="nearest")
    strength = gx * gx + gy * gy
    field = np.empty(gray.shape, np.complex64)
    field.real, field.imag = gx * gx - gy * gy, 2 * gx * gy
    # The picture's own median gradient is the measure, so that dusk has edges as noon has.
    field /= strength + max(_NOISE**2, float(np.median(strength[::3, ::3])))
    return field


def packed(field: Field) -> NDArray[np.int8]:
    """Return a field, whose numbers are at most 1 long, in bytes (2, h, w): a quarter of the memory."""
    return np.asarray(np.rint(127 * np.stack([field.real, field.imag])), np.int8)


def unpacked(parts: NDArray[np.int8]) -> Field:
    """Return the field that was packed."""
    return np.asarray((parts[0] + np.complex64(1j) * parts[1]) / np.float32(127), np.complex64)


@lru_cache(maxsize=16)
def _fade(h: int, w: int) -> NDArray[np.float32]:
    def side(n: int) -> NDArray[np.float64]:
        inside = np.minimum(np.arange(n), np.arange(n)[::-1]) + 0.5
        return np.sin(np.pi / 2 * np.clip(inside / (_EDGE * n), 0, 1))

    return np.outer(side(h), side(w)).astype(np.float32)


def _correlated(reference: NDArray[Any], field: NDArray[Any]) -> NDArray[np.float32]:
    """Return the half-whitened correlations (..., h', w') over all shifts, that of zero in the first corner."""
    h, w = reference.shape[-2:]
    size = (fft.next_fast_len(h), fft.next_fast_len(w))
    fade = _fade(h, w)
    a, b = fft.fft2(reference * fade, size), fft.fft2(field * fade, size)
    return np.asarray(fft.ifft2(_whitened(a.conj() * b)).real, np.float32)


def _whitened(product: NDArray[Any]) -> NDArray[Any]:
    """Return a product of transforms with the frequencies nearer to each other in strength.

    All alike would make the sharpest peak and the noisiest; the square root stands between, and failed least often.
    """
    return np.asarray(product / (np.sqrt(np.abs(product)) + 1e-6))


def _peaks(values: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the places (b, 2) of the highest values as (x, y) shifts, to a fraction, and their heights (b,)."""
    b, h, w = values.shape
    flat = values.reshape(b, -1)
    y, x = np.divmod(flat.argmax(1), w)
    rows = np.arange(b)
    spread = flat.std(1) + 1e-12
    heights = (flat[rows, y * w + x] - flat.mean(1)) / spread
    places = []
    for place, n, step in ((x, w, (0, 1)), (y, h, (1, 0))):
        before = values[rows, (y - step[0]) % h, (x - step[1]) % w]
        after = values[rows, (y + step[0]) % h, (x + step[1]) % w]
        bend = 2 * values[rows, y, x] - before - after
        fraction = np.where(bend > 0, (after - before) / np.maximum(2 * bend, 1e-12), 0)
        places.append((place + n // 2) % n - n // 2 + np.clip(fraction, -0.5, 0.5))
    return np.stack(places, 1), heights


def register(reference: Field, field: Field, *, likely: Motion | None = None) -> Match:
    """Return the motion from the reference's view to the frame's, both (h, w).

    The whole picture gives the shift; blocks, moved by it, give what shifts of their own remain, and so turn and zoom.
    Blocks without structure, or with a car in them, are outvoted. `likely` is tried first, to spare the search.
    """
    shift, height = _shift(reference, field) if likely is None else ((round(likely.dx), round(likely.dy)), np.inf)
    places, own, heights = _block_shifts(reference, field, round(shift[0]), round(shift[1]))
    motion = _fitted(places, own, np.maximum(heights - _CHANCE, 0))
    if motion is None:  # no block stands out by itself
        return Match(Motion(*shift), height)
    return Match(motion, height if np.isfinite(height) else float(np.sqrt((heights**2).sum())))


def _shift(reference: Field, field: Field) -> tuple[tuple[float, float], float]:
    (place,), (height,) = _peaks(_correlated(reference, field)[None])
    return (float(place[0]), float(place[1])), float(height)


def _block_shifts(
    reference: Field, field: Field, dx: int, dy: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the blocks' middles (b, 2), their shifts (b, 2), each at least (dx, dy), and the heights of the peaks."""
    h, w = reference.shape
    top, left = max(0, -dy), max(0, -dx)
    bottom, right = min(h, h - dy), min(w, w - dx)
    high, wide = (bottom - top) // _GRID, (right - left) // _GRID
    if min(high, wide) < 8:
        return np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0)
    corners = [(top + i * high, left + j * wide) for i in range(_GRID) for j in range(_GRID)]
    here = np.stack([reference[y : y + high, x : x + wide] for y, x in corners])
    there = np.stack([field[y + dy : y + dy + high, x + dx : x + dx + wide] for y, x in corners])
    rest, heights = _peaks(_correlated(here, there))
    middles = np.array([(x + (wide - 1) / 2 - (w - 1) / 2, y + (high - 1) / 2 - (h - 1) / 2) for y, x in corners])
    return middles, rest + np.array([dx, dy]), heights


def _fitted(p: NDArray[np.float64], shifts: NDArray[np.float64], weights: NDArray[np.float64]) -> Motion | None:
    """Return the motion that fits the blocks' shifts best, those that disagree with it left aside; None if too few."""
    kept = weights > 0
    if kept.sum() < 3:
        return None
    median = np.median(shifts[kept], 0)
    kept &= np.hypot(*(shifts - median).T) < max(2.0, 3 * float(np.median(np.hypot(*(shifts[kept] - median).T))))
    motion = None
    for _ in range(3):
        if kept.sum() < 3:
            return motion
        motion = _least_squares(p[kept], (p + shifts)[kept], weights[kept])
        off = np.hypot(*((p @ motion.matrix.T + (motion.dx, motion.dy)) - p - shifts).T)
        kept = (weights > 0) & (off < max(0.5, 2.5 * float(np.median(off[weights > 0]))))
    return motion


def _least_squares(p: NDArray[np.float64], q: NDArray[np.float64], weights: NDArray[np.float64]) -> Motion:
    """Return the motion that makes Σ w |zoom · R p + d − q|² least; as complex numbers it is a line, q = a p + d."""
    u, v = p[:, 0] + 1j * p[:, 1], q[:, 0] + 1j * q[:, 1]
    share = weights / weights.sum()
    mean_u, mean_v = (share * u).sum(), (share * v).sum()
    spread = (share * np.abs(u - mean_u) ** 2).sum()
    a = (share * (u - mean_u).conj() * (v - mean_v)).sum() / spread if spread > 0 else 1 + 0j
    d = mean_v - a * mean_u
    return Motion(float(d.real), float(d.imag), float(abs(a)), float(np.angle(a)))


def moved_back(pixels_u8: NDArray[np.uint8], motion: Motion) -> NDArray[np.uint8]:
    """Return a small copy (h, w, 3) moved so that it lies as the reference does: quick, for fields, not for keeping."""
    h, w = pixels_u8.shape[:2]
    matrix = motion.matrix[::-1, ::-1]  # ndimage counts rows first
    middle = np.array([(h - 1) / 2, (w - 1) / 2])
    offset = middle + np.array([motion.dy, motion.dx]) - matrix @ middle
    gray = ndimage.affine_transform(pixels_u8 @ LUMA, matrix, offset, order=1, mode="nearest")
    return np.broadcast_to(np.rint(gray).astype(np.uint8)[..., None], (h, w, 3))
