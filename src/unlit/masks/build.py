"""All masks of a sequence, kind by kind.

Shapes: m frames, h x w pixels. Masks are True where a pixel is to be left out; a sequence on disk has it the other way
round (255 = valid), so that what is valid is what no kind leaves out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unlit.masks.exposure import border, dark, saturated, strongest_channel
from unlit.masks.moving import moving
from unlit.masks.semantic import load_segmenter, semantic_masks
from unlit.masks.settings import KINDS, MaskSettings
from unlit.masks.sky import sky
from unlit.masks.small import enlarged, small_frames

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Masks = dict[str, NDArray[np.bool_]]


def build_masks(
    frames_u8: NDArray[np.uint8],
    settings: MaskSettings,
    *,
    borders: NDArray[np.bool_] | None = None,
    by_hand: NDArray[np.bool_] | None = None,
) -> Masks:
    """Return what is to be left out of (m, h, w, 3) sRGB-encoded frames: (m, h, w) for each kind that is switched on.

    `borders`, (h, w) or (m, h, w), is where the caller knows that there is no picture, as after moving a frame into
    place; `by_hand`, of either shape, is what a person left out (`unlit.masks.by_hand` reads it from files).
    """
    m, h, w, _ = frames_u8.shape
    made: Masks = {}
    strongest = strongest_channel(frames_u8)
    bright, black = saturated(strongest, settings.saturated_from), dark(strongest, settings.dark_to)
    outside = np.zeros((m, h, w), bool) if borders is None else np.array(np.broadcast_to(borders, (m, h, w)))
    if settings.saturated:
        made["saturated"] = bright
    if settings.dark:
        made["dark"] = black
    if settings.border:
        outside |= border(frames_u8)
        made["border"] = outside
    if settings.moving or settings.sky:
        small = small_frames(frames_u8, bright | black | outside, settings.work_pixels)
        if settings.moving:
            made["moving"] = enlarged(moving(small, settings.moving_sensitivity), small.block, h, w)
        if settings.sky:
            made["sky"] = np.array(np.broadcast_to(enlarged(sky(small), small.block, h, w), (m, h, w)))
    if settings.segmenter is not None:
        segmenter = load_segmenter(settings.segmenter, settings.segmenter_kinds)
        for kind, mask in semantic_masks(frames_u8, segmenter).items():
            made[kind] = made[kind] | mask if kind in made else mask
    if by_hand is not None:
        made["by-hand"] = np.array(np.broadcast_to(by_hand, (m, h, w)))
    return {kind: made[kind] for kind in KINDS if kind in made}
