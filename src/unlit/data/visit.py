"""What one visit to a sequence draws: which part of the picture, which lights, which colors. Numbers only, no pictures.

Shapes: m frames, k lights, h x w pixels. All draws of a visit come from its own generator, in this order, so that they
do not depend on what else is in the batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from unlit.data.augment import (
    Cells,
    drawn_colors,
    drawn_mixtures,
    drawn_paint,
    drawn_shade,
    drawn_stops,
    drawn_view,
    drawn_window,
)
from unlit.data.camera import CameraLook, drawn_look
from unlit.data.dataset import Item
from unlit.data.daylight import drawn_days, has_day, roles_of
from unlit.data.illuminant import drawn_colored
from unlit.data.settings import AugmentSettings, DataSettings

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Look:
    """How a visit changes colors and light."""

    gamma: float
    colors: Floats
    """(3, 3)."""
    paint: tuple[Cells, ...] | None
    shade: Floats | None
    stops: Floats
    """(m,)."""
    camera: CameraLook | None = None
    metered: bool = False
    """Whether exposure is that of all but the sky."""


@dataclass(frozen=True)
class Visit:
    """All that is drawn."""

    theta: Tensor | None
    """(2, 3), on the CPU: where the picture is looked at; None: all of it, as it is."""
    weights: Floats | None
    """(m, k, 3), or (m, k, 1) for white lights: of mixtures; None: the sequence's own frames."""
    chosen: NDArray[np.int64] | None
    """(m,): which frames; None: all."""
    look: Look


def drawn_visit(
    item: Item, draw: Generator, places: Tensor, m: int, data: DataSettings, augment: AugmentSettings
) -> Visit:
    """Draw a visit in m frames. `places` (n, 2) are the rows and columns where the item is valid, on the CPU."""
    k, _, h, w = item.sequence.frames.shape
    theta, weights, chosen = None, None, None
    if data.window is not None:
        theta = drawn_window(draw, (h, w), data.window, places, augment)
    elif augment.flip or augment.rotation or augment.crop:
        theta = drawn_view(draw, (h, w), augment)
    if item.one_light and augment.mixtures:
        weights = _drawn_weights(item, draw, m, augment)
    elif k != m:
        chosen = np.sort(draw.permutation(k)[:m])
    return Visit(theta, weights, chosen, _drawn_look(draw, m, augment))


def _drawn_weights(item: Item, draw: Generator, m: int, augment: AugmentSettings) -> Floats:
    """Return weights (m, k, 3), or (m, k, 1) for white lights, of a sequence with one light at a time."""
    roles = roles_of(item.sequence.frame_names)
    if augment.days and has_day(roles) and draw.random() < augment.days:
        return drawn_days(draw, roles, m)
    drawn = drawn_mixtures(draw, len(roles), m, augment)
    return drawn_colored(draw, drawn, augment.light_color) if augment.light_color else drawn[:, :, None]


def _drawn_look(draw: Generator, m: int, settings: AugmentSettings) -> Look:
    return Look(
        math.exp(draw.uniform(-settings.contrast, settings.contrast)),
        drawn_colors(draw, settings),
        drawn_paint(draw) if draw.random() < settings.paint else None,
        drawn_shade(draw, m) if draw.random() < settings.shade else None,
        drawn_stops(draw, m, settings.exposure),
        drawn_look(draw) if settings.camera and draw.random() < settings.camera else None,
        bool(settings.metered) and draw.random() < settings.metered,
    )
