"""A decomposition as files: `<stem>.reflectance.<ext>`, `<stem>.shading.<ext>`; `<stem>.unlit.json` explains them.

PNG is for looking at: 8 or 16 bits, sRGB-encoded, divided by the scale that the JSON file gives. TIFF, EXR and NPZ hold
the linear values themselves. The JSON file is written last: where it lies, the others are whole.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unlit import __version__
from unlit.color import linear_to_srgb
from unlit.image_io import Encoding, ImageError, read_image, write_encoded, write_image
from unlit.predict.full_size import strips
from unlit.predict.photo import Part, PhotoDecomposition
from unlit.predict.preview import preview
from unlit.train.durable import replace_durably, temporary_name

if TYPE_CHECKING:
    import os

Format = Literal["png", "tiff", "exr", "npz"]
PARTS: tuple[Part, ...] = get_args(Part)

_TABLE = np.rint(255 * linear_to_srgb(np.linspace(0, 1, 1 << 16))).astype(np.uint8)
"""sRGB bytes of linear light in 65,536 steps: quicker than the curve, and a byte off only near a tie."""

_BITS = {"png": (8, 16), "tiff": (32, 16, 8), "exr": (32, 16), "npz": (32,)}
"""What a format may have; the first unless asked otherwise."""


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
    three side by side. ValueError where a file is there already, unless `force`.
    """
    bits = checked_bits(format, bits, layers=layers)
    encoding = encoding or ("srgb" if format == "png" else "linear")
    folder = Path(folder)
    paths = planned(folder, stem, format, layers=layers, with_preview=with_preview)
    if not force:
        check_free(paths)
    folder.mkdir(parents=True, exist_ok=True)
    # Whole numbers end at 1, so what is brighter needs a scale; floats are kept as they are.
    whole = bits in (8, 16) and format != "exr"
    scales = {part: _viewing_scale(photo, part) if whole else 1.0 for part in PARTS}
    if format == "npz":
        _write_npz(paths[0], photo)
    elif layers:
        parts = {str(part): getattr(photo, part) for part in PARTS}
        write_image(paths[0], photo.image, bits=bits, alpha=photo.alpha, layers=parts, metadata=_attributes(photo))
    else:
        _write_parts(photo, paths, scales, encoding, bits)
    if with_preview:
        write_image(paths[-2], preview(photo), encoding="srgb", bits=8)
    content = {**_description(photo, stem), "format": format, "encoding": encoding, "bits": bits}
    content["files"] = {path.name: _about(path, scales) for path in paths[:-1]}
    replace_durably(paths[-1], (json.dumps(content, indent=1) + "\n").encode())
    return paths


def load_parts(description: str | os.PathLike[str]) -> dict[str, NDArray[np.float32]]:
    """Return "reflectance" and "shading" (h, w, 3), linear, as `save_photo` wrote them beside `<stem>.unlit.json`.

    Their product is the photograph, to the precision of the files.
    """
    path = Path(description)
    try:
        stated = json.loads(path.read_text())
        files = {name: about for name, about in stated["files"].items() if about.get("part") != "preview"}
        encoding: Encoding = stated["encoding"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ImageError(path, "does not describe a decomposition", "give a <stem>.unlit.json") from error
    parts = {}
    for name, about in files.items():
        file = path.parent / name
        for part in PARTS if about["part"] == "all" else (about["part"],):
            if file.suffix == ".npz":
                with np.load(file, allow_pickle=False) as arrays:
                    parts[part] = arrays[part]
            else:
                layer = part if about["part"] == "all" else None
                parts[part] = read_image(file, encoding=encoding, layer=layer).pixels * np.float32(about["scale"])
    return parts


def planned(folder: Path, stem: str, format: Format, *, layers: bool, with_preview: bool) -> list[Path]:  # noqa: A002
    """Return the files that `save_photo` would write."""
    names = [f"{stem}.unlit.{format}"] if layers or format == "npz" else [f"{stem}.{part}.{format}" for part in PARTS]
    names += [f"{stem}.preview.jpg"] if with_preview else []
    return [folder / name for name in [*names, f"{stem}.unlit.json"]]


def check_free(paths: list[Path]) -> None:
    """Refuse to overwrite any of `paths`."""
    for path in paths:
        if path.exists():
            raise ImageError(path, "exists already", "choose another folder, or say --force (force=True)")


def checked_bits(format: Format, bits: int | None, *, layers: bool) -> int:  # noqa: A002  # the promised word
    """Return the bits of a number in the files, having refused what a format cannot have."""
    if format not in get_args(Format):
        raise ValueError(f"pictures cannot be {format!r}; choose one of {', '.join(get_args(Format))}")
    if layers and format != "exr":
        raise ValueError(f"{format} cannot hold layers; use the format exr")
    if bits is not None and bits not in _BITS[format]:
        raise ValueError(f"{format} cannot have {bits} bits; use {' or '.join(map(str, _BITS[format]))}")
    return bits or _BITS[format][0]


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
            numbers[rows, :, :3] = _TABLE[light.astype(np.uint16)]
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
    brightest = photo.strip(part, slice(None, None, step))[:, ::step].max(-1).reshape(-1)
    place = min(brightest.size - 1, int(0.999 * brightest.size))
    scale = float(np.partition(brightest, place)[place])
    return scale if scale > 1 + 1e-5 else 1.0


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
        "size": {"height": h, "width": w},
        "exact": photo.is_exact,
        "weights": {"name": photo.weights, "sha256": photo.weights_sha256},
        "light_color": [float(v) for v in photo.light_color],
        "clipped": float(photo.clipped.mean()),
    }


def _attributes(photo: PhotoDecomposition) -> dict[str, str]:
    """Return the same as text for the header of an EXR file."""
    stated = _description(photo, "")
    return {f"unlit/{key}": json.dumps(stated[key]) for key in ("unlit", "weights", "light_color", "exact", "clipped")}


def _about(path: Path, scales: dict[Part, float]) -> dict[str, Any]:
    kind = path.suffixes[-2].removeprefix(".") if len(path.suffixes) > 1 else ""
    for part in PARTS:
        if kind == part:
            return {"part": part, "scale": scales[part]}
    return {"part": "preview"} if kind == "preview" else {"part": "all", "scale": 1.0}
