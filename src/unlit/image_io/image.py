"""A picture read from a file, and what is raised when there is none to be had."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
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
        # A name may hold bytes that are no text, which Python keeps as characters that cannot be printed.
        name = str(path).encode(errors="backslashreplace").decode().replace("\0", "\\0")
        super().__init__(f"{name}: {shorten(printable, 300, placeholder=' ...')}; {remedy}")


class FailedImageError(ImageError):
    """A picture cannot be read or written though it is all right: the machine lacks room on the disk or in memory."""


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return `path`, having refused what no file can be called."""
    path = Path(path)
    try:
        if b"\0" in os.fsencode(path):
            raise ImageError(path, "has a zero byte in its name", "check the name")
    except UnicodeEncodeError as error:
        raise ImageError(path, "has characters in its name that no file can have", "check the name") from error
    return path
