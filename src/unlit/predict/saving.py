"""A decomposition as files: `<stem>.reflectance.<ext>`, `<stem>.shading.<ext>`; `<stem>.unlit.json` explains them.

PNG is for looking at: 8 or 16 bits, sRGB-encoded, divided by the scale that the JSON file gives. TIFF, EXR and NPZ hold
the linear values themselves. The JSON file is written last: where it lies, the others are whole.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unlit import __version__
from unlit.color import linear_to_srgb
from unlit.image_io import Encoding, FailedImageError, ImageError, read_image, write_encoded, write_image
from unlit.predict.full_size import strips
from unlit.predict.photo import Part, PhotoDecomposition
from unlit.predict.preview import preview
from unlit.predict.results import PARTS, Format, check_free, checked_bits, checked_encoding, kept_files, planned
from unlit.train.durable import replace_durably, temporary_name

if TYPE_CHECKING:
    import os

_TABLE = np.rint(255 * linear_to_srgb(np.linspace(0, 1, 1 << 16))).astype(np.uint8)
"""sRGB bytes of linear light in 65,536 steps: quicker than the curve, and a byte off only near a tie."""

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def save_photo(
    photo: PhotoDecomposition,
    folder: str | os.PathLike[str],
    stem: str,
    *,
    format: Format = "png",  # noqa: A002  # the promised word
    encoding: Encoding | None = None,
    bits: int | None = None,
    layers: bool = False,
    with_preview: bool = False,
    force: bool = False,
) -> list[Path]:
    """Write `photo` under `stem` into `folder`, made if missing, and return the paths written, the JSON file's last.

    `layers` puts photograph, reflectance and shading into one EXR file. `with_preview` adds `<stem>.preview.jpg`, the
    three side by side. ValueError where a file is there already, unless `force`. Files of the same decomposition in
    other formats stay, and the JSON file describes them too.
    """
    bits = checked_bits(format, bits, layers=layers)
    encoding = checked_encoding(format, encoding, layers=layers)
    folder = Path(folder)
    paths = planned(folder, stem, format, layers=layers, with_preview=with_preview)
    content = {**_description(photo, stem), "format": format, "encoding": encoding, "bits": bits}
    kept = kept_files(paths[-1], content, force=force)
    if not force:
        check_free(paths[:-1])
    folder.mkdir(parents=True, exist_ok=True)
    # Whole numbers end at 1, so what is brighter needs a scale; floats are kept as they are.
    whole = bits in (8, 16) and format != "exr"
    scales = {part: _viewing_scale(photo, part) if whole else 1.0 for part in PARTS}
    if format == "npz":
        with _named(paths[0]):
            _write_npz(paths[0], photo)
    elif layers:
        parts = {str(part): getattr(photo, part) for part in PARTS}
        write_image(paths[0], photo.image, bits=bits, alpha=photo.alpha, layers=parts, metadata=_attributes(photo))
    else:
        _write_parts(photo, paths, scales, encoding, bits)
    if with_preview:
        write_image(paths[-2], preview(photo), encoding="srgb", bits=8)
    content["clipped"] = float(photo.clipped.mean())
    written = {path.name: _about(path, scales, encoding, bits) for path in paths[:-1]}
    # What was written last stands last.
    content["files"] = {name: about for name, about in kept.items() if name not in written} | written
    with _named(paths[-1]):
        replace_durably(paths[-1], (json.dumps(content, indent=1) + "\n").encode())
    return paths


def load_parts(description: str | os.PathLike[str]) -> dict[str, NDArray[np.float32]]:
    """Return "reflectance" and "shading" (h, w, 3), linear, as `save_photo` wrote them beside `<stem>.unlit.json`.

    Their product is the photograph, to the precision of the files; of several formats, that which was written last.
    """
    path = Path(description)
    try:
        stated = json.loads(path.read_text())
        files = {name: about for name, about in stated["files"].items() if about.get("part") != "preview"}
        encoding: Encoding = stated["encoding"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ImageError(path, "does not describe a decomposition", "give a <stem>.unlit.json") from error
    parts: dict[str, NDArray[np.float32]] = {}
    for name, about in reversed(files.items()):
        file = path.parent / name
        for part in PARTS if about["part"] == "all" else (about["part"],):
            if part not in parts:
                parts[part] = _loaded(file, part, about, about.get("encoding", encoding))
    return parts


def _loaded(file: Path, part: Part, about: dict[str, Any], encoding: Encoding) -> NDArray[np.float32]:
    """Return a part of a decomposition from the file that holds it."""
    if file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            values: NDArray[np.float32] = arrays[part]
            return values
    layer = part if about["part"] == "all" else None
    return read_image(file, encoding=encoding, layer=layer).pixels * np.float32(about["scale"])


def _write_parts(
    photo: PhotoDecomposition, paths: list[Path], scales: dict[Part, float], encoding: Encoding, bits: int
) -> None:
    """Write both parts at once: packing a large PNG takes longer than all the rest."""

    def write(path: Path, part: Part) -> None:
        if bits == 32 or path.suffix == ".exr":
            write_image(path, getattr(photo, part), encoding=encoding, bits=bits, alpha=photo.alpha)
        else:
            write_encoded(path, _encoded(photo, part, scales[part], encoding, bits), encoding=encoding)

    with ThreadPoolExecutor(len(PARTS) + 1) as pool:
        pool.submit(lambda: photo.clipped)  # which is asked for next
        for _ in pool.map(write, paths, PARTS):
            pass


def _encoded(
    photo: PhotoDecomposition, part: Part, scale: float, encoding: Encoding, bits: int
) -> NDArray[np.uint8 | np.uint16]:
    """Return a part as whole numbers (h, w, 3), with alpha (h, w, 4), made strip by strip."""
    h, w, _ = photo.image.shape
    white = np.float32(2**bits - 1)
    numbers = np.empty((h, w, 3 if photo.alpha is None else 4), np.uint8 if bits == 8 else np.uint16)
    for rows in strips(h, w):
        light = photo.strip(part, rows)
        light *= np.float32(1 / scale)
        np.clip(light, 0, 1, out=light)
        if encoding == "srgb" and bits == 8:
            light *= np.float32(_TABLE.size - 1)
            light += np.float32(0.5)
            # Half the time of an index in brackets, which makes whole numbers of 64 bits first.
            numbers[rows, :, :3] = _TABLE.take(light.astype(np.uint16), mode="clip")
        else:
            numbers[rows, :, :3] = (linear_to_srgb(light) if encoding == "srgb" else light) * white + np.float32(0.5)
        if photo.alpha is not None:
            numbers[rows, :, 3] = np.clip(photo.alpha[rows], 0, 1) * white + np.float32(0.5)
    return numbers


def _viewing_scale(photo: PhotoDecomposition, part: Part) -> float:
    """Return what all but the brightest thousandth of a part stays below, but at least 1."""
    if part == "reflectance" and photo.is_exact:
        return 1.0  # it ends there by itself
    h, w, _ = photo.image.shape
    step = max(1, int(np.sqrt(h * w / 2e5)))  # a sample tells it well enough
    few = photo.strip(part, slice(None, None, step))[:, ::step]
    # One by one: NumPy is slow over an axis of three.
    brightest = np.maximum(np.maximum(few[..., 0], few[..., 1]), few[..., 2]).reshape(-1)
    place = min(brightest.size - 1, int(0.999 * brightest.size))
    scale = float(np.partition(brightest, place)[place])
    return scale if scale > 1 + 1e-5 else 1.0


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let an error of the disk say which file it concerns."""
    try:
        yield
    except OSError as error:
        raise FailedImageError(path, f"cannot be written ({error.strerror})", "check the free space") from error


def _write_npz(path: Path, photo: PhotoDecomposition) -> None:
    temporary = temporary_name(path)
    try:
        with temporary.open("xb") as file:
            np.savez(
                file,
                reflectance=photo.reflectance,
                shading=photo.shading,
                light_color=photo.light_color,
                clipped=photo.clipped,
            )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _description(photo: PhotoDecomposition, stem: str) -> dict[str, Any]:
    """Return what the files do not say themselves."""
    h, w, _ = photo.image.shape
    return {
        "unlit": __version__,
        "method": "network",
        "photo": stem,
        "fingerprint": _fingerprint(photo.image),
        "size": {"height": h, "width": w},
        "exact": photo.is_exact,
        "weights": {"name": photo.weights, "sha256": photo.weights_sha256},
        "light_color": [float(v) for v in photo.light_color],
        "shading_quantiles": [float(v) for v in np.quantile(_sample(photo.gray_shading), _QUANTILES)],
    }


def _fingerprint(image: NDArray[np.float32]) -> str:
    """Return what tells a photograph (h, w, 3) from another of its name: a sum over some of its pixels."""
    return f"{zlib.crc32(_sample(image).tobytes()):08x}"


def _sample(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return some 200,000 pixels of many, spread evenly over (h, w, ...): they tell well enough."""
    step = max(1, int(np.sqrt(values.shape[0] * values.shape[1] / 2e5)))
    return values[::step, ::step]


def _attributes(photo: PhotoDecomposition) -> dict[str, str]:
    """Return the same as text for the header of an EXR file."""
    stated = {**_description(photo, ""), "clipped": float(photo.clipped.mean())}
    return {f"unlit/{key}": json.dumps(stated[key]) for key in ("unlit", "weights", "light_color", "exact", "clipped")}


def _about(path: Path, scales: dict[Part, float], encoding: Encoding, bits: int) -> dict[str, Any]:
    kind = path.suffixes[-2].removeprefix(".") if len(path.suffixes) > 1 else ""
    if kind == "preview":
        return {"part": "preview", "encoding": "srgb", "bits": 8}
    part = next((part for part in PARTS if part == kind), None)
    return {"part": part or "all", "scale": scales[part] if part else 1.0, "encoding": encoding, "bits": bits}
