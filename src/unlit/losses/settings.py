"""How the terms of the energy are weighed, and which form they have.

The settings stand apart from what they set so that a command line can show them without loading torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from unlit.pairwise.settings import PairwiseSettings

WEIGHTS = ("reconstruction", "consistency", "reflectance", "shading", "scale")


@dataclass(frozen=True)
class EnergySettings:
    """Weights of the terms, and the paper's ablations. The defaults are those of the authors' release."""

    reconstruction: float = 1.0
    """Of L_rec: 1, unless it is left out."""
    consistency: float = 1.0
    """w1."""
    reflectance: float = 2.0
    """w2."""
    shading: float = 0.5
    """w3."""
    scale: float = 0.05
    """w4."""
    all_pairs: bool = True
    """Reconstruct each frame with the reflectance of every frame; without it, "per-image reconstruction"."""
    colored_light: bool = True
    """Let the light have a color; without it, "gray shading": the decomposition's light color is left out."""
    pairwise: PairwiseSettings = field(default_factory=PairwiseSettings)

    def __post_init__(self) -> None:
        for name in WEIGHTS:
            weight = getattr(self, name)
            if not (weight >= 0 and math.isfinite(weight)):
                raise ValueError(f"the weight of {name} must be finite and not negative, not {weight}")

    @property
    def any(self) -> bool:
        """Whether any term counts."""
        return any(getattr(self, name) > 0 for name in WEIGHTS)
