"""Places of a map that look at all others: one surface, lit here and shaded there, is known by its likeness.

Shapes: m images, c channels, h x w places, n = h w. Convolutions see what lies around; two parts of a wall on either
side of a picture they compare only through the smallest maps. Here every place asks (q) all places (k) how alike they
are, and gets the mean of what they say (v), by softmax of the products:

    x + W softmax(q kᵀ / √d) v,  for each head of d numbers.

Nothing is said of where places are, so that any size will do. Time grows with n²: of large maps squares of places
answer together.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, scaled_dot_product_attention

HEADS = 2
"""Ways to be alike."""

PER_HEAD = 32
"""Numbers of a question, an answer and what is said, in each."""

MANY = 4096
"""Places; a picture of 1024 x 1024 has as many at a sixteenth of its size."""


class Attention(nn.Module):
    """x (m, c, h, w) plus what all places say; nothing at first, so that a trained network may be given one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inside = HEADS * PER_HEAD
        self.normalised = nn.BatchNorm2d(channels)
        self.asked = nn.Conv2d(channels, 3 * inside, 1)
        self.said = nn.Conv2d(inside, channels, 1, bias=False)
        nn.init.zeros_(self.said.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return a map of the same shape."""
        m, _, h, w = x.shape
        q, k, v = self.asked(self.normalised(x)).chunk(3, 1)
        # An exported network is for any size, and what it asks here it would ask of one.
        while not torch.compiler.is_exporting() and k.shape[2] * k.shape[3] > MANY:
            k, v = (avg_pool2d(values, 2, ceil_mode=True) for values in (k, v))
        found = scaled_dot_product_attention(_by_head(q), _by_head(k), _by_head(v))
        out: Tensor = x + self.said(found.transpose(1, 2).reshape(m, h, w, -1).permute(0, 3, 1, 2))
        return out


def _by_head(values: Tensor) -> Tensor:
    """Return (m, heads d, h, w) as (m, heads, n, d)."""
    # Numbers of a place side by side: a CPU takes four times as long if they are not.
    return values.permute(0, 2, 3, 1).reshape(values.shape[0], -1, HEADS, PER_HEAD).transpose(1, 2)
