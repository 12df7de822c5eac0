"""Blocks of 8 x 8 through the cosine transform and back, coefficient by coefficient."""

import math


def quantised_block(block: list[list[float]], steps: list[list[float]]) -> list[list[float]]:
    """Return a block whose cosine coefficients are rounded to multiples of `steps`."""

    def weight(k: int) -> float:
        return math.sqrt(1 / 8) if k == 0 else math.sqrt(2 / 8)

    def wave(k: int, n: int) -> float:
        return weight(k) * math.cos(math.pi * (2 * n + 1) * k / 16)

    places = range(8)
    kept = [[0.0] * 8 for _ in places]
    for u in places:
        for v in places:
            coefficient = sum(block[y][x] * wave(u, y) * wave(v, x) for y in places for x in places)
            kept[u][v] = round(coefficient / steps[u][v]) * steps[u][v]
    return [[sum(kept[u][v] * wave(u, y) * wave(v, x) for u in places for v in places) for x in places] for y in places]
