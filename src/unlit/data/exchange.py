"""Surfaces that change places: the reflectance of one sequence under the light of another.

Where the reflectance R of sequences is known, or found by their own energy, their frames are I = R · S with a gray S;
so R_p · S_k is a frame as well, of a surface that nobody has photographed. With n sequences there are n² of them, in as
many placings as windows can be cut: no network can learn by heart which shape has which color.

Shapes: b sequences, m frames each, h x w pixels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from numpy.random import Generator
from torch import Tensor

from unlit.data.truth import Truth

DARKEST = 0.01
"""A share of the brightest reflectance: what is darker tells nothing of the light on it."""


def drawn_partners(draws: list[Generator], share: float) -> list[int]:
    """Return for each of b sequences the one whose surface it gets: itself, or with probability `share` another."""
    b, partners = len(draws), []
    for k, draw in enumerate(draws):
        other = (k + int(draw.integers(1, b))) % b if b > 1 else k
        partners.append(other if draw.random() < share else k)
    return partners


def exchanged(
    frames: Tensor, mask: Tensor, truths: tuple[Truth | None, ...], partners: list[int]
) -> tuple[Tensor, Tensor, tuple[Truth | None, ...]]:
    """Return frames (b, m, 3, h, w), mask (b, m, 1, h, w) and truths with the surfaces of `partners`.

    Sequences without a known reflectance keep their own surface, and lend it to none. What both do not show is masked.
    """
    known = [truth is not None and truth.reflectance is not None for truth in truths]
    moves = [k for k, p in enumerate(partners) if p != k and known[k] and known[p]]
    if not moves:
        return frames, mask, truths
    frames, mask, result = frames.clone(), mask.clone(), list(truths)
    for k in moves:
        own, other = (_reflectance(truths[i]) for i in (k, partners[k]))
        seen = _is_seen(own) & _is_seen(other)
        shading = (frames[k] / torch.where(seen, own, 1)).mean(1, keepdim=True)
        frames[k] = torch.where(seen, other * shading, 0)
        mask[k] &= seen
        # What people said of the surface was said of the old one.
        surface, truth = torch.where(seen, other, 0), cast(Truth, truths[k])
        result[k] = replace(truth, reflectance=surface, shading=None, shading_valid=None, judgements=None)
    return frames, mask, tuple(result)


def _reflectance(truth: Truth | None) -> Tensor:
    assert truth is not None
    assert truth.reflectance is not None
    return truth.reflectance


def _is_seen(reflectance: Tensor) -> Tensor:
    """Return where a surface (3, h, w) is bright enough to tell its light, (1, h, w)."""
    return reflectance.amin(0, keepdim=True) > DARKEST * reflectance.amax()
