"""The terms of the energy as double sums and plain loops."""

from __future__ import annotations

import math
import statistics

import torch
from torch import Tensor


def all_pairs_sq_distance(x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """The definition: a sum over i and j."""
    total = x.new_zeros(())
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            total = total + (p[i] * q[j] * (x[i] - y[j])).square().sum()
    return total


def reconstruction(frames: Tensor, mask: Tensor, log_reflectance: Tensor, log_light: Tensor) -> Tensor:
    total, pairs = frames.new_zeros(()), 0.0
    for i in range(frames.shape[0]):
        for j in range(frames.shape[0]):
            both = (mask[i] & mask[j]).to(frames.dtype)
            weight = frames[i].mean(0, keepdim=True) ** (1 / 8)
            difference = frames[i].clamp_min(1e-4).log() - log_light[i] - log_reflectance[j]
            total = total + (both * (weight * difference).square()).sum()
            pairs += float(both.sum()) * 3
    return total / max(pairs, 1)


def consistency(mask: Tensor, log_reflectance: Tensor) -> Tensor:
    total, pairs = log_reflectance.new_zeros(()), 0.0
    for i in range(mask.shape[0]):
        for j in range(mask.shape[0]):
            if i != j:
                both = (mask[i] & mask[j]).to(log_reflectance.dtype)
                total = total + (both * (log_reflectance[i] - log_reflectance[j]).square()).sum()
                pairs += float(both.sum()) * 3
    return 0.5 * total / max(pairs, 1)


def gaussian(features: Tensor) -> Tensor:
    """exp(-½‖f_p − f_q‖²) for all pairs of rows."""
    return torch.exp(-0.5 * torch.cdist(features, features).square())


def bistochastic(affinity: Tensor, rounds: int = 200) -> Tensor:
    """N ← sqrt(N / (W N)), until nothing changes any more."""
    scale = torch.ones_like(affinity[0])
    for _ in range(rounds):
        scale = torch.sqrt(scale / (affinity @ scale))
    return scale[:, None] * affinity * scale[None, :]


def dense_reflectance(affinity: Tensor, values: Tensor) -> Tensor:
    """½ Σ_pq Ŵ_pq ‖r_p − r_q‖² over the number of values."""
    distance = torch.cdist(values, values).square()
    return 0.5 * (affinity * distance).sum() / values.numel()


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def shading_weights(
    frames: Tensor,
    mask: Tensor,
    offset: tuple[int, int],
    *,
    normalized: bool = True,
    release: bool = True,
    pixel: float = 0.0,
) -> list[list[list[float | None]]]:
    """v of every pair of one offset, by loops: [frame][y][x], None where the pair leaves the image or is masked."""
    m, _, h, w = frames.shape
    down, right = offset
    result: list[list[list[float | None]]] = [[[None] * w for _ in range(h)] for _ in range(m)]
    for y in range(h):
        for x in range(w):
            y2, x2 = y + down, x + right
            if not (0 <= y2 < h and 0 <= x2 < w):
                continue
            frames_here = [i for i in range(m) if mask[i, 0, y, x] and mask[i, 0, y2, x2]]
            jumps: dict[int, float] = {}
            alike: dict[int, float] = {}
            for i in frames_here:
                a, b = frames[i, :, y, x].tolist(), frames[i, :, y2, x2].tolist()
                jumps[i] = math.log(max(sum(a) / 3, 1e-4)) - math.log(max(sum(b) / 3, 1e-4))
                chroma = sum((a[k] / sum(a) - b[k] / sum(b)) ** 2 for k in range(2)) / 0.025**2
                bright = ((sum(a) - sum(b)) / 3) ** 2 / 0.12**2
                near = (pixel * math.hypot(down, right) / 0.1) ** 2
                alike[i] = math.exp(-(chroma + bright)) if release else math.exp(-0.5 * (chroma + bright + near))
            usual, likeness = _median(list(jumps.values())), _median(list(alike.values()))
            for i in frames_here:
                weight = math.exp(-20 * (jumps[i] - usual) ** 2)
                if normalized:
                    weight = max(weight, math.exp(-4 * ((jumps[i] - usual) / (abs(usual) + 1e-6)) ** 2))
                result[i][y][x] = weight * (1 + 12 * (1 - likeness) if release else 1 - likeness)
    return result


def shading(frames: Tensor, mask: Tensor, log_shading: Tensor, *, scales: int = 4, release: bool = True) -> float:
    """L_ss by loops over scales, all eight neighbors, frames and pixels."""
    total = 0.0
    diagonal = math.hypot(*frames.shape[-2:])
    for level in range(scales):
        step = 2**level
        f, k, s = (t[..., ::step, ::step] for t in (frames, mask, log_shading))
        for offset in [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]:
            weights = shading_weights(f, k, offset, release=release, pixel=step / diagonal)
            terms = [
                v * float(s[i, 0, y, x] - s[i, 0, y + offset[0], x + offset[1]]) ** 2
                for i, plane in enumerate(weights)
                for y, row in enumerate(plane)
                for x, v in enumerate(row)
                if v is not None
            ]
            total += sum(terms) / max(len(terms), 1) / 8 / (level + 1)
    return total
