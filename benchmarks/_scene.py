"""A sequence to measure with: patches of surface under moving light, with a camera's noise, from a seed."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate


def frames(m: int, h: int = 256, w: int = 384, seed: int = 0) -> Tensor:
    """Return m linear frames (m, 3, h, w) whose lattice is about as large as a webcam's (docs/trials.md)."""
    g = torch.Generator().manual_seed(seed)
    y, x = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, w / h, w), indexing="ij")
    centers = torch.rand(60, 2, generator=g) * torch.tensor([1, w / h])
    patch = torch.stack([(y - a) ** 2 + (x - b) ** 2 for a, b in centers.tolist()]).argmin(0)
    gray = 0.05 + 0.6 * torch.rand(60, 1, generator=g) ** 1.5
    tint = 1 + 0.5 * (torch.rand(60, 3, generator=g) - 0.5)
    surface = (gray * tint)[patch].permute(2, 0, 1)[None]
    grain = torch.cat([_noise(1, h, w, cells, g) for cells in (16, 64, 256)], dim=1).sum(1, keepdim=True)
    light = torch.exp(0.7 * _noise(m, h, w, 3, g) + 0.4 * _noise(m, h, w, 12, g))
    color = torch.exp(0.2 * torch.randn(m, 3, 1, 1, generator=g))
    linear = surface * torch.exp(0.12 * grain) * light * color
    return (linear * (1 + 0.01 * torch.randn(m, 3, h, w, generator=g))).clamp(0, 1)


def _noise(m: int, h: int, w: int, cells: int, g: torch.Generator) -> Tensor:
    return interpolate(torch.randn(m, 1, cells, cells, generator=g), (h, w), mode="bilinear", align_corners=False)
