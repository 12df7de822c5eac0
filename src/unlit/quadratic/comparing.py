"""The three errors of the MIT set as functions that can be differentiated (`evaluate/mit.py` scores by them).

Shapes: h x w pixels; four channels are R's three and gray S. Values are linear light, black outside the mask. An
estimate of R and one of S are first scaled to fit what they are compared with.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d

WINDOW, WINDOW_STEP = 20, 10
"""Of the local error, in pixels (Grosse et al. 2009)."""
BELL_SIGMA, BELL_RADIUS = 1.5, 5
"""SSIM's Gaussian (Wang et al. 2004)."""
SSIM_MEANS, SSIM_SPREADS = 0.01**2, 0.03**2
"""SSIM's constants for a range of 1."""
_LEAST = 1e-9


def errors(found: Tensor, wanted: Tensor, valid: Tensor) -> Tensor:
    """Return MSE, LMSE and DSSIM (3,), each the mean of R's and S's; `found` and `wanted` (4, h, w), `valid` (h, w)."""
    found = torch.cat([_scaled(found[:3], wanted[:3]), _scaled(found[3:], wanted[3:])])
    inside = valid.to(found.dtype)
    return torch.stack([
        _of_both((wanted - found).square().sum((1, 2)) / inside.sum()),
        _of_both(_local_errors(found, wanted)),
        _of_both(_dissimilarities(found, wanted, inside)),
    ])  # fmt: skip


def _of_both(by_channel: Tensor) -> Tensor:
    return (by_channel[:3].mean() + by_channel[3]) / 2


def _scaled(found: Tensor, wanted: Tensor) -> Tensor:
    return found * ((found * wanted).sum() / found.square().sum().clamp_min(_LEAST))


def _local_errors(found: Tensor, wanted: Tensor) -> Tensor:
    """Return the error (4,) of windows, each with its own scale, as a share of the squares in them."""
    size = [min(WINDOW, side) for side in found.shape[1:]]
    product, square, whole = (
        avg_pool2d(values[None], size, WINDOW_STEP)[0] for values in (found * wanted, found**2, wanted**2)
    )
    left = (whole - product**2 / square.clamp_min(_LEAST)).sum((1, 2))
    return left / whole.sum((1, 2)).clamp_min(_LEAST)


def _dissimilarities(found: Tensor, wanted: Tensor, inside: Tensor) -> Tensor:
    """Return (1 − SSIM) / 2 (4,)."""
    mean, wanted_mean = _windowed(found), _windowed(wanted)
    spreads = _windowed(found**2) - mean**2 + _windowed(wanted**2) - wanted_mean**2
    together = _windowed(found * wanted) - mean * wanted_mean
    alike = (2 * mean * wanted_mean + SSIM_MEANS) * (2 * together + SSIM_SPREADS)
    similarity = alike / ((mean**2 + wanted_mean**2 + SSIM_MEANS) * (spreads + SSIM_SPREADS))
    return (1 - (similarity * inside).sum((1, 2)) / inside.sum()) / 2


def _windowed(values: Tensor) -> Tensor:
    """Return values (4, h, w) averaged by SSIM's Gaussian, black beyond the edge."""
    places = torch.arange(-BELL_RADIUS, BELL_RADIUS + 1, dtype=values.dtype)
    bell = torch.exp(-(places**2) / (2 * BELL_SIGMA**2))
    bell = bell / bell.sum()
    down = conv2d(values[:, None], bell.view(1, 1, -1, 1), padding=(BELL_RADIUS, 0))
    return conv2d(down, bell.view(1, 1, 1, -1), padding=(0, BELL_RADIUS))[:, 0]
