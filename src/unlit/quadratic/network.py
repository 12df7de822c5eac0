"""The learned quadratic, asked as networks are: encoded pictures in, logs out.

Shapes: m images, h x w pixels. What is black to the last bit lies outside the mask, as beside things before nothing.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unlit.color import floored_log, srgb_to_linear
from unlit.model.decomposition import Decomposition
from unlit.quadratic.decompose import decomposed
from unlit.quadratic.weights import Weights


class QuadraticNet(nn.Module):
    """Weights that answer like a network; it is not trained through this."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = Weights()

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # torch's
    def forward(self, images_srgb: Tensor) -> Decomposition:
        """Return the decompositions of images (m, 3, h, w), sRGB-encoded in [0, 1]; their light is gray."""
        device = images_srgb.device
        light = srgb_to_linear(images_srgb.detach().float().cpu())
        weights = deepcopy(self.weights).float().cpu()  # a copy: threads share the network
        with torch.autocast(device.type, enabled=False), torch.autocast("cpu", enabled=False):
            log_shading = torch.from_numpy(np.stack([_log_shading(image.numpy(), weights) for image in light]))
        log_reflectance = floored_log(light) - log_shading
        color = torch.zeros(len(light), 3)
        return Decomposition(*(part.to(device) for part in (log_reflectance, log_shading, color)))


def _log_shading(image: NDArray[np.float32], weights: Weights) -> NDArray[np.float32]:
    """Return the log of shading (1, h, w) of a linear image (3, h, w); outside the mask it is the mean."""
    mask = image.max(axis=0) > 0
    log_shading = np.zeros((1, *mask.shape), np.float32)
    if mask.any():
        inside = np.log(decomposed(image.transpose(1, 2, 0), mask, weights)[1][mask])
        log_shading[0] = inside.mean()
        log_shading[0, mask] = inside
    return log_shading
