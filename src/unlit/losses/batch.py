"""The energy of several sequences at once: the same terms, in as few operations as one sequence takes.

Shapes: b sequences of m frames each, h x w pixels. The terms compare pixels of one place over the frames, or neighbors
in a frame, so sequences laid under one another form one tall sequence (m, c, b (h + gap), w); masked rows between them
keep neighbors apart at every scale. Only the dense term looks further: its lattice knows which sequence a pixel is of.

A term is one mean over what it compares (valid pixels, or pairs of them) in all sequences together: of one sequence it
is `energy`'s.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from unlit.losses.energy import LossTerms, energy, weighted_terms
from unlit.losses.reflectance import dense_reflectance_term
from unlit.losses.settings import EnergySettings
from unlit.model.decomposition import Decomposition
from unlit.pairwise.bistochastic import TOLERANCE
from unlit.pairwise.pairwise import DensePairs, Pairwise, build_pairwise, dense_pairs, neighbors_alone


def batch_pairwise(
    frames: Tensor, mask: Tensor, settings: EnergySettings | None = None, *, tolerance: float = TOLERANCE
) -> Pairwise:
    """Return the pairs of b sequences: `frames` (b, m, 3, h, w) linear and `mask` (b, m, 1, h, w).

    Of several sequences, neighbors are those of the tall one and dense pairs those of all frames in their order. There
    are none where neither smoothness has a weight: they would be most of the work. Both terms are then 0. The row sums
    of dense pairs are 1 up to twice the `tolerance`.
    """
    settings = settings or EnergySettings()
    b, m = frames.shape[:2]
    if settings.reflectance == settings.shading == 0:
        return Pairwise(None, None, [])
    if b == 1:
        return build_pairwise(frames[0], mask[0], settings.pairwise, tolerance=tolerance)
    frames = torch.where(mask, frames.detach(), 0)  # what is masked may hold anything, NaN too
    gap = 2 ** (settings.pairwise.shading_scales - 1)
    diagonal = math.hypot(*frames.shape[-2:])
    near = neighbors_alone(tall(frames, gap), tall(mask, gap), settings.pairwise, diagonal)
    if settings.pairwise.reflectance == "local":
        return near
    sequence = torch.arange(b, device=frames.device).repeat_interleave(m)
    frames, mask = frames.flatten(0, 1), mask.flatten(0, 1)
    dense = dense_pairs(frames, mask, settings.pairwise.scales, sequence, tolerance=tolerance)
    return Pairwise(dense, None, near.shading)


def batch_energy(
    frames: Tensor,
    mask: Tensor,
    decomposition: Decomposition,
    pairwise: Pairwise | None = None,
    settings: EnergySettings | None = None,
    *,
    idle: bool = True,
) -> LossTerms:
    """Return the terms for b sequences: `frames` (b, m, 3, h, w), `mask` (b, m, 1, h, w).

    The decomposition is of all frames in their order, (b m, ...); `pairwise` is `batch_pairwise`'s. Without `idle`
    terms that have no weight are 0, which takes no time.
    """
    settings = settings or EnergySettings()
    pairwise = pairwise or batch_pairwise(frames, mask, settings)
    b, m = frames.shape[:2]
    if b == 1:
        return energy(frames[0], mask[0], decomposition, pairwise, settings, idle=idle)
    gap = 2 ** (settings.pairwise.shading_scales - 1)
    decomposition = decomposition.at_least_float32()
    parts = (decomposition.log_reflectance, decomposition.log_light, decomposition.log_shading)
    log_reflectance, log_light, log_shading = (tall(part.unflatten(0, (b, m)), gap) for part in parts)
    return weighted_terms(
        tall(torch.where(mask, frames, 0), gap),
        tall(mask, gap),
        log_reflectance,
        log_light if settings.colored_light else log_shading,
        log_shading,
        Pairwise(None, pairwise.local, pairwise.shading),
        settings,
        reflectance=_dense(pairwise.dense, decomposition.log_reflectance),
        idle=idle,
    )


def _dense(pairs: DensePairs | None, log_reflectance: Tensor) -> Tensor | None:
    return None if pairs is None else dense_reflectance_term(pairs, log_reflectance)


def tall(values: Tensor, gap: int) -> Tensor:
    """Return values (b, m, c, h, w) as (m, c, b (h + gap), w): one under another, with zero rows below each.

    The height of each is brought to a multiple of `gap`, so that every scale's pixels are those of each sequence alone.
    """
    b, m, c, h, w = values.shape
    rows = gap + -h % gap
    return pad(values, (0, 0, 0, rows)).permute(1, 2, 0, 3, 4).reshape(m, c, b * (h + rows), w)
