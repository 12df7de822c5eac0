"""Video out, frame by frame: sRGB-encoded bytes to H.264, or to lossless FFV1 by the suffix `.mkv`.

Frames keep the times that they are given, so that a variable rate survives. Needs PyAV (the extra `video`).
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unlit.image_io import FailedImageError
from unlit.train.durable import temporary_name

if TYPE_CHECKING:
    from types import TracebackType

_CLOCK = Fraction(1, 90_000)
"""Of times in the file, as most formats have it."""
_MAX_RATE = 1000


class VideoWriter:
    """A video being written: `with VideoWriter(path) as out: out.write(pixels_u8, seconds)`.

    The file appears whole when the block ends, and not at all if it ends with an error. `rate` is what the file says of
    itself, frames a second; the frames' own times count.
    """

    def __init__(self, path: Path, *, rate: float = 25.0) -> None:
        self._path, self._rate = path, min(max(rate, 1e-3), _MAX_RATE)
        self._temporary = temporary_name(path).with_suffix(path.suffix)
        self._container: Any = None
        self._stream: Any = None
        self._last = -1

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._container is not None:
                if kind is None:
                    self._container.mux(self._stream.encode(None))
                self._container.close()
                if kind is None:
                    self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)

    def write(self, pixels_u8: NDArray[np.uint8], seconds: float) -> None:
        """Add a frame (h, w, 3), sRGB-encoded, shown from `seconds` on; later than the one before."""
        import av

        h, w, _ = pixels_u8.shape
        try:
            if self._container is None:
                self._open(av, h, w)
            # H.264 halves its colors in both directions: sides must be even, and the last row or column counts twice.
            even = np.pad(pixels_u8, ((0, h % 2), (0, w % 2), (0, 0)), mode="edge")
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")
            self._last = frame.pts = max(self._last + 1, round(seconds / _CLOCK))
            frame.time_base = _CLOCK
            self._container.mux(self._stream.encode(frame))
        except av.error.FFmpegError as error:
            wrong = f"cannot be written ({error.strerror})"
            raise FailedImageError(self._path, wrong, "check the free space") from error

    def _open(self, av: Any, h: int, w: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lossless = self._path.suffix.lower() == ".mkv"
        self._container = av.open(str(self._temporary), "w", format="matroska" if lossless else "mp4")
        self._stream = self._container.add_stream("ffv1" if lossless else "libx264", rate=round(max(1, self._rate)))
        self._stream.width, self._stream.height = w + w % 2, h + h % 2
        self._stream.pix_fmt = "bgr0" if lossless else "yuv420p"
        self._stream.time_base = self._stream.codec_context.time_base = _CLOCK
        if not lossless:
            self._stream.options = {"crf": "16", "preset": "veryfast"}
