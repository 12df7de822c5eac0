"""Consistency and contrast as their definitions read, number by number."""

from __future__ import annotations

import math
from typing import Any


def logs(frames: Any, mask: Any) -> list[dict[tuple[int, int, int], float]]:
    """For each frame the logs of its valid values, the frame's mean taken off."""
    found = []
    for frame, valid in zip(frames, mask, strict=True):
        values = {
            (i, j, c): math.log(max(float(frame[i, j, c]), 1e-4))
            for i in range(frame.shape[0])
            for j in range(frame.shape[1])
            for c in range(3)
            if valid[i, j]
        }
        if values:
            mean = sum(values.values()) / len(values)
            found.append({place: value - mean for place, value in values.items()})
    return found


def variance(values: list[float]) -> float:
    """Over all of them."""
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values) / len(values)


def over_time(frames: Any, mask: Any) -> float:
    """Root of the mean variance of a place over time, for places that are valid twice."""
    levelled = logs(frames, mask)
    places = {place for frame in levelled for place in frame}
    series = [[frame[place] for frame in levelled if place in frame] for place in sorted(places)]
    variances = [variance(values) for values in series if len(values) > 1]
    return math.sqrt(sum(variances) / len(variances))


def over_space(frames: Any, mask: Any) -> float:
    """Root of the mean variance of a channel over its frame."""
    variances = [
        variance([value for place, value in frame.items() if place[2] == c])
        for frame in logs(frames, mask)
        for c in range(3)
    ]
    return math.sqrt(sum(variances) / len(variances))
