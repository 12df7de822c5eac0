"""What is known of a sequence besides its frames: true reflectance and shading, people's judgements and labels.

Shapes: m frames, h x w pixels, n points, j pairs of points. In the sequence's folder, `truth/` may hold any of

    reflectance.EXT                       one for all frames
    shading/0001.EXT, 0002.EXT, ...       by the frame's place in `sequence.json`; frames may lack theirs
    shading.EXT                           in place of the former: of the first frame
    judgements.json                       of every frame, in the format of IIW
    shading_classes.png                   of every frame, the labels of SAW as 8-bit gray

EXT is exr, png, tif or tiff. Without `truth/`, `reflectance.EXT` and `shading.EXT` beside the frames are taken for
those of the MIT set: linear, the shading that of the frame `diffuse`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, interpolate

from unlit.data.augment import warped
from unlit.data.judgements import Judgements, read_judgements
from unlit.data.sequence import SequenceError
from unlit.image_io import Encoding, Image, ImageError, read_image

if TYPE_CHECKING:
    import os

IGNORED = 100
"""The label of pixels of which nothing is said."""

_LABELS = (0, 1, 2, IGNORED)
_SUFFIXES = (".exr", ".png", ".tif", ".tiff")
WHOLLY_KNOWN = 0.999
"""A resampled pixel is known if this share of what it was made of is."""
LUMINOUS = 1.02
"""No surface reflects more than it gets: a reflectance from here on says that light itself is seen, as of a sky."""
_MIT_INPUT = "diffuse"


@dataclass(frozen=True)
class Truth:
    """What is known of m frames, each part of it or None. In pictures, black in all channels means unknown."""

    reflectance: Tensor | None = None
    """(3, h, w) float32 linear: one for all frames. More than `LUMINOUS` where light itself is seen."""
    shading: Tensor | None = None
    """(m, 3, h, w) float32 linear, with the light's color; zeros for frames without."""
    shading_valid: Tensor | None = None
    """(m,) bool: which frames have a shading; None where `shading` is."""
    judgements: Judgements | None = None
    shading_classes: Tensor | None = None
    """(h, w) uint8: 0 = a jump of normal or depth, 1 = a shadow's boundary, 2 = smooth, 100 = nothing said."""

    def __post_init__(self) -> None:
        frames = None if self.shading is None else (len(self.shading),)
        valid = None if self.shading_valid is None else tuple(self.shading_valid.shape)
        if frames != valid:
            raise ValueError(f"shading_valid must be {frames}, one for each shading, not {valid}")
        pictures = (self.reflectance, self.shading, self.shading_classes)
        sizes = {tuple(picture.shape[-2:]) for picture in pictures if picture is not None}
        if len(sizes) > 1:
            raise ValueError(f"reflectance, shading and classes must be of one size, not {sorted(sizes)}")

    def to(self, device: torch.device | str) -> Truth:
        """Return the same on another device."""
        return Truth(*(None if part is None else part.to(device) for part in vars(self).values()))

    def frames(self, index: Tensor) -> Truth:
        """Return what is known of the frames with these numbers, or of those where a bool (m,) is True."""
        if self.shading is None or self.shading_valid is None:
            return self
        return replace(self, shading=self.shading[index], shading_valid=self.shading_valid[index])

    def without_shading(self) -> Truth:
        """Return what is known whatever the light."""
        return Truth(self.reflectance, judgements=self.judgements)

    def resized(self, size: tuple[int, int]) -> Truth:
        """Return what is known of the frames made larger or smaller, (h, w); pictures and classes as in `warped`."""
        return self._sampled(
            lambda values: _means(values, size), lambda values: interpolate(values, size, mode="nearest-exact")
        )

    def warped(self, theta: Tensor, size: tuple[int, int]) -> Truth:
        """Return what is known of the frames after the affine map `theta` (2, 3), resampled to `size` (h, w).

        As for torch's affine_grid with align_corners=False, theta leads from a point of the new frame to one of the old
        in coordinates from −1 to 1; it must have an inverse. Pictures are sampled bilinearly, black where any of the
        pixels that would count is unknown or outside; classes by the nearest pixel, 100 outside.
        """
        grid = affine_grid(theta[None].float(), [1, 1, *size], align_corners=False)
        moved = self._sampled(
            lambda values: warped(values, theta.cpu(), size),
            # Outside, torch samples zero: so 100 has to be zero.
            lambda values: _at_grid(values - IGNORED, grid) + IGNORED,
        )
        return moved if self.judgements is None else replace(moved, judgements=self.judgements.warped(theta))

    def _sampled(self, light: Callable[[Tensor], Tensor], classes: Callable[[Tensor], Tensor]) -> Truth:
        """Return the pictures as functions of (k, c, h, w) sample them: one for light, one for classes.

        Where the reflectance is known too, the shading is that of the light R · S, sampled: R times it stays the frame.
        """
        reflectance = None if self.reflectance is None else _known(self.reflectance[None], light)[0]
        shading = None if self.shading is None else _known(self.shading, light)
        if reflectance is not None and shading is not None:
            leaving = _known(cast(Tensor, self.shading) * cast(Tensor, self.reflectance), light)
            shading = torch.where((reflectance > 0) & (leaving > 0), leaving / reflectance.clamp_min(1e-30), shading)
        labels = None if self.shading_classes is None else classes(self.shading_classes[None, None].float())[0, 0]
        return replace(
            self,
            reflectance=reflectance,
            shading=shading,
            shading_classes=None if labels is None else labels.round().to(torch.uint8),
        )


def _known(pictures: Tensor, light: Callable[[Tensor], Tensor]) -> Tensor:
    """Return pictures (k, 3, h, w) as `light` samples them, black where that counts an unknown pixel as dark."""
    known = (pictures > 0).any(1, keepdim=True)
    values = light(torch.cat([pictures, known.to(pictures.dtype)], 1))
    return values[:, :3] * (values[:, 3:] > WHOLLY_KNOWN)


def _at_grid(values: Tensor, grid: Tensor) -> Tensor:
    grid = grid.to(values.device).expand(len(values), -1, -1, -1)
    return grid_sample(values, grid, mode="nearest", padding_mode="zeros", align_corners=False)


def _means(values: Tensor, size: tuple[int, int]) -> Tensor:
    """Return values of another size: means over areas where they shrink, as for frames, else linear in between."""
    if values.shape[-2] >= size[0] and values.shape[-1] >= size[1]:
        return interpolate(values, size, mode="area")
    return interpolate(values, size, mode="bilinear", align_corners=False, antialias=True)


def load_truth(
    folder: str | os.PathLike[str],
    frame_names: Sequence[str],
    size: tuple[int, int],
    *,
    encoding: Encoding | None = None,
) -> Truth | None:
    """Read what is known of the frames called `frame_names`, of `size` (h, w), of the sequence in `folder`.

    None where nothing is. `encoding` says how the numbers of reflectance and shading are encoded; by default the files
    do, and the MIT set is linear. SequenceError where a file cannot be read or does not fit.
    """
    folder = Path(folder)
    place = folder / "truth"
    judgements, classes = place / "judgements.json", place / "shading_classes.png"
    if place.is_dir():
        shadings = _shading_files(place, _frame_order(folder, frame_names))
    else:
        place, encoding = folder, encoding or "linear"
        shadings = {_MIT_INPUT: _picture(place, "shading")}
    truth = Truth(
        _read_reflectance(place, size, encoding),
        *_read_shadings([shadings.get(name) for name in frame_names], size, encoding),
        read_judgements(judgements, size) if judgements.is_file() else None,
        _read_classes(classes, size) if classes.is_file() else None,
    )
    return truth if any(part is not None for part in vars(truth).values()) else None


def _frame_order(folder: Path, frame_names: Sequence[str]) -> list[str]:
    """Return the names of all frames in the sequence's order, those with it that were left out on reading."""
    path = folder / "sequence.json"
    if not path.is_file():
        return list(frame_names)
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))["frames"]
        order = [str(frame.get("name", PurePosixPath(frame["file"]).stem)) for frame in stated]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise SequenceError(f"{path}: is damaged ({error}); prepare the sequence again") from error
    strange = [name for name in frame_names if name not in order]
    if strange:
        raise SequenceError(f"{path}: has no frame {strange[0]!r}; give the names of the sequence in that folder")
    return order


def _picture(folder: Path, stem: str) -> Path | None:
    """Return the one picture called `stem`, or None."""
    found = [folder / f"{stem}{suffix}" for suffix in _SUFFIXES if (folder / f"{stem}{suffix}").is_file()]
    if len(found) > 1:
        raise SequenceError(f"{found[0]}: {found[1].name} says the same; remove one")
    return found[0] if found else None


def _shading_files(place: Path, order: list[str]) -> dict[str, Path | None]:
    """Return the files of shadings by the names of their frames."""
    single, many = _picture(place, "shading"), place / "shading"
    if not many.is_dir():
        return {order[0]: single} if order else {}
    if single is not None:
        raise SequenceError(f"{single}: {many.name}/ says the same; remove one")
    places = {f"{k:04}": name for k, name in enumerate(order, 1)}
    for path in sorted(many.iterdir()):
        if path.suffix.lower() in _SUFFIXES and path.stem not in places and not path.name.startswith("."):
            raise SequenceError(f"{path}: belongs to none of {len(order)} frames; call it 0001 for the first")
    return {name: _picture(many, stem) for stem, name in places.items()}


def _read_reflectance(place: Path, size: tuple[int, int], encoding: Encoding | None) -> Tensor | None:
    path = _picture(place, "reflectance")
    return None if path is None else _read_light(path, size, encoding)


def _read_shadings(
    paths: list[Path | None], size: tuple[int, int], encoding: Encoding | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return the shadings (m, 3, h, w) and which frames have one (m,), or None twice where no frame has."""
    if not any(paths):
        return None, None
    shadings = torch.zeros((len(paths), 3, *size))
    for shading, path in zip(shadings, paths, strict=True):
        if path is not None:
            shading[:] = _read_light(path, size, encoding)
    return shadings, torch.tensor([path is not None for path in paths])


def _read_light(path: Path, size: tuple[int, int], encoding: Encoding | None) -> Tensor:
    """Return a picture (3, h, w), linear."""
    return torch.from_numpy(_read(path, size, encoding).pixels).permute(2, 0, 1).contiguous()


def _read(path: Path, size: tuple[int, int], encoding: Encoding | None) -> Image:
    try:
        image = read_image(path, encoding=encoding)
    except ImageError as error:
        raise SequenceError(str(error)) from error
    h, w = image.pixels.shape[:2]
    if (h, w) != size:
        wrong = f"has {w} x {h} pixels, the frames {size[1]} x {size[0]}"
        raise SequenceError(f"{path}: {wrong}; give what is known of the same view at the same size")
    return image


def _read_classes(path: Path, size: tuple[int, int]) -> Tensor:
    """Return the labels (h, w), uint8."""
    image = _read(path, size, "linear")  # the bytes as they are
    labels = torch.from_numpy(image.pixels * 255).round().to(torch.uint8)
    wrong = [int(label) for label in labels.unique() if label not in _LABELS]
    if image.bits != 8 or wrong or not (labels == labels[..., :1]).all():
        what = f"has the label {wrong[0]}" if wrong else f"has {image.bits}-bit numbers or colors"
        raise SequenceError(f"{path}: {what}; give 8-bit gray with 0, 1, 2 and 100 alone, as SAW has them")
    return labels[..., 0].contiguous()
