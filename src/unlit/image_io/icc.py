"""ICC profiles: those with curves and a matrix, or a curve for gray, are understood; the two of sRGB are written.

Layout and names as in ICC.1:2010. Numbers are big-endian; `s15` is a signed fixed-point number with 16 bits after the
point. A profile maps stored numbers by a curve (TRC) to linear light and by the columns rXYZ, gXYZ, bXYZ to XYZ
relative to D50.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unlit.image_io.color_space import PCS_WHITE, SRGB_TO_XYZ, ColorSpace, identity, power

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unlit.image_io.color_space import Curve
    from unlit.image_io.image import Encoding

_HEADER = 128
_S15 = 65536.0
_DAMAGED = "an ICC profile that is damaged"
_TABLE_TAGS = (b"A2B0", b"A2B1", b"A2B2", b"D2B0", b"D2B1")
_PARAMETERS = (1, 3, 4, 5, 7)
"""How many numbers each of the five kinds of parametric curve has."""


def parse_icc(profile: bytes) -> ColorSpace:
    """Return the color space that `profile` describes. ValueError, saying what it is, where it is none of these."""
    if profile[36:40] != b"acsp":
        raise ValueError(_DAMAGED)
    try:
        with np.errstate(all="ignore"):  # the curves of a damaged profile may overflow; they are checked below
            space = _parsed(profile)
            lights = [curve(np.linspace(0, 1, 257)) for curve in space.curves]
    except (struct.error, KeyError, IndexError, ArithmeticError) as error:
        raise ValueError(_DAMAGED) from error
    if not np.isfinite(lights).all():
        raise ValueError(_DAMAGED)
    return space


def _parsed(profile: bytes) -> ColorSpace:
    space, tags = profile[16:20], _tags(profile)
    if space not in (b"RGB ", b"GRAY"):
        raise ValueError(f"an ICC profile for {space.decode('ascii', 'replace').strip()}, not for RGB or gray")
    if any(tag in tags for tag in _TABLE_TAGS) or profile[20:24] != b"XYZ ":
        raise ValueError("an ICC profile made of tables, which are not supported")
    if space == b"GRAY":
        curve = _curve(tags[b"kTRC"])
        return ColorSpace((curve, curve, curve), np.eye(3), has_color=False)
    curves = {tag: _curve(tag) for tag in {tags[c + b"TRC"] for c in (b"r", b"g", b"b")}}
    columns = np.array([_numbers(tags[c + b"XYZ"], 8, 3) for c in (b"r", b"g", b"b")]).T
    red, green, blue = (curves[tags[c + b"TRC"]] for c in (b"r", b"g", b"b"))
    return ColorSpace((red, green, blue), np.linalg.solve(SRGB_TO_XYZ, columns))


def _tags(profile: bytes) -> dict[bytes, bytes]:
    """Return the content of each tag of a profile."""
    (count,) = struct.unpack_from(">I", profile, _HEADER)
    entries = (struct.unpack_from(">4sII", profile, _HEADER + 4 + 12 * k) for k in range(min(count, 1000)))
    return {name: profile[start : start + size] for name, start, size in entries}


def _numbers(tag: bytes, start: int, count: int) -> list[float]:
    """Return consecutive s15 numbers."""
    return [number / _S15 for number in struct.unpack_from(f">{count}i", tag, start)]


def _curve(tag: bytes) -> Curve:
    """Return the curve of a TRC tag: a table, a power, or one of the five parametric kinds."""
    if tag[:4] == b"para":
        (kind,) = struct.unpack_from(">H", tag, 8)
        return _parametric(kind, _numbers(tag, 12, _PARAMETERS[kind]))
    if tag[:4] != b"curv":
        raise ValueError("an ICC profile with a curve of an unknown kind")
    (count,) = struct.unpack_from(">I", tag, 8)
    if 12 + 2 * count > len(tag):
        raise ValueError(_DAMAGED)
    entries = np.frombuffer(tag, ">u2", count, 12)
    if count == 0:
        return identity
    if count == 1:
        return power(float(entries[0]) / 256)
    return lambda values: np.interp(values, np.linspace(0, 1, count), entries / 65535)


def _parametric(kind: int, parameters: list[float]) -> Curve:
    """Return y = (a x + b)^g + e from the turn d on, and y = c x + f before it; a kind leaves some of them out."""
    g, a, b, c, d, e, f = (*parameters, *[0.0] * (7 - len(parameters)))
    if kind == 0:
        return power(g)
    if kind in (1, 2):  # the piece before the turn is level, at the height c of kind 2
        d, e, f, c = -b / a, c, c, 0.0

    def curve(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        return np.where(values >= d, np.maximum(a * values + b, 0) ** g + e, c * values + f)

    return curve


@cache
def srgb_profile(encoding: Encoding, *, gray: bool = False) -> bytes:
    """Return an ICC profile (version 4) with the primaries of sRGB and its curve, or none for "linear"."""
    linear = b"curv" + bytes(8)
    srgb = b"para" + struct.pack(">IHH", 0, 3, 0) + _fixed(2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
    curve = linear if encoding == "linear" else srgb
    title = "Linear sRGB" if encoding == "linear" else "sRGB"
    tags = {b"desc": _text(f"{title} gray" if gray else title), b"cprt": _text("CC0"), b"wtpt": _xyz(PCS_WHITE)}
    if gray:
        tags[b"kTRC"] = curve
    else:
        tags |= {c + b"XYZ": _xyz(column) for c, column in zip((b"r", b"g", b"b"), SRGB_TO_XYZ.T, strict=True)}
        tags |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve)
    return _profile(b"GRAY" if gray else b"RGB ", tags)


def _profile(space: bytes, tags: dict[bytes, bytes]) -> bytes:
    """Return the bytes of a display profile with these tags."""
    start = _HEADER + 4 + 12 * len(tags)
    table, content = struct.pack(">I", len(tags)), b""
    for name, tag in tags.items():
        table += struct.pack(">4sII", name, start + len(content), len(tag))
        content += tag + bytes(-len(tag) % 4)
    header = struct.pack(">I4sI4s4s4s", start + len(content), b"", 0x04300000, b"mntr", space, b"XYZ ")
    header += struct.pack(">6H4s28x", 2026, 1, 1, 0, 0, 0, b"acsp") + _fixed(*PCS_WHITE)
    return header.ljust(_HEADER, b"\0") + table + content


def _fixed(*values: float) -> bytes:
    return struct.pack(f">{len(values)}i", *(round(float(v) * _S15) for v in values))


def _xyz(values: NDArray[np.float64]) -> bytes:
    return b"XYZ " + bytes(4) + _fixed(*values)


def _text(words: str) -> bytes:
    encoded = words.encode("utf-16-be")
    return b"mluc" + struct.pack(">III2s2sII", 0, 1, 12, b"en", b"US", len(encoded), 28) + encoded
