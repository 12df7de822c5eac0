"""Commands for photographs: decompose, compare, export.

Nothing heavy is imported here, only inside the commands, so that `--help` is instant.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro


def decompose(
    sources: Annotated[tuple[Path, ...], tyro.conf.Positional],
    out: Path,
    format: Literal["png", "tiff", "exr", "npz"] = "png",  # noqa: A002  # the promised option
    encoding: Literal["srgb", "linear"] | None = None,
    linear: bool = False,
    bits: Literal[8, 16, 32] | None = None,
    layers: bool = False,
    preview: bool = False,
    input_encoding: Literal["srgb", "linear"] | None = None,
    exact: bool = True,
    weights: Path | None = None,
    device: str = "auto",
    size: int = 384,
    detail: int | None = None,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    compiled: bool = False,
    recursive: bool = False,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Split photographs and videos into reflectance and shading.

    Args:
        sources: Photographs, videos, or folders of them.
        out: Folder for the results; made if missing.
        format: PNG is for looking at; TIFF, EXR and NPZ hold the exact linear values. Videos become videos.
        encoding: Of what is written: sRGB for PNG, linear for the others, unless given.
        linear: The same as --encoding linear.
        bits: Bits a channel of what is written: PNG 8 or 16, TIFF 32, 16 or 8, EXR 32 or 16; the first unless given.
        layers: Put photograph, reflectance and shading into one EXR file.
        preview: Write a small JPEG, too, with the three side by side.
        input_encoding: How the photographs are encoded, where their files do not say.
        exact: Reflectance times shading is the photograph; without, both are the network's own.
        weights: A file of weights, the folder of a training run, or `default`, the package's own.
        device: Where the network runs: auto, cpu, cuda, cuda:1.
        size: The longer side, in pixels, at which the network sees a 3:2 photograph.
        detail: A larger size for a second look, from which fine detail is taken.
        precision: Of the network's products; auto takes bfloat16 where the hardware is quick at it.
        compiled: Let torch compile the network; for many photographs of one size.
        recursive: Look into folders inside of folders.
        force: Overwrite results that exist.
        quiet: Show no progress.
    """
    if linear and encoding == "srgb":
        raise ValueError("--linear and --encoding srgb contradict each other; give one of them")
    from unlit.predict.command import Options, decompose_sources

    options = Options(
        format=format,
        encoding="linear" if linear else encoding,
        bits=bits,
        layers=layers,
        preview=preview,
        input_encoding=input_encoding,
        exact=exact,
        weights=_named(weights),
        device=device,
        size=size,
        detail=detail,
        precision=precision,
        compiled=compiled,
        force=force,
        quiet=quiet,
    )
    code = decompose_sources(sources, out, options, recursive=recursive)
    if code:
        sys.exit(code)


def compare(
    photo: Annotated[Path, tyro.conf.Positional],
    out: Path,
    method: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = (),
    input_encoding: Literal["srgb", "linear"] | None = None,
    device: str = "auto",
    force: bool = False,
) -> None:
    """Split one photograph by several methods, and put the results on one sheet.

    Args:
        photo: The photograph.
        out: The sheet, a picture file such as sheet.png.
        method: "default", a file of weights, the folder of a training run, or a baseline (retinex-color, zhao, bell,
            ...); repeat it for each.
        input_encoding: How the photograph is encoded, where its file does not say.
        device: Where networks run: auto, cpu, cuda, cuda:1.
        force: Overwrite a sheet that exists.
    """
    if out.exists() and not force:
        raise ValueError(f"{out} exists already; choose another name, or say --force")
    from unlit.image_io import FailedImageError, ImageError, write_image
    from unlit.image_io.encoding import by_option
    from unlit.image_io.format import FORMATS, PNG
    from unlit.predict import compare as comparing

    if 8 not in FORMATS.get(out.suffix.lower(), PNG).numbers:
        raise ValueError(f"{out}: a sheet is no linear picture; name it .png, .jpg, .tif, .webp or .jxl")
    try:
        sheet = comparing.compare(photo, method, encoding=input_encoding, device=device)
    except FailedImageError:
        raise
    except ImageError as error:
        raise ValueError(by_option(str(error), "--input-encoding")) from error
    out.parent.mkdir(parents=True, exist_ok=True)
    write_image(out, sheet, encoding="srgb", bits=8)
    print(f"sheet: {out}", file=sys.stderr)


def export(
    out: Path,
    format: Literal["onnx"] = "onnx",  # noqa: A002  # the promised option
    weights: Path | None = None,
    force: bool = False,
) -> None:
    """Write the network as a file for other programs, and check that it says the same there.

    Args:
        out: The file, such as unlit.onnx.
        format: ONNX, checked under ONNX Runtime.
        weights: A file of weights, the folder of a training run, or `default`, the package's own.
        force: Overwrite a file that exists.
    """
    from unlit.predict.export import export_onnx
    from unlit.predict.network import Network

    difference = export_onnx(Network(_named(weights), device="cpu"), out, force=force)
    print(f"{out}: differs from the network by {difference:.1g} at most (logs)", file=sys.stderr)


def _named(weights: Path | None) -> Path | None:
    """Return None, which means the package's own weights, where they are what is named."""
    return None if weights == Path("default") and not weights.exists() else weights
