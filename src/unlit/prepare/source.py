"""Where frames come from: a video, pictures in a folder, or pictures that a text file lists.

The released BigTime folders are taken as they are: `<name>_mask.png` beside a frame is its mask, 255 = valid, and a
folder that holds folders stands for all of them. Frames are read one at a time: first small copies of all, then the
chosen ones as they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO
from numpy.typing import NDArray

from unlit.color import linear_to_srgb
from unlit.image_io import WRITABLE_SUFFIXES, Encoding, ImageError, read_image
from unlit.image_io.scratch import text_name
from unlit.prepare.settings import PrepareSettings
from unlit.video_io import read_video, video_info

SMALL_PIXELS = 49_152
"""Of a small copy: 256 x 192, enough to measure a shift of a tenth of its pixels."""
PICTURE_SUFFIXES = (*WRITABLE_SUFFIXES, ".bmp")


class SourceError(ValueError):
    """A source cannot be prepared: one line that names it, what is wrong, and the remedy."""


def printable(text: object) -> str:
    """Return a name, or a message with names in it, as one line of text.

    Names may hold newlines, and bytes that are no text, which Python keeps as characters that cannot be written.
    """
    whole = str(text).encode(errors="backslashreplace").decode()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in whole)


@dataclass(frozen=True)
class Source:
    """Something that frames come from: a video, or pictures in order."""

    name: str
    place: Path
    """What the user named, or a folder inside it."""
    pictures: tuple[Path, ...] = ()
    """None for a video."""
    masks: tuple[Path | None, ...] = ()
    """Of the pictures, 255 = valid; empty where there are none."""

    @property
    def is_video(self) -> bool:
        """Whether frames are decoded from one file."""
        return not self.pictures

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that the frames depend on."""
        return (self.place,) if self.is_video else (*self.pictures, *(mask for mask in self.masks if mask))


@dataclass(frozen=True)
class SmallFrame:
    """A small copy of a frame."""

    index: int
    """Its place in the source, from 0."""
    name: str
    time: float | None
    """Seconds, where known."""
    size: tuple[int, int]
    """(h, w) of the frame itself."""
    pixels_u8: NDArray[np.uint8]
    """(h', w', 3), sRGB-encoded."""


@dataclass(frozen=True)
class Unreadable:
    """A frame that cannot be read, and why."""

    index: int
    name: str
    reason: str


@dataclass(frozen=True)
class FullFrame:
    """A frame as it is."""

    index: int
    pixels: NDArray[Any]
    """(h, w, 3): uint8 or uint16, sRGB-encoded; or float32, linear, which may go beyond white."""
    valid: NDArray[np.bool_] | None
    """(h, w), where a mask came with it."""


def count_estimate(source: Source) -> int | None:
    """Return how many frames a source has, as far as that is known before reading."""
    return video_info(source.place).frames if source.is_video else len(source.pictures)


def small_frames(source: Source, settings: PrepareSettings, threads: int = 1) -> Iterator[SmallFrame | Unreadable]:
    """Yield small copies of a source's frames. ImageError where a video is broken, after the frames before that."""
    if source.is_video:
        info = video_info(source.place)
        longest = max(small_size((info.height, info.width)))
        only = _Every(settings.every)
        for frame in read_video(source.place, longest=longest, only=only, threads=threads):
            if frame.is_damaged:
                reason = f"{source.place}: is damaged at frame {frame.index}; copy or download it again"
                yield Unreadable(frame.index, f"{frame.index:06}", reason)
                continue
            h, w = frame.pixels_srgb.shape[:2]
            upright = (info.height, info.width) if (h < w) == (info.height < info.width) else (info.width, info.height)
            yield SmallFrame(frame.index, f"{frame.index:06}", frame.time, upright, frame.pixels_srgb)
        return
    first: float | None = None
    for index, (path, name) in enumerate(zip(source.pictures, _names(source.pictures), strict=True)):
        try:
            pixels = read_image(path, encoding=settings.encoding).pixels
        except ImageError as error:
            yield Unreadable(index, name, str(error))
            continue
        time = picture_time(path)
        first = time if first is None else first
        since = None if time is None or first is None else time - first
        size = (pixels.shape[0], pixels.shape[1])
        wrong = _wrong_with_mask(source, index, size)
        if wrong is not None:
            yield Unreadable(index, name, wrong)
            continue
        small = encoded_u8(resized(pixels, small_size(size)))
        yield SmallFrame(index, name, since, size, small)


def _names(pictures: Sequence[Path]) -> list[str]:
    """Return the frames' names: what their files are called, with a number where several have one name."""
    names: list[str] = []
    counts = Counter(path.stem for path in pictures)
    for k, path in enumerate(pictures, 1):
        names.append(printable(path.stem if counts[path.stem] == 1 else f"{path.stem}.{k:04}"))
    return names


@dataclass(frozen=True)
class _Every:
    """The numbers 0, n, 2n and so on."""

    n: int

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and index % self.n == 0


def full_frames(
    source: Source, indices: Sequence[int], encoding: Encoding | None, threads: int = 1
) -> Iterator[FullFrame]:
    """Yield the frames with these numbers as they are, in their order. ImageError where one cannot be read."""
    if source.is_video:
        wanted = frozenset(indices)
        for frame in read_video(source.place, only=wanted, threads=threads):
            yield FullFrame(frame.index, frame.pixels_srgb, None)
            if frame.index == max(wanted):  # what is wrong behind it was told when all frames were looked at
                return
    for index in sorted(indices):
        image = read_image(source.pictures[index], encoding=encoding)
        pixels: NDArray[Any] = image.pixels
        if image.bits <= 16 and image.pixels.max() <= 1 and image.pixels.min() >= 0:
            kind, most = (np.uint8, 255) if image.bits <= 8 else (np.uint16, 65535)
            pixels = np.rint(linear_to_srgb(image.pixels) * most).astype(kind)
        yield FullFrame(index, pixels, _valid(source, index, pixels.shape[:2]))


def _wrong_with_mask(source: Source, index: int, size: tuple[int, int]) -> str | None:
    """Return what is wrong with the mask beside a frame, as far as its header tells."""
    path = source.masks[index] if source.masks else None
    if path is None:
        return None
    with text_name(path) as name:
        file = OpenImageIO.ImageInput.open(name)
        OpenImageIO.geterror()  # what nobody asks for is printed at exit
    if file is None:
        return f"{path}: is not a picture, or is damaged; save the mask again, or remove it"
    stated = (file.spec().height, file.spec().width)
    file.close()
    return None if stated == size else str(_other_size(path, stated, size))


def _other_size(path: Path, stated: tuple[int, ...], size: tuple[int, ...]) -> ImageError:
    wrong = f"has {stated[1]} x {stated[0]} pixels, its frame {size[1]} x {size[0]}"
    return ImageError(path, wrong, "give a mask of the frame's size")


def _valid(source: Source, index: int, size: tuple[int, ...]) -> NDArray[np.bool_] | None:
    path = source.masks[index] if source.masks else None
    if path is None:
        return None
    valid = read_image(path, encoding="linear").pixels.max(-1) >= 0.5
    if valid.shape != size:
        raise _other_size(path, valid.shape, size)
    return np.asarray(valid)


def hand_place(source: Source, by_hand: str) -> Path | None:
    """Return where masks drawn by hand for a source lie: a folder of its name inside `by_hand`, or that itself.

    None where that has folders only, which are for other sources.
    """
    place = Path(by_hand)
    if (place / source.name).is_dir():
        return place / source.name
    inside = [path for path in place.iterdir() if not path.name.startswith(".")] if place.is_dir() else []
    return None if inside and all(path.is_dir() for path in inside) else place


def small_size(size: tuple[int, int], pixels: float = SMALL_PIXELS) -> tuple[int, int]:
    """Return the size (h, w) of a copy with no more than so many pixels and the same shape."""
    shrink = min(1.0, math.sqrt(pixels / (size[0] * size[1])))
    return max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink))


def resized(pixels: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    """Return linear light (h, w, 3) at a smaller size, filtered so that nothing flickers between pixels."""
    if pixels.shape[:2] == size:
        return pixels
    roi = OpenImageIO.ROI(0, size[1], 0, size[0], 0, 1, 0, 3)
    made = OpenImageIO.ImageBufAlgo.resize(OpenImageIO.ImageBuf(pixels), filtername="triangle", roi=roi, nthreads=1)
    return np.asarray(made.get_pixels(OpenImageIO.FLOAT), np.float32).reshape(*size, 3)


def encoded_u8(pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return linear light as sRGB bytes; what is beyond white is white."""
    return np.asarray(np.rint(255 * linear_to_srgb(np.clip(pixels, 0, 1))), np.uint8)


def picture_time(path: Path) -> float | None:
    """Return when a picture was taken, in seconds, by its EXIF data; None where it does not say."""
    with text_name(path) as name:
        file = OpenImageIO.ImageInput.open(name)
        OpenImageIO.geterror()  # what nobody asks for is printed at exit
        if file is None:
            return None
        spec = file.spec()
        stated = str(spec.getattribute("Exif:DateTimeOriginal") or spec.getattribute("DateTime") or "")
        file.close()
    try:
        return datetime.strptime(stated[:19], "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
