"""Files for the tests: pictures with known numbers, and PNGs with the chunks and headers that one asks for."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO
from numpy.typing import NDArray

PNG_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}


def noise(*shape: int, bits: int = 8, seed: int = 0) -> NDArray[Any]:
    """Random numbers of the whole range."""
    return np.random.default_rng(seed).integers(0, 1 << bits, shape, dtype=np.dtype(f"u{bits // 8}"))


def chunk(name: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def ihdr(width: int, height: int, channels: int = 3, bits: int = 8) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, PNG_COLOR_TYPES[channels], 0, 0, 0))


def png_bytes(values: NDArray[Any], *chunks: bytes) -> bytes:
    """A PNG (h, w, c) of 8 or 16 bits with these chunks before its pixels, made without any library."""
    h, w, c = values.shape
    big_endian = values.astype(values.dtype.newbyteorder(">"))
    pixels = zlib.compress(b"".join(b"\0" + row.tobytes() for row in big_endian))
    parts = (ihdr(w, h, c, 8 * values.dtype.itemsize), *chunks, chunk(b"IDAT", pixels), chunk(b"IEND"))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def write_raw(path: Path, values: NDArray[Any], numbers: str, channels: list[str] | None = None, **fields: Any) -> Path:
    """Write numbers as they are through OpenImageIO; `__` in a field's name stands for a colon."""
    h, w, c = values.shape
    spec = OpenImageIO.ImageSpec(w, h, c, numbers)
    if channels:
        spec.channelnames = channels
        spec.alpha_channel = channels.index("A") if "A" in channels else -1
    for name, value in fields.items():
        if isinstance(value, tuple):
            spec.attribute(name.replace("__", ":"), OpenImageIO.TypeDesc(f"float[{len(value)}]"), value)
        elif isinstance(value, bytes):
            content = np.frombuffer(value, np.uint8)
            spec.attribute(name.replace("__", ":"), OpenImageIO.TypeDesc(f"uint8[{len(value)}]"), content)
        else:
            spec[name.replace("__", ":")] = value
    file = OpenImageIO.ImageOutput.create(str(path))
    assert file is not None
    assert file.open(str(path), spec), file.geterror()
    assert file.write_image(values), file.geterror()
    assert file.close()
    file.geterror()  # TIFF complains of having no EXIF data
    return path


def fixed(*values: float) -> bytes:
    """Numbers as ICC profiles keep them, with 16 bits after the point."""
    return struct.pack(f">{len(values)}i", *(round(v * 65536) for v in values))


def power_curve(gamma: float) -> bytes:
    return b"curv" + struct.pack(">IIH", 0, 1, round(gamma * 256))


def table_curve(heights: NDArray[Any]) -> bytes:
    return b"curv" + struct.pack(">II", 0, len(heights)) + np.round(heights * 65535).astype(">u2").tobytes()


def parametric_curve(kind: int, *parameters: float) -> bytes:
    return b"para" + struct.pack(">IHH", 0, kind, 0) + fixed(*parameters)


def profile(space: bytes, tags: dict[bytes, bytes], connection: bytes = b"XYZ ") -> bytes:
    """An ICC profile of version 2 or 4 with these tags, for a display."""
    text = b"mluc" + struct.pack(">III2s2sII", 0, 1, 12, b"en", b"US", 8, 28) + "test".encode("utf-16-be")
    white = b"XYZ " + bytes(4) + fixed(0.9642, 1, 0.8249)
    tags = {b"desc": text, b"cprt": text, b"wtpt": white} | tags
    start, table, content = 128 + 4 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, tag in tags.items():
        table += struct.pack(">4sII", name, start + len(content), len(tag))
        content += tag + bytes(-len(tag) % 4)
    head = struct.pack(">I4xI4s4s4s", start + len(content), 0x04200000, b"mntr", space, connection)
    head += struct.pack(">6H4s28x", 2024, 1, 1, 0, 0, 0, b"acsp") + fixed(0.9642, 1, 0.8249)
    return head.ljust(128, b"\0") + table + content


def rgb_profile(columns: list[tuple[float, float, float]], *curves: bytes) -> bytes:
    """A profile of three primaries, XYZ relative to D50, and one curve or three."""
    red, green, blue = curves * 3 if len(curves) == 1 else curves
    tags = {n + b"XYZ": b"XYZ " + bytes(4) + fixed(*c) for n, c in zip((b"r", b"g", b"b"), columns, strict=True)}
    return profile(b"RGB ", tags | {b"rTRC": red, b"gTRC": green, b"bTRC": blue})
