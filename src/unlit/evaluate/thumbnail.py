"""Small pictures of a case, for looking at: the photograph, what a method made of it, and the truth where it is known.

Shapes: h x w pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlit.color import linear_to_srgb
from unlit.evaluate.benchmark import Case, Split, Values

LONGEST = 200
"""Longer side, in pixels."""
_PERCENTILE, _BRIGHT = 99, 0.9

Small = NDArray[np.uint8]


@dataclass(frozen=True)
class Row:
    """The small pictures of a case, by what they show."""

    pictures: dict[str, Small]
    """(h, w, 3) bytes, sRGB-encoded, each with its own scale: which brings its 99th percentile to 0.9."""


def row_of(case: Case, splits: Sequence[Split]) -> Row:
    """Return a case's picture and its parts, and those of the truth where it is known; or some frames of a sequence."""
    if len(splits) > 1:
        return _frames_row(case, splits)
    (picture,), (split,) = case.pictures, splits
    shown: dict[str, Any] = {"image": picture.image, "reflectance": split.reflectance, "shading": split.shading}
    shown |= {f"true {part}": getattr(case.truth, part, None) for part in ("reflectance", "shading")}
    return Row({name: small(values, picture.mask) for name, values in shown.items() if values is not None})


def _frames_row(case: Case, splits: Sequence[Split]) -> Row:
    """Return the first, middle and last frame, and what was made of each: reflectances should look the same."""
    places = {"first": 0, "middle": len(splits) // 2, "last": len(splits) - 1}
    shown: dict[str, Any] = {f"{name} frame": case.pictures[k].image for name, k in places.items()}
    shown |= {f"reflectance, {name}": splits[k].reflectance for name, k in places.items()}
    masks = [case.pictures[k].mask for k in places.values()] * 2
    pairs = zip(shown.items(), masks, strict=True)
    return Row({name: small(values, mask) for (name, values), mask in pairs if values is not None})


def small(values: Values, mask: NDArray[np.bool_] | None = None) -> Small:
    """Return a small copy of linear `values` (h, w, 3) or gray (h, w); black where the mask (h, w) is False."""
    rgb = np.repeat(values[..., None], 3, axis=-1) if values.ndim == 2 else values
    if mask is not None:
        rgb = np.where(mask[..., None], rgb, 0)
    rgb = np.nan_to_num(_shrunk(rgb.astype(np.float32)), posinf=0, neginf=0)
    lit = rgb.max(axis=-1)
    bright = float(np.percentile(lit[lit > 0], _PERCENTILE)) if (lit > 0).any() else 1.0
    encoded = linear_to_srgb(np.clip(rgb * np.float32(_BRIGHT / bright), 0, 1))
    bytes_: Small = np.rint(255 * encoded).astype(np.uint8)
    return bytes_


def _shrunk(rgb: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return means over squares of pixels, so many that the longer side is at most `LONGEST`."""
    k = -(-max(rgb.shape[:2]) // LONGEST)
    h, w = (max(1, side // k) for side in rgb.shape[:2])
    kh, kw = (min(k, side) for side in rgb.shape[:2])  # a picture lower than a square is one pixel high
    whole = rgb[: h * kh, : w * kw]
    # Added one by one: NumPy's mean over short axes is ten times as slow.
    total = np.zeros((h, w, rgb.shape[-1]), np.float32)
    for i in range(kh):
        for j in range(kw):
            total += whole[i::kh, j::kw]
    total /= kh * kw
    return total
