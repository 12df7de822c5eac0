"""Composited time-lapses whose answer is known: a still background, light that changes, things put in.

Shapes: m frames, h x w pixels. Everything is made in linear light and encoded last, as a camera would.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import skimage
from scipy import ndimage

from unlit.color import linear_to_srgb, srgb_to_linear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

PICTURES = ("astronaut", "coffee", "chelsea", "brick", "gravel", "grass", "rocket")
"""Surfaces: pictures that scikit-image's package carries, public domain or CC0."""

WARM, COOL = np.array([1.25, 1.0, 0.62]), np.array([0.78, 1.0, 1.3])
"""The color of a lamp or of low sun, and that of light from the sky alone."""


@dataclass(frozen=True)
class Clip:
    frames_u8: NDArray[np.uint8]
    """(m, h, w, 3), sRGB-encoded."""
    things: Mask
    """(m, h, w): where something was put in."""


def clip(seed: int, *, things: int = 0, m: int = 16, h: int = 120, w: int = 160, kind: str = "day") -> Clip:
    """Return a clip lit as in `kind`: "exposure", "sky" (soft), "day" (sun and shadows), or "lamps" (by night).

    Each frame has up to `things` things, of other pictures or of one color, lit as the background is.
    """
    rng = np.random.default_rng(seed)
    name = rng.choice(PICTURES)
    background = surface(name, h, w)
    frames, masks = [], []
    for i in range(m):
        light = frame_light(rng, kind, i / max(m - 1, 1), h, w)
        others = [other for other in PICTURES if other != name]
        names = [str(other) for other in rng.choice(others, rng.integers(1, things + 1))] if things else []
        paint, mask = with_things(rng, background, names)
        frames.append(photograph(rng, paint * light))
        masks.append(mask)
    return Clip(np.stack(frames), np.stack(masks))


@cache
def surface(name: str, h: int, w: int) -> Floats:
    """Return a cut of the picture `name`, (h, w, 3), taken for reflectance."""
    picture = getattr(skimage.data, name)()
    picture = np.repeat(picture[..., None], 3, axis=-1) if picture.ndim == 2 else picture[..., :3]
    factor = min(picture.shape[0] / h, picture.shape[1] / w)
    rows = (np.arange(h) * factor).astype(int)
    columns = (np.arange(w) * factor).astype(int)
    soft = ndimage.uniform_filter(picture.astype(float), (int(factor) | 1, int(factor) | 1, 1))[rows][:, columns]
    return np.asarray(0.03 + 0.8 * srgb_to_linear(soft / 255))


def with_things(rng: np.random.Generator, background: Floats, names: Sequence[str]) -> tuple[Floats, Mask]:
    """Return the background with things cut out of the pictures `names` laid over it, and where they are."""
    paint, mask = background.copy(), np.zeros(background.shape[:2], bool)
    for name in names:
        where = shape(rng, *background.shape[:2])
        thing = surface(name, *background.shape[:2])
        if rng.random() < 0.5:
            thing = 0.25 * thing / thing.mean() * rng.uniform(0.1, 3, 3)
        paint[where] = np.clip(thing[where], 0.02, 0.9)
        mask |= where
    return paint, mask


def shape(rng: np.random.Generator, h: int, w: int) -> Mask:
    """Return an ellipse or a rectangle of 1/12 to 1/4 of the height, anywhere, turned anyhow."""
    y, x = np.mgrid[:h, :w]
    angle, a, b = rng.uniform(0, np.pi), *rng.uniform(h / 12, h / 4, 2)
    y, x = y - rng.uniform(0, h), x - rng.uniform(0, w)
    u, v = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    inside = (u / a) ** 2 + (v / b) ** 2 < 1 if rng.random() < 0.5 else (abs(u) < a) & (abs(v) < b)
    return np.asarray(inside)


def frame_light(rng: np.random.Generator, kind: str, time: float, h: int, w: int) -> Floats:
    """Return the light of one frame, (h, w, 3); `time` goes from 0 to 1."""
    if kind == "exposure":
        return np.full((h, w, 3), 2.0 ** rng.uniform(-1.5, 0.5))
    if kind == "sky":
        return np.asarray(ramp(rng, h, w)[..., None] * (COOL ** rng.uniform(-1, 1)) * 2.0 ** rng.uniform(-1, 0))
    if kind == "day":
        sun = 0.9 * WARM ** (2 * abs(time - 0.5)) * ramp(rng, h, w)[..., None] * sunlit(rng, time, h, w)[..., None]
        return np.asarray((sun + rng.uniform(0.12, 0.3) * COOL) * 2.0 ** rng.uniform(-0.5, 0.3))
    assert kind == "lamps"
    pools = sum(lamp(rng, h, w)[..., None] * (WARM if rng.random() < 0.7 else COOL) ** 2 for _ in range(3))
    return np.asarray(0.08 * COOL * rng.uniform(0.5, 1.5) + pools)


def ramp(rng: np.random.Generator, h: int, w: int) -> Floats:
    """Return light that falls off to one side, (h, w), from 1 down to 1/2 or so."""
    y, x = np.mgrid[:h, :w]
    angle = rng.uniform(0, 2 * np.pi)
    along = (np.cos(angle) * x / w + np.sin(angle) * y / h) / 2 + 0.5
    return np.asarray(1 - rng.uniform(0, 0.5) * along)


def sunlit(rng: np.random.Generator, time: float, h: int, w: int) -> Floats:
    """Return how much of the sun arrives, (h, w): roofs and posts throw shadows that wander with the time."""
    y, x = np.mgrid[:h, :w]
    shifted = x - (2 * time - 1) * w * (0.3 + 0.7 * (1 - y / h))
    roof = (shifted < 0.35 * w) & (y > 0.2 * h)
    posts = (abs(shifted % (w / 3) - w / 6) < w / 40) & (y > 0.45 * h)
    return np.asarray(1 - ndimage.gaussian_filter((roof | posts).astype(float), rng.uniform(0.4, 2)))


def lamp(rng: np.random.Generator, h: int, w: int) -> Floats:
    """Return the pool of a lamp that is on or off, (h, w)."""
    y, x = np.mgrid[:h, :w]
    where = (y - rng.uniform(0, h)) ** 2 + (x - rng.uniform(0, w)) ** 2
    return np.asarray(rng.uniform(0, 1.2) / (1 + where / (0.25 * h) ** 2))


def photograph(rng: np.random.Generator, light: Floats) -> NDArray[np.uint8]:
    """Return what a camera makes of linear light: noise of photons and of reading, clipping, the sRGB curve, bytes."""
    noisy = light + rng.normal(size=light.shape) * np.sqrt(2e-6 + 2e-4 * light)
    return np.asarray(np.rint(255 * linear_to_srgb(np.clip(noisy, 0, 1))).astype(np.uint8))
