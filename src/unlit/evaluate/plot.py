"""Line plots as pictures: a few curves over two axes, with their names.

Drawn with Pillow, which scikit-image brings anyway: a plotting library would be ten more packages for one kind of plot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Curve = tuple[Sequence[float] | NDArray[np.float64], Sequence[float] | NDArray[np.float64]]
"""x and y of its points."""

WIDTH, HEIGHT = 720, 540
_FINE = 3
"""Drawn so many times as large and made small again: smooth lines."""
_MARGIN = (72, 24, 52, 36)
"""Left, right, bottom, top."""
_TEXT, _SMALL_TEXT = 15, 13
_INK, _GRID, _PAPER = (40, 40, 40), (225, 225, 225), (255, 255, 255)
COLORS = (
    (0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233), (90, 90, 90),
    (120, 60, 20), (130, 130, 0), (90, 40, 140),
)  # fmt: skip
"""The first seven are told apart by people who see colors differently (Okabe & Ito 2008)."""


@dataclass(frozen=True)
class Axis:
    """One axis: its name and what it goes from and to."""

    name: str
    low: float = 0.0
    high: float = 1.0

    def share(self, values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Return where values lie, from 0 to 1."""
        return np.clip((np.asarray(values, np.float64) - self.low) / ((self.high - self.low) or 1.0), 0, 1)

    def ticks(self) -> list[float]:
        """Return round values along the axis, five or a few more."""
        span = (self.high - self.low) or 1.0
        step = 10 ** np.floor(np.log10(span / 5))
        step *= next((k for k in (1, 2, 5) if span / (step * k) <= 6), 10)
        return [float(k * step) for k in range(int(np.ceil(self.low / step - 1e-9)), int(self.high / step + 1e-9) + 1)]


def write_plot(
    path: Path,
    title: str,
    x: Axis,
    y: Axis,
    curves: Mapping[str, Curve],
    *,
    dots: bool = False,
    names_at_right: bool = False,
) -> None:
    """Write curves by name as a PNG of 720 x 540 pixels; with `dots` their points are marked, not joined."""
    canvas = Image.new("RGB", (WIDTH * _FINE, HEIGHT * _FINE), _PAPER)
    draw = ImageDraw.Draw(canvas)
    _draw_frame(draw, title, x, y)
    for k, points in enumerate(curves.values()):
        places = list(zip(*_places(x.share(points[0]), y.share(points[1])), strict=True))
        color = COLORS[k % len(COLORS)]
        if not dots:
            draw.line(places, fill=color, width=2 * _FINE, joint="curve")
        for px, py in places if dots else ():
            draw.ellipse((px - 5 * _FINE, py - 5 * _FINE, px + 5 * _FINE, py + 5 * _FINE), fill=color)
    _draw_names(draw, list(curves), at_right=names_at_right)
    canvas.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS).save(path)


def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return Pillow's own font."""
    return ImageFont.load_default(size)


def _places(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """Return pixels of the fine canvas for shares of both axes."""
    left, right, bottom, top = (_FINE * m for m in _MARGIN)
    w, h = WIDTH * _FINE - left - right, HEIGHT * _FINE - top - bottom
    return (left + w * x).tolist(), (top + h * (1 - y)).tolist()


def _draw_frame(draw: ImageDraw.ImageDraw, title: str, x: Axis, y: Axis) -> None:
    (left, right), (bottom, top) = _places(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    text, label = font(_TEXT * _FINE), font(_SMALL_TEXT * _FINE)
    for tick in x.ticks():
        ((place,), _) = _places(x.share([tick]), np.zeros(1))
        draw.line((place, top, place, bottom), fill=_GRID, width=_FINE)
        draw.text((place, bottom + 6 * _FINE), f"{tick:g}", fill=_INK, font=label, anchor="mt")
    for tick in y.ticks():
        (_, (place,)) = _places(np.zeros(1), y.share([tick]))
        draw.line((left, place, right, place), fill=_GRID, width=_FINE)
        draw.text((left - 8 * _FINE, place), f"{tick:g}", fill=_INK, font=label, anchor="rm")
    draw.rectangle((left, top, right, bottom), outline=_INK, width=_FINE)
    draw.text(((left + right) / 2, HEIGHT * _FINE - 8 * _FINE), x.name, fill=_INK, font=text, anchor="mb")
    draw.text((8 * _FINE, 10 * _FINE), y.name, fill=_INK, font=text, anchor="lt")
    draw.text((right, 10 * _FINE), title, fill=_INK, font=text, anchor="rt")


def _draw_names(draw: ImageDraw.ImageDraw, names: list[str], *, at_right: bool) -> None:
    """Write the curves' names inside the plot, in a lower corner, on a ground of their own."""
    (left, right), (bottom, _) = _places(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    label, step = font(_SMALL_TEXT * _FINE), 19 * _FINE
    longest = max((draw.textlength(name, font=label) for name in names), default=0)
    top = bottom - step * len(names) - 14 * _FINE
    width = longest + 52 * _FINE
    edge = right - 8 * _FINE - width if at_right else left + 8 * _FINE
    draw.rectangle((edge, top, edge + width, bottom - 6 * _FINE), fill=_PAPER, outline=_GRID)
    for k, name in enumerate(names):
        middle = top + step * (k + 0.7)
        draw.line((edge + 10 * _FINE, middle, edge + 34 * _FINE, middle), fill=COLORS[k % len(COLORS)], width=3 * _FINE)
        draw.text((edge + 42 * _FINE, middle), name, fill=_INK, font=label, anchor="lm")
