"""One photograph by several methods, side by side on one labelled sheet: rows are methods, columns photograph, R and S.

Shapes: pictures are (h, w, 3), linear light. A method is "default", a file of weights, or a baseline's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from unlit.baselines.registry import BASELINES
from unlit.color import srgb_to_linear
from unlit.image_io import Encoding
from unlit.predict.predictor import Predictor
from unlit.predict.preview import shrunk, viewing_factor
from unlit.predict.source import opened

WIDTH = 520
"""Of one picture, at most."""
BASELINE_WIDTH = 640
"""At which baselines see the photograph: some solve large systems."""
DEFAULT = "default"
_GUTTER, _LABEL = 6, 26
_PAPER = 0.9

Pictures = NDArray[np.float32]
Method = Callable[[Pictures], tuple[Pictures, Pictures]]


def compared(photo: Pictures, methods: Sequence[str], *, device: str = "auto") -> Pictures:
    """Return the sheet, linear light in [0, 1], of a linear photograph by the named methods."""
    rows = [_titles(photo)]
    for name in methods:
        reflectance, shading = method_named(name, device=device)(photo)
        # Methods leave the scale open: as bright as the photograph is fairest to the eye.
        reflectance, shading = shrunk(reflectance, WIDTH), shrunk(shading, WIDTH)
        small = shrunk(photo, WIDTH)
        reflectance, shading = (_fitted(p, small) for p in (reflectance, shading))
        pictures = [small, *(p * viewing_factor(p) for p in (reflectance, shading))]
        rows += [_label(name, _row_width(pictures)), _row(pictures)]
    return np.concatenate(rows).clip(0, 1)


def method_named(name: str, *, device: str = "auto") -> Method:
    """Return what splits a linear photograph (h, w, 3) by a method's name; ValueError where there is none."""
    if name in BASELINES:
        return lambda photo: BASELINES[name](np.clip(shrunk(photo, BASELINE_WIDTH), 0, None))
    if name != DEFAULT and not Path(name).exists():
        known = ", ".join((DEFAULT, *BASELINES))
        raise ValueError(f"there is no method {name!r}; use one of {known}, or the path of weights or a training run")
    predictor = Predictor(None if name == DEFAULT else name, device=device)

    def split(photo: Pictures) -> tuple[Pictures, Pictures]:
        found = predictor.decompose(photo, encoding="linear")
        return found.reflectance, found.shading

    return split


def compare(
    source: Path, methods: Sequence[str], *, encoding: Encoding | None = None, device: str = "auto"
) -> Pictures:
    """Return the sheet for a photograph's file; every method's name is looked at before any works."""
    if not methods:
        raise ValueError("there is nothing to compare; name methods by --method")
    for name in dict.fromkeys(methods):
        if name not in BASELINES:
            method_named(name, device=device)
    return compared(opened(source, encoding).pixels, methods, device=device)


def _fitted(picture: Pictures, like: Pictures) -> Pictures:
    """Return a picture cut or continued by its edge to another's size: rounding may have left them a pixel apart."""
    h, w, _ = like.shape
    more = ((0, max(0, h - picture.shape[0])), (0, max(0, w - picture.shape[1])), (0, 0))
    return np.pad(picture, more, mode="edge")[:h, :w]


def _row_width(pictures: list[Pictures]) -> int:
    return sum(int(picture.shape[1]) for picture in pictures) + (len(pictures) + 1) * _GUTTER


def _row(pictures: list[Pictures]) -> Pictures:
    """Return pictures of one size beside each other on light paper."""
    height = max(picture.shape[0] for picture in pictures)
    row = np.full((height + _GUTTER, _row_width(pictures), 3), _PAPER, np.float32)
    left = _GUTTER
    for picture in pictures:
        h, w, _ = picture.shape
        row[:h, left : left + w] = picture
        left += w + _GUTTER
    return row


def _titles(photo: Pictures) -> Pictures:
    width = shrunk(photo, WIDTH).shape[1] + _GUTTER
    cells = [_label(text, width) for text in ("photograph", "reflectance", "shading")]
    gap = np.full((cells[0].shape[0], _GUTTER, 3), _PAPER, np.float32)
    return np.concatenate([*cells, gap], axis=1)


def _label(text: str, width: int) -> Pictures:
    """Return a strip of paper with a line of text."""
    strip = Image.new("L", (width, _LABEL), 245)
    ImageDraw.Draw(strip).text((_GUTTER, 5), text, fill=20, font=ImageFont.load_default(15))
    gray = np.asarray(srgb_to_linear(np.asarray(strip, np.float32) / 255), np.float32)
    return gray[..., None].repeat(3, axis=-1)
