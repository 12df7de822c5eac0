"""The energy of a decomposed sequence: the weighted sum of the paper's four terms, and a pin for the scale.

    E = L_rec + w1 L_con + w2 L_rs + w3 L_ss + w4 mean |log S|

Shapes: m frames, h x w pixels. Every term is a mean, so that weights hold for any size and length. The last one is the
authors' release's: nothing else says how bright a surface is, since R · k and S / k give the same image.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unlit.losses.consistency import consistency_term
from unlit.losses.reconstruction import reconstruction_term
from unlit.losses.reflectance import dense_reflectance_term, local_reflectance_term
from unlit.losses.settings import WEIGHTS, EnergySettings
from unlit.losses.shading import shading_term
from unlit.model.decomposition import Decomposition
from unlit.pairwise.filtering import has_kernels
from unlit.pairwise.neighbors import paired
from unlit.pairwise.pairwise import Pairwise, build_pairwise


@dataclass(frozen=True)
class LossTerms:
    """The terms, each a scalar without its weight, and their weighted sum."""

    reconstruction: Tensor
    consistency: Tensor
    reflectance: Tensor
    shading: Tensor
    scale: Tensor
    total: Tensor


def energy(
    frames: Tensor,
    mask: Tensor,
    decomposition: Decomposition,
    pairwise: Pairwise | None = None,
    settings: EnergySettings | None = None,
    *,
    idle: bool = True,
) -> LossTerms:
    """Return the terms for one sequence.

    `frames` (m, 3, h, w) linear and `mask` (m, 1, h, w), True = valid, are what was seen; `pairwise` comes of them, and
    is built here if not given. Losses are float32 at least, whatever the network computes in. Without `idle` terms that
    have no weight are 0, which takes no time, and only the total may have a gradient.
    """
    settings = settings or EnergySettings()
    _check_shapes(frames, mask, decomposition)
    mask = mask.bool()
    if pairwise is not None and not idle and _is_learned_on_gpu(decomposition.log_reflectance):
        from unlit.losses import energy_kernels as kernels

        if kernels.fits(frames, mask, decomposition, pairwise, settings):
            total, terms = kernels.energy(frames, mask, decomposition, pairwise, settings)
            return LossTerms(**dict(zip(WEIGHTS, terms.unbind(), strict=True)), total=total)
    return plain_energy(frames, mask, decomposition, pairwise, settings, idle=idle)


def plain_energy(
    frames: Tensor,
    mask: Tensor,
    decomposition: Decomposition,
    pairwise: Pairwise | None,
    settings: EnergySettings,
    *,
    idle: bool = True,
) -> LossTerms:
    """Return that term by term; the mask is boolean."""
    # What is masked may hold anything, NaN too; and half precision is too short for sums over frames.
    frames = torch.where(mask, frames, 0).to(torch.promote_types(frames.dtype, torch.float32))
    pairwise = pairwise or build_pairwise(frames, mask, settings.pairwise)
    _check_pairs(pairwise, mask)
    # First of all, so that log_light is not a sum of few digits.
    decomposition = decomposition.at_least_float32()
    log_reflectance, log_shading = decomposition.log_reflectance, decomposition.log_shading
    log_light = decomposition.log_light if settings.colored_light else log_shading
    return weighted_terms(frames, mask, log_reflectance, log_light, log_shading, pairwise, settings, idle=idle)


def weighted_terms(
    frames: Tensor,
    mask: Tensor,
    log_reflectance: Tensor,
    log_light: Tensor,
    log_shading: Tensor,
    pairwise: Pairwise,
    settings: EnergySettings,
    *,
    reflectance: Tensor | None = None,
    idle: bool = True,
) -> LossTerms:
    """Return the terms for images of equal shape; the term `reflectance` is taken as it is where given.

    Without `idle` terms that have no weight are not computed: they are 0.
    """
    if not pairwise.shading and (settings.reflectance > 0 or settings.shading > 0):
        raise ValueError("pairwise was built for no smoothness, which has a weight now; build it by these settings")
    with torch.autocast(frames.device.type, enabled=False):
        reconstruction = consistency = scale = log_shading.new_zeros(())
        if idle or settings.reconstruction > 0:
            reconstruction = reconstruction_term(frames, mask, log_reflectance, log_light, all_pairs=settings.all_pairs)
        if idle or settings.consistency > 0:
            consistency = consistency_term(mask, log_reflectance)
        if idle or settings.scale > 0:
            scale = scale_term(mask, log_shading)
        reflectance = _reflectance_term(pairwise, log_reflectance) if reflectance is None else reflectance
        shading = shading_term(pairwise.shading, log_shading)
        total = (
            settings.reconstruction * reconstruction
            + settings.consistency * consistency
            + settings.reflectance * reflectance
            + settings.shading * shading
            + settings.scale * scale
        )
    return LossTerms(reconstruction, consistency, reflectance, shading, scale, total)


def scale_term(mask: Tensor, log_shading: Tensor) -> Tensor:
    """Return the mean |log S| over valid pixels."""
    valid = mask.to(log_shading.dtype)
    return (log_shading.abs() * valid).sum() / valid.sum().clamp_min(1)


def _is_learned_on_gpu(log_reflectance: Tensor) -> bool:
    """Return whether a gradient is wanted where kernels may find it; torch.compile cannot look into these."""
    is_learned = torch.is_grad_enabled() and log_reflectance.requires_grad
    return is_learned and log_reflectance.is_cuda and has_kernels() and not torch.compiler.is_compiling()


def _check_shapes(frames: Tensor, mask: Tensor, decomposition: Decomposition) -> None:
    m, _, h, w = shape = tuple(frames.shape) if frames.ndim == 4 else (0, 0, 0, 0)
    if shape[1] != 3 or 0 in shape:
        raise ValueError(f"frames must be (m, 3, h, w), none of them zero, not {tuple(frames.shape)}")
    if tuple(mask.shape) != (m, 1, h, w):
        raise ValueError(f"mask must be {(m, 1, h, w)} for frames of {shape}, not {tuple(mask.shape)}")
    if tuple(decomposition.log_reflectance.shape) != shape:
        raise ValueError(f"the decomposition is of {tuple(decomposition.log_reflectance.shape)}, the frames {shape}")


def _check_pairs(pairwise: Pairwise, mask: Tensor) -> None:
    """Refuse the pairs of another sequence, which might fit by broadcasting."""
    if not pairwise.shading:
        return  # there are none: neither smoothness has a weight
    first = pairwise.shading[0][0]
    expected = tuple(paired(mask, first.offset)[0].shape)
    if tuple(first.weight.shape) != expected:
        raise ValueError(f"pairwise is of another sequence: its pairs are {tuple(first.weight.shape)}, not {expected}")


def _reflectance_term(pairwise: Pairwise, log_reflectance: Tensor) -> Tensor:
    if pairwise.dense is not None:
        return dense_reflectance_term(pairwise.dense, log_reflectance)
    if pairwise.local is None:
        return log_reflectance.new_zeros(())
    return local_reflectance_term(pairwise.local, log_reflectance)
