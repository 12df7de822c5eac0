"""Video in, frame by frame: one frame is in memory at a time, upright, as numbers encoded like sRGB.

Frames come in the order in which they are shown, with the times that the file states, so a variable rate is no matter.
What a camera writes as BT.709 is taken for sRGB: their curves differ by less than exposures do. Curves for bright
screens (PQ, HLG) are refused, since they are something else. Needs PyAV (the extra `video`), imported when asked for.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlit.image_io import MAX_PIXELS, ImageError

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".mts", ".m2ts", ".ts", ".wmv",
                  ".flv", ".3gp", ".ogv")  # fmt: skip

_AGAIN = "copy or download it again"
_BRIGHT_SCREEN_CURVES = {16: "PQ", 18: "HLG"}
"""By their numbers in ITU-T H.273."""
_UNSTATED_MATRIX = (0, 2, 3)
_MOST = 0.95
"""The last frame of a whole video lies beyond this share of its length."""
_HIGH_DEFINITION = 720
"""Lines from which on a file that does not state its color matrix means BT.709, as players have it; else BT.601."""


class VideoError(ImageError):
    """A video cannot be read: one line that names the file, what is wrong, and the remedy."""


@dataclass(frozen=True)
class VideoInfo:
    """What a video says of itself."""

    width: int
    """As stored: turned upright it may be the height."""
    height: int
    frames: int | None
    """As stated, or reckoned from the length and the rate; None where neither is known."""
    is_exact: bool
    """Whether the file states the number of its frames."""
    seconds: float | None
    """How long the pictures last; None where the file does not say, or only how long its sound does."""
    bits: int
    """Bits a channel."""


class MissingPackageError(ValueError):
    """What only an extra brings is not installed: what for, and how to get it."""


@dataclass(frozen=True)
class VideoFrame:
    """One frame of a video."""

    index: int
    """Its place in the order in which frames are shown, from 0."""
    time: float | None
    """Seconds, as the file states it."""
    pixels_srgb: NDArray[Any]
    """(h, w, 3), upright; uint8, or uint16 over its whole range where the video has more than 8 bits."""
    is_damaged: bool = False
    """Whether the decoder made something up, for this frame or for one that it was coded from."""


def video_info(path: str | os.PathLike[str]) -> VideoInfo:
    """Return what a video says of itself, without decoding it. VideoError where it is none."""
    path = Path(path)
    with _opened(path) as (container, stream):
        return _info(path, container, stream)


def read_video(
    path: str | os.PathLike[str],
    *,
    longest: int | None = None,
    only: Container[int] | None = None,
    end: int | None = None,
    threads: int = 0,
) -> Iterator[VideoFrame]:
    """Yield the frames of a video, those whose number is in `only`, up to but not including the frame `end`.

    `longest` gives small copies instead, 8-bit, whose longer side has so many pixels: means over areas, and much
    quicker. `threads` decode, 0 for as many as fit the machine. VideoError where the file cannot be read, and, after
    the frames that could, where it is damaged or ends before all the frames that it states.
    """
    path = Path(path)
    with _opened(path) as (container, stream):
        info = _info(path, container, stream)
        stream.thread_type = "AUTO" if threads != 1 else "NONE"
        stream.codec_context.thread_count = threads
        converter = _Converter(path, longest)
        count, time, is_damaged = 0, None, False
        for frame in _decoded(path, container, stream):
            if end is not None and count >= end:
                return
            # Frames are coded as changes of those before, so what is damaged stays so until one stands for itself.
            is_damaged = frame.is_corrupt or (is_damaged and not frame.key_frame)
            if only is None or count in only:
                yield VideoFrame(count, frame.time, converter.pixels_srgb(frame), is_damaged)
            count, time = count + 1, frame.time
        _check_whole(path, info, count, time)


def _av() -> Any:
    try:
        import av
    except ImportError as error:
        raise MissingPackageError("reading video needs PyAV; install it with: pip install 'unlit[video]'") from error
    return av


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """Yield the container and its first stream of pictures."""
    av = _av()
    try:
        if path.stat().st_size == 0:
            raise VideoError(path, "is empty", _AGAIN)
        with path.open("rb"):  # for the reason in words: FFmpeg's own errors are less clear
            pass
        container = av.open(str(path), metadata_errors="replace")
    except VideoError:
        raise
    except av.error.FFmpegError as error:  # before OSError: some of its errors are both
        wrong = f"is not a video, or is damaged or cut short ({_reason(error)})"
        raise VideoError(path, wrong, "check that it plays elsewhere, or convert it to MP4") from error
    except OSError as error:
        raise VideoError(path, f"cannot be opened ({error.strerror})", "check its name and permissions") from error
    with container:
        if not container.streams.video:
            raise VideoError(path, "has no pictures, only sound or data", "give a video")
        yield container, container.streams.video[0]


def _info(path: Path, container: Any, stream: Any) -> VideoInfo:
    context = stream.codec_context
    if context is None or context.format is None or context.width < 1 or context.height < 1:
        raise VideoError(path, "has pictures in a format that cannot be decoded", "convert it to MP4 (H.264)")
    if context.width * context.height > MAX_PIXELS:
        raise VideoError(path, f"has {context.width} x {context.height} pixels, too many", "make it smaller")
    frames, is_exact = stream.frames or None, bool(stream.frames)
    rate = stream.average_rate or stream.guessed_rate
    if frames is None and rate and container.duration:
        frames = max(1, round(container.duration / 1e6 * float(rate)))
    bits = max(component.bits for component in context.format.components)
    return VideoInfo(context.width, context.height, frames, is_exact, _seconds(container, stream), bits)


def _seconds(container: Any, stream: Any) -> float | None:
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    if container.duration and len(container.streams) == 1:  # else it may be the sound's
        return float(container.duration / 1e6)
    return None


def _check_whole(path: Path, info: VideoInfo, count: int, time: float | None) -> None:
    """Refuse a video that ended before its time: some formats just stop where the file does."""
    if count == 0:
        raise VideoError(path, "has no frame that can be decoded", _AGAIN)
    if info.is_exact and info.frames is not None and count < info.frames:
        raise VideoError(path, f"is cut short: {count} of {info.frames} frames are there", _AGAIN)
    if not info.is_exact and info.seconds is not None and time is not None and time < _MOST * info.seconds - 1 / 2:
        raise VideoError(path, f"is cut short: {time:.1f} of {info.seconds:.1f} seconds are there", _AGAIN)


def _decoded(path: Path, container: Any, stream: Any) -> Iterator[Any]:
    """Yield what the decoder gives, as it is shown."""
    av = _av()
    count = 0
    try:
        for frame in container.decode(stream):
            yield frame
            count += 1
    except (av.error.FFmpegError, MemoryError) as error:
        raise VideoError(path, f"is damaged or cut short after {count} frames ({_reason(error)})", _AGAIN) from error


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


class _Converter:
    """Turns decoded frames into arrays; kept over a whole video, since setting it up costs more than a frame."""

    def __init__(self, path: Path, longest: int | None) -> None:
        self._path, self._longest = path, longest
        self._reformatter = _av().video.reformatter.VideoReformatter()

    def pixels_srgb(self, frame: Any) -> NDArray[Any]:
        """Return a frame's pixels, upright."""
        if frame.color_trc in _BRIGHT_SCREEN_CURVES:
            wrong = f"is encoded for bright screens ({_BRIGHT_SCREEN_CURVES[frame.color_trc]})"
            raise VideoError(self._path, wrong, "convert it to standard range (SDR, BT.709) first")
        shrink = 1.0 if self._longest is None else min(1.0, self._longest / max(frame.width, frame.height))
        deep = self._longest is None and max(component.bits for component in frame.format.components) > 8
        matrix = _unstated_matrix(frame)
        converted = self._reformatter.reformat(
            frame,
            width=max(1, round(frame.width * shrink)),
            height=max(1, round(frame.height * shrink)),
            format="rgb48le" if deep else "rgb24",
            src_colorspace=matrix,
            dst_colorspace=matrix,
            interpolation="AREA" if shrink < 1 else "BICUBIC",
            threads=1,  # starting more takes longer than the work
        )
        return np.ascontiguousarray(np.rot90(converted.to_ndarray(), round((frame.rotation or 0) / 90) % 4))


def _unstated_matrix(frame: Any) -> str | None:
    """Return the color matrix to assume where the file states none."""
    if frame.format.is_rgb or frame.colorspace not in _UNSTATED_MATRIX:
        return None
    return "ITU709" if frame.height >= _HIGH_DEFINITION else "ITU601"
