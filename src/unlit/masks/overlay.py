"""Masks shown over their frame, each kind in a color of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

COLORS: dict[str, tuple[int, int, int]] = {
    "saturated": (255, 220, 0),
    "dark": (110, 60, 200),
    "border": (128, 128, 128),
    "moving": (255, 40, 40),
    "sky": (0, 150, 255),
    "person": (255, 0, 200),
    "animal": (160, 90, 20),
    "vehicle": (255, 130, 0),
    "by-hand": (0, 200, 80),
}
"""sRGB bytes: distinct from one another, also for most people who see fewer colors."""

OPACITY = 0.55


def overlay(frame_u8: NDArray[np.uint8], masks: Mapping[str, NDArray[np.bool_]]) -> NDArray[np.uint8]:
    """Return `frame_u8` (h, w, 3) with every mask (h, w) of `masks` laid over in its color, later kinds on top.

    What is masked is also made gray, so that its color is that of its kind.
    """
    shown = frame_u8.astype(np.float32)
    gray = shown.mean(axis=-1, keepdims=True)
    for kind, mask in masks.items():
        tinted = (1 - OPACITY) * gray + OPACITY * np.array(COLORS[kind], np.float32)
        shown = np.where(mask[..., None], tinted, shown)
    return np.rint(shown).astype(np.uint8)
