"""Light as numbers: the sRGB curve and its inverse, floored logs, luminance, intensity, chromaticity.

Every function takes a NumPy array or a torch tensor of floats and gives back the same kind. `axis` is where the color
channels lie: -1 for pictures (h, w, 3), -3 for tensors (m, 3, h, w). Values are linear light unless the name says
otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    Values = TypeVar("Values", NDArray[np.floating[Any]], torch.Tensor)

LOG_FLOOR = 1e-4
"""Logs are taken of values no smaller than this (the authors' release; the paper leaves it out)."""

CHROMATICITY_FLOOR = 1e-8
"""The sum of the channels is taken no smaller than this before dividing by it: black has a chromaticity (of zero)."""

# IEC 61966-2-1: a straight piece near black, then a power. Its inverse turns where the curve does.
_LINEAR_TURN = 0.0031308
_SRGB_TURN = 0.04045
_SLOPE = 12.92
_OFFSET = 0.055
_GAMMA = 2.4

_LUMINANCE = (0.2126, 0.7152, 0.0722)
"""Rec. 709 weights of linear R, G and B, the primaries of sRGB."""


def srgb_to_linear(values_srgb: Values) -> Values:
    """Undo the sRGB curve: encoded values to linear light. Negative values follow the curve mirrored at zero."""
    lib = _library(values_srgb)
    magnitude = abs(values_srgb)
    # The clip keeps the branch that `where` does not take smooth, so that it cannot poison the gradient of the other.
    curved = ((lib.clip(magnitude, _SRGB_TURN, None) + _OFFSET) / (1 + _OFFSET)) ** _GAMMA
    values: Values = lib.where(magnitude <= _SRGB_TURN, values_srgb / _SLOPE, lib.sign(values_srgb) * curved)
    return values


def linear_to_srgb(values: Values) -> Values:
    """Apply the sRGB curve: linear light to encoded values. Negative values follow the curve mirrored at zero."""
    lib = _library(values)
    magnitude = abs(values)
    # The clip keeps the power's infinite slope at zero out of the gradient.
    curved = (1 + _OFFSET) * lib.clip(magnitude, _LINEAR_TURN, None) ** (1 / _GAMMA) - _OFFSET
    values_srgb: Values = lib.where(magnitude <= _LINEAR_TURN, values * _SLOPE, lib.sign(values) * curved)
    return values_srgb


def floored_log(values: Values, floor: float = LOG_FLOOR) -> Values:
    """Return the natural log of `values`, none taken for less than `floor`; never NaN or infinite for finite input."""
    lib = _library(values)
    logs: Values = lib.log(lib.clip(values, floor, None))
    return logs


def luminance(rgb: Values, axis: int = -1) -> Values:
    """Return the Rec. 709 luminance of linear `rgb`, the channel axis kept with length one."""
    red, green, blue = (_channel(rgb, k, axis) for k in range(3))
    weighted: Values = _LUMINANCE[0] * red + _LUMINANCE[1] * green + _LUMINANCE[2] * blue
    return weighted


def intensity(rgb: Values, axis: int = -1) -> Values:
    """Return the mean of the channels, the channel axis kept with length one: what the paper calls intensity."""
    means: Values = _library(rgb).mean(rgb, axis, keepdims=True)
    return means


def chromaticity(rgb: Values, axis: int = -1) -> Values:
    """Return each channel's share of their sum (L1), in [0, 1]: color without brightness. Black gives zeros.

    Negative channels, as wide-gamut and EXR files have them, count as zero: their sum could be as near to zero as it
    likes, and the shares as large.
    """
    lib = _library(rgb)
    light = lib.clip(rgb, 0, None)
    shares: Values = light / lib.clip(lib.sum(light, axis, keepdims=True), CHROMATICITY_FLOOR, None)
    return shares


def _library(values: Any) -> Any:
    """Return the module whose functions fit `values`; torch is not imported for the sake of NumPy arrays."""
    if isinstance(values, (np.ndarray, np.generic)):  # a union of both torch.compile cannot read
        return np
    import torch

    return torch


def _channel(rgb: Values, k: int, axis: int) -> Values:
    """Return channel `k` with its axis kept."""
    index: list[slice] = [slice(None)] * rgb.ndim
    index[axis] = slice(k, k + 1)
    return rgb[tuple(index)]
