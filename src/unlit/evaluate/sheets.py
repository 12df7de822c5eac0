"""Sheets of pictures: the best and the worst cases of a method, with their scores, to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from unlit.evaluate.plot import font
from unlit.evaluate.thumbnail import LONGEST, Row

_GUTTER, _LINE = 6, 22
_INK, _PAPER = (30, 30, 30), (238, 238, 238)

Shown = tuple[float, str, Row]
"""The score of a case, its name, its pictures."""


def write_sheet(path: Path, title: str, rows: Sequence[Shown]) -> None:
    """Write a PNG with a row for each case, best first; columns are what the pictures show."""
    columns = list(dict.fromkeys(name for _, _, row in rows for name in row.pictures))
    heights = [max(p.shape[0] for p in row.pictures.values()) + _LINE for _, _, row in rows]
    width = max(len(columns), 3) * (LONGEST + _GUTTER) + _GUTTER
    sheet = Image.new("RGB", (width, 2 * _LINE + sum(heights) + _GUTTER * (len(rows) + 1)), _PAPER)
    draw, text = ImageDraw.Draw(sheet), font(14)
    draw.text((_GUTTER, 5), title, fill=_INK, font=text)
    for k, name in enumerate(columns):
        draw.text((_GUTTER + k * (LONGEST + _GUTTER), _LINE + 3), name, fill=_INK, font=text)
    top = 2 * _LINE
    for (score, case_id, row), height in zip(rows, heights, strict=True):
        draw.text((_GUTTER, top + 3), f"{case_id}   {score:.4f}", fill=_INK, font=text)
        for k, name in enumerate(columns):
            if name in row.pictures:
                place = (_GUTTER + k * (LONGEST + _GUTTER), top + _LINE)
                sheet.paste(Image.fromarray(row.pictures[name]), place)
        top += height + _GUTTER
    sheet.save(path)
