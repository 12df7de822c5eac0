"""What a picture's numbers mean: a curve for each channel, then three primaries; and the way to linear sRGB.

Chromaticities are the CIE x, y of red, green, blue and white, eight numbers, as EXR and PNG keep them. XYZ is relative
to D50, the white of ICC's connection space, so that files of every kind meet there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlit.color import srgb_to_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Curve = Callable[[NDArray[np.floating[Any]]], NDArray[np.floating[Any]]]
    """Stored numbers, 1 = white, to linear light."""

SNAP_CURVE = 2e-4
SNAP_MATRIX = 1e-3
"""Curves and primaries this near to those of sRGB are taken for them: each maker rounds them in his own way."""

_D65 = (0.3127, 0.3290)
_ACES_WHITE = (0.32168, 0.33767)
CHROMATICITIES = {
    "rec709": (0.64, 0.33, 0.30, 0.60, 0.15, 0.06, *_D65),
    "p3d65": (0.68, 0.32, 0.265, 0.69, 0.15, 0.06, *_D65),
    "rec2020": (0.708, 0.292, 0.170, 0.797, 0.131, 0.046, *_D65),
    "adobergb": (0.64, 0.33, 0.21, 0.71, 0.15, 0.06, *_D65),
    "ap0": (0.7347, 0.2653, 0.0, 1.0, 0.0001, -0.077, *_ACES_WHITE),
    "ap1": (0.713, 0.293, 0.165, 0.83, 0.128, 0.044, *_ACES_WHITE),
}
_ALIASES = {
    "sRGB": "srgb_rec709",
    "Linear": "lin_rec709",
    "linear": "lin_rec709",
    "lin_srgb": "lin_rec709",
    "ACEScg": "lin_ap1",
}

# ICC.1: the connection space's white, and the Bradford matrix by which other whites are adapted to it.
PCS_WHITE = np.array([0.9642, 1.0, 0.8249])
_BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])


def identity(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return `values`, which are linear light already."""
    return values


def power(gamma: float) -> Curve:
    """Return the curve that raises to `gamma`, mirrored for negative values."""
    return lambda values: np.sign(values) * np.abs(values) ** gamma


@dataclass(frozen=True)
class ColorSpace:
    """A curve for each of R, G and B, and the matrix (3, 3) from their linear light to that of sRGB."""

    curves: tuple[Curve, Curve, Curve]
    to_srgb: NDArray[np.float64]
    has_color: bool = True
    """False for the profile of a gray picture, which says nothing of primaries."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "curves", tuple(_snapped(curve) for curve in self.curves))
        if np.abs(self.to_srgb - np.eye(3)).max() < SNAP_MATRIX:
            object.__setattr__(self, "to_srgb", np.eye(3))

    @property
    def is_linear(self) -> bool:
        """Whether the stored numbers are linear light."""
        return all(curve is identity for curve in self.curves)

    def decoded(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Return the linear sRGB light (h, w, 3) of stored `values` (h, w, 1 or 3): bytes, 16-bit words or floats."""
        light = self._straightened(values)
        if light.shape[-1] == 1:  # gray is gray in every space: white is white
            return np.repeat(light, 3, axis=-1)
        if not np.array_equal(self.to_srgb, np.eye(3)):
            matrix = self.to_srgb.T.astype(np.float32)
            for rows in row_blocks(light.shape):
                light[rows] = light[rows] @ matrix
        return light

    def _straightened(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Undo the curves. Integers go through a table, a hundred times as fast as a power for each pixel."""
        curves = self.curves[1:2] if values.shape[-1] == 1 else self.curves
        if np.issubdtype(values.dtype, np.unsignedinteger):
            codes = np.linspace(0, 1, np.iinfo(values.dtype).max + 1)
            tables: list[NDArray[np.float32]] = [curve(codes).astype(np.float32) for curve in curves]
            if len(set(curves)) == 1:
                return np.asarray(tables[0][values], np.float32)
            return np.stack([table[values[..., k]] for k, table in enumerate(tables)], axis=-1)
        light = np.array(values, dtype=np.float32)
        if not self.is_linear:
            for rows in row_blocks(light.shape):
                for k, curve in enumerate(curves):
                    light[rows, :, k] = curve(light[rows, :, k])
        return light


def _snapped(curve: Curve) -> Curve:
    """Return linear or the sRGB curve itself where `curve` is as near to it as rounding leaves it."""
    values = np.linspace(0, 1, 257)
    for exact in (identity, srgb_to_linear):
        if np.abs(curve(values) - exact(values)).max() < SNAP_CURVE:
            return exact
    return curve


def row_blocks(shape: tuple[int, ...], values_in_block: int = 1 << 18) -> Iterator[slice]:
    """Yield slices of rows of an array (h, w, c), small enough that what is computed from one stays in the cache."""
    rows = max(1, values_in_block // max(1, int(np.prod(shape[1:]))))
    for start in range(0, shape[0], rows):
        yield slice(start, start + rows)


def rgb_to_xyz(chromaticities: Sequence[float]) -> NDArray[np.float64]:
    """Return the matrix (3, 3) from linear RGB of these primaries to XYZ, adapted to D50 (Bradford)."""
    x, y = np.reshape(chromaticities, (4, 2)).T
    xyz = np.stack([x, y, 1 - x - y])
    white = xyz[:, 3] / y[3]
    unadapted = xyz[:, :3] * np.linalg.solve(xyz[:, :3], white)
    scale = (_BRADFORD @ PCS_WHITE) / (_BRADFORD @ white)
    adapted: NDArray[np.float64] = np.linalg.inv(_BRADFORD) @ np.diag(scale) @ _BRADFORD @ unadapted
    return adapted


SRGB_TO_XYZ = rgb_to_xyz(CHROMATICITIES["rec709"])
"""Linear sRGB to XYZ relative to D50."""


def color_space(curve: Curve, chromaticities: Sequence[float] = CHROMATICITIES["rec709"]) -> ColorSpace:
    """Return the space of one `curve` for all channels and the primaries `chromaticities`.

    ValueError where these span no space.
    """
    try:
        with np.errstate(all="ignore"):  # what comes of absurd numbers is looked at below
            matrix = np.linalg.solve(SRGB_TO_XYZ, rgb_to_xyz(chromaticities))
    except np.linalg.LinAlgError:
        matrix = np.full((3, 3), np.nan)
    if not np.isfinite(matrix).all():
        raise ValueError(f"primaries {tuple(chromaticities)} that span no color space")
    return ColorSpace((curve, curve, curve), np.asarray(matrix, np.float64))


SRGB = color_space(srgb_to_linear)
LINEAR_SRGB = color_space(identity)


def named_curve_and_chromaticities(name: str) -> tuple[Curve, tuple[float, ...]] | None:
    """Return the parts of a space named as OpenImageIO and the Color Interop Forum do: `lin_ap1_scene`, `g22_rec709`.

    None for a name that is not one of those, as logarithmic and HDR display spaces are not.
    """
    match = re.fullmatch(r"(lin|srgb|g(\d\d))_([a-z0-9]+?)(_scene|_display)?", _ALIASES.get(name, name))
    if match is None or match[3] not in CHROMATICITIES:
        return None
    curves: dict[str, Curve] = {"lin": identity, "srgb": srgb_to_linear}
    return curves.get(match[1]) or power(int(match[2]) / 10), CHROMATICITIES[match[3]]
