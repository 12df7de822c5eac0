"""What every method does before and after its own idea: checks, crops, floors; then makes R and S of a log-shading.

Shapes: h x w pixels; `image` (h, w, 3) is linear light, nominally in [0, 1]; `mask` (h, w) has True = valid. The
methods here find a gray shading; all that is left of the image is reflectance, so that their product is the image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Values = NDArray[np.floating[Any]]
    Mask = NDArray[np.bool_]
    Split = tuple[NDArray[np.float32], NDArray[np.float32]]

DARK_FLOOR = 3 / 257
"""Logs are taken of values no smaller than this: what is darker is noise (Grosse et al. 2009, 3 of 257)."""


class View(NamedTuple):
    """What a method sees: the image cropped to the smallest rectangle that holds the mask."""

    light: NDArray[np.float64]
    """(3, h, w) linear, no smaller than the floor, which is also what stands outside the mask."""
    valid: NDArray[np.bool_]
    """(h, w)."""

    @property
    def log_gray(self) -> NDArray[np.float64]:
        """The log of the channels' mean, (h, w)."""
        log_gray: NDArray[np.float64] = np.log(self.light.mean(axis=0))
        return log_gray


def split(
    image: Values, mask: Mask, log_shading_of: Callable[[View], NDArray[np.float64]], floor: float = DARK_FLOOR
) -> Split:
    """Return reflectance (h, w, 3) and gray shading (h, w), by what `log_shading_of` says of the view, (h, w).

    Both are linear float32 and zero outside the mask; inside, their product is the image. The scale, which nothing
    tells, is such that the largest reflectance is 1. ValueError where the image or the mask cannot be used.
    """
    check(image, mask)
    box = box_of(mask)
    valid, cropped = mask[box], np.where(mask[box][..., None], image[box], 0.0).astype(np.float64)
    # Beyond this many powers of e the division would leave float32; only absurd inputs come here.
    box_shading = np.exp(np.clip(log_shading_of(view_of(cropped, valid, floor)), -40, 40))
    return scaled(image.shape, box, cropped / box_shading[..., None], np.where(valid, box_shading, 0.0))


def view_of(cropped: NDArray[np.float64], valid: Mask, floor: float = DARK_FLOOR) -> View:
    """Return what a method sees of a cropped image (h, w, 3) that is zero outside the valid pixels (h, w)."""
    # With channels first, NumPy takes their mean several times as fast.
    return View(np.maximum(cropped.transpose(2, 0, 1), floor).copy(order="C"), valid)


def scaled(shape: tuple[int, ...], box: tuple[slice, slice], box_reflectance: Values, box_shading: Values) -> Split:
    """Return both in the whole picture, the largest reflectance being 1; `box_shading` is (h, w) or (h, w, 3)."""
    reflectance = np.zeros(shape, np.float32)
    shading = np.zeros(shape[: box_shading.ndim], np.float32)
    brightest = float(box_reflectance.max())
    brightest = brightest if brightest > 0 else 1.0  # black has no scale
    reflectance[box] = box_reflectance / brightest
    shading[box] = box_shading * brightest
    return reflectance, shading


def box_of(mask: Mask) -> tuple[slice, slice]:
    """Return the rows and columns of the smallest rectangle that holds the mask."""
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def check(image: Values, mask: Mask) -> None:
    """Refuse what is no image, or has no valid pixel."""
    if mask.ndim != 2 or mask.dtype != np.bool_:
        raise ValueError(f"the mask is {mask.dtype} of shape {mask.shape}; give booleans (h, w), True = valid")
    if image.shape != (*mask.shape, 3):
        raise ValueError(f"the image has shape {image.shape}; give (h, w, 3) to fit the mask, {mask.shape}")
    if not mask.any():
        raise ValueError("the mask is empty; give one with at least one valid pixel")
    if not np.isfinite(image[mask]).all():
        raise ValueError("the image has values inside the mask that are NaN or infinite; replace them")
