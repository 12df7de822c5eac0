"""How varied pictures are, in a few figures: to compare worlds with what is known of real surfaces and light.

Shapes: h x w pixels. Steps are of natural logs, from a pixel to the next to the right and below.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unlit.color import floored_log, luminance

EDGE = 0.2
"""A step of log reflectance that counts as an edge: a fifth brighter or darker."""

_CHROMA_FLOOR = 1e-3


@dataclass(frozen=True)
class Variety:
    """Figures of one picture of reflectance or shading, over its valid pixels."""

    grays: Tensor
    """(5,): the 5th, 25th, 50th, 75th and 95th percentile of luminance, with the brightest hundredth as 1."""
    chroma: Tensor
    """(3,): the 25th, 50th and 90th percentile of 1 − least / largest channel."""
    edges: float
    """Share of steps beyond `EDGE`."""
    flat: float
    """Share of steps below 0.01: untextured surface, or even light."""
    kurtosis: float
    """Of the steps; 3 for Gaussian ones, far more where most are small and some large."""
    spread: float
    """Standard deviation of the steps."""


def variety(light: Tensor, mask: Tensor) -> Variety:
    """Return the figures of a linear picture (3, h, w) where `mask` (1, h, w) is True."""
    valid = mask[0].bool()
    gray = luminance(light, axis=0)[0]
    values = gray[valid]
    bright = torch.quantile(values, 0.99).clamp_min(1e-6)
    shares = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95], device=light.device)
    colors = light[:, valid]
    chroma = 1 - colors.amin(0).clamp_min(0) / colors.amax(0).clamp_min(_CHROMA_FLOOR)
    steps = log_steps(gray / bright, valid)
    deviation = steps - steps.mean()
    variance = deviation.square().mean().clamp_min(1e-12)
    return Variety(
        torch.quantile(values / bright, shares),
        torch.quantile(chroma, torch.tensor([0.25, 0.5, 0.9], device=light.device)),
        float((steps.abs() > EDGE).float().mean()),
        float((steps.abs() < 0.01).float().mean()),
        float(deviation.pow(4).mean() / variance.square()),
        float(variance.sqrt()),
    )


def log_steps(gray: Tensor, valid: Tensor) -> Tensor:
    """Return the steps (n,) of the log of `gray` (h, w) between neighbors that are both valid (h, w)."""
    logs = floored_log(gray)
    across = (logs[:, 1:] - logs[:, :-1])[valid[:, 1:] & valid[:, :-1]]
    down = (logs[1:] - logs[:-1])[valid[1:] & valid[:-1]]
    return torch.cat([across, down])
