"""How the numbers of a file are encoded: by the caller's word, the file's own, or the kind of number."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import OpenImageIO

from unlit.color import srgb_to_linear
from unlit.image_io.color_space import (
    LINEAR_SRGB,
    SRGB,
    ColorSpace,
    color_space,
    identity,
    named_curve_and_chromaticities,
    power,
)
from unlit.image_io.icc import parse_icc
from unlit.image_io.image import Encoding, ImageError

if TYPE_CHECKING:
    from pathlib import Path

    from OpenImageIO import ImageSpec

    from unlit.image_io.header import Header

PASS_ENCODING = 'pass encoding="srgb" or encoding="linear" to say what its numbers are'
_BY_CALLER: dict[str, ColorSpace] = {"srgb": SRGB, "linear": LINEAR_SRGB}


def by_option(text: str, option: str) -> str:
    """Return the text of an error with the remedy in the words of the command line, where `option` is the encoding."""
    return text.replace(PASS_ENCODING, f"say {option} srgb or {option} linear, whichever its numbers are")


def file_color_space(path: Path, spec: ImageSpec, header: Header, encoding: Encoding | None) -> ColorSpace:
    """Return what the numbers mean: by the caller, else by the file, else by the kind of number."""
    if encoding is not None:
        if encoding not in _BY_CALLER:
            raise ImageError(path, f"cannot be read with encoding={encoding!r}", PASS_ENCODING)
        return _BY_CALLER[encoding]
    try:
        stated = _stated_color_space(spec, header)
    except ValueError as error:
        raise ImageError(path, f"has {error}", f"convert it to sRGB, or {PASS_ENCODING}") from error
    if stated is not None:
        return stated
    if spec.format.basetype in (OpenImageIO.HALF, OpenImageIO.FLOAT, OpenImageIO.DOUBLE):
        return LINEAR_SRGB
    if spec.format.size() == 1:
        return SRGB
    raise ImageError(
        path, f"has {8 * spec.format.size()}-bit numbers and does not say how they are encoded", PASS_ENCODING
    )


def _stated_color_space(spec: ImageSpec, header: Header) -> ColorSpace | None:
    """Return the space that the file states, the most exact statement first; None where it states none."""
    name = spec.getattribute("oiio:ColorSpace")
    named = named_curve_and_chromaticities(str(name)) if name is not None else None
    if spec.getattribute("CICP") is not None and named is not None:
        return color_space(*named)
    if header.png_chunks is not None and b"cICP" not in header.png_chunks:
        return _png_color_space(header.png_chunks)
    profile = spec.getattribute("ICCProfile")
    if profile is not None:
        return parse_icc(np.asarray(profile, np.uint8).tobytes())
    chromaticities = spec.getattribute("chromaticities")
    if name is not None and named is None:
        raise ValueError(f"the color space {name!r}, which is not known here")
    if chromaticities is not None:
        return color_space(named[0] if named else identity, [float(c) for c in chromaticities])
    return color_space(*named) if named else None


def _png_color_space(chunks: dict[bytes, bytes]) -> ColorSpace | None:
    """Return the space that the chunks iCCP, or sRGB, or gAMA and cHRM state, the first of these before the others."""
    if b"iCCP" in chunks:
        return parse_icc(chunks[b"iCCP"])
    if b"sRGB" in chunks:
        return SRGB
    if b"gAMA" not in chunks:
        return None
    gamma = struct.unpack(">I", chunks[b"gAMA"].rjust(4, b"\0")[:4])[0] / 100_000
    if gamma == 0:
        raise ValueError("a gAMA chunk of zero")
    # Writers put 1/2.2 for the sRGB curve, which no power is.
    curve = srgb_to_linear if abs(gamma * 2.2 - 1) < 0.02 else power(1 / gamma)
    if len(chunks.get(b"cHRM", b"")) != 32:
        return color_space(curve)
    white_first = [c / 100_000 for c in struct.unpack(">8I", chunks[b"cHRM"])]
    return color_space(curve, white_first[2:] + white_first[:2])
