"""The difference from the truth in linear light, as the scores MSE and LMSE see it.

Shapes: m frames, c channels, h x w pixels. For a part Ω of a frame, with the estimate e and the truth t, both linear,
over its valid values:

    D(Ω) = Σ t² − (Σ e t)² / Σ e²,

the least of Σ (α e − t)² over all α: so the scale of e does not matter. Over frames, and over windows w of a frame
that overlap by half (Grosse et al. 2009 score so, with windows of 20 pixels):

    L = ½ mean over frames of D(frame) / Σ_frame t² + ½ mean over frames of Σ_w D(w) / Σ_w Σ t²

Errors of logs, as the other terms have them, count most where it is dark; these count where it is bright.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

WINDOW = 32
"""Pixels. A picture that is smaller than a window has no windows, and counts as a whole alone."""

_FAR = 12.0
"""Logs farther than this from their mean are cut: their squares would leave the range of float32."""


def linear_truth_term(log_estimate: Tensor, truth: Tensor, mask: Tensor, *, window: int = WINDOW) -> Tensor:
    """Return L for log_estimate (m, c, h, w), linear `truth` that broadcasts with it, and mask (m, 1, h, w)."""
    shares = shares_lost(log_estimate, truth, mask, window)
    return torch.stack([share.mean() for share in shares]).mean()


def shares_lost(log_estimate: Tensor, truth: Tensor, mask: Tensor, window: int) -> list[Tensor]:
    """Return what frames lose of Σ t², (m,): as wholes, and in windows where they are large enough to have any."""
    valid = mask.bool() & (truth > 0).any(-3, keepdim=True)
    log_estimate, truth = torch.broadcast_tensors(log_estimate, truth)
    count = valid.sum((1, 2, 3), keepdim=True).clamp_min(1) * log_estimate.shape[1]
    logs = torch.where(valid, log_estimate, 0)
    # Any common factor will do; this one keeps squares within the range of numbers.
    logs = logs - logs.detach().sum((1, 2, 3), keepdim=True) / count
    estimate = torch.where(valid, logs.clamp(-_FAR, _FAR).exp(), 0)
    true = torch.where(valid, truth, 0)
    products = torch.stack([true * true, estimate * true, estimate * estimate]).sum(2)  # (3, m, h, w)
    parts = [products.sum((2, 3))[..., None]]
    if min(products.shape[-2:]) >= window:
        parts.append(avg_pool2d(products, window, stride=window // 2).flatten(2))
    return [_share_lost(part) for part in parts]


def _share_lost(products: Tensor) -> Tensor:
    """Return Σ D / Σ Σ t² of each frame (m,), from Σ t², Σ e t and Σ e² (3, m, n) of its n parts."""
    tiny = torch.finfo(products.dtype).tiny ** 0.5
    true, crossed, estimated = products
    explained = crossed.square() / estimated.clamp_min(tiny)
    lost: Tensor = (true - explained).sum(1) / true.sum(1).clamp_min(tiny)
    return lost
