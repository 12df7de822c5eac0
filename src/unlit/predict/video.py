"""Videos: a steady reflectance, the changing light, frame by frame in bounded memory.

`<stem>.reflectance.mp4` and `<stem>.shading.mp4` are for looking at, sRGB-encoded 8-bit H.264; `<stem>.unlit.json` says
by which scale they were divided. Shapes: h x w pixels; a frame is (h, w, 3), linear.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from unlit import __version__
from unlit.color import floored_log, linear_to_srgb, srgb_to_linear
from unlit.predict.predictor import Predictor
from unlit.predict.results import check_free, planned_video
from unlit.predict.source import Photo
from unlit.predict.temporal import Memory, steadied
from unlit.train.durable import replace_durably
from unlit.video_io import read_video, video_info
from unlit.video_writing import VideoWriter

Progress = Callable[[int, int | None], None]
"""Told how many of how many frames are done, if that is known."""

SHADING_SCALE = 2.0
"""Shadings are divided by this in the video: reflectances end at 1, and light may well be brighter."""

PRIMERS = 24
"""Frames, from all over a video, that are looked at beforehand."""

DARKEST = 1e-3
"""No surface reflects less: noise in the dark would, and light up the shading."""


@dataclass(frozen=True)
class FrameDecomposition:
    """One frame of a video: `reflectance * shading` is the frame."""

    reflectance: NDArray[np.float32]
    """(h, w, 3), linear, steady over the frames."""
    shading: NDArray[np.float32]
    """(h, w, 3), linear: the light, and the camera's noise too, which is none of the surface's."""
    changed: float
    """The share of the frame that shows other things than the frames before."""


def decompose_frames(
    predictor: Predictor,
    frames: Iterable[NDArray[np.float32]],
    *,
    memory: Memory | None = None,
    threads: int | None = None,
) -> Iterator[FrameDecomposition]:
    """Yield the decomposition of linear frames (h, w, 3) of one size, one after the other.

    `memory` is what is known of the view beforehand (`primed`).
    """
    for frame in frames:
        memory, changed = _remembered(predictor, memory, frame, threads)
        reflectance = memory.log_reflectance.clamp(min=float(np.log(DARKEST)), max=0.0).exp()
        steady = reflectance.permute(1, 2, 0).contiguous().numpy()
        yield FrameDecomposition(steady, frame / steady, changed)


def primed(predictor: Predictor, frames: Iterable[NDArray[np.float32]], *, threads: int | None = None) -> Memory | None:
    """Return what some frames from all over a video tell of its view, for `decompose_frames` to begin with.

    A day that begins in the dark would otherwise begin with noise, and find out about its surfaces at dawn.
    """
    memory: Memory | None = None
    for frame in frames:
        memory, _ = _remembered(predictor, memory, frame, threads)
    return memory


def primers(count: int | None) -> set[int]:
    """Return the numbers of the frames, of `count`, that are looked at beforehand; none where it is unknown."""
    return set(np.linspace(0, count - 1, min(count, PRIMERS)).round().astype(int).tolist()) if count else set()


def _remembered(
    predictor: Predictor, memory: Memory | None, frame: NDArray[np.float32], threads: int | None
) -> tuple[Memory, float]:
    """Return the memory after one more frame, and the share of it that has changed."""
    photo = Photo(frame)
    small = predictor.small(photo)
    found = predictor.finished(photo, small, predictor.said([small])[0], threads=threads)
    own = floored_log(torch.from_numpy(found.reflectance).permute(2, 0, 1), DARKEST)
    own_small = interpolate(own[None], small.light.shape[1:], mode="bilinear", antialias=True)[0]
    # What is dim counts little there, as mostly noise: so it must not have been brightened.
    after, changed = steadied(memory, own, own_small, small.light * min(1.0, small.exposure))
    return after, float(changed.mean())


def decompose_video(
    predictor: Predictor,
    source: Path,
    folder: Path,
    stem: str,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Decompose the video `source` into videos in `folder`, and return the paths written, the JSON file's last."""
    paths = planned_video(folder, stem)
    if not force:
        check_free(paths)
    folder.mkdir(parents=True, exist_ok=True)
    info = video_info(source)
    rate = info.frames / info.seconds if info.frames and info.seconds else 25.0
    chosen = primers(info.frames)
    memory = primed(predictor, (_linear(f.pixels_srgb) for f in read_video(source, only=chosen))) if chosen else None
    times: list[float] = []

    def frames() -> Iterator[NDArray[np.float32]]:
        for frame in read_video(source):
            times.append(frame.index / rate if frame.time is None else frame.time)
            yield _linear(frame.pixels_srgb)

    changed = []
    with VideoWriter(paths[0], rate=rate) as reflectances, VideoWriter(paths[1], rate=rate) as shadings:
        for found in decompose_frames(predictor, frames(), memory=memory):
            reflectances.write(_encoded(found.reflectance), times[-1])
            shadings.write(_encoded(found.shading / np.float32(SHADING_SCALE)), times[-1])
            changed.append(found.changed)
            if progress:
                progress(len(changed), info.frames)
    content = {
        "unlit": __version__,
        "method": "network, steadied over time",
        "video": stem,
        "frames": len(changed),
        "encoding": "srgb",
        "bits": 8,
        "weights": {"name": predictor.network.name, "sha256": predictor.network.sha256},
        "files": {
            paths[0].name: {"part": "reflectance", "scale": 1.0},
            paths[1].name: {"part": "shading", "scale": SHADING_SCALE},
        },
        "changed": [round(share, 4) for share in changed],
    }
    replace_durably(paths[-1], (json.dumps(content, indent=1) + "\n").encode())
    return paths


def _linear(pixels_srgb: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(srgb_to_linear(pixels_srgb / np.float32(np.iinfo(pixels_srgb.dtype).max)), np.float32)


def _encoded(light: NDArray[np.float32]) -> NDArray[np.uint8]:
    words_u8: NDArray[np.uint8] = np.rint(255 * linear_to_srgb(light.clip(0, 1))).astype(np.uint8)
    return words_u8
