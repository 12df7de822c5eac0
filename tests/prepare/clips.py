"""Clips whose answer is known: a painted scene under light that changes, seen by a camera that may move.

Shapes: m frames, h x w pixels. The scene is larger than the view, so that the camera can move without showing an end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from unlit.color import linear_to_srgb, srgb_to_linear
from unlit.image_io import write_image

Array = NDArray[np.float32]
MARGIN = 48
"""Pixels of the scene around the view."""


def scene(h: int = 120, w: int = 160, seed: int = 0) -> Array:
    """Reflectance (h + 2 MARGIN, w + 2 MARGIN, 3): many overlapping boxes of flat paint with a little grain."""
    rng = np.random.default_rng(seed)
    height, width = h + 2 * MARGIN, w + 2 * MARGIN
    paint = np.full((height, width, 3), 0.4, np.float32)
    for _ in range(160):
        top, left = rng.integers(0, height), rng.integers(0, width)
        down, across = rng.integers(6, height // 4), rng.integers(6, width // 4)
        paint[top : top + down, left : left + across] = rng.uniform(0.08, 0.9, 3)
    grain = ndimage.gaussian_filter(rng.normal(0, 0.25, (height, width)), 1.0)
    # Optics: an edge is never sharper than a pixel, and only so can it be resampled between pixels.
    soft = ndimage.gaussian_filter(paint * np.exp(grain)[..., None], (0.7, 0.7, 0))
    return np.clip(soft, 0.02, 1).astype(np.float32)


def light(paint: Array, k: int, m: int, strength: float = 1.0) -> Array:
    """The light (h, w, 3) of frame k of m over a day: its side, color and strength change, and hard shadows wander."""
    h, w = paint.shape[:2]
    y, x = np.mgrid[0:h, 0:w] / max(h, w)
    hour = k / max(1, m - 1)
    angle = np.pi * hour
    slope = 1 + 0.6 * strength * ((x - 0.5) * np.cos(angle) + (y - 0.4) * np.sin(angle))
    in_shadow = (np.abs(x - 0.15 - 0.7 * hour + 0.3 * y) < 0.12) | (np.hypot(x - 0.8 + 0.5 * hour, y - 0.5) < 0.1)
    shadow = 1 - 0.75 * strength * in_shadow
    warmth = strength * 0.35 * np.cos(2 * np.pi * hour)
    color = np.array([1 + warmth, 1.0, 1 - warmth])
    level = 0.75 * (1 - 0.8 * strength * abs(2 * hour - 1) ** 2)
    return np.asarray((level * slope * shadow)[..., None] * color, np.float32)


def view(
    radiance: Array,
    dx: float = 0,
    dy: float = 0,
    zoom: float = 1,
    turn: float = 0,
    *,
    noise: float = 0.004,
    seed: int = 0,
) -> NDArray[np.uint8]:
    """What a camera sees, 8-bit sRGB (h, w, 3): what is at p, from the middle, is at zoom · R(turn) p + (dx, dy)."""
    h, w = radiance.shape[0] - 2 * MARGIN, radiance.shape[1] - 2 * MARGIN
    c, s = np.cos(turn) / zoom, np.sin(turn) / zoom
    matrix = np.array([[c, -s], [s, c]])  # rows, columns: the inverse of the camera's map
    middle = np.array([(h - 1) / 2, (w - 1) / 2])
    offset = middle + MARGIN - matrix @ (middle + np.array([dy, dx]))
    seen = np.stack(
        [ndimage.affine_transform(radiance[..., c], matrix, offset, (h, w), order=3, mode="nearest") for c in range(3)],
        -1,
    )
    seen += np.random.default_rng(seed).normal(0, noise, seen.shape)
    encoded = linear_to_srgb(np.clip(seen, 0, 1))
    return np.asarray(np.rint(255 * encoded), np.uint8)


def clip(
    m: int,
    size: tuple[int, int] = (120, 160),
    *,
    moves: Sequence[dict[str, float]] | None = None,
    strength: float = 1.0,
    seed: int = 0,
) -> list[NDArray[np.uint8]]:
    """m frames of one scene under a day's light; `moves` are the camera's, one for each frame."""
    paint = scene(*size, seed=seed)
    moves = moves or [{}] * m
    return [view(paint * light(paint, k, m, strength), seed=k, **moves[k]) for k in range(m)]


def shake(m: int, most: float, seed: int = 0) -> list[dict[str, float]]:
    """Shifts of 0 to `most` pixels in any direction."""
    rng = np.random.default_rng(seed)
    lengths, angles = rng.uniform(0, most, m), rng.uniform(0, 2 * np.pi, m)
    return [{"dx": float(r * np.cos(a)), "dy": float(r * np.sin(a))} for r, a in zip(lengths, angles, strict=True)]


def write_folder(folder: Path, frames: Iterable[NDArray[np.uint8]], suffix: str = ".png") -> Path:
    """Write frames as pictures 0001 and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, frame in enumerate(frames, 1):
        write_image(folder / f"{k:04}{suffix}", srgb_to_linear(frame / np.float32(255)), bits=8)
    return folder


def write_video(
    path: Path,
    frames: Iterable[NDArray[Any]],
    *,
    codec: str = "libx264",
    pix_fmt: str = "yuv444p",
    times: Sequence[int] | None = None,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    color_trc: int | None = None,
) -> Path:
    """Write frames nearly without loss; `times`, in hundredths of a second, make the rate vary."""
    from fractions import Fraction

    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    frames = list(frames)
    with av.open(str(path), "w", container_options=container_options or {}) as container:
        quiet = {"x265-params": "log-level=none"} if codec == "libx265" else {}
        stream: Any = container.add_stream(codec, rate=25, options={"crf": "4", **quiet, **(options or {})})
        stream.height, stream.width, stream.pix_fmt = *frames[0].shape[:2], pix_fmt
        if color_trc is not None:
            stream.codec_context.color_trc = color_trc
        if times is not None:
            stream.time_base = stream.codec_context.time_base = Fraction(1, 100)
        for k, pixels in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24" if pixels.dtype == np.uint8 else "rgb48le")
            if times is not None:
                frame.pts, frame.time_base = times[k], Fraction(1, 100)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def description(folder: Path) -> dict[str, Any]:
    """What `sequence.json` states."""
    stated: dict[str, Any] = json.loads((folder / "sequence.json").read_text())
    return stated
