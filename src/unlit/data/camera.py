"""What a camera makes of light: vignetting, noise, a tone curve of its own, eight bits, JPEG; then read as plain sRGB.

Shapes: b sequences, m frames, h x w pixels. Frames are linear. Pictures of the world are not exactly the inverse sRGB
curve away from light; a network that only ever saw exact ones would be surprised by all others. The reflectance and the
shading that are true stay as they are: this is what is between them and the picture.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad

from unlit.color import linear_to_srgb, srgb_to_linear

BLOCK = 8
_LUMA = (0.299, 0.587, 0.114)
_TO_YCC = (_LUMA, (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))
_STEPS_AT_50 = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
"""Annex K of the JPEG standard, for brightness; color has coarser ones, here twice these."""


@dataclass(frozen=True)
class CameraLook:
    """How one camera, with one setting, differs from an ideal one."""

    vignetting: float = 0.0
    """Light lost in the corners."""
    shot: float = 0.0
    """Variance of noise at white that grows with light."""
    read: float = 0.0
    """Spread of noise in the dark."""
    contrast: float = 0.0
    """Of the S in the tone curve; negative is flatter."""
    gamma: float = 1.0
    """Power of the encoded values."""
    saturation: float = 1.0
    """Of colors, as encoded."""
    quality: float | None = None
    """Of JPEG, 1 to 100; None: only eight bits."""
    seed: int = 0
    """Of the noise."""


def drawn_look(draw: Generator) -> CameraLook:
    """Return a camera by chance: most are good."""
    noisy = draw.random() < 0.6
    level = float(np.exp(draw.uniform(np.log(1e-5), np.log(1.5e-3)))) if noisy else 0.0
    curved = draw.random() < 0.7
    return CameraLook(
        vignetting=float(draw.uniform(0, 0.4)) if draw.random() < 0.4 else 0.0,
        shot=level,
        read=math.sqrt(level) * float(draw.uniform(0.02, 0.2)),
        contrast=float(draw.normal(0.15, 0.25)) if curved else 0.0,
        gamma=float(np.exp(draw.normal(0, 0.08))) if curved else 1.0,
        saturation=float(np.exp(draw.normal(0.03, 0.1))) if curved else 1.0,
        quality=float(draw.uniform(40, 98)) if draw.random() < 0.6 else None,
        seed=int(draw.integers(1 << 31)),
    )


def photographed(frames: Tensor, looks: list[CameraLook | None]) -> Tensor:
    """Return frames (b, m, 3, h, w), linear, as cameras keep them, in [0, 1]; None leaves a sequence as it is."""
    result = [clip if look is None else _photographed(clip, look) for clip, look in zip(frames, looks, strict=True)]
    return torch.stack(result)


def _photographed(frames: Tensor, look: CameraLook) -> Tensor:
    """Return frames (m, 3, h, w) as one camera keeps them."""
    light = frames * _falloff(look.vignetting, frames)
    if look.shot or look.read:
        generator = torch.Generator(frames.device).manual_seed(look.seed)
        spread = (look.shot * light.clamp_min(0) + look.read**2).sqrt()
        light = light + spread * torch.randn(light.shape, generator=generator, device=light.device)
    encoded = toned(linear_to_srgb(light.clamp(0, 1)), look)
    bytes_ = encoded if look.quality is None else jpeg_like(encoded, look.quality)
    return srgb_to_linear((bytes_.clamp(0, 1) * 255).round() / 255)


def _falloff(amount: float, frames: Tensor) -> Tensor:
    """Return what is left of the light (h, w), one in the middle and 1 − amount in the corners."""
    h, w = frames.shape[-2:]
    y = torch.linspace(-1, 1, h, device=frames.device)[:, None]
    x = torch.linspace(-1, 1, w, device=frames.device)
    return 1 - amount * (x.square() + y.square()) / 2


def toned(encoded: Tensor, look: CameraLook) -> Tensor:
    """Return encoded values (..., 3, h, w) in [0, 1] after a camera's own curve; black and white stay."""
    values = encoded**look.gamma
    bent = values * values * (3 - 2 * values)
    values = values + max(-0.5, min(look.contrast, 0.8)) * (bent - values)
    gray = (values * values.new_tensor(_LUMA)[:, None, None]).sum(-3, keepdim=True)
    return (gray + look.saturation * (values - gray)).clamp(0, 1)


@functools.cache
def _cosines(device: torch.device) -> Tensor:
    """Return the matrix (8, 8) of the discrete cosine transform, orthonormal."""
    k, n = torch.arange(BLOCK, dtype=torch.float64)[:, None], torch.arange(BLOCK, dtype=torch.float64)
    matrix = torch.cos(math.pi / BLOCK * (n + 0.5) * k) * math.sqrt(2 / BLOCK)
    matrix[0] /= math.sqrt(2)
    return matrix.float().to(device)


def jpeg_like(encoded: Tensor, quality: float) -> Tensor:
    """Return encoded values (m, 3, h, w) in [0, 1] as JPEG of a quality gives them back, color at half the size."""
    matrix = encoded.new_tensor(_TO_YCC)
    ycc = torch.einsum("dc,mchw->mdhw", matrix, encoded * 255) - encoded.new_tensor([128.0, 0, 0])[:, None, None]
    h, w = encoded.shape[-2:]
    # To whole blocks of both sizes.
    ycc = pad(ycc, (0, -w % (2 * BLOCK), 0, -h % (2 * BLOCK)), mode="replicate")
    scale = (5000 / quality if quality < 50 else 200 - 2 * quality) / 100
    steps = (encoded.new_tensor(_STEPS_AT_50) * scale).round().clamp_min(1)
    bright = _quantised(ycc[:, :1], steps)
    color = interpolate(_quantised(avg_pool2d(ycc[:, 1:], 2), 2 * steps), ycc.shape[-2:], mode="bilinear")
    ycc = torch.cat([bright, color], 1)[..., :h, :w] + encoded.new_tensor([128.0, 0, 0])[:, None, None]
    return (torch.einsum("dc,mchw->mdhw", torch.linalg.inv(matrix), ycc) / 255).clamp(0, 1)


def _quantised(values: Tensor, steps: Tensor) -> Tensor:
    """Return values (m, c, h, w) whose blocks' cosine coefficients are multiples of `steps` (8, 8)."""
    m, c, h, w = values.shape
    cosines = _cosines(values.device)
    blocks = values.reshape(m, c, h // BLOCK, BLOCK, w // BLOCK, BLOCK).transpose(3, 4)
    kept = ((cosines @ blocks @ cosines.T) / steps).round() * steps
    return (cosines.T @ kept @ cosines).transpose(3, 4).reshape(m, c, h, w)
