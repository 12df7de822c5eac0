"""What a camera makes of light: glare, vignetting, noise, curves of its own, sharpening, JPEG; then read as plain sRGB.

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
_SPOTS = 8
"""Across the shorter side of a picture: what is broad to a camera that lightens shadows."""
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

    glare: float = 0.0
    """Share of the light that lens and air scatter over all of the picture: black is gray then."""
    evenness: float = 0.0
    """Share of broad differences of light, in logs, that the camera takes away: phones lighten large shadows."""
    sharpness: float = 0.0
    """How far the encoded values are driven away from their mean over 3 x 3 pixels; negative is softer."""
    vignetting: float = 0.0
    """Light lost in the corners."""
    shot: float = 0.0
    """Variance of noise at white that grows with light."""
    read: float = 0.0
    """Spread of noise in the dark."""
    black: float = 0.0
    """Encoded values up to this one are black: many cameras leave out what is nearly so."""
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


_SETTINGS = ("glare", "evenness", "sharpness", "vignetting", "shot", "read", "black", "contrast", "gamma", "saturation")

_MADE_SMALL, _SMALLEST = 0.7, 8.0
"""Share of pictures that are made small before they are looked at, as all large ones are, and the largest factor."""
_BLOCKS_SEEN = 2.0
"""From this factor on what JPEG did is finer than a pixel."""


def drawn_look(draw: Generator) -> CameraLook:
    """Return a camera by chance: most are good, and most pictures are made small, so that their flaws are, too."""
    factor = float(np.exp(draw.uniform(0, np.log(_SMALLEST)))) if draw.random() < _MADE_SMALL else 1.0
    noisy = draw.random() < 0.6
    level = float(np.exp(draw.uniform(np.log(1e-5), np.log(1.5e-3)))) / factor**2 if noisy else 0.0
    curved = draw.random() < 0.7
    # A pixel is the mean of factor² of the camera's: as much less is lost in rounding, about.
    quality = 100 - float(draw.uniform(2, 60)) / factor**2
    return CameraLook(
        glare=float(np.exp(draw.uniform(np.log(0.003), np.log(0.1)))) if draw.random() < 0.4 else 0.0,
        evenness=float(draw.uniform(0.05, 0.35)) if draw.random() < 0.2 else 0.0,
        sharpness=float(draw.uniform(-0.4, 1.8)) if draw.random() < 0.7 else 0.0,
        vignetting=float(draw.uniform(0, 0.4)) if draw.random() < 0.4 else 0.0,
        shot=level,
        read=math.sqrt(level) * float(draw.uniform(0.02, 0.2)),
        black=float(draw.uniform(0, 0.04)) if draw.random() < 0.3 else 0.0,
        contrast=float(draw.normal(0.2, 0.3)) if curved else 0.0,
        gamma=float(np.exp(draw.normal(0, 0.1))) if curved else 1.0,
        saturation=float(np.exp(draw.normal(0.05, 0.14))) if curved else 1.0,
        quality=quality if draw.random() < 0.6 and factor < _BLOCKS_SEEN else None,
        seed=int(draw.integers(1 << 31)),
    )


def photographed(frames: Tensor, looks: list[CameraLook | None]) -> Tensor:
    """Return frames (b, m, 3, h, w), linear, as cameras keep them, in [0, 1]; None leaves a sequence as it is.

    All sequences are worked on as one, with numbers of their own: on a GPU a batch costs by its operations.
    """
    if all(look is None for look in looks):
        return frames
    cameras = [look or CameraLook() for look in looks]
    rows = [[getattr(camera, name) for camera in cameras] for name in _SETTINGS]
    rows.append([-1.0 if camera.quality is None else camera.quality for camera in cameras])
    has_camera = [float(look is not None) for look in looks]
    # In one piece to the device; each (b, 1, 1, 1, 1).
    numbers = torch.tensor([has_camera, *rows]).to(frames.device, non_blocking=True)[..., None, None, None, None]
    noisy = [camera.seed for camera in cameras if camera.shot or camera.read]
    noise = None
    if noisy:
        generator = torch.Generator(frames.device).manual_seed(noisy[0])
        noise = torch.randn(frames.shape, generator=generator, device=frames.device)
    return _kept(frames, noise, numbers, has_jpeg=any(camera.quality is not None for camera in cameras))


def _kept(frames: Tensor, noise: Tensor | None, numbers: Tensor, *, has_jpeg: bool) -> Tensor:
    """Return `photographed` frames by numbers (12, b, 1, 1, 1, 1): which have a camera, `_SETTINGS`, quality or −1."""
    has_camera, glare, evenness, sharpness, vignetting, shot, read, *curves, quality = numbers
    black, contrast, gamma, saturation = curves
    light = frames + glare * (frames.mean((-2, -1), keepdim=True) - frames)
    light = light * (1 - vignetting * _toward_corners(frames))
    if noise is not None:
        light = light + (shot * light.clamp_min(0) + read.square()).sqrt() * noise
    encoded = linear_to_srgb(evened(light, evenness).clamp(0, 1))
    encoded = toned((encoded - black).clamp_min(0) / (1 - black), contrast, gamma, saturation)
    encoded = sharpened(encoded, sharpness).clamp(0, 1)
    if has_jpeg:
        encoded = torch.where(quality > 0, jpeg_like(encoded, quality.clamp_min(1)), encoded)
    kept = srgb_to_linear((encoded * 255).round() / 255)
    return torch.where(has_camera > 0, kept, frames)


def evened(light: Tensor, evenness: Tensor) -> Tensor:
    """Return light (b, m, 3, h, w) whose broad differences are less by a share that broadcasts; its mean log stays."""
    gray = (light.clamp_min(0) * _constant(_LUMA, light.device)[:, None, None]).sum(-3, keepdim=True)
    broad = _broad(gray.clamp_min(1e-3).log())
    return light * (evenness * (broad.mean((-2, -1), keepdim=True) - broad)).exp()


def sharpened(encoded: Tensor, sharpness: Tensor) -> Tensor:
    """Return encoded values (b, m, 3, h, w), driven away from their means over 3 x 3 pixels; `sharpness` broadcasts."""
    means = avg_pool2d(pad(encoded.flatten(0, 1), (1, 1, 1, 1), mode="replicate"), 3, 1).reshape(encoded.shape)
    return encoded + sharpness * (encoded - means)


def _broad(frames: Tensor) -> Tensor:
    """Return frames (b, m, c, h, w), so blurred that eight spots are left across the shorter side."""
    b, m, c, h, w = frames.shape
    side = max(1.0, min(h, w) / _SPOTS)
    size = [max(1, round(h / side)), max(1, round(w / side))]
    few = interpolate(frames.flatten(0, 1), size, mode="area")
    return interpolate(few, (h, w), mode="bilinear").reshape(b, m, c, h, w)


def _toward_corners(frames: Tensor) -> Tensor:
    """Return (h, w), zero in the middle and one in the corners."""
    h, w = frames.shape[-2:]
    y = torch.linspace(-1, 1, h, device=frames.device)[:, None]
    x = torch.linspace(-1, 1, w, device=frames.device)
    return (x.square() + y.square()) / 2


def toned(encoded: Tensor, contrast: Tensor, gamma: Tensor, saturation: Tensor) -> Tensor:
    """Return encoded values (..., 3, h, w) in [0, 1] after cameras' own curves; black and white stay.

    The curves' numbers broadcast: see `CameraLook`.
    """
    values = encoded**gamma
    bent = values * values * (3 - 2 * values)
    values = values + contrast.clamp(-0.5, 0.8) * (bent - values)
    gray = (values * _constant(_LUMA, values.device)[:, None, None]).sum(-3, keepdim=True)
    return (gray + saturation * (values - gray)).clamp(0, 1)


@functools.cache
def _constant(values: tuple[object, ...], device: torch.device) -> Tensor:
    """Return numbers as a tensor that is moved to the device once."""
    return torch.tensor(values, dtype=torch.float32, device=device)


@functools.cache
def _from_ycc(device: torch.device) -> Tensor:
    inverse: Tensor = torch.linalg.inv(torch.tensor(_TO_YCC, dtype=torch.float64))
    return inverse.float().to(device)


@functools.cache
def _cosines(device: torch.device) -> Tensor:
    """Return the matrix (64, 64) of the discrete cosine transform of a block, row after row, orthonormal."""
    k, n = torch.arange(BLOCK, dtype=torch.float64)[:, None], torch.arange(BLOCK, dtype=torch.float64)
    matrix = torch.cos(math.pi / BLOCK * (n + 0.5) * k) * math.sqrt(2 / BLOCK)
    matrix[0] /= math.sqrt(2)
    return torch.kron(matrix, matrix).float().to(device)


def jpeg_like(encoded: Tensor, quality: Tensor) -> Tensor:
    """Return encoded values (b, m, 3, h, w) in [0, 1] as JPEG gives them back, color at half the size.

    `quality` is (b, 1, 1, 1, 1), from 1 to 100.
    """
    b, m, _, h, w = encoded.shape
    frames = encoded.flatten(0, 1)
    zero = _constant((128.0, 0.0, 0.0), frames.device)[:, None, None]
    ycc = _recolored(_constant(_TO_YCC, frames.device), frames * 255) - zero
    # To whole blocks of both sizes.
    ycc = pad(ycc, (0, -w % (2 * BLOCK), 0, -h % (2 * BLOCK)), mode="replicate")
    scale = torch.where(quality < 50, 5000 / quality, 200 - 2 * quality).reshape(b, 1, 1) / 100
    steps = (_constant(_STEPS_AT_50, frames.device) * scale).round().clamp_min(1)
    steps = steps.flatten(1).repeat_interleave(m, 0)[:, None, None, None]
    bright = _quantised(ycc[:, :1], steps)
    color = interpolate(_quantised(avg_pool2d(ycc[:, 1:], 2), 2 * steps), ycc.shape[-2:], mode="bilinear")
    ycc = torch.cat([bright, color], 1)[..., :h, :w] + zero
    return (_recolored(_from_ycc(frames.device), ycc) / 255).clamp(0, 1).reshape(encoded.shape)


def _recolored(matrix: Tensor, frames: Tensor) -> Tensor:
    """Return frames (m, 3, h, w) whose colors a matrix (3, 3) has changed."""
    return (matrix @ frames.flatten(2)).reshape(frames.shape)


def _quantised(values: Tensor, steps: Tensor) -> Tensor:
    """Return values (m, c, h, w) whose blocks' cosine coefficients are multiples of `steps`, 64 at the end.

    Both directions of the transform are one product: a GPU takes longer for thousands of 8 x 8 than for one of 64.
    """
    m, c, h, w = values.shape
    cosines = _cosines(values.device)
    cells = (m, c, h // BLOCK, w // BLOCK, BLOCK, BLOCK)
    blocks = values.reshape(m, c, h // BLOCK, BLOCK, w // BLOCK, BLOCK).transpose(3, 4).reshape(-1, BLOCK * BLOCK)
    kept = ((blocks @ cosines.T).reshape(*cells[:4], -1) / steps).round() * steps
    return (kept.reshape(-1, BLOCK * BLOCK) @ cosines).reshape(cells).transpose(3, 4).reshape(m, c, h, w)
