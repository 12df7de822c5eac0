"""What a network says of an image: logs of reflectance and shading, and the color of the light.

Shapes: m frames, h x w pixels. `log I = log R + log S + c`; all logs are natural and of linear light.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Decomposition:
    """The decomposition of m frames, as tensors that carry gradients where a network made them."""

    log_reflectance: Tensor
    """(m, 3, h, w)."""
    log_shading: Tensor
    """(m, 1, h, w), gray."""
    light_color: Tensor
    """(m, 3): c, in logs, added to the gray shading of all pixels of a frame; zero for gray light."""

    def __post_init__(self) -> None:
        if self.log_reflectance.ndim != 4:
            raise ValueError(f"log_reflectance must be (m, 3, h, w), not {tuple(self.log_reflectance.shape)}")
        m, _, h, w = self.log_reflectance.shape
        expected = {"log_reflectance": (m, 3, h, w), "log_shading": (m, 1, h, w), "light_color": (m, 3)}
        for name, shape in expected.items():
            if tuple(getattr(self, name).shape) != shape:
                raise ValueError(f"{name} must be {shape}, not {tuple(getattr(self, name).shape)}")

    def at_least_float32(self) -> Decomposition:
        """Return the parts in float32, or float64 if they are: before `log_light` adds them up in few digits."""
        parts = (self.log_reflectance, self.log_shading, self.light_color)
        return Decomposition(*(part if part.dtype == torch.float64 else part.float() for part in parts))

    @property
    def log_light(self) -> Tensor:
        """(m, 3, h, w): log S + c, the shading with its color."""
        return self.log_shading + self.light_color[:, :, None, None]

    @property
    def reflectance(self) -> Tensor:
        """(m, 3, h, w) linear."""
        return self.log_reflectance.exp()

    @property
    def shading(self) -> Tensor:
        """(m, 3, h, w) linear, with the light's color."""
        return self.log_light.exp()

    def recompose(self) -> Tensor:
        """Return the images (m, 3, h, w), linear: reflectance times shading."""
        return (self.log_reflectance + self.log_light).exp()
