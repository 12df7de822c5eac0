"""Supervised terms, for sequences of which something is known: judgements, classes of shading, the truth.

Shapes: m frames, c channels, h x w pixels, n points, j pairs of points. Logs are natural, of linear light.

Judgements (Bell et al. 2014; the loss is that of Li & Snavely, CGIntrinsics, 2018), with `g = l_2 − l_1` for the logs l
of the two points' mean of R, G and B, a score w for each pair, and a margin τ:

    L_judgements = Σ w e / Σ w,   e = g² if equal, max(0, τ − g)² if the first is darker, max(0, τ + g)² if the second

Classes of shading (SAW, Kovacs et al. 2017), with G the size of the step of log S from a pixel to the right and down:

    L_classes = mean over smooth neighbors (log S_p − log S_q)² + mean over edges max(0, τ − max over 10 x 10 of G)²

Truth, with d = log estimate − log truth over the n_i valid values (pixels times channels) of frame i:

    L_truth = Σ_i (Σ d² − λ (Σ d)² / n_i) / Σ_i n_i
    L_gradient = Σ_scales Σ |d_p − d_q|^k / Σ_i n_i,   q the pixel to the right of p and the one below

λ = 1 does not see a frame's scale (Eigen et al. 2014; CGIntrinsics, with k = 1 and four scales). Direct Intrinsics
(Narihira et al. 2015) has λ = ½, k = 2 and one scale. The difference in linear light is in `losses/linear_truth.py`.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from unlit.color import floored_log
from unlit.losses.linear_truth import linear_truth_term
from unlit.losses.supervised_settings import EDGE, MARGIN, TRUTH_SCALES, SupervisedSettings
from unlit.model.decomposition import Decomposition
from unlit.pairwise.neighbors import at_scale, paired

EQUAL, FIRST_DARKER = 0, 1
"""What was said of a pair of points; 2 where the second is darker."""

NORMAL_EDGE, SHADOW_EDGE, SMOOTH = 0, 1, 2
"""SAW's labels: a jump of normal or depth, a shadow's boundary, smooth shading; any other says nothing."""

WINDOW = 10
"""Edges are labelled about this many pixels wide; SAW's score looks for the largest step among as many."""

DIRECT_INVARIANCE = 0.5
"""λ of Direct Intrinsics."""

_STEP_FLOOR = 1e-4
_NEXT = ((0, 1), (1, 0))


class PointPairs(Protocol):
    """Pairs of points, and what was said of each: see `judgement_term`."""

    @property
    def points(self) -> Tensor:
        """(n, 2)."""

    @property
    def pairs(self) -> Tensor:
        """(j, 2)."""

    @property
    def darker(self) -> Tensor:
        """(j,)."""

    @property
    def weight(self) -> Tensor:
        """(j,)."""


class Targets(Protocol):
    """What is known of m frames, each part of it or None."""

    @property
    def reflectance(self) -> Tensor | None:
        """(3, h, w) linear, one for all frames, or (m, 3, h, w); a pixel that is black in all channels is unknown."""

    @property
    def shading(self) -> Tensor | None:
        """(m, 3, h, w) linear; a pixel that is black in all channels is unknown."""

    @property
    def shading_valid(self) -> Tensor | None:
        """(m,) bool: which frames have a shading; None for all."""

    @property
    def judgements(self) -> PointPairs | None:
        """Of the surface, so of every frame."""

    @property
    def shading_classes(self) -> Tensor | None:
        """(h, w), SAW's labels."""


def supervised_terms(
    decomposition: Decomposition,
    mask: Tensor,
    targets: Targets,
    settings: SupervisedSettings,
    *,
    colored_light: bool = True,
) -> dict[str, Tensor]:
    """Return the terms by the names of their weights, each a scalar without its weight, and "total", their sum with it.

    `mask` (m, 1, h, w), True = valid. A term is there if its weight is not zero and its target is known, so that a
    mean over sequences is one over those that have it. Without `colored_light` the light's color is left out.
    Losses are float32 at least, whatever the network computes in.
    """
    _check_shapes(tuple(decomposition.log_reflectance.shape), mask, targets)
    mask = mask.bool()
    with torch.autocast(mask.device.type, enabled=False):
        d = decomposition.at_least_float32()
        terms: dict[str, Tensor] = {}
        if settings.judgements > 0 and (said := targets.judgements) is not None:
            terms["judgements"] = judgement_term(
                d.log_reflectance, said.points, said.pairs, said.darker, said.weight, settings.margin, mask=mask
            )
        if settings.shading_classes > 0 and targets.shading_classes is not None:
            classes = targets.shading_classes
            terms["shading_classes"] = shading_class_term(d.log_shading, classes, mask=mask, edge=settings.edge)
        known = _known_parts(d, mask, targets, colored_light)
        if settings.truth > 0 and known:
            invariance = DIRECT_INVARIANCE if settings.direct else 1.0
            terms["truth"] = torch.stack([truth_term(*part, invariance=invariance) for part in known]).sum()
        if settings.truth_gradient > 0 and known:
            scales = 1 if settings.direct else settings.truth_scales
            gradients = [truth_gradient_term(*part, scales=scales, squared=settings.direct) for part in known]
            terms["truth_gradient"] = torch.stack(gradients).sum()
        if settings.truth_linear > 0 and known:
            terms["truth_linear"] = torch.stack([linear_truth_term(*part) for part in known]).sum()
        total = sum((getattr(settings, name) * term for name, term in terms.items()), d.log_shading.new_zeros(()))
    return {**terms, "total": total}


def _check_shapes(shape: tuple[int, ...], mask: Tensor, targets: Targets) -> None:
    """Refuse what is known of other frames, which might fit by broadcasting."""
    m, c, h, w = shape
    given = {"mask": mask, "reflectance": targets.reflectance, "shading": targets.shading}
    given |= {"shading_valid": targets.shading_valid, "shading_classes": targets.shading_classes}
    reflectance = targets.reflectance
    of_surface = (c, h, w) if reflectance is None or reflectance.ndim == 3 else shape
    for (name, values), wanted in zip(given.items(), ((m, 1, h, w), of_surface, shape, (m,), (h, w)), strict=True):
        if values is not None and tuple(values.shape) != wanted:
            raise ValueError(f"{name} must be {wanted} for a decomposition of {shape}, not {tuple(values.shape)}")


def _known_parts(
    d: Decomposition, mask: Tensor, targets: Targets, colored_light: bool
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return log estimate, truth and mask of reflectance and of shading, as far as they are known."""
    parts = []
    if targets.reflectance is not None:
        parts.append((d.log_reflectance, targets.reflectance, mask))
    if targets.shading is not None:
        log_light = d.log_light if colored_light else d.log_shading
        chosen = mask if targets.shading_valid is None else mask & targets.shading_valid[:, None, None, None]
        parts.append((log_light, targets.shading, chosen))
    return parts


def judgement_term(
    log_reflectance: Tensor,
    points: Tensor,
    pairs: Tensor,
    darker: Tensor,
    weight: Tensor,
    margin: float = MARGIN,
    *,
    mask: Tensor | None = None,
) -> Tensor:
    """Return L_judgements for log_reflectance (m, 3, h, w) or (3, h, w).

    `points` (n, 2) are x and y in [0, 1] from the top left corner, taken at pixel int(y h), int(x w); `pairs` (j, 2)
    number them, `darker` (j,) is 0 for equal, 1 where the first is darker and 2 where the second is, `weight` (j,) the
    score. Pairs with a point that `mask` (m, 1, h, w) hides in a frame do not count there; none at all gives zero.
    """
    frames = log_reflectance if log_reflectance.ndim == 4 else log_reflectance[None]
    h, w = frames.shape[2:]
    # Points on the right and lower edge belong to the last pixel.
    row, column = ((points[:, k] * size).long().clamp(0, size - 1) for k, size in ((1, h), (0, w)))
    seen = torch.ones_like(frames[:, 0], dtype=torch.bool) if mask is None else mask.bool()[:, 0]
    seen = seen[:, row, column]
    # First of all, since what is masked may hold anything, and infinity times no weight is NaN.
    logs = torch.where(seen[:, None], frames[:, :, row, column], 0)
    lightness = logs.logsumexp(1)  # of the sum of R, G and B: as good as their mean, when points are compared
    gap = lightness[:, pairs[:, 1]] - lightness[:, pairs[:, 0]]
    first, second = ((margin - sign * gap).clamp_min(0).square() for sign in (1, -1))
    error = torch.where(darker == EQUAL, gap.square(), torch.where(darker == FIRST_DARKER, first, second))
    counted = weight.to(error.dtype) * (seen[:, pairs[:, 0]] & seen[:, pairs[:, 1]])
    return (counted * error).sum() / counted.sum().clamp_min(torch.finfo(error.dtype).tiny)


def shading_class_term(
    log_shading: Tensor, classes: Tensor, *, mask: Tensor | None = None, edge: float = EDGE, window: int = WINDOW
) -> Tensor:
    """Return L_classes for gray log_shading (m, 1, h, w) and the labels `classes` (h, w) of every frame.

    Smooth shading has no steps between neighbors. At labelled edges the largest step among `window` x `window` pixels
    should be `edge` at least: the label says that there is an edge, but not at which of its pixels. Neighbors of which
    `mask` (m, 1, h, w) hides one count as having no step.
    """
    valid = torch.ones_like(log_shading, dtype=torch.bool) if mask is None else mask.bool()
    steps, smooth = [], []
    for offset in _NEXT:
        both = torch.logical_and(*paired(valid, offset))
        steps.append(_padded(torch.where(both, torch.sub(*paired(log_shading, offset)), 0).square(), offset))
        smooth.append(_padded(both & torch.logical_and(*paired(classes == SMOOTH, offset)), offset))
    squares, flat = torch.stack(steps), torch.stack(smooth)
    rough = (squares * flat).sum() / flat.sum().clamp_min(1)
    # A root has an infinite slope at zero, so it starts a little later. The window lies as that of scipy's filter.
    size = (squares.sum(0) + _STEP_FLOOR**2).sqrt() - _STEP_FLOOR
    before, after = window // 2, (window - 1) // 2
    largest = functional.max_pool2d(functional.pad(size, (before, after, before, after)), window, stride=1)
    edges = ((classes == NORMAL_EDGE) | (classes == SHADOW_EDGE)) & valid
    missing = torch.where(edges, (edge - largest).clamp_min(0), 0).square().sum()
    return rough + missing / edges.sum().clamp_min(1)


def _padded(values: Tensor, offset: tuple[int, int]) -> Tensor:
    """Return values (..., h', w') of the pairs of an offset at their first pixels, (..., h, w), zero beyond."""
    return functional.pad(values, (0, offset[1], 0, offset[0]))


def truth_term(log_estimate: Tensor, truth: Tensor, mask: Tensor, *, invariance: float = 1.0) -> Tensor:
    """Return L_truth for log_estimate (m, c, h, w), linear `truth` that broadcasts to it, and mask (m, 1, h, w).

    `invariance` is λ: with 1 every frame may have a scale of its own, with 0 none.
    """
    difference, valid = _difference(log_estimate, truth, mask)
    count = valid.sum((1, 2, 3), keepdim=True) * difference.shape[1]
    mean = difference.sum((1, 2, 3), keepdim=True) / count.clamp_min(1)
    # The mean goes before squaring, since Σ d² − (Σ d)² / n loses all its digits where the scale is far off.
    spread = torch.where(valid, difference - mean, 0).square().sum()
    return (spread + (1 - invariance) * (count * mean.square()).sum()) / count.sum().clamp_min(1)


def truth_gradient_term(
    log_estimate: Tensor, truth: Tensor, mask: Tensor, *, scales: int = TRUTH_SCALES, squared: bool = False
) -> Tensor:
    """Return L_gradient, k = 2 where `squared` and 1 elsewhere; arguments as in `truth_term`."""
    difference, valid = _difference(log_estimate, truth, mask)
    total = difference.new_zeros(())
    for level in range(scales):
        values, there = at_scale(difference, level), at_scale(valid, level)
        count = (there.sum() * values.shape[1]).clamp_min(1)
        for offset in _NEXT:
            step = torch.sub(*paired(values, offset)) * torch.logical_and(*paired(there, offset))
            total = total + (step.square() if squared else step.abs()).sum() / count
    return total


def direct_intrinsics_term(
    log_estimate: Tensor, truth: Tensor, mask: Tensor, *, invariance: float = DIRECT_INVARIANCE
) -> Tensor:
    """Return the loss of Direct Intrinsics for reflectance or shading: L_truth with λ = ½, and squared gradients."""
    gradient = truth_gradient_term(log_estimate, truth, mask, scales=1, squared=True)
    return truth_term(log_estimate, truth, mask, invariance=invariance) + gradient


def _difference(log_estimate: Tensor, truth: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return log estimate − log truth (m, c, h, w), zero where not valid, and where it is (m, 1, h, w)."""
    valid = mask.bool() & (truth > 0).any(-3, keepdim=True)
    return torch.where(valid, log_estimate - floored_log(truth), 0), valid
