"""The reflectance of a sequence by photometric stereo, without knowing where the lights stood.

Shapes: m lights, h x w pixels, n of them valid. A matte surface of reflectance ρ and normal ν shows I = ρ ν · l = b · l
under the light l: m pictures of n pixels are a matrix of rank 3, except where shadows and highlights are. A robust
factorisation finds b up to a 3 x 3 matrix; then

    ρ² = bᵀ Q b,

and the six numbers of the symmetric Q are those that give ρ the fewest steps,

    mean over neighbors d² / (d² + STEP²),   d = Δ log ρ,

with a weak pull to a first guess, and another that keeps Q's scale.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlit.quadratic.pairs import Floats, Mask

ROUNDS = 30
"""Of the factorisation, each solving for b, then for the lights."""
BRIGHT = 0.8
"""Each pixel is compared with this quantile of its lights."""
SHADOW, LITTLE = 0.15, 0.02
"""A light that shows less than this share of it is a shadow there, and counts this little."""
OUTLIER, FAINT = 0.05, 0.05
"""Errors of this share of the brightness halve a weight; added to the brightness, so that the dark is no outlier."""
TRUSTED = 0.3
"""Lights of at least this weight agree at a pixel."""
STEP, PULL, PULL_CAP, SCALE = 0.05, 0.05, 0.25, 1e-3
"""Steps far above this count alike; weight of the first guess; squared distances from it far above this count alike;
weight of Q's scale."""
EXTREMES = (0.001, 0.999)
"""Quantiles to which log ρ is clipped: single pixels are not to be believed."""


def stereo_log_reflectance(lights: Floats, seen: Mask, valid: Mask, guess: Floats) -> Floats:
    """Return log ρ (h, w), zero outside the valid pixels, of gray frames (m, h, w) of mean 1 each.

    `seen` (m, h, w) says where a frame counts. `guess` (h, w) is a first one; it also stands where too few lights
    agree, and everywhere where the lights are too much alike to tell shapes.
    """
    try:
        b, weight = _factored(lights[:, valid], seen[:, valid])
    except np.linalg.LinAlgError:
        return guess
    good = (weight > TRUSTED).sum(0) >= max(4, len(lights) // 2)
    pairs = _pairs(valid, good)
    if not pairs.size:
        return guess
    first = guess[valid]
    found = _fewest_steps(b, pairs, first, good)
    found = np.where(good, found - found[good].mean(), first - first[good].mean())
    result = np.zeros(valid.shape)
    result[valid] = np.clip(found, *np.quantile(found, EXTREMES))
    return result


def _factored(lights: Floats, seen: Mask) -> tuple[Floats, Floats]:
    """Return b (n, 3), up to a 3 x 3 matrix, of lights (m, n), and each light's weight at each pixel (m, n)."""
    bright = np.quantile(lights, BRIGHT, axis=0)
    lit = np.where(lights > SHADOW * bright, 1.0, LITTLE) * np.where(seen, 1.0, 1e-6)
    u, s, _ = np.linalg.svd(lights, full_matrices=False)
    directions, weight = u[:, :3] * s[:3] / np.sqrt(lights.shape[1]), lit
    for _ in range(ROUNDS):
        square = np.einsum("mn,mi,mj->nij", weight, directions, directions) + 1e-4 * np.eye(3)
        b = np.linalg.solve(square, np.einsum("mn,mn,mi->ni", weight, lights, directions)[..., None])[..., 0]
        square = np.einsum("mn,ni,nj->mij", weight, b, b)
        directions = np.linalg.solve(square, np.einsum("mn,mn,ni->mi", weight, lights, b)[..., None])[..., 0]
        fit = directions @ b.T
        error = (lights - fit) / (bright + FAINT)
        weight = lit / (1 + (error / OUTLIER) ** 2) * np.where(fit < 0, LITTLE, 1.0)
        # Whitened, so that nothing runs away.
        root = np.linalg.cholesky(b.T @ b / len(b))
        b, directions = b @ np.linalg.inv(root).T, directions @ root
    return b, weight


def _fewest_steps(b: Floats, pairs: NDArray[np.intp], guess: Floats, good: Mask) -> Floats:
    """Return log ρ (n,) with the fewest steps over `pairs` (2, e); Q = L Lᵀ, L lower triangular."""
    vectors, trusted = torch.from_numpy(b), torch.from_numpy(good)
    near, (one, two) = torch.from_numpy(guess), torch.from_numpy(pairs)
    rows, columns = torch.tril_indices(3, 3)
    entries = torch.tensor([1.0, 0, 1, 0, 0, 1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([entries], max_iter=100, line_search_fn="strong_wolfe")

    def log_rho() -> Tensor:
        root = torch.zeros(3, 3, dtype=torch.float64).index_put((rows, columns), entries)
        return 0.5 * torch.log((vectors @ root).square().sum(1) + 1e-6)

    def loss() -> Tensor:
        optimizer.zero_grad()
        r = log_rho()
        steps, away = (r[one] - r[two]).square(), (r - near)[trusted]
        away = (away - away.mean()).square()
        total = (steps / (steps + STEP**2)).mean() + PULL * (away / (1 + away / PULL_CAP)).mean()
        total = total + SCALE * (entries.square().sum() - 3) ** 2
        total.backward()
        return total

    for _ in range(2):  # begun again, it often finds a little more
        optimizer.step(loss)
    return log_rho().detach().numpy()


def _pairs(valid: Mask, good: Mask) -> NDArray[np.intp]:
    """Return (2, e) which valid pixels are neighbors, both good."""
    index = np.full(valid.shape, -1, np.intp)
    index[valid] = np.where(good, np.arange(len(good)), -1)
    neighbors = ((index[1:], index[:-1]), (index[:, 1:], index[:, :-1]))
    return np.concatenate([np.stack([p, q])[:, (p >= 0) & (q >= 0)] for p, q in neighbors], 1)
