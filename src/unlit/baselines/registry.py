"""Every baseline by its name.

Shapes: m frames, h x w pixels. All have one signature, so that a table of them is a loop. Names are known at no cost:
a method's module, and with it SciPy or torch, is imported when the method is first called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.floating[Any]]
    Mask = NDArray[np.bool_]
    Split = tuple[NDArray[np.float32], NDArray[np.float32]]


class Baseline(Protocol):
    """A method for one image."""

    def __call__(self, image: Values, mask: Mask | None = None) -> Split:
        """Return reflectance and shading, both (h, w, 3) linear float32, of a linear image (h, w, 3).

        Their product is the image inside the mask (h, w), True = valid; both are zero outside. Without a mask all
        pixels are valid. The largest reflectance is 1. ValueError where image or mask cannot be used.
        """
        ...


class SequenceBaseline(Protocol):
    """A method for a sequence."""

    def __call__(self, frames: Values, mask: Mask | None = None, image: Values | None = None) -> Split:
        """Return the reflectance that the frames (m, h, w, 3) share and the shading of one image of the same view.

        `image` (h, w, 3) is what is split: a frame, or another picture of the view; without it, the first frame.
        All else is as for one image.
        """
        ...


def _baseline(module: str, function: str) -> Baseline:
    """Return the method `function` of a module of this package, with the mask filled in and three channels each."""

    def method(image: Values, mask: Mask | None = None) -> Split:
        found = getattr(import_module(f"unlit.baselines.{module}"), function)
        return _in_color(found(image, _mask_of(image, mask)))

    return method


def _sequence_baseline(module: str, function: str) -> SequenceBaseline:
    """Return the same for a sequence."""

    def method(frames: Values, mask: Mask | None = None, image: Values | None = None) -> Split:
        if len(frames) == 0:
            raise ValueError("the sequence has no frames; give at least one")
        found = getattr(import_module(f"unlit.baselines.{module}"), function)
        image = frames[0] if image is None else image
        return _in_color(found(frames, _mask_of(image, mask), image))

    return method


def _mask_of(image: Values, mask: Mask | None) -> Mask:
    return np.ones(image.shape[:2], np.bool_) if mask is None else mask


def _in_color(found: Split) -> Split:
    reflectance, shading = found
    return reflectance, shading if shading.ndim == 3 else np.repeat(shading[..., None], 3, axis=-1)


BASELINES: dict[str, Baseline] = {
    "constant-shading": _baseline("constant", "constant_shading"),
    "constant-reflectance": _baseline("constant", "constant_reflectance"),
    "retinex-gray": _baseline("retinex", "gray_retinex"),
    "retinex-color": _baseline("retinex", "color_retinex"),
    "zhao": _baseline("zhao", "zhao"),
    "garces": _baseline("garces", "garces"),
    "bell": _baseline("bell", "bell"),
}
"""Methods for one image."""

SEQUENCE_BASELINES: dict[str, SequenceBaseline] = {
    "weiss": _sequence_baseline("weiss", "weiss"),
    "weiss-retinex": _sequence_baseline("weiss", "weiss_retinex"),
}
"""Methods for a sequence."""
