"""Which frames of a view are kept: few, under lights as different as can be.

Shapes: m frames, d numbers of a light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unlit.prepare.light import distances

if TYPE_CHECKING:
    from numpy.typing import NDArray


def spread(lights: NDArray[np.float32], most: int, min_distance: float) -> tuple[list[int], NDArray[np.intp]]:
    """Return the places of at most `most` of the lights (m, d), and for each of the m which of those is the nearest.

    A k-center by the greedy rule: begin in the middle, then always take the light farthest from all that are taken (no
    set of as many comes nearer than half as far to every light). It ends when all others lie within `min_distance`.
    """
    middle = np.median(lights[:: max(1, len(lights) // 4096)], 0)  # near enough, and no copy of them all
    taken = [int(distances(lights, middle).argmin())]
    apart = distances(lights, lights[taken[0]])
    nearest = np.zeros(len(lights), np.intp)
    while len(taken) < most:
        farthest = int(apart.argmax())
        if apart[farthest] <= min_distance:
            break
        reach = distances(lights, lights[farthest])
        nearest[reach < apart] = len(taken)
        apart = np.minimum(apart, reach)
        taken.append(farthest)
    return taken, nearest
