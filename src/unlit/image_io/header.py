"""What a file's own bytes say before any library decodes it.

OpenImageIO tells neither whether a PNG states its encoding (it assumes sRGB) nor which primaries it states, and unpacks
JPEG XL and GIF as it opens them, however large. libpng writes to stderr when a file is cut short. So sizes, the color
chunks of PNG and its checksums are read here.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PNG = b"\x89PNG\r\n\x1a\n"
_MAX_PROFILE = 1 << 24
_JXL_CODESTREAM = b"\xff\x0a"
_JXL_CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n"
_JXL_RATIOS = ((1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
_JXL_SIZE_BITS = (9, 13, 18, 30)


class DamagedFileError(Exception):
    """The file's own structure is broken: how, in a few words."""


@dataclass(frozen=True)
class Header:
    """What is known of a file before decoding; None where the format does not say or was not looked into."""

    width: int | None = None
    height: int | None = None
    png_chunks: dict[bytes, bytes] | None = None
    """The chunks of a PNG that speak of color, by name; the profile of iCCP unpacked."""


def read_header(path: Path) -> Header:
    """Return what the first bytes of `path` say. DamagedFileError where they show that it is."""
    with path.open("rb") as file:
        start = file.read(32)
        if start.startswith(_PNG):
            return _png_header(file)
        if start[:6] in (b"GIF87a", b"GIF89a"):
            return Header(*struct.unpack_from("<HH", start.ljust(10, b"\0"), 6))
        if start.startswith((_JXL_CODESTREAM, _JXL_CONTAINER)):
            return _jxl_header(file)
    return Header()


def _png_header(file: IO[bytes]) -> Header:
    """Walk through the chunks to the end, checking each checksum: what passes, libpng reads without complaint."""
    width = height = None
    chunks: dict[bytes, bytes] = {}
    size = os.fstat(file.fileno()).st_size
    file.seek(len(_PNG))
    while True:
        head = file.read(8)
        length, name = struct.unpack(">I4s", head) if len(head) == 8 else (0, b"")
        if length > size:  # before any memory is taken for it
            raise DamagedFileError("cut short")
        content = file.read(length)
        checksum = file.read(4)
        if not name or len(checksum) < 4:
            raise DamagedFileError("cut short")
        if zlib.crc32(content, zlib.crc32(name)) != int.from_bytes(checksum, "big"):
            raise DamagedFileError(f"damaged (checksum of the {name.decode('latin-1')} chunk)")
        if name == b"IHDR" and length >= 8:
            width, height = struct.unpack_from(">II", content)
        if name in (b"cICP", b"sRGB", b"gAMA", b"cHRM"):
            chunks[name] = content
        if name == b"iCCP":
            chunks[name] = _unpacked_profile(content)
        if name == b"IEND":
            break
    if width is None:
        raise DamagedFileError("damaged (no IHDR chunk)")
    return Header(width, height, chunks)


def _unpacked_profile(content: bytes) -> bytes:
    """Return the ICC profile of an iCCP chunk: a title, a zero, the method (always 0), then the packed profile.

    libpng drops profiles that it does not like, which would leave a picture with the wrong colors and no word of it.
    """
    packed = content.partition(b"\0")[2][1:]
    try:
        return zlib.decompressobj().decompress(packed, _MAX_PROFILE)
    except zlib.error:
        return b""


def _jxl_header(file: IO[bytes]) -> Header:
    """Return the size of a JPEG XL picture, whose header is packed bit by bit, lowest first (ISO 18181-1, D.2)."""
    file.seek(_jxl_codestream_start(file) + len(_JXL_CODESTREAM))
    bits = int.from_bytes(file.read(12), "little")

    def take(count: int) -> int:
        nonlocal bits
        taken, bits = bits & ((1 << count) - 1), bits >> count
        return taken

    def side() -> int:
        return (take(5) + 1) * 8 if small else take(_JXL_SIZE_BITS[take(2)]) + 1

    small = take(1)
    height = side()
    ratio = take(3)
    if ratio == 0:
        return Header(side(), height)
    across, down = _JXL_RATIOS[ratio - 1]
    return Header(height * across // down, height)


def _jxl_codestream_start(file: IO[bytes]) -> int:
    """Return where the codestream begins: at once, or in the first box of a container that holds some of it."""
    file.seek(0)
    if file.read(2) == _JXL_CODESTREAM:
        return 0
    start = 0
    while True:
        file.seek(start)
        head = file.read(16)
        if len(head) < 8:
            raise DamagedFileError("cut short")
        length, kind = struct.unpack_from(">I4s", head)
        inside = 8
        if length == 1:
            length, inside = int.from_bytes(head[8:16], "big"), 16
        if kind in (b"jxlc", b"jxlp"):
            return start + inside + (4 if kind == b"jxlp" else 0)  # a part begins with its number
        if length < inside:
            raise DamagedFileError("damaged (a JPEG XL container without a picture)")
        start += length
