"""Pictures to files, whole or not at all, with their encoding recorded. The rules are in docs/formats.md."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import OpenImageIO

from unlit.color import linear_to_srgb
from unlit.image_io.color_space import CHROMATICITIES, row_blocks
from unlit.image_io.format import EXR, FORMATS, HDR, WRITABLE_SUFFIXES, Format, options
from unlit.image_io.icc import srgb_profile
from unlit.image_io.image import Encoding, FailedImageError, ImageError, checked_path
from unlit.image_io.scratch import scratch_file

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray


_MAX_HEADER = 1 << 16
_COLOR_SPACES = {"srgb": "srgb_rec709_scene", "linear": "lin_rec709_scene"}
_LARGEST = {"half": float(np.finfo(np.float16).max), "float": float(np.finfo(np.float32).max)}
_HDR_LARGEST = float(np.nextafter(np.float32(2**127), np.float32(0)))
"""Beyond it the shared exponent, a byte, runs over."""


def write_image(
    path: str | os.PathLike[str],
    pixels: ArrayLike,
    *,
    encoding: Encoding | None = None,
    bits: int | None = None,
    alpha: ArrayLike | None = None,
    layers: Mapping[str, ArrayLike] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write linear light (h, w, 3), or gray (h, w), to the format that the suffix of `path` names.

    Integers hold [0, 1]: what lies outside is clipped. `encoding` is "linear" for floats and "srgb" for integers unless
    given; `bits` is the first that docs/formats.md lists. `alpha` is (h, w), not multiplied into `pixels`. `layers` are
    further pictures for an EXR file, by name, and `metadata` what its header is to say. The file appears whole or not
    at all; ImageError says why it did not.
    """
    path = checked_path(path)
    format_ = _format(path)
    numbers = _kind_of_number(path, format_, bits)
    encoding = encoding or ("linear" if numbers in ("half", "float") else "srgb")
    _check_options(path, format_, encoding, has_alpha=alpha is not None, only_exr=bool(layers or metadata))
    names, stored = _channels(path, pixels, alpha, encoding, numbers)
    for name, layer in (layers or {}).items():
        layer_names, layer_stored = _channels(path, layer, None, encoding, numbers)
        if layer_stored.shape[:2] != stored.shape[:2]:
            raise ImageError(path, f"layer {name!r} differs in size from the picture", "give layers of one size")
        names += [f"{name}.{channel}" for channel in layer_names]
        stored = np.concatenate([stored, layer_stored], axis=-1)
    spec = _spec(format_, names, stored, encoding, numbers)
    for key, text in (metadata or {}).items():
        spec[key] = text
    _write_atomically(path, stored, spec)


def write_encoded(path: str | os.PathLike[str], stored: NDArray[np.uint8 | np.uint16], *, encoding: Encoding) -> None:
    """Write bytes or 16-bit words (h, w, 3), or (h, w, 4) with alpha, that are encoded already, as `write_image` would.

    For large pictures that are made strip by strip and never exist as floats.
    """
    path = checked_path(path)
    format_ = _format(path)
    numbers = _kind_of_number(path, format_, 8 * stored.dtype.itemsize)
    if str(stored.dtype) != numbers or stored.ndim != 3 or stored.shape[-1] not in (3, 4) or stored.size == 0:
        wrong = f"is given {stored.dtype} of shape {stored.shape}"
        raise ImageError(path, wrong, "give bytes or 16-bit words (h, w, 3) or (h, w, 4)")
    _check_options(path, format_, encoding, has_alpha=stored.shape[-1] == 4, only_exr=False)
    _write_atomically(path, stored, _spec(format_, list("RGBA")[: stored.shape[-1]], stored, encoding, numbers))


def _format(path: Path) -> Format:
    format_ = FORMATS.get(path.suffix.lower())
    if format_ is None:
        wrong = f"cannot be written as {path.suffix!r}" if path.suffix else "has no suffix to tell the format"
        raise ImageError(path, wrong, f"use one of {', '.join(WRITABLE_SUFFIXES)}")
    return format_


def _kind_of_number(path: Path, format_: Format, bits: int | None) -> str:
    if bits is None:
        return next(iter(format_.numbers.values()))
    if bits not in format_.numbers:
        allowed = " or ".join(str(n) for n in sorted(format_.numbers))
        raise ImageError(path, f"cannot hold {bits} bits a channel", f"use bits={allowed}")
    return format_.numbers[bits]


def _check_options(path: Path, format_: Format, encoding: Encoding, *, has_alpha: bool, only_exr: bool) -> None:
    if encoding not in _COLOR_SPACES:
        raise ImageError(path, f"cannot be encoded as {encoding!r}", 'use encoding="srgb" or encoding="linear"')
    if format_ is HDR and encoding != "linear":
        raise ImageError(path, "is linear by its format", 'use encoding="linear" or another format')
    if has_alpha and not format_.has_alpha:
        raise ImageError(path, "cannot hold alpha", "use PNG, TIFF or EXR, or leave alpha out")
    if only_exr and format_ is not EXR:
        raise ImageError(path, "cannot hold layers or metadata", "use EXR")


def _channels(
    path: Path, pixels: ArrayLike, alpha: ArrayLike | None, encoding: Encoding, numbers: str
) -> tuple[list[str], NDArray[Any]]:
    """Return the channels' names and what is to be stored of a picture, (h, w, c)."""
    light = _checked(path, pixels, "pixels")
    if light.ndim == 2:
        light = light[..., None]
    if light.ndim != 3 or light.shape[-1] not in (1, 3):
        raise ImageError(path, f"is given pixels of shape {light.shape}", "give (h, w, 3), or (h, w) for gray")
    if light.shape[-1] == 1 and not _format(path).has_gray:
        light = np.broadcast_to(light, (*light.shape[:2], 3))
    names = ["Y"] if light.shape[-1] == 1 else ["R", "G", "B"]
    opacity = None
    if alpha is not None:
        opacity = _checked(path, alpha, "alpha")
        if opacity.shape != light.shape[:2]:
            raise ImageError(
                path, f"is given alpha of shape {opacity.shape}", f"give {light.shape[:2]} as the pixels have"
            )
        names = [*names, "A"]
    stored = _stored(_format(path), light, opacity, encoding, numbers)
    largest = _HDR_LARGEST if _format(path) is HDR else _LARGEST.get(numbers)
    if largest is not None and not (stored.max() <= largest and stored.min() >= -largest):
        remedy = "use bits=32 or scale them down" if numbers == "half" else "scale them down"
        raise ImageError(path, f"is given values beyond {largest:.6g}, the largest that it can hold", remedy)
    return names, stored


def _checked(path: Path, values: ArrayLike, what: str) -> NDArray[np.floating[Any]]:
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.floating):
        remedy = "give linear light as floats, 1 = white"
        raise ImageError(path, f"is given {what} of type {array.dtype}", remedy)
    if array.size == 0:
        raise ImageError(path, f"is given {what} without any value (shape {array.shape})", "give at least one pixel")
    if not np.isfinite(array).all():
        raise ImageError(path, f"is given {what} that are NaN or infinite", "replace them before writing")
    return array.astype(np.float32) if array.dtype == np.float16 else array  # half floats do not reach 65535


def _stored(
    format_: Format,
    light: NDArray[np.floating[Any]],
    alpha: NDArray[np.floating[Any]] | None,
    encoding: Encoding,
    numbers: str,
) -> NDArray[Any]:
    """Encode and quantize, a block of rows at a time so that memory stays near that of the result."""
    h, w, c = light.shape
    largest = {"uint8": 255, "uint16": 65535}.get(numbers)
    stored = np.empty((h, w, c + (alpha is not None)), numbers if largest else "float32")
    for rows in row_blocks(light.shape):
        block = linear_to_srgb(light[rows]) if encoding == "srgb" else light[rows]
        if alpha is not None:
            # EXR keeps color multiplied by alpha, by its standard; the others are written as they come.
            block = block * alpha[rows][..., None] if format_ is EXR else block
            block = np.concatenate([block, alpha[rows][..., None]], axis=-1)
        if format_ is HDR:
            block = np.maximum(block, 0)  # its shared exponents have no sign
        if largest:
            block = np.rint(np.clip(block, 0, 1) * largest)
        with np.errstate(over="ignore"):  # what float32 cannot hold is refused by the caller
            stored[rows] = block
    return stored


def _spec(
    format_: Format, names: list[str], stored: NDArray[Any], encoding: Encoding, numbers: str
) -> OpenImageIO.ImageSpec:
    """Describe the file to OpenImageIO, its encoding with it."""
    h, w, c = stored.shape
    spec = OpenImageIO.ImageSpec(w, h, c, numbers)
    spec.channelnames = names
    spec.alpha_channel = names.index("A") if "A" in names else -1
    for option, value in options(format_, stored).items():
        spec[option] = value
    spec["oiio:UnassociatedAlpha"] = int(format_ is not EXR)
    spec["oiio:ColorSpace"] = _COLOR_SPACES[encoding]
    if format_.has_profile:
        profile = srgb_profile(encoding, gray="Y" in names)
        spec.attribute("ICCProfile", OpenImageIO.TypeDesc(f"uint8[{len(profile)}]"), np.frombuffer(profile, np.uint8))
    if format_ is EXR:
        spec.attribute("chromaticities", OpenImageIO.TypeDesc("float[8]"), CHROMATICITIES["rec709"])
    return spec


def _write_atomically(path: Path, stored: NDArray[Any], spec: OpenImageIO.ImageSpec) -> None:
    """Encode in memory, write beside `path` under a name of its own, and rename when all is on the disk."""
    temporary = path.with_name(f".{secrets.token_hex(8)}{path.suffix}")
    try:
        if not path.parent.is_dir():
            raise ImageError(path, "cannot be written: its folder does not exist", f"create {path.parent} first")
        if path.is_dir():
            raise ImageError(path, "is a folder", "choose another name")
        with scratch_file(2 * stored.nbytes + _MAX_HEADER) as (file, name):
            _encode(path, name, stored, spec)
            _copy_to_disk(file, temporary)
        temporary.replace(path)
    except OSError as error:
        remedy = "check the name, the folder and the free space"
        raise FailedImageError(path, f"cannot be written ({error.strerror})", remedy) from error
    finally:
        with suppress(OSError):  # nothing was written where there is no folder to write to
            temporary.unlink()


def _encode(path: Path, name: str, stored: NDArray[Any], spec: OpenImageIO.ImageSpec) -> None:
    """Write the file `name` in the format of `path`."""
    file = OpenImageIO.ImageOutput.create(path.suffix.lower()[1:])
    done = file is not None and file.open(name, spec) and file.write_image(stored)
    done = file is not None and file.close() and done
    # Asked for even on success: TIFF then complains of having no EXIF data, and what nobody asks for is printed.
    reason = (file.geterror() if file is not None else "") + OpenImageIO.geterror()
    if not done:
        raise ImageError(path, f"cannot be written ({reason.replace(name, path.name)})", "check the size")


def _copy_to_disk(file: IO[bytes], target: Path) -> None:
    """Copy `file` to a new file; OSError unless all of it has arrived."""
    with target.open("xb") as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
        copy.flush()
        os.fsync(copy.fileno())  # some disks find only then that they are full
