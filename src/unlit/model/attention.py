"""Places of a map that look at all others: one surface, lit here and shaded there, is known by its likeness.

Shapes: m images, c channels, h x w places, n = h w. Convolutions see what lies around; two parts of a wall on either
side of a picture they compare only through the smallest maps. Here every place asks (q) all places (k) how alike they
are, and gets the mean of what they say (v), by softmax of the products:

    x + W softmax(q kᵀ / √d) v,  for each head of d numbers.

Nothing is said of where places are, so that any size will do.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

HEADS = 2
"""Ways to be alike."""

PER_HEAD = 32
"""Numbers of a question, an answer and what is said, in each."""


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
        # (m, 3 heads d, h, w) to three of (m, heads, n, d); a CPU takes four times as long if they do not lie so.
        asked = self.asked(self.normalised(x)).reshape(m, 3, HEADS, PER_HEAD, h * w)
        q, k, v = asked.transpose(3, 4).contiguous().unbind(1)
        found = scaled_dot_product_attention(q, k, v)
        out: Tensor = x + self.said(found.transpose(2, 3).reshape(m, HEADS * PER_HEAD, h, w))
        return out
