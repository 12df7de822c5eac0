"""Pictures from files, in linear light, through OpenImageIO. The rules are in docs/formats.md."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import OpenImageIO

from unlit.image_io.color_space import row_blocks
from unlit.image_io.encoding import PASS_ENCODING, file_color_space
from unlit.image_io.header import DamagedFileError, Header, read_header
from unlit.image_io.image import MAX_PIXELS, Encoding, FailedImageError, Image, ImageError, checked_path
from unlit.image_io.scratch import text_name

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray
    from OpenImageIO import ROI, ImageInput, ImageSpec

_COMPONENTS = {"r": "R", "red": "R", "g": "G", "green": "G", "b": "B", "blue": "B", "y": "Y", "a": "A", "alpha": "A"}
_TIFF_PHOTOMETRIC = (0, 1, 2, 3, 6)
"""White is zero, black is zero, RGB, palette, YCbCr: what OpenImageIO turns into gray or RGB, as it does not Lab."""

Channels = dict[str, int]
"""Where a layer's components lie: R, G, B or Y, perhaps A, to the number of the channel."""


def read_image(
    path: str | os.PathLike[str],
    *,
    encoding: Encoding | None = None,
    max_pixels: int = MAX_PIXELS,
    layer: str | None = None,
) -> Image:
    """Read a picture as linear sRGB light, upright, alpha aside.

    `encoding` says how the file's numbers are encoded, whatever the file itself says; without it the file must make it
    clear, as all but 16-bit PNG and TIFF without a profile do. `layer` names the layer of an EXR file to read, as
    `reflectance` for the channels `reflectance.R` and so on. ImageError where there is no such picture.
    """
    path = checked_path(path)
    with _explained(path):
        header = _checked_header(path, max_pixels)
        with text_name(path) as name:
            return _read_checked(path, name, header, encoding, max_pixels, layer)


def check_image(path: str | os.PathLike[str]) -> None:
    """Refuse, by ImageError, what is plainly no picture: as `read_image` does, but without decoding anything."""
    path = checked_path(path)
    with _explained(path):
        _checked_header(path, MAX_PIXELS)
        with text_name(path) as name:
            _opened(path, name).close()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Make what libraries raise while they read `path` an ImageError that names it."""
    try:
        yield
    except UnicodeDecodeError as error:  # OpenImageIO hands on, as text, what it finds in a damaged file
        quoted = error.object.decode(errors="replace")
        raise ImageError(path, f"is damaged ({quoted})", "copy or download it again") from error
    except MemoryError as error:
        wrong = "is too large for the memory that is free"
        raise FailedImageError(path, wrong, "make it smaller or free memory") from error


def _read_checked(
    path: Path, name: str, header: Header, encoding: Encoding | None, max_pixels: int, layer: str | None
) -> Image:
    file = _opened(path, name)
    try:
        subimage, channels = _chosen_channels(path, file, layer)
        file.seek_subimage(subimage, 0)
        spec = file.spec()
        _check_spec(path, spec)
        window = spec.roi_full if file.format_name() == "openexr" else spec.roi
        for roi in (spec.roi, window):
            _check_size(path, roi.width, roi.height, max_pixels)
        space = file_color_space(path, spec, header, encoding)
        color, alpha = _stored_values(path, file, channels)
    finally:
        file.close()
    if color.shape[-1] == 3 and not space.has_color:
        raise ImageError(path, "has an ICC profile for gray but three channels", PASS_ENCODING)
    bits = spec.get_int_attribute("oiio:BitsPerSample") or 8 * spec.channelformat(min(channels.values())).size()
    with np.errstate(all="ignore"):  # what comes of huge numbers is looked at next
        pixels = space.decoded(color)
    _check_finite(path, pixels, "has values too large to convert to linear light", "scale them down or render it again")
    return Image(pixels, alpha, "linear" if space.is_linear else "srgb", bits)


def _checked_header(path: Path, max_pixels: int) -> Header:
    """Return the file's header, having refused what is no file, or too large by its own account."""
    try:
        if not path.exists():
            raise ImageError(path, "does not exist", "check the name")
        if path.is_dir():
            raise ImageError(path, "is a folder, not a picture", "give a picture inside it")
        if path.stat().st_size == 0:
            raise ImageError(path, "is empty", "copy or download it again")
        header = read_header(path)
    except OSError as error:
        raise ImageError(path, f"cannot be opened ({error.strerror})", "check its name and permissions") from error
    except DamagedFileError as error:
        raise ImageError(path, f"is {error}", "copy or download it again") from error
    if header.width is not None and header.height is not None:
        _check_size(path, header.width, header.height, max_pixels)
    return header


def _check_size(path: Path, width: int, height: int, max_pixels: int) -> None:
    if width < 1 or height < 1:
        raise ImageError(path, f"has no pixels ({width} x {height})", "export it again")
    if width * height > max_pixels:
        wrong = f"has {width} x {height} pixels, more than the limit of {max_pixels:,}"
        raise ImageError(path, wrong, "raise max_pixels if the file is to be trusted")


def _opened(path: Path, name: str) -> ImageInput:
    """Open `path` by a name that is text, with the plugin that its content asks for, alpha left as it is stored."""
    hints = OpenImageIO.ImageSpec()
    hints["oiio:UnassociatedAlpha"] = 1
    file = OpenImageIO.ImageInput.open(name, hints)
    reason = OpenImageIO.geterror()  # asked for even on success: what nobody asks for is printed at exit
    if file is None:
        wrong = f"is not a picture, or is damaged or cut short ({reason.strip() or 'unknown format'})"
        raise ImageError(path, wrong, "check that it opens elsewhere, or convert it to PNG, TIFF or EXR")
    return file


def _chosen_channels(path: Path, file: ImageInput, layer: str | None) -> tuple[int, Channels]:
    """Return the subimage and the channels of `layer`; by default of the unnamed layer, or of the only one."""
    layers = {name: place for name, place in _layers(file).items() if _is_picture(place[1])}
    if layer is None and "" not in layers and len(layers) == 1:
        (layer,) = layers
    if (layer or "") in layers:
        return layers[layer or ""]
    names = ", ".join(sorted(name for name in layers if name))
    if layer is not None:
        raise ImageError(path, f"has no layer {layer!r}", f"choose one of: {names}" if names else "it has no layers")
    if names:
        raise ImageError(path, "has named layers only", f"pass layer= with one of: {names}")
    file.seek_subimage(0, 0)
    wrong = f"has the channels {', '.join(file.spec().channelnames)}, neither R, G, B nor Y"
    raise ImageError(path, wrong, "export it as gray or RGB")


def _is_picture(channels: Channels) -> bool:
    return channels.keys() >= {"R", "G", "B"} or "Y" in channels


def _layers(file: ImageInput) -> dict[str, tuple[int, Channels]]:
    """Return the layers of all parts: `a.b.R` belongs to `a.b`, and plain `R` of a later part to that part's name."""
    layers: dict[str, tuple[int, Channels]] = {}
    subimage = 0
    # Only EXR keeps layers in parts; pages of TIFF and frames of GIF are further pictures, not looked into.
    while (subimage == 0 or file.format_name() == "openexr") and file.seek_subimage(subimage, 0):
        spec = file.spec()
        part = str(spec.getattribute("oiio:subimagename") or "") if subimage else ""
        for k, channel in enumerate(spec.channelnames):
            prefix, _, component = channel.rpartition(".")
            place = layers.setdefault(prefix or part, (subimage, {}))
            if component.lower() in _COMPONENTS and place[0] == subimage:
                place[1].setdefault(_COMPONENTS[component.lower()], k)
        subimage += 1
    return layers


def _check_spec(path: Path, spec: ImageSpec) -> None:
    """Refuse what is not flat, or in a color model that OpenImageIO would get wrong."""
    if spec.deep or spec.depth > 1:
        raise ImageError(path, "is a deep or volumetric picture", "flatten it first")
    is_cmyk = spec.getattribute("jpeg:ColorSpace") in ("CMYK", "YCCK")
    if is_cmyk or spec.getattribute("tiff:PhotometricInterpretation") not in (None, *_TIFF_PHOTOMETRIC):
        raise ImageError(path, "is in CMYK, Lab or another color model for print", "convert it to RGB first")


def _stored_values(path: Path, file: ImageInput, channels: Channels) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
    """Return the color (h, w, 1 or 3) as stored and alpha (h, w), upright, alpha not multiplied in."""
    spec = file.spec()
    values = _upright(
        _in_display_window(_raw_values(path, file, channels), file), spec.get_int_attribute("Orientation", 1)
    )
    if np.issubdtype(values.dtype, np.floating):
        _check_finite(path, values, "has values that are NaN or infinite", "repair these pixels or render it again")
    if "A" not in channels:
        return values, None
    color, alpha = values[..., :-1], values[..., -1]
    if np.issubdtype(values.dtype, np.unsignedinteger):
        alpha = alpha / np.float32(np.iinfo(values.dtype).max)
    alpha = alpha.astype(np.float32)
    if file.format_name() in ("openexr", "tiff") and not spec.get_int_attribute("oiio:UnassociatedAlpha"):
        color = _unassociated(color, alpha)
    return color, alpha


def _check_finite(path: Path, values: NDArray[Any], wrong: str, remedy: str) -> None:
    for rows in row_blocks(values.shape):
        finite = np.isfinite(values[rows])
        if not finite.all():
            row, column, _ = np.argwhere(~finite)[0]
            raise ImageError(path, f"{wrong}, the first at row {rows.start + row}, column {column}", remedy)


def _raw_values(path: Path, file: ImageInput, channels: Channels) -> NDArray[Any]:
    """Decode the chosen channels, (h, w, c): bytes and 16-bit words as they are, all else as floats, 1 = white."""
    wanted = [channels[c] for c in ("RGB" if "R" in channels else "Y")] + [channels[c] for c in "A" if c in channels]
    spec = file.spec()
    first, last = min(wanted), max(wanted) + 1
    kept = spec.format if str(spec.format) in ("uint8", "uint16") else OpenImageIO.TypeDesc("float")
    try:
        values = file.read_image(file.current_subimage(), 0, first, last, kept)
    except RuntimeError as error:  # for one, no memory for the threads that unpack a TIFF
        raise FailedImageError(path, f"cannot be decoded ({error})", "free memory and try again") from error
    reason = file.geterror() + OpenImageIO.geterror()
    if values is None or reason:
        # A JPEG that is cut short comes with gray in place of what is missing, and an error beside it.
        raise ImageError(path, f"is damaged or cut short ({reason.strip()})", "copy or download it again")
    places = [k - first for k in wanted]
    return values if places == list(range(values.shape[-1])) else values[..., places]


def _in_display_window(values: NDArray[Any], file: ImageInput) -> NDArray[Any]:
    """Place an EXR's data window in its display window, black around it; other formats have but one window."""
    data, display = file.spec().roi, file.spec().roi_full
    if file.format_name() != "openexr" or data == display:
        return values
    placed = np.zeros((display.height, display.width, values.shape[-1]), values.dtype)
    both = OpenImageIO.intersection(data, display)
    if both.width > 0 and both.height > 0:
        _part(placed, both, display)[:] = _part(values, both, data)
    return placed


def _part(values: NDArray[Any], part: ROI, whole: ROI) -> NDArray[Any]:
    """Return the pixels of `part` in an array that covers `whole`."""
    top, left = part.ybegin - whole.ybegin, part.xbegin - whole.xbegin
    return values[top : top + part.height, left : left + part.width]


def _upright(values: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Turn a picture as EXIF's orientation 1 to 8 asks; other numbers mean nothing."""
    if orientation in (5, 6, 7, 8):
        values = values.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        values = values[::-1]
    if orientation in (2, 3, 6, 7):
        values = values[:, ::-1]
    return np.ascontiguousarray(values)


def _unassociated(color: NDArray[Any], alpha: NDArray[np.float32]) -> NDArray[np.float32]:
    """Divide by alpha the color that a file stores multiplied by it; where alpha is zero it stays as it is."""
    if np.issubdtype(color.dtype, np.unsignedinteger):
        color = color / np.float32(np.iinfo(color.dtype).max)
    with np.errstate(over="ignore"):  # infinite light is refused once it is converted
        return np.asarray(color / np.where(alpha > 0, alpha, np.float32(1))[..., None], np.float32)
