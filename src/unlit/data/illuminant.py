"""Colors of lights: what glows, from candles to a blue sky, and what a camera's white balance leaves of it.

Shapes: m frames, k lights. Colors are factors of linear sRGB with a mean of one, so that they change no exposure.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
COOLEST, HOTTEST = 1800.0, 20000.0
"""Kelvin: a candle; the sky opposite to the sun."""

_TO_RGB = np.array([[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]])
_TINT = 0.03
"""Spread of the green of lamps that do not glow, in logs."""


def black_body(kelvin: float) -> Array:
    """Return the color (3,) of a body that glows at this temperature: chromaticities by the fit of Kim et al. 2002."""
    t = 1e3 / kelvin
    if kelvin < 4000:
        x = -0.2661239 * t**3 - 0.2343589 * t**2 + 0.8776956 * t + 0.179910
    else:
        x = -3.0258469 * t**3 + 2.1070379 * t**2 + 0.2226347 * t + 0.240390
    if kelvin < 2222:
        y = -1.1063814 * x**3 - 1.34811020 * x**2 + 2.18555832 * x - 0.20219683
    elif kelvin < 4000:
        y = -0.9549476 * x**3 - 1.37418593 * x**2 + 2.09137015 * x - 0.16748867
    else:
        y = 3.0817580 * x**3 - 5.87338670 * x**2 + 3.75112997 * x - 0.37001483
    rgb = _TO_RGB @ np.array([x / y, 1.0, (1 - x - y) / y])
    # The warmest lie outside of sRGB: there blue would be negative.
    color: Array = np.clip(rgb, 0.02, None)
    color /= color.mean()
    return color


def drawn_kelvin(draw: Generator, low: float = COOLEST, high: float = HOTTEST) -> float:
    """Return a temperature, even in its inverse, by which eyes and white balances count."""
    return 1 / float(draw.uniform(1 / high, 1 / low))


def drawn_color_of_light(draw: Generator, low: float = COOLEST, high: float = HOTTEST) -> Array:
    """Return the color (3,) of a light between two temperatures, a little greener or pinker than what glows."""
    color = black_body(drawn_kelvin(draw, low, high)) * np.exp(draw.normal(0, _TINT) * np.array([-0.5, 1, -0.5]))
    color /= color.mean()
    return color


def balanced(colored: Array, draw: Generator) -> Array:
    """Return weights (m, k, 3) of colored lights after a camera's white balance: of the sequence, or of each frame.

    It takes out the mean color of the light, wholly or in part: cameras guess, and people like warm evenings.
    """
    axes = (0, 1) if draw.random() < 0.6 else (1,)
    mean = colored.sum(axes, keepdims=True)
    mean = mean / np.maximum(mean.mean(-1, keepdims=True), 1e-12)
    result: Array = colored / np.maximum(mean, 1e-3) ** draw.uniform(0.4, 1.0)
    return result


def drawn_colored(draw: Generator, weights: NDArray[np.float32], amount: float) -> NDArray[np.float32]:
    """Return weights (m, k, 3) for weights (m, k) of k lights: each has a color, which cameras balance.

    `amount` is the share of sequences with colored lights; in the others all are white.
    """
    colored = np.repeat(weights[:, :, None].astype(np.float64), 3, 2)
    if draw.random() < amount:
        # Few sequences have all colors: the lamps of a room are often alike.
        middle, reach = 1 / drawn_kelvin(draw, 2300, 9000), draw.uniform(0, 1.4e-4)
        inverse = np.clip(middle + reach * draw.standard_normal(weights.shape[1]), 1 / HOTTEST, 1 / COOLEST)
        colors = np.stack([drawn_color_of_light(draw, 1 / i, 1 / i) for i in inverse])
        colored = balanced(colored * colors, draw)
    return colored.astype(np.float32)
