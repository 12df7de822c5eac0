"""How steady the reflectance of a video is: its change from frame to frame over that of the frames themselves.

python benchmarks/steady.py [--video FILE] [--weights FILE] [--longest 400] [--json FILE]

The change is the mean over pixels and channels of |log a − log b| of neighboring frames, logs floored at 10⁻³, and then
the mean over frames; for the frames, for the reflectance that stands alone in each frame, and for the steadied one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Container, Iterator
from pathlib import Path

import numpy as np
import torch
import tyro
from numpy.typing import NDArray

from _measure import report
from unlit.color import floored_log, srgb_to_linear
from unlit.predict.predictor import Predictor
from unlit.predict.temporal import Memory
from unlit.predict.video import decompose_frames, primed, primers
from unlit.video_io import read_video, video_info

FLOOR = 1e-3
DAY = Path(os.environ.get("UNLIT_DATA", Path(__file__).parents[2] / "shared" / "data"), "video", "one-day.mp4")
"""A day seen by a fixed camera; not shipped, see CONTRIBUTING.md."""


def main(
    video: Path = DAY,
    weights: Path | None = None,
    device: str = "auto",
    longest: int | None = None,
    start: int = 0,
    end: int | None = None,
    json: Path | None = None,
) -> None:
    """Measure the video's frames from `start` to `end`, made small to `longest` pixels if given."""
    if not video.exists():
        print(f"{video} does not exist: nothing is measured; name one by --video", file=sys.stderr)
        return
    predictor = Predictor(weights, device=device)
    seen, alone, steady = _Change(), _Change(), _Change()
    begun = time.perf_counter()
    memory = primed(predictor, frames(video, longest, start, end, primers(video_info(video).frames)))
    for frame, found in _split(predictor, frames(video, longest, start, end), memory):
        seen.add(frame)
        alone.add(predictor.decompose(frame, encoding="linear").reflectance)
        steady.add(found)
    changes = {"frames": seen, "reflectance, frame by frame": alone, "reflectance, steadied": steady}
    rows = [
        {"what": name, "change": change.mean, "over_frames": change.mean / seen.mean, "pairs": change.count}
        for name, change in changes.items()
    ]
    print(f"{(time.perf_counter() - begun) / (seen.count + 1):.2f} s a frame, both ways together", file=sys.stderr)
    report("steady", rows, torch.device(predictor.network.device.type), json)


def frames(
    video: Path, longest: int | None, start: int, end: int | None, only: Container[int] | None = None
) -> Iterator[NDArray[np.float32]]:
    """Yield the video's frames, linear."""
    for frame in read_video(video, longest=longest, end=end):
        if frame.index >= start and (only is None or frame.index in only):
            whole = np.float32(np.iinfo(frame.pixels_srgb.dtype).max)
            yield np.asarray(srgb_to_linear(frame.pixels_srgb / whole), np.float32)


def _split(
    predictor: Predictor, source: Iterator[NDArray[np.float32]], memory: Memory | None
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Yield each frame and its steady reflectance."""
    given: list[NDArray[np.float32]] = []

    def remembered() -> Iterator[NDArray[np.float32]]:
        for frame in source:
            given.append(frame)
            yield frame

    for found in decompose_frames(predictor, remembered(), memory=memory):
        yield given.pop(), found.reflectance


class _Change:
    """The mean change between neighbors of a series of pictures."""

    def __init__(self) -> None:
        self.count, self._sum = 0, 0.0
        self._before: NDArray[np.float32] | None = None

    def add(self, picture: NDArray[np.float32]) -> None:
        """Add the next picture."""
        logs = floored_log(picture, FLOOR)
        if self._before is not None:
            self._sum += float(np.abs(logs - self._before).mean())
            self.count += 1
        self._before = logs

    @property
    def mean(self) -> float:
        """The mean so far."""
        return self._sum / max(1, self.count)


if __name__ == "__main__":
    tyro.cli(main)
