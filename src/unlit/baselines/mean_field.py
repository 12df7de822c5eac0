"""A label for every pixel, where alike pixels should have alike labels: mean field in a dense random field.

Krähenbühl & Koltun 2011. Shapes: n pixels, k labels, d features. The energy of labels x is

    Σ_i unary[i, x_i] + Σ_i Σ_j≠i ½ Ŵ_ij cost[x_i, x_j],

where Ŵ is a Gaussian in the pixels' features, scaled to have rows and columns that sum to one, so that what one pixel
hears from all others together is as loud in a flat wall as in a tree. Mean field approximates the probability
exp(−energy) by one of pixels each for itself, `probability` (n, k). One round costs one filtering of k channels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from unlit.pairwise.lattice import PermutohedralLattice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


class DenseField:
    """The pixels and how alike they are; what they should be labelled comes later."""

    def __init__(self, features: Array) -> None:
        self._lattice = PermutohedralLattice(torch.from_numpy(np.ascontiguousarray(features, np.float32)))
        self._scale = self._lattice.bistochastic_scale()[:, None]

    def heard(self, values: Array) -> Array:
        """Return Ŵ values, for values (n, k).

        A pixel's own part is left in: among the thousands that are alike in a picture it is nothing.
        """
        filtered = self._lattice.filter(torch.from_numpy(values) * self._scale) * self._scale
        result: Array = filtered.numpy()
        return result

    def mean_field(self, unary: Array, cost: Array, probability: Array, rounds: int) -> Array:
        """Return the probability (n, k) after some rounds of updating all pixels at once.

        `unary` is (n, k), `cost` (k, k) symmetric with zeros on the diagonal; both in nats.
        """
        for _ in range(rounds):
            probability = softmax(-unary - self.heard(probability) @ cost)
        return probability


def softmax(logits: Array) -> Array:
    """Return probabilities (n, k) in proportion to the exponentials."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: Array = powers / powers.sum(axis=-1, keepdims=True)
    return result
