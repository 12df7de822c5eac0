"""One reflectance for a whole sequence and a shading for each frame: the paper's energy, minimised for that sequence.

Shapes: m frames, h x w pixels. With the reflectance shared by all frames every term of the energy is a square of
something linear in log R, log S and c, so its minimum is the solution of one linear system, found by conjugate
gradients: only products with the matrix are needed, and such a product is a difference of two gradients. No network is
involved; a trained one sees single photographs, this needs the sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from unlit.color import LOG_FLOOR, floored_log
from unlit.losses.energy import energy
from unlit.losses.settings import EnergySettings
from unlit.model.decomposition import Decomposition
from unlit.pairwise.neighbors import median_over_frames
from unlit.pairwise.pairwise import build_pairwise

STEPS = 100
"""Conjugate gradient steps at most; on little or easy sequences fewer are enough."""

SETTINGS = EnergySettings(reflectance=0.5)
"""The release's weights but for w2, there 2 and meant for training: a quarter of it errs less (docs/trials.md)."""

BRIGHT = 0.99
"""The share of pixels whose reflectance is at most 1: the frames themselves do not say how bright a surface is."""

DARKEST = 0.005
"""No surface reflects less than this share of what the brightest do; noise in the dark would, and light up shadings."""

Progress = Callable[[int, int], None]
"""Told, after each step, how many of how many are done."""


def solved_sequence(
    frames: Tensor,
    mask: Tensor,
    settings: EnergySettings | None = None,
    steps: int = STEPS,
    progress: Progress | None = None,
) -> Decomposition:
    """Return the decomposition, one reflectance for all frames, of least energy.

    `frames` (m, 3, h, w) linear, `mask` (m, 1, h, w), True = valid.
    """
    # Without the pin of the scale, which is not a square; the scale is set at the end instead.
    settings = replace(settings or SETTINGS, scale=0.0)
    # What counts as alike depends on brightness, so a dark sequence is first made as bright as any other.
    exposure = _bright(frames.amax(1, keepdim=True)[mask]).clamp_min(LOG_FLOOR)
    frames = frames / exposure
    pairwise = build_pairwise(frames, mask, settings.pairwise)

    def gradient(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        total = energy(frames, mask, _unpacked(x, frames.shape), pairwise, settings).total
        return torch.autograd.grad(total, x)[0]

    best = _unpacked(_conjugate_gradients(gradient, _first_guess(frames, mask), steps, progress), frames.shape)
    seen = mask.any(0).reshape(-1)
    bright = _bright(best.log_reflectance[0].amax(0).reshape(-1)[seen])
    return Decomposition(best.log_reflectance - bright, best.log_shading + bright + exposure.log(), best.light_color)


def reflectance_of(frames: Tensor, mask: Tensor, solved: Decomposition, solved_mask: Tensor) -> Tensor:
    """Return the reflectance (3, h, w), linear, of full-size `frames` (m, 3, h, w) from their solution at some size.

    Where that is smaller the shadings, smooth by nature, are enlarged; divided by them, every frame gives the
    reflectance in full detail, and the median over the frames rejects the edges of shadows, which each has elsewhere.

    Where no frame is valid the energy says nothing; the mean light of each frame is taken, so that such a place looks
    as it does in the frames.
    """
    seen = solved_mask.any(0, keepdim=True)
    mean_light = (solved.log_light * seen).sum((2, 3), keepdim=True) / seen.sum()
    log_light = torch.where(seen, solved.log_light, mean_light)
    same_size = frames.shape == log_light.shape
    if not same_size:
        log_light = interpolate(log_light, frames.shape[-2:], mode="bilinear", align_corners=False)
    logs = floored_log(frames) - log_light
    usable = mask | ~mask.any(0, keepdim=True)
    log_reflectance = median_over_frames(logs, usable.expand_as(logs))[0]
    if same_size:
        log_reflectance = torch.where(seen[0], solved.log_reflectance[0], log_reflectance)
    bright = _bright(log_reflectance.amax(0)[mask.any(0)[0]])
    return (log_reflectance - bright).clamp_min(math.log(DARKEST)).exp()


def _bright(values: Tensor) -> Tensor:
    """Return the value (n,) that all but the brightest hundredth stay below."""
    return values.kthvalue(math.ceil(BRIGHT * values.shape[0])).values


def _first_guess(frames: Tensor, mask: Tensor) -> Tensor:
    """Return the variables at the start: the median of the frames for R, what is left of each for S, no color."""
    logs = floored_log(frames)
    reflectance = median_over_frames(logs, mask.expand_as(logs))
    shading = (logs - reflectance).mean(1)
    return torch.cat([reflectance.reshape(-1), shading.reshape(-1), frames.new_zeros(3 * len(frames))])


def _unpacked(x: Tensor, shape: torch.Size) -> Decomposition:
    """Return the variables as a decomposition of frames of `shape` (m, 3, h, w)."""
    m, _, h, w = shape
    reflectance, shading, color = x[: 3 * h * w], x[3 * h * w : -3 * m], x[-3 * m :]
    return Decomposition(
        reflectance.reshape(1, 3, h, w).expand(shape), shading.reshape(m, 1, h, w), color.reshape(m, 3)
    )


def _conjugate_gradients(
    gradient: Callable[[Tensor], Tensor], x: Tensor, steps: int, progress: Progress | None
) -> Tensor:
    """Return where the gradient of a quadratic function vanishes, as near as `steps` products with its matrix lead."""
    offset = gradient(torch.zeros_like(x))
    residual = -gradient(x)
    direction, size = residual, residual.square().sum()
    gained, rounding = torch.zeros_like(size), 10 * torch.finfo(x.dtype).eps
    for step in range(steps):
        product = gradient(direction) - offset
        curvature = (direction * product).sum()
        # In exact arithmetic every step lowers the energy. Once one gains next to nothing, only rounding is left, which
        # would pile up along the directions that the energy does not mind, such as R · k with S / k.
        gain = 0.5 * size.square() / curvature
        if not (curvature > 0 and gain > rounding * gained):
            break
        gained = gained + gain
        length = size / curvature
        x = x + length * direction
        residual = residual - length * product
        size, previous = residual.square().sum(), size
        direction = residual + size / previous * direction
        if progress:
            progress(step + 1, steps)
    return x
