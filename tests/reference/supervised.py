"""The supervised terms as plain loops over pairs, pixels and channels."""

from __future__ import annotations

import torch
from torch import Tensor


def judgements(
    log_reflectance: Tensor, points: Tensor, pairs: Tensor, darker: Tensor, weight: Tensor, margin: float, mask: Tensor
) -> Tensor:
    m, _, h, w = log_reflectance.shape
    total, weights = log_reflectance.new_zeros(()), 0.0
    for i in range(m):
        for (a, b), label, score in zip(pairs.tolist(), darker.tolist(), weight.tolist(), strict=True):
            lightness = []
            for k in (a, b):
                x, y = points[k].tolist()
                row, column = min(int(y * h), h - 1), min(int(x * w), w - 1)
                if mask[i, 0, row, column]:
                    lightness.append(log_reflectance[i, :, row, column].exp().mean().log())
            if len(lightness) < 2:
                continue
            first, second = lightness
            if label == 0:
                error = (first - second) ** 2
            elif label == 1:
                error = torch.relu(first + margin - second) ** 2
            else:
                error = torch.relu(second + margin - first) ** 2
            total, weights = total + score * error, weights + score
    return total / weights if weights else total


def _neighbors(y: int, x: int, h: int, w: int) -> list[tuple[int, int]]:
    """The pixel to the right and the one below, as far as they are in the image."""
    return [(v, u) for v, u in ((y, x + 1), (y + 1, x)) if v < h and u < w]


def shading_classes(log_shading: Tensor, classes: Tensor, mask: Tensor, edge: float, window: int = 10) -> Tensor:
    m, _, h, w = log_shading.shape
    zero = log_shading.new_zeros(())
    rough, missing, pairs, edges = zero, zero, 0, 0
    for i in range(m):
        s, valid = log_shading[i, 0], mask[i, 0]
        sizes = {}
        for y in range(h):
            for x in range(w):
                square = zero
                for v, u in _neighbors(y, x, h, w):
                    if valid[y, x] and valid[v, u]:
                        square = square + (s[y, x] - s[v, u]) ** 2
                        if classes[y, x] == 2 and classes[v, u] == 2:
                            rough, pairs = rough + (s[y, x] - s[v, u]) ** 2, pairs + 1
                sizes[y, x] = (square + 1e-8) ** 0.5 - 1e-4
        for y in range(h):
            for x in range(w):
                if valid[y, x] and classes[y, x] in (0, 1):
                    places = [
                        (v, u)
                        for v in range(y - window // 2, y - window // 2 + window)
                        for u in range(x - window // 2, x - window // 2 + window)
                    ]
                    largest = torch.stack([sizes[place] for place in places if place in sizes]).max()
                    missing, edges = missing + torch.relu(edge - largest) ** 2, edges + 1
    return rough / max(pairs, 1) + missing / max(edges, 1)


def _valid(truth: Tensor, mask: Tensor) -> Tensor:
    """Where a frame's truth is known and not masked, (m, h, w)."""
    return torch.stack([mask[i, 0] & (truth[i].amax(0) > 0) for i in range(len(truth))])


def truth(log_estimate: Tensor, truth: Tensor, mask: Tensor, invariance: float = 1.0) -> Tensor:
    """Σ over frames of Σ d² − λ (Σ d)² / n, over the number of all values."""
    total, count = log_estimate.new_zeros(()), 0
    for i, valid in enumerate(_valid(truth, mask)):
        d = torch.stack([log_estimate[i, c][valid] - truth[i, c][valid].clamp_min(1e-4).log() for c in range(3)])
        if d.numel():
            total = total + (d**2).sum() - invariance * d.sum() ** 2 / d.numel()
            count += d.numel()
    return total / max(count, 1)


def truth_gradient(log_estimate: Tensor, truth: Tensor, mask: Tensor, scales: int = 4, squared: bool = False) -> Tensor:
    total = log_estimate.new_zeros(())
    known = _valid(truth, mask)
    for level in range(scales):
        sampled = [t[..., :: 2**level, :: 2**level] for t in (log_estimate, truth, known)]
        total = total + _gradient_at_one_scale(*sampled, squared=squared)
    return total


def _gradient_at_one_scale(log_estimate: Tensor, truth: Tensor, valid: Tensor, *, squared: bool) -> Tensor:
    m, channels, h, w = log_estimate.shape
    d, total = log_estimate - truth.clamp_min(1e-4).log(), log_estimate.new_zeros(())
    for i in range(m):
        for y in range(h):
            for x in range(w):
                for v, u in _neighbors(y, x, h, w):
                    if valid[i, y, x] and valid[i, v, u]:
                        step = d[i, :, y, x] - d[i, :, v, u]
                        total = total + ((step**2).sum() if squared else step.abs().sum())
    return total / max(int(valid.sum()) * channels, 1)


def linear_truth(log_estimate: Tensor, truth: Tensor, mask: Tensor, window: int) -> Tensor:
    """Half of what is lost of whole frames, half of what is lost in windows; all of the former without windows."""
    known, wholes, windows = _valid(truth, mask), [], []
    h, w = known.shape[1:]
    for estimate, true, valid in zip(log_estimate.exp(), truth, known, strict=True):
        wholes.append(_lost(estimate, true, valid) / (true**2 * valid).sum())
        errors, sizes = [], []
        for y in range(0, h - window + 1, window // 2):
            for x in range(0, w - window + 1, window // 2):
                part = (..., slice(y, y + window), slice(x, x + window))
                errors.append(_lost(estimate[part], true[part], valid[part]))
                sizes.append((true[part] ** 2 * valid[part]).sum())
        if errors:
            windows.append(torch.stack(errors).sum() / torch.stack(sizes).sum())
    whole = torch.stack(wholes).mean()
    return 0.5 * (whole + torch.stack(windows).mean()) if windows else whole


def _lost(estimate: Tensor, true: Tensor, valid: Tensor) -> Tensor:
    """Σ (α e − t)² for the best α."""
    e, t = (torch.cat([channel[valid] for channel in pictures]) for pictures in (estimate, true))
    if not e.numel():
        return estimate.new_zeros(())
    alpha = (e * t).sum() / (e * e).sum()
    return ((alpha * e - t) ** 2).sum()
