"""How bright the sky is, by direction: clear skies after Preetham et al. 1999, overcast ones after the CIE's standard.

Both are the formula of Perez et al. 1993, with θ the angle from the zenith and γ that from the sun:

    F(θ, γ) = (1 + A exp(B / cos θ)) (1 + C exp(D γ) + E cos² γ)

Only the luminance is modelled: color belongs to the composing of frames. Below the horizon lies ground, which a scene
rarely lets be seen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROWS = 32
"""The map is 32 x 64: the sun's disk is a light of its own, and the rest is smooth."""

_OVERCAST = (4.0, -0.70, 0.0, -1.0, 0.0)
"""CIE standard sky type 1: the zenith three times as bright as the horizon."""

_LOWEST = 0.02
"""Cosine of θ: the formula has no horizon, and is asked for none."""


def clear_coefficients(turbidity: float) -> tuple[float, float, float, float, float]:
    """Return A to E of the luminance for a turbidity, 2 (very clear) to 10 (haze), by Preetham's fit."""
    t = turbidity
    return (
        0.1787 * t - 1.4630,
        -0.3554 * t + 0.4275,
        -0.0227 * t + 5.3251,
        0.1206 * t - 2.5771,
        -0.0670 * t + 0.3703,
    )


def sky_map(to_sun: Array, turbidity: float | None, ground: float = 0.3) -> Array:
    """Return radiances (32, 64) of mean one over the upper half; `turbidity` None is an overcast sky.

    Rows from straight up to straight down, columns by azimuth from x towards y. The lower half is `ground` of the mean.
    """
    theta = (np.arange(ROWS) + 0.5) / ROWS * np.pi
    phi = (np.arange(2 * ROWS) + 0.5) / (2 * ROWS) * 2 * np.pi
    z = np.cos(theta)[:, None]
    x, y = (np.sin(theta)[:, None] * f(phi) for f in (np.cos, np.sin))
    cos_gamma = np.clip(x * to_sun[0] + y * to_sun[1] + z * to_sun[2], -1, 1)
    gamma = np.arccos(cos_gamma)
    a, b, c, d, e = _OVERCAST if turbidity is None else clear_coefficients(turbidity)
    radiance = (1 + a * np.exp(b / np.maximum(z, _LOWEST))) * (1 + c * np.exp(d * gamma) + e * cos_gamma**2)
    above = np.broadcast_to(z > 0, radiance.shape)
    solid_angle = np.broadcast_to(np.sin(theta)[:, None], radiance.shape)
    radiance = np.maximum(radiance, 0)
    mean = (radiance * solid_angle)[above].sum() / solid_angle[above].sum()
    return np.where(above, radiance / mean, ground)
