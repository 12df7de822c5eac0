"""What is given back for one photograph: reflectance and shading at its own size, whose product it is.

Shapes: h x w pixels; pictures are (h, w, 3), float32, linear light with the primaries of sRGB.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from unlit.predict.blackest import raised, too_dark
from unlit.predict.colored_light import add_own_color, by_light
from unlit.predict.darkness import LEAST, noise_of
from unlit.predict.exact import lost_light
from unlit.predict.full_size import Places, each, strips

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from unlit.image_io import Encoding
    from unlit.predict.results import Format


Part = Literal["reflectance", "shading"]


@dataclass(frozen=True, repr=False)
class PhotoDecomposition:
    """A photograph split into what its surfaces are and the light on them."""

    image: NDArray[np.float32]
    """(h, w, 3): the photograph, upright."""
    gray_shading: NDArray[np.float32]
    """(h, w), positive: the shading without the light's color; where surfaces would be too dark (`predict/blackest.py`)
    there is less of it."""
    light_color: NDArray[np.float32]
    """(3,), positive, with a geometric mean of 1: the color of the light, but for what `color_share` adds to it."""
    alpha: NDArray[np.float32] | None = None
    """(h, w), opaque = 1, as the photograph has it; None where it has none."""
    weights: str = ""
    """Which model it was."""
    weights_sha256: str = ""
    raw_reflectance: NDArray[np.float32] | None = None
    """(h, w, 3): the network's own, where it was asked for (exact=False); None where the product is to be exact."""
    color_share: NDArray[np.float32] | None = None
    """(h', w'), of a smaller size: how much of a pixel's own color is its light's (`predict/colored_light.py`), from 0
    to 1. None where the light has one color."""
    around: NDArray[np.float32] | None = None
    """(h', w', 3): the small picture that the network saw, with white at 1 (`predict/darkness.py`)."""
    exposure: float = 1.0
    """What is white there."""

    def __repr__(self) -> str:
        """Return what it is in a line, without its millions of numbers."""
        h, w, _ = self.image.shape
        return f"PhotoDecomposition({w} x {h} pixels, {'exact' if self.is_exact else 'raw'}, weights {self.weights!r})"

    @property
    def is_exact(self) -> bool:
        """Whether reflectance times shading is the image."""
        return self.raw_reflectance is None

    @cached_property
    def reflectance(self) -> NDArray[np.float32]:
        """(h, w, 3): negative only where the image is, and at most 1 but for rounding, if exact."""
        return self.whole("reflectance") if self.raw_reflectance is None else self.raw_reflectance

    @cached_property
    def shading(self) -> NDArray[np.float32]:
        """(h, w, 3): the light's amount and color."""
        return self.whole("shading")

    @cached_property
    def clipped(self) -> NDArray[np.bool_]:
        """(h, w): True where the photograph lost how bright it was (a channel at white, or all black).

        The product is exact there too, but the photograph says little of the surface.
        """
        return lost_light(self.image)

    def strip(self, part: Part, rows: slice) -> NDArray[np.float32]:
        """Return some rows of a part, computed anew: for large photographs, whose parts need not exist as a whole."""
        if part == "reflectance" and self.raw_reflectance is not None:
            return self.raw_reflectance[rows]
        image, gray = self.image[rows], self.gray_shading[rows]
        out = np.empty(image.shape, np.float32)
        for k in range(3):  # NumPy multiplies long rows several times as fast as many threes
            np.multiply(gray, self.light_color[k], out=out[..., k])
        if self.raw_reflectance is not None:
            return out
        parts, level = by_light(image, self.light_color)
        if self.color_share is not None:
            add_own_color(out, parts, level, self._share(self.color_share, rows))
        noise, lighter = self._noise(image, out, rows)
        counted = image.copy() if noise.size else image
        counted.reshape(-1)[noise] = lighter
        dark, levels = too_dark(level, gray)
        lights = out.reshape(-1, 3).take(dark, 0)
        blackest, faint = raised(counted.reshape(-1, 3).take(dark, 0) / lights, lights, levels)
        if part == "shading":
            out.reshape(-1, 3)[dark] = np.maximum(faint, LEAST)
            flat = out.reshape(-1)
            flat[noise] = np.maximum(flat[noise] * (image.reshape(-1)[noise] / lighter), LEAST)
            return out
        for k in range(3):
            np.divide(counted[..., k], out[..., k], out=out[..., k])
        out.reshape(-1, 3)[dark] = blackest
        return out

    def _noise(
        self, image: NDArray[np.float32], shading: NDArray[np.float32], rows: slice
    ) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return where, in some flattened rows, black is noise, and what the picture counts as there."""
        if self.around is None:
            return np.empty(0, np.intp), np.empty(0, np.float32)
        height = len(self.image)
        return noise_of(image, shading, self.around, self.exposure, np.arange(height)[rows], height)

    def _share(self, small: NDArray[np.float32], rows: slice) -> NDArray[np.float32]:
        """Return the color's share of some rows, at the photograph's own size."""
        h, w, _ = self.image.shape
        at_rows = Places(h, small.shape[0]).interpolated(small, rows, axis=0)
        return Places(w, small.shape[1]).interpolated(at_rows, slice(0, w), axis=1)

    def whole(self, part: Part) -> NDArray[np.float32]:
        """Return a part (h, w, 3), by as many threads as there are processors."""
        out = np.empty_like(self.image)

        def fill(rows: slice) -> None:
            out[rows] = self.strip(part, rows)

        each(fill, strips(*self.image.shape[:2]), None)
        return out

    def recompose(self) -> NDArray[np.float32]:
        """Return reflectance times shading: the image, to rounding, if exact."""
        return self.reflectance * self.shading

    def save(
        self,
        folder: str | os.PathLike[str],
        stem: str = "photo",
        *,
        format: Format = "png",  # noqa: A002  # the promised word
        encoding: Encoding | None = None,
        bits: int | None = None,
        force: bool = False,
    ) -> list[Path]:
        """Write `<stem>.reflectance`, `<stem>.shading` and `<stem>.unlit.json` into `folder`, and return their paths.

        See docs/photos.md for formats. Nothing is overwritten unless `force`.
        """
        from unlit.predict.saving import save_photo

        return save_photo(self, folder, stem, format=format, encoding=encoding, bits=bits, force=force)
