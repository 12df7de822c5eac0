"""Two rows that every table should have: all that is seen is reflectance, or all is shading.

Shapes: h x w pixels; `image` (h, w, 3) is linear light, `mask` (h, w) has True = valid. A method that scores no better
than these has found nothing; and a score by which one of these looks good measures little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unlit.baselines.splitting import box_of, check, scaled, split

if TYPE_CHECKING:
    from unlit.baselines.splitting import Mask, Split, Values


def constant_shading(image: Values, mask: Mask) -> Split:
    """Return the image itself as reflectance (h, w, 3), its largest value 1, and a shading (h, w) that is constant."""
    return split(image, mask, lambda view: np.zeros(view.valid.shape))


def constant_reflectance(image: Values, mask: Mask) -> Split:
    """Return a reflectance (h, w, 3) that is 1 and the image itself as shading (h, w, 3). Zero outside the mask."""
    check(image, mask)
    box = box_of(mask)
    valid = mask[box][..., None]
    one = np.broadcast_to(np.where(valid, 1.0, 0.0), (*valid.shape[:2], 3))
    return scaled(image.shape, box, one, np.where(valid, image[box], 0.0))
