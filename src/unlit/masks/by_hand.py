"""What a person left out: PNG masks, or polygons in LabelMe or COCO JSON files.

A place is a file or a folder. In a folder, `NAME.png` (or `NAME_hand.png`) is the mask of the frame NAME, 255 = valid
as everywhere on disk; `NAME.json` has its polygons, which are left out; `all.png` and `all.json` hold for every frame.
A COCO file names the frames itself. Masks here are True where a pixel is left out.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from unlit.image_io import read_image

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

EVERY = "all"
"""The name of a file that holds for every frame."""


class HandMaskError(ValueError):
    """A mask made by hand cannot be used: which file, what is wrong, and what to do."""


def hand_masks(place: str | os.PathLike[str], names: Sequence[str], size: tuple[int, int]) -> Mask:
    """Return what was left out by hand of the frames `names` of `size` (h, w): (m, h, w).

    `place` is a folder of masks and polygons, one PNG or LabelMe file for every frame, or one COCO file.
    """
    place = Path(place)
    masks = np.zeros((len(names), *size), bool)
    if not place.exists():
        raise HandMaskError(f"{place}: does not exist; name a folder of masks, a PNG file or a JSON file")
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    used = sum(_lay_over(masks, file, names, alone=not place.is_dir()) for file in files)
    if not used:
        raise HandMaskError(
            f"{place}: has no mask for any frame; call them after frames: {names[0]}.png, {names[0]}.json or all.png"
        )
    return masks


def _lay_over(masks: Mask, file: Path, names: Sequence[str], *, alone: bool) -> bool:
    """Add what `file` leaves out to `masks` (m, h, w); return whether it concerns any frame."""
    if file.suffix.lower() not in (".png", ".json"):
        return False
    content = _json(file) if file.suffix.lower() == ".json" else None
    if isinstance(content, dict) and "annotations" in content:
        return _lay_coco(masks, file, content, names)
    stem = file.stem.removesuffix("_hand")
    frames = slice(None) if alone or stem == EVERY else [i for i, name in enumerate(names) if name == stem]
    if frames == []:
        return False
    masks[frames] |= _png(file, masks.shape[1:]) if content is None else _labelme(file, content, masks.shape[1:])
    return True


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise HandMaskError(f"{file}: is not JSON ({error}); save it again from LabelMe or as COCO") from error


def _png(file: Path, size: tuple[int, ...]) -> Mask:
    """Return what a mask on disk leaves out; what is brighter than half is valid."""
    pixels = read_image(file, encoding="linear").pixels
    if pixels.shape[:2] != size:
        h, w = pixels.shape[:2]
        raise HandMaskError(f"{file}: is {w} x {h}, its frame {size[1]} x {size[0]}; draw the mask at the frame's size")
    return np.asarray(pixels.mean(axis=-1) < 0.5)


def _labelme(file: Path, content: Any, size: tuple[int, ...]) -> Mask:
    """Return what the shapes of a LabelMe file cover: polygons, rectangles and circles."""
    try:
        h, w = int(content.get("imageHeight") or size[0]), int(content.get("imageWidth") or size[1])
        shapes = [_outline(shape["shape_type"], np.array(shape["points"], float)) for shape in content["shapes"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HandMaskError(f"{file}: is neither LabelMe nor COCO ({error!r}); save it again from LabelMe") from error
    return _filled(shapes, size, (size[0] / h, size[1] / w))


def _outline(kind: str, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners (n, 2), x before y, of a shape of LabelMe."""
    if kind == "rectangle":
        (x0, y0), (x1, y1) = points
        return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
    if kind == "circle":
        angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
        radius = np.hypot(*(points[1] - points[0]))
        return np.asarray(points[0] + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    if kind != "polygon" or len(points) < 3:
        raise ValueError(f"a {kind} of {len(points)} points has no inside")
    return points


def _lay_coco(masks: Mask, file: Path, content: dict[str, Any], names: Sequence[str]) -> bool:
    """Add the polygons of a COCO file to the frames that it names; return whether there are any."""
    size, used = masks.shape[1:], False
    try:
        images = {image["id"]: image for image in content["images"]}
        for annotation in content["annotations"]:
            image = images[annotation["image_id"]]
            stem = PurePosixPath(image["file_name"]).stem
            outlines = [np.array(ring, float).reshape(-1, 2) for ring in _rings(annotation)]
            scale = (size[0] / image.get("height", size[0]), size[1] / image.get("width", size[1]))
            for i in (i for i, name in enumerate(names) if name == stem):
                masks[i] |= _filled(outlines, size, scale)
                used = True
    except (KeyError, TypeError, ValueError) as error:
        raise HandMaskError(f"{file}: is not COCO as expected ({error!r}); export it again with polygons") from error
    return used


def _rings(annotation: dict[str, Any]) -> list[list[float]]:
    if isinstance(annotation["segmentation"], dict):
        raise ValueError("run-length masks are not read")
    rings: list[list[float]] = annotation["segmentation"]
    return rings


def _filled(outlines: list[NDArray[np.float64]], size: tuple[int, ...], scale: tuple[float, float]) -> Mask:
    """Return the inside (h, w) of outlines (n, 2), x before y, drawn on a picture that `scale` brings to `size`."""
    from skimage.draw import polygon2mask  # takes a while to import

    mask = np.zeros(size, bool)
    for outline in outlines:
        # Corners are counted from the corner of the first pixel, polygon2mask from its middle.
        corners = outline[:, ::-1] * scale - 0.5
        mask |= polygon2mask((size[0], size[1]), corners)  # type: ignore[no-untyped-call]  # scikit-image has no types
    return mask
