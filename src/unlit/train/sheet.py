"""A sheet of pictures: how the network splits a few frames just now.

Shapes: m frames, h x w pixels. Rows are frames, columns are frame, reflectance and shading.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from unlit.color import linear_to_srgb
from unlit.model.decomposition import Decomposition
from unlit.train.durable import replace_durably

ROWS = 4
WIDTH = 1600
"""At most, in pixels."""
_GUTTER = 4
_GUTTER_LIGHT = 0.6
"""Linear: a light gray."""
_PERCENTILE, _BRIGHT = 99, 0.9
_DIMMEST, _BRIGHTEST = 1e-6, 1e6
"""A network may say anything while it learns; beyond these, pictures are not looked at."""


def sheet_pixels(frames: Tensor, decomposition: Decomposition) -> NDArray[np.float32]:
    """Return the sheet (h', w', 3), linear light in [0, 1], at most `WIDTH` wide, of `ROWS` frames at most.

    `frames` is (m, 3, h, w), linear. Each column has one scale, which brings its 99th percentile to 0.9, so that rows
    can be compared: the reflectances of a sequence should look the same. The shading has its light's color.
    """
    rows = torch.linspace(0, len(frames) - 1, min(ROWS, len(frames))).round().long().tolist()
    with torch.no_grad():
        few = Decomposition(
            decomposition.log_reflectance[rows].float(),
            decomposition.log_shading[rows].float(),
            decomposition.light_color[rows].float(),
        )
        columns = [_column(light) for light in (frames[rows].float(), few.reflectance, few.shading)]
    m, h, w, c = columns[0].shape
    pixels = np.full((m * (h + _GUTTER) + _GUTTER, 3 * (w + _GUTTER) + _GUTTER, c), _GUTTER_LIGHT, np.float32)
    for j, column in enumerate(columns):
        for i, picture in enumerate(column):
            top, left = _GUTTER + i * (h + _GUTTER), _GUTTER + j * (w + _GUTTER)
            pixels[top : top + h, left : left + w] = picture
    return pixels


def write_sheet(path: Path, frames: Tensor, decomposition: Decomposition) -> None:
    """Write the sheet as an sRGB-encoded PNG of 8 bits, whole or not at all; see `sheet_pixels`."""
    pixels = sheet_pixels(frames, decomposition)
    try:
        from unlit.image_io import write_image
    except ImportError:  # a machine that only trains may have no OpenImageIO
        replace_durably(path, _png(np.rint(255 * linear_to_srgb(pixels)).astype(np.uint8)))
    else:
        write_image(path, pixels, encoding="srgb", bits=8)


def _column(light: Tensor) -> NDArray[np.float32]:
    """Return pictures (m, h', w', 3) in [0, 1] of `light` (m, 3, h, w): no wider than a third of the sheet."""
    light = light.nan_to_num(0.0).clamp(0, _BRIGHTEST)
    h, w = light.shape[-2:]
    widest = (WIDTH - _GUTTER) // 3 - _GUTTER
    if w > widest:
        light = interpolate(light, (max(1, round(h * widest / w)), widest), mode="area")
    pictures = light.permute(0, 2, 3, 1).cpu().numpy()
    bright = float(np.percentile(pictures.max(axis=-1), _PERCENTILE))
    scale = _BRIGHT / bright if bright > _DIMMEST else 1.0
    return np.clip(pictures * np.float32(scale), 0, 1)


def _png(pixels_u8: NDArray[np.uint8]) -> bytes:
    """Return a PNG file of (h, w, 3) bytes, sRGB-encoded."""
    h, w, _ = pixels_u8.shape
    rows = np.pad(pixels_u8.reshape(h, 3 * w), ((0, 0), (1, 0)))  # each row begins with its filter: 0, none
    header = struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)  # 8 bits, RGB
    chunks = [(b"IHDR", header), (b"sRGB", b"\0"), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
