"""A picture read from a file, and what is raised when there is none to be had."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

Encoding = Literal["srgb", "linear"]

MAX_PIXELS = 200_000_000
"""Larger pictures are refused unless the caller raises the limit: 2.4 GB in memory; the largest phone camera fits."""


@dataclass(frozen=True)
class Image:
    """A picture in linear light with the primaries of sRGB, upright."""

    pixels: NDArray[np.float32]
    """(h, w, 3). Nominally in [0, 1]; EXR and HDR go beyond, and colors outside the gamut of sRGB are negative."""
    alpha: NDArray[np.float32] | None
    """(h, w), opaque = 1; kept aside, never multiplied into the pixels. None where the file has none."""
    encoding: Encoding
    """How the file's numbers were encoded; any curve that is not linear counts as "srgb"."""
    bits: int
    """Bits a channel in the file."""


class ImageError(ValueError):
    """A picture cannot be read or written: one line that names the file, what is wrong, and the remedy."""

    def __init__(self, path: Path | str, wrong: str, remedy: str) -> None:
        # What is wrong may quote a damaged file: no control characters, no pages of them.
        printable = "".join(c if c.isprintable() or c.isspace() else "?" for c in wrong)
        super().__init__(f"{path}: {shorten(printable, 300, placeholder=' ...')}; {remedy}")
