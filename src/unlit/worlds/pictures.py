"""Pictures that may be printed on surfaces: those of scikit-image's package that are in the public domain or CC0.

They are read from the installed package, whose documentation states the terms of each, and none is kept here. A machine
without scikit-image can be given a file with all of them: `python -m unlit.worlds.pictures FILE` writes it where they
can be read, and the environment's UNLIT_PICTURES names it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate

from unlit.color import luminance, srgb_to_linear

SIDE = 256
LEVELS = 5
"""Each picture is kept at 256, 128, ... 16 pixels a side, so that far ones do not flicker."""

PRINTS = (
    "astronaut.png",
    "camera.png",
    "chelsea.png",
    "clock_motion.png",
    "coffee.png",
    "hubble_deep_field.jpg",
    "retina.jpg",
    "rocket.jpg",
    "cell.png",
)
"""Seen as what they are: posters, labels, covers."""

SURFACES = ("brick.png", "text.png")
"""Photographs of flat things, whose own unevenness of light is taken out. Not grass and gravel: what is dark there is
shade, and would be taught as paint."""

FILES = (*PRINTS, *SURFACES)
_FLATTENED = 32
"""Pixels: light that changes over longer distances than this is taken out of SURFACES."""


class PicturesError(ValueError):
    """The pictures cannot be found."""


@functools.cache
def pictures() -> Tensor:
    """Return the pictures (levels, a, 3, 256, 256), linear in [0.02, 0.9], every level at the size of the first."""
    levels = [torch.from_numpy(srgb_to_linear(_bytes().astype(np.float32) / 255)).permute(0, 3, 1, 2)]
    while len(levels) < LEVELS:
        levels.append(avg_pool2d(levels[-1], 2))
    scaled = [interpolate(level, (SIDE, SIDE), mode="bilinear", align_corners=False) for level in levels]
    # Paper and ink: nothing printed is black, or whiter than paper.
    return torch.stack(scaled) * 0.87 + 0.025


@functools.cache
def pictures_on(device: torch.device) -> Tensor:
    """Return `pictures` on a device, where they stay: 43 MB."""
    return pictures().to(device)


def _bytes() -> NDArray[np.uint8]:
    """Return (a, 256, 256, 3) bytes, sRGB-encoded: of the file that UNLIT_PICTURES names, or of the package."""
    named = os.environ.get("UNLIT_PICTURES")
    if named is None:
        return np.stack([_prepared(_place() / name, flat=name in SURFACES) for name in FILES])
    try:
        stored: NDArray[Any] = np.load(named, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise PicturesError(
            f"{named}: cannot be read ({error}); write it with python -m unlit.worlds.pictures"
        ) from error
    if stored.shape != (len(FILES), SIDE, SIDE, 3) or stored.dtype != np.uint8:
        raise PicturesError(f"{named}: holds other pictures; write it anew with python -m unlit.worlds.pictures")
    return stored


def _place() -> Path:
    """Return the folder of scikit-image's pictures, without importing it, which takes a second."""
    found = importlib.util.find_spec("skimage")
    if found is None or not found.submodule_search_locations:
        remedy = "install scikit-image, or set UNLIT_PICTURES (see unlit/worlds/pictures.py)"
        raise PicturesError(f"the pictures for textures are not here; {remedy}")
    return Path(found.submodule_search_locations[0]) / "data"


def _prepared(path: Path, *, flat: bool) -> NDArray[np.uint8]:
    """Return the middle square of a picture (256, 256, 3), sRGB-encoded bytes."""
    from unlit.color import linear_to_srgb
    from unlit.image_io import read_image

    light = torch.from_numpy(read_image(path).pixels).permute(2, 0, 1)[None]
    side = min(light.shape[2:])
    top, left = ((length - side) // 2 for length in light.shape[2:])
    light = interpolate(light[:, :, top : top + side, left : left + side], (SIDE, SIDE), mode="area")
    light = _flattened(light) if flat else light
    pixels_u8: NDArray[np.uint8] = np.rint(255 * linear_to_srgb(light[0].clamp(0, 1)).permute(1, 2, 0).numpy()).astype(
        np.uint8
    )
    return pixels_u8


def _flattened(light: Tensor) -> Tensor:
    """Return a picture (1, 3, h, w) with the coarse part of its brightness divided out, its mean kept."""
    gray = luminance(light, axis=1).clamp_min(1e-3)
    coarse = interpolate(avg_pool2d(gray, _FLATTENED), (SIDE, SIDE), mode="bicubic", align_corners=False)
    return light * (gray.mean() / coarse.clamp_min(0.05))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("unlit: say where to: python -m unlit.worlds.pictures FILE.npy")
    np.save(sys.argv[1], _bytes(), allow_pickle=False)
