"""What people said of pairs of points of a picture: which surface is darker, in the format of IIW.

Shapes: n points, j pairs of them; pictures are h x w pixels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unlit.data.sequence import SequenceError

_DARKER = {"E": 0, "1": 1, "2": 2}
_HEAVIEST = 1e6
"""People's weights are a few at most. One beyond counting would be all that an image is scored by."""


@dataclass(frozen=True)
class Judgements:
    """What people said of pairs of points: which surface is darker."""

    points: Tensor
    """(n, 2) float32: x and y in [0, 1] from the top left corner, the middle of a pixel as read from a file."""
    pairs: Tensor
    """(j, 2) int64: the numbers of two points."""
    darker: Tensor
    """(j,) int64: 0 = they are equal, 1 = the first is darker, 2 = the second is."""
    weight: Tensor
    """(j,) float32, positive: how sure people were."""

    def to(self, device: torch.device | str) -> Judgements:
        """Return the same on another device."""
        return Judgements(*(part.to(device) for part in (self.points, self.pairs, self.darker, self.weight)))

    def warped(self, theta: Tensor) -> Judgements:
        """Return the judgements whose points are both still inside, at their new places; theta as in `Truth.warped`."""
        matrix, shift = theta.to(self.points.device, torch.float64).split([2, 1], dim=1)
        points = torch.linalg.solve(matrix, 2 * self.points.T.double() - 1 - shift).T
        points = ((points + 1) / 2).float()
        inside = ((points >= 0) & (points < 1)).all(1)
        number = inside.cumsum(0) - 1
        kept = inside[self.pairs].all(1)
        return Judgements(points[inside], number[self.pairs[kept]], self.darker[kept], self.weight[kept])


def read_judgements(path: Path, size: tuple[int, int]) -> Judgements:
    """Read the judgements of a picture of `size` (h, w); SequenceError where the file is damaged."""
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
        return _judgements(stated["intrinsic_points"], stated["intrinsic_comparisons"], size)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError) as error:
        what = f"lacks or misstates {error}" if isinstance(error, KeyError) else str(error)
        raise SequenceError(f"{path}: is damaged ({what}); copy it again, in the format of IIW") from error


def _judgements(
    points: list[Mapping[str, Any]], comparisons: list[Mapping[str, Any]], size: tuple[int, int]
) -> Judgements:
    """Return the comparisons that count: a known label, a positive score, both points opaque."""
    places = {point["id"]: _middle(point, size) for point in points}
    opaque = [point["id"] for point in points if point["opaque"]]
    number = {key: k for k, key in enumerate(opaque)}
    kept: list[tuple[int, int, int, float]] = []
    for comparison in comparisons:
        ends, score = (comparison["point1"], comparison["point2"]), comparison.get("darker_score")
        label = _DARKER.get(comparison.get("darker", ""))
        if not all(key in places for key in ends):
            raise ValueError(f"a comparison of the points {ends}, which are not there")
        if score is not None and _HEAVIEST < score < math.inf:
            raise ValueError(f"a comparison of the points {ends} weighs {score:g}")
        if label is not None and score is not None and 0 < score < math.inf and all(key in number for key in ends):
            kept.append((number[ends[0]], number[ends[1]], label, score))
    first, second, darker, weight = zip(*kept, strict=True) if kept else ((), (), (), ())
    return Judgements(
        torch.tensor([places[key] for key in opaque], dtype=torch.float32).reshape(-1, 2),
        torch.tensor([first, second], dtype=torch.int64).T.contiguous(),
        torch.tensor(darker, dtype=torch.int64),
        torch.tensor(weight, dtype=torch.float32),
    )


def _middle(point: Mapping[str, Any], size: tuple[int, int]) -> tuple[float, float]:
    """Return x and y of the middle of a point's pixel, int(x w) and int(y h): a flip may not move it to another."""
    x, y = float(point["x"]), float(point["y"])
    if not (0 <= x <= 1 and 0 <= y <= 1):
        raise ValueError(f"point {point['id']} lies outside the image, at {x}, {y}")
    h, w = size
    return (min(int(x * w), w - 1) + 0.5) / w, (min(int(y * h), h - 1) + 0.5) / h
