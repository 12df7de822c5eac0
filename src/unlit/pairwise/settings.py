"""Which pixels should agree: the settings of the pairs.

They stand apart from what they set so that a command line can show them without loading torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

SCALES = 4
"""Sizes at which neighbors are compared: every pixel, every second, every fourth, every eighth."""

Factor = Literal["paper", "release"]

MOST_SCALES = 16
"""At the last of these one pixel stands for 2¹⁵: no image has more."""


@dataclass(frozen=True)
class FeatureScales:
    """How much of each feature counts as one standard deviation (the authors' release; the paper leaves them out)."""

    intensity: float = 0.12
    """Of linear intensity, the mean of R, G and B."""
    chromaticity: float = 0.025
    """Of the red and the green share of R + G + B."""
    position: float = 0.1
    """Of the image's diagonal."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"the scale of {name} must be positive and finite, not {value}")


@dataclass(frozen=True)
class PairwiseSettings:
    """Which pairs there are. The defaults are the authors' release; the ablations of the paper change one each."""

    scales: FeatureScales = field(default_factory=FeatureScales)
    reflectance: Literal["dense", "local"] = "dense"
    """All pairs of pixels of all frames, or neighbors in the same frame only (ablation "local reflectance")."""
    shading_scales: int = SCALES
    """How many sizes neighbors are compared at; 1 is the ablation "single-scale shading"."""
    normalized_median: bool = True
    """Whether v̄_med counts; without it, the ablation "no normalized median"."""
    shading_factor: Factor = "release"
    """F(median W): `1 − median W` as printed in the paper, or `1 + 12 (1 − median W)` as in the release."""

    def __post_init__(self) -> None:
        if self.shading_scales not in range(1, MOST_SCALES + 1):
            raise ValueError(f"shading_scales must be from 1 to {MOST_SCALES}, not {self.shading_scales}")
        if self.reflectance not in ("dense", "local"):
            raise ValueError(f"reflectance must be 'dense' or 'local', not {self.reflectance!r}")
        if self.shading_factor not in ("paper", "release"):
            raise ValueError(f"shading_factor must be 'paper' or 'release', not {self.shading_factor!r}")
