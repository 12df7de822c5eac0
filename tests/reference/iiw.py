"""WHDR as its definition reads: one comparison after another, straight from the JSON."""

from __future__ import annotations

from typing import Any


def whdr(reflectance: Any, judgements: dict[str, Any], delta: float, encoding: str) -> float | None:
    """The share by weight of wrong answers; None where no comparison counts. `reflectance` is (h, w, 3), linear."""
    rows, columns = reflectance.shape[:2]
    points = {point["id"]: point for point in judgements["intrinsic_points"]}
    wrong = total = 0.0
    for comparison in judgements["intrinsic_comparisons"]:
        if comparison["darker"] not in ("1", "2", "E"):
            continue
        weight = comparison["darker_score"]
        if weight is None or weight <= 0:
            continue
        ends = [points[comparison["point1"]], points[comparison["point2"]]]
        if not (ends[0]["opaque"] and ends[1]["opaque"]):
            continue
        lightness = []
        for end in ends:
            channels = [float(c) for c in reflectance[int(end["y"] * rows), int(end["x"] * columns)]]
            if encoding == "gamma":
                channels = [max(c, 0.0) ** (1 / 2.2) for c in channels]
            lightness.append(max(1e-10, sum(channels) / 3))
        if lightness[1] / lightness[0] > 1 + delta:
            said = "1"
        elif lightness[0] / lightness[1] > 1 + delta:
            said = "2"
        else:
            said = "E"
        if said != comparison["darker"]:
            wrong += weight
        total += weight
    return wrong / total if total else None
