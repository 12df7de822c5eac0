"""What cameras and phones write and OpenImageIO does not read well: RAW and HEIF, through the extra `raw`.

Shapes: h x w pixels. What comes out is linear light with the primaries of sRGB, float32 (h, w, 3), upright. RAW is
developed with the camera's white balance and nothing else: no curve, no brightening, highlights clipped at white.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlit.color import srgb_to_linear
from unlit.image_io import MAX_PIXELS, ImageError
from unlit.image_io.icc import parse_icc

RAW_SUFFIXES = frozenset(
    (".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".srf", ".sr2", ".raf", ".orf", ".rw2", ".pef", ".srw")
)
HEIF_SUFFIXES = frozenset((".heic", ".heif", ".hif"))

Pixels = tuple[NDArray[np.float32], NDArray[np.float32] | None]


def is_camera_file(path: Path) -> bool:
    """Return whether the suffix is one of RAW or HEIF. Their content looks like TIFF or like video to others."""
    return path.suffix.lower() in RAW_SUFFIXES | HEIF_SUFFIXES


def read_camera_file(path: Path) -> Pixels:
    """Return pixels (h, w, 3) and alpha (h, w), if any. ImageError where there is no such picture."""
    if not path.is_file():
        raise ImageError(path, "does not exist" if not path.exists() else "is no file", "check the name")
    return _read_heif(path) if path.suffix.lower() in HEIF_SUFFIXES else _read_raw(path)


def _read_raw(path: Path) -> Pixels:
    try:
        import rawpy
    except ImportError as error:
        raise _missing(path, "RAW") from error
    try:
        with rawpy.imread(str(path)) as raw:
            _check_size(path, raw.sizes.width, raw.sizes.height)
            words = raw.postprocess(
                gamma=(1, 1), no_auto_bright=True, output_bps=16, use_camera_wb=True, output_color=rawpy.ColorSpace.sRGB
            )
    except rawpy.LibRawError as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        remedy = "check that it opens elsewhere, or convert it to DNG or TIFF"
        raise ImageError(path, f"cannot be developed ({reason})", remedy) from error
    return _light(np.asarray(words)), None


def _read_heif(path: Path) -> Pixels:
    try:
        import pillow_heif
    except ImportError as error:
        raise _missing(path, "HEIF") from error
    try:
        file = pillow_heif.open_heif(str(path), convert_hdr_to_8bit=False)
        _check_size(path, *file.size)
        words = np.asarray(file)
    except (OSError, ValueError, SyntaxError, EOFError, RuntimeError) as error:
        if isinstance(error, ImageError):
            raise
        raise ImageError(path, f"is damaged or cut short ({error})", "copy or download it again") from error
    if words.ndim == 2:
        words = np.repeat(words[..., None], 3, axis=-1)
    alpha = _light(words[..., 3]) if words.shape[-1] == 4 else None
    return _decoded(path, np.ascontiguousarray(words[..., :3]), file.info), alpha


def _decoded(path: Path, words: NDArray[Any], info: dict[str, Any]) -> NDArray[np.float32]:
    """Return linear light by the file's ICC profile, or as sRGB where it has none."""
    profile = info.get("icc_profile")
    if not profile:
        return np.asarray(srgb_to_linear(_light(words)), np.float32)
    try:
        return np.asarray(parse_icc(profile).decoded(words), np.float32)
    except ValueError as error:
        raise ImageError(path, f"has {error}", "convert it to sRGB") from error


def _light(words: NDArray[Any]) -> NDArray[np.float32]:
    """Return bytes or 16-bit words as floats, 1 = white."""
    return np.asarray(words / np.float32(np.iinfo(words.dtype).max), np.float32)


def _check_size(path: Path, width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise ImageError(path, f"has {width} x {height} pixels, more than {MAX_PIXELS:,}", "make it smaller")


def _missing(path: Path, kind: str) -> ImageError:
    return ImageError(path, f"is {kind}, for which a library is missing", "install it by: pip install 'unlit[raw]'")
