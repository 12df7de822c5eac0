"""How much counts what is known of a sequence: judgements, classes of shading, true reflectance and shading.

The settings stand apart from what they set so that a command line can show them without loading torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MARGIN = 2.2 * math.log(1.1)
"""Lightness that differs by a tenth after gamma encoding (1/2.2), where WHDR begins to say "darker", in linear logs."""

EDGE = math.log(1.1)
"""A tenth from one pixel to the next. SAW says where shading has an edge, not of what size; this is a choice."""

TRUTH_SCALES = 4
"""Gradients are compared at every pixel, every second, every fourth and every eighth (CGIntrinsics)."""

_WEIGHTS = ("judgements", "shading_classes", "truth", "truth_gradient", "truth_linear")


@dataclass(frozen=True)
class SupervisedSettings:
    """Weights of the supervised terms, all zero unless asked for; a term without its truth counts for nothing."""

    judgements: float = 0.0
    """Weight of people's judgements, which of two surfaces is darker (IIW)."""
    shading_classes: float = 0.0
    """Weight of people's labels of smooth shading, shadow boundaries and bends of the surface (SAW)."""
    truth: float = 0.0
    """Weight of the difference from true reflectance and shading, up to a scale for each frame."""
    truth_gradient: float = 0.0
    """Weight of the difference of neighboring pixels' differences from the truth."""
    truth_scales: int = TRUTH_SCALES
    """Pixels so compared are next to each other, then every second, every fourth and so on, so many times: seven times
    reach from end to end of a window of 128 pixels."""
    truth_linear: float = 0.0
    """Weight of the difference from the truth in linear light, of whole frames and of small windows, each up to a
    scale: logs count most where it is dark, this where it is bright."""
    direct: bool = False
    """Compare with the truth as Direct Intrinsics does: half of the scale counts, gradients are squared, one size."""
    margin: float = MARGIN
    """How much darker, in logs, a surface must be where people said "darker"."""
    edge: float = EDGE
    """How much log shading must change from pixel to pixel where people saw an edge of shading."""

    def __post_init__(self) -> None:
        if not 1 <= self.truth_scales <= 16:
            raise ValueError(f"truth_scales must be from 1 to 16, not {self.truth_scales}")
        for name in (*_WEIGHTS, "margin", "edge"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                what = f"the weight of {name}" if name in _WEIGHTS else name
                raise ValueError(f"{what} must be finite and not negative, not {value}")

    @property
    def any(self) -> bool:
        """Whether any term counts."""
        return any(getattr(self, name) > 0 for name in _WEIGHTS)
