"""Two looks at one photograph: what is broad from the small one, what is fine from the larger one.

Shapes: h x w pixels of the larger look, h' x w' of the smaller. A network judges broad light best at the size it was
trained at, where it sees the whole scene; at a larger size it sees more of small things, and less around them.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import interpolate

from unlit.model.decomposition import Decomposition


def merged(broad: Decomposition, fine: Decomposition) -> Decomposition:
    """Return an answer of the larger size: `broad`, enlarged, plus what `fine` has beyond its own small copy.

    Scale and light color are those of `broad`.
    """
    return Decomposition(
        _merged(broad.log_reflectance, fine.log_reflectance),
        _merged(broad.log_shading, fine.log_shading),
        broad.light_color,
    )


def _merged(broad: Tensor, fine: Tensor) -> Tensor:
    small, large = broad.shape[-2:], fine.shape[-2:]
    difference = broad - interpolate(fine, small, mode="bilinear", antialias=True)
    return fine + interpolate(difference, large, mode="bilinear", align_corners=False)
