"""The whole of `unlit prepare` on a rendered time-lapse: frames a second, and memory as the video grows.

python benchmarks/prepare.py [--json FILE] [--frames 1500] [--size 480 640]

The video is painted boxes under a day's light, with a car that crosses and a little noise. Rates are of source frames,
from files to dataset and report; `core_ms` is processor time a frame, which other work on the machine does not disturb.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray

from _measure import report

_CHILD = """
import sys
from pathlib import Path
from unlit import cli
cli.main(["prepare", *sys.argv[1:], "--quiet"])
"""


def frame(paint: NDArray[np.float32], k: int, m: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return frame k of m: 8-bit, under a light whose side, strength and color change, with a car passing."""
    h, w = paint.shape[:2]
    hour = k / m
    y, x = np.ogrid[0 : 1 : 1j * h, 0 : 1 : 1j * w]
    slope = 1 + 0.5 * ((x - 0.5) * np.cos(np.pi * hour) + (y - 0.5) * np.sin(np.pi * hour))
    shadow = np.where(np.abs(x - hour + 0.2 * y) < 0.1, 0.4, 1.0)
    level = 0.25 + 0.75 * np.sin(np.pi * (0.1 + 0.8 * hour))
    color = np.array([1, 0.95, 0.85 + 0.3 * hour])
    light = (level * slope * shadow)[..., None] * color
    seen = paint * light
    left = int((k * 7) % (w + 80)) - 80
    seen[int(0.7 * h) : int(0.8 * h), max(0, left) : max(0, left + 80)] = (0.5, 0.05, 0.05)
    encoded = 255 * np.clip(seen, 0, 1) ** (1 / 2.2) + rng.integers(-2, 3, (h, w, 1))
    return np.asarray(np.clip(encoded, 0, 255), np.uint8)


def write_clip(path: Path, m: int, h: int, w: int) -> None:
    """Write the time-lapse as H.264."""
    import av

    rng = np.random.default_rng(0)
    paint = np.full((h, w, 3), 0.4, np.float32)
    for _ in range(150):
        top, left = rng.integers(0, h), rng.integers(0, w)
        paint[top : top + rng.integers(10, h // 3), left : left + rng.integers(10, w // 3)] = rng.uniform(0.05, 0.9, 3)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=25, options={"crf": "20", "preset": "veryfast"})
        stream.height, stream.width, stream.pix_fmt = h, w, "yuv420p"
        for k in range(m):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame(paint, k, m, rng), format="rgb24")))
        container.mux(stream.encode())


def measured(what: str, places: list[Path], out: Path, count: int) -> dict[str, Any]:
    """Prepare in a process of its own, and return what that took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-c", _CHILD, *map(str, places), "--out", str(out)]
    subprocess.run(command, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "what": what,
        "frames": count,
        "wall_s": wall,
        "frames_per_second": count / wall,
        "core_ms": 1000 * core / count,
        # The largest of all processes so far: rows come in the order of their memory.
        "peak_mb": after.ru_maxrss / 1e3,
    }


def main(json: Path | None = None, frames: int = 1500, size: tuple[int, int] = (480, 640)) -> None:
    """Measure a video of a quarter of the frames, the whole, and two of them at once."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="unlit-") as folder:
        place = Path(folder)
        for name, m in (("short", frames // 4), ("long", frames), ("other", frames)):
            write_clip(place / f"{name}.mp4", m, *size)
        for names in (["short"], ["long"], ["long", "other"]):
            count = sum(frames // 4 if name == "short" else frames for name in names)
            label = f"{len(names)} video(s), {count} frames of {size[1]} x {size[0]}"
            rows.append(measured(label, [place / f"{name}.mp4" for name in names], place / "-".join(names), count))
    report("prepare", rows, torch.device("cpu"), json)


if __name__ == "__main__":
    tyro.cli(main)
