"""Photographs from anything: files of every kind, PIL images, arrays.

Shapes: h x w pixels. What comes out is linear light with the primaries of sRGB, float32 (h, w, 3), alpha aside.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import NDArray

from unlit.color import srgb_to_linear
from unlit.image_io import Encoding, read_image
from unlit.image_io.icc import parse_icc
from unlit.predict.camera import is_camera_file, read_camera_file
from unlit.predict.full_size import strips

if TYPE_CHECKING:
    from PIL.Image import Image as PILImage

    Source = Union[str, os.PathLike[str], PILImage, NDArray[Any]]  # noqa: UP007  # `str | "PILImage"` is no type

BRIGHTEST = 1e30
"""Products and quotients of light up to here stay within float32."""


@dataclass(frozen=True)
class Photo:
    """A photograph in memory."""

    pixels: NDArray[np.float32]
    """(h, w, 3), linear."""
    alpha: NDArray[np.float32] | None = None
    """(h, w), or None."""

    @property
    def is_gray(self) -> bool:
        """Whether all three channels are the same everywhere."""
        return all(
            bool((self.pixels[rows, :, :1] == self.pixels[rows]).all()) for rows in strips(*self.pixels.shape[:2])
        )


def opened(source: Source, encoding: Encoding | None = None) -> Photo:
    """Return the photograph that `source` is or names; ValueError says why there is none."""
    if isinstance(source, str | os.PathLike):
        return _checked(read_photo(Path(source), encoding), str(source))
    if isinstance(source, np.ndarray):
        return _checked(_from_array(source, encoding), "the array")
    if hasattr(source, "getbands"):
        return _checked(_from_pil(source, encoding), "the PIL image")
    raise ValueError(f"a {type(source).__name__} is no photograph; give a path, a PIL image or a NumPy array")


def read_photo(path: Path, encoding: Encoding | None = None) -> Photo:
    """Read a picture of any format, RAW and HEIF included where their extra is installed."""
    if is_camera_file(path):
        pixels, alpha = read_camera_file(path)
        return Photo(pixels, alpha)
    image = read_image(path, encoding=encoding)
    return Photo(image.pixels, image.alpha)


def _from_pil(picture: PILImage, encoding: Encoding | None) -> Photo:
    """Return a PIL image turned upright. Without `encoding` its ICC profile counts, and without that it is sRGB."""
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(picture)
    if upright.mode in ("I;16", "I", "F"):
        return _from_array(np.asarray(upright).astype(np.uint16 if upright.mode == "I;16" else np.float32), encoding)
    has_alpha = "A" in upright.getbands() or "transparency" in upright.info
    words = np.asarray(upright.convert("RGBA" if has_alpha else "RGB"))
    profile = upright.info.get("icc_profile")
    if encoding or not profile or upright.mode not in ("RGB", "RGBA"):
        return _from_array(words, encoding or "srgb")
    try:
        pixels = parse_icc(profile).decoded(np.ascontiguousarray(words[..., :3]))
    except ValueError as error:
        raise ValueError(f'the PIL image has {error}; pass encoding="srgb" or "linear"') from error
    return Photo(np.asarray(pixels, np.float32), _from_array(words, "linear").alpha)


def _from_array(values: NDArray[Any], encoding: Encoding | None) -> Photo:
    """Return an array's light and alpha: gray (h, w), RGB (h, w, 3) or RGBA (h, w, 4)."""
    whole = values.dtype in (np.uint8, np.uint16)
    if not (whole or np.issubdtype(values.dtype, np.floating)):
        raise ValueError(f"the array holds {values.dtype}; give floats with 1 = white, uint8 or uint16")
    if encoding is None and values.dtype != np.uint8:
        raise ValueError(f'the array of {values.dtype} does not say its encoding; pass encoding="srgb" or "linear"')
    if encoding not in (None, "srgb", "linear"):
        raise ValueError(f'the encoding {encoding!r} is not known; pass encoding="srgb" or "linear"')
    if values.ndim == 2 or (values.ndim == 3 and values.shape[-1] == 1):
        values = np.repeat(values.reshape(*values.shape[:2], 1), 3, axis=-1)
    if values.ndim != 3 or values.shape[-1] not in (3, 4) or values.size == 0:
        raise ValueError(f"the array has shape {values.shape}; give (h, w, 3), (h, w, 4) or (h, w)")
    scaled = values / np.float32(np.iinfo(values.dtype).max) if whole else values
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused next
        light = scaled.astype(np.float32, copy=False)
    alpha = np.ascontiguousarray(light[..., 3]) if light.shape[-1] == 4 else None
    color = light[..., :3]
    return Photo(np.ascontiguousarray(color if encoding == "linear" else srgb_to_linear(color), np.float32), alpha)


def _checked(photo: Photo, name: str) -> Photo:
    """Refuse what is no light."""
    for values in (photo.pixels, photo.alpha):
        if values is not None and not -BRIGHTEST <= float(values.min()) <= float(values.max()) <= BRIGHTEST:
            wrong = "values beyond 1e30" if np.isfinite(values).all() else "values that are NaN or infinite"
            raise ValueError(f"{name}: has {wrong}; repair these pixels, or scale them down")
    return photo
