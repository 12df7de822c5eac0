"""Black pixels in the dark: what a camera could not tell from nothing is its noise, and not the surface's color.

Notation: I_k a channel of a pixel, S_k its shading; A_k the same channel of the small picture that the network saw, the
mean of what is around the pixel; all with white at 1. R · S = I leaves no choice but R = 0 or S = 0 where I = 0. In the
dark, channels of single pixels are 0 by chance, and R = 0 would be a speck in a surface of any color. So there the
picture counts as no darker than its surroundings,

    J_k = max(I_k, w(A_k) min(A_k, β, ρ S_k)),    R_k = J_k / S_k,    and the shading becomes S_k I_k / J_k.

w is 1 where the surroundings are dark and yet seen, and 0 elsewhere: what is black all around is black paint, or a
strong color without this channel; and a black letter on white paper is paint, too. Photographs no larger than the small
picture are their own surroundings, and stay as they are. Noise that is raised and never lowered makes R a little
lighter in the mean, by up to a third where A is about β; and A is that of the nearest small pixel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLACK = 0.001
"""β: three steps of 8 bits."""
SEEN = (4e-4, 8e-4)
"""Over which w rises: one and a half to two and a half of these steps. Days would have it lower; it is meant to
leave petals without any blue as they are."""
DIM = (0.008, 0.016)
"""Over which w falls. All chosen on rendered days for validation, and by eye (docs/trials-predict.md)."""
BRIGHTEST = 0.3
"""ρ: of what cannot be seen."""
LEAST = np.finfo(np.float32).smallest_subnormal
"""Of shadings, which have logs: times ρ or less it is 0, as the picture."""

Floats = NDArray[np.float32]


def noise_of(
    image: Floats, shading: Floats, around: Floats, white: float, rows: NDArray[np.intp], height: int
) -> tuple[NDArray[np.intp], Floats]:
    """Return where (n,), in a flattened strip, J is above I, and J there (n,).

    `image` and `shading` (r, w, 3), with `white` as white, are a strip of a photograph of `height` rows, of which it
    holds `rows` (r,); `around` (h', w', 3) is the small picture, with 1 as white. Channels below zero, as some cameras'
    files have them, stay what they are.
    """
    flat, width = image.reshape(-1), image.shape[1]
    where = np.flatnonzero(flat < np.float32(BLACK * white))
    row, rest = np.divmod(where, 3 * width)
    column, channel = np.divmod(rest, 3)
    near = around[rows[row] * around.shape[0] // height, column * around.shape[1] // width, channel]
    (low, high), (dim, bright) = SEEN, DIM
    weight = np.clip((near - low) / (high - low), 0, 1) * np.clip((bright - near) / (bright - dim), 0, 1)
    raised = weight * np.minimum(white * np.minimum(near, BLACK), BRIGHTEST * shading.reshape(-1)[where])
    lower = (flat[where] >= 0) & (raised > flat[where])
    return where[lower], raised[lower].astype(np.float32)
