"""Pictures for the report, each inside the page itself: sheets of frames as JPEG, plots as SVG.

Shapes: m frames, h x w pixels.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlit.color import srgb_to_linear
from unlit.image_io import write_image
from unlit.prepare.source import encoded_u8

if TYPE_CHECKING:
    from numpy.typing import NDArray

GAP = 4
"""Pixels between the pictures of a sheet."""
_PAPER = 255
_LINEAR = srgb_to_linear(np.arange(256, dtype=np.float32) / 255)


def thumbnail(frame_u8: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Return a frame (h, w, 3) made smaller, at most `width` wide and three quarters of that high."""
    h, w = frame_u8.shape[:2]
    shrink = min(1.0, width / w, 0.75 * width / h)
    if shrink == 1:
        return frame_u8
    rows, columns = (np.arange(n) * size // n for n, size in ((round(h * shrink) or 1, h), (round(w * shrink) or 1, w)))
    light = _LINEAR[frame_u8]
    sums = np.add.reduceat(np.add.reduceat(light, rows, 0), columns, 1)
    counts = np.outer(np.diff(np.append(rows, h)), np.diff(np.append(columns, w)))
    return encoded_u8(np.asarray(sums / counts[..., None], np.float32))


def sheet(pictures: Sequence[NDArray[np.uint8]], columns: int) -> NDArray[np.uint8]:
    """Return pictures of one size side by side, row by row."""
    h, w = pictures[0].shape[:2]
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    paper = np.full((rows * (h + GAP) - GAP, columns * (w + GAP) - GAP, 3), _PAPER, np.uint8)
    for k, picture in enumerate(pictures):
        top, left = k // columns * (h + GAP), k % columns * (w + GAP)
        paper[top : top + h, left : left + w] = picture
    return paper


def image_tag(picture_u8: NDArray[np.uint8], label: str) -> str:
    """Return an HTML element that carries a picture with it. The label is HTML already."""
    with tempfile.TemporaryDirectory(prefix="unlit-") as folder:
        path = Path(folder, "sheet.jpg")
        write_image(path, srgb_to_linear(picture_u8 / np.float32(255)))
        data = base64.b64encode(path.read_bytes()).decode()
    h, w = picture_u8.shape[:2]
    return f'<img width="{w}" height="{h}" alt="{label}" src="data:image/jpeg;base64,{data}">'


def scatter(points: NDArray[np.float32], chosen: NDArray[np.bool_], title: str) -> str:
    """Return a plot of points (m, 2), the chosen ones filled."""
    others = np.flatnonzero(~chosen)
    x, y = _scaled(points[:, 0], 300), _scaled(-points[:, 1], 200)
    gray = "".join(f'<circle cx="{x[k]:.0f}" cy="{y[k]:.0f}" r="2" class="other"/>' for k in others)
    dark = "".join(f'<circle cx="{x[k]:.0f}" cy="{y[k]:.0f}" r="4" class="chosen"/>' for k in np.flatnonzero(chosen))
    return _svg(gray + dark, title)


def curves(values: Sequence[NDArray[np.float64]], names: Sequence[str], title: str) -> str:
    """Return a plot of several series over the number of the frame, with their range."""
    low, high = min(0.0, *(float(v.min()) for v in values)), max(0.0, *(float(v.max()) for v in values))
    low, high = (-0.1, 0.1) if high - low < 0.02 else (low, high)  # noise of a camera at rest is no motion to show

    def place(value: Any) -> Any:
        return 176 - 150 * (value - low) / (high - low)

    parts = []
    for value in sorted({low, 0.0, high}, key=abs):
        if value == 0 or abs(place(value) - place(0.0)) > 12:
            parts.append(f'<line x1="38" x2="292" y1="{place(value):.0f}" y2="{place(value):.0f}" class="axis"/>')
            parts.append(f'<text x="34" y="{place(value) + 4:.0f}" text-anchor="end">{value:.1f}</text>')
    for k, (series, name) in enumerate(zip(values, names, strict=True)):
        points = zip(np.linspace(40, 290, len(series)), place(series), strict=True)
        line = " ".join(f"{a:.0f},{b:.1f}" for a, b in points)
        parts.append(
            f'<polyline class="line{k}" points="{line}"/><text x="{40 + 80 * k}" y="195" class="name{k}">{name}</text>'
        )
    return _svg("".join(parts), title)


def _scaled(values: NDArray[np.float32], size: int) -> NDArray[np.float64]:
    low, span = float(values.min()), float(np.ptp(values))
    return np.asarray(10 + (size - 20) * ((values - low) / span if span > 0 else np.full(len(values), 0.5)))


def _svg(content: str, title: str) -> str:
    return (
        f'<figure><svg viewBox="0 0 300 200" width="300" height="200" role="img" aria-label="{title}">{content}</svg>'
        f"<figcaption>{title}</figcaption></figure>"
    )
