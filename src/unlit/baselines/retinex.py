"""Retinex: large changes of brightness or color belong to the reflectance, small ones to the shading.

Grosse et al. 2009, after Horn 1974. Shapes: h x w pixels; `image` (h, w, 3) is linear light, nominally in [0, 1];
`mask` (h, w) has True = valid. A step is the difference of logs from a pixel to the one below it or to its right, both
valid. The steps given to the reflectance do not add up to zero around every loop, so the log-reflectance is that whose
steps come nearest to them by least squares (Poisson's equation on the mask). The rest is shading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.fft import dctn, idctn, next_fast_len

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Values = NDArray[np.floating[Any]]
    Mask = NDArray[np.bool_]
    Split = tuple[NDArray[np.float32], NDArray[np.float32]]

DARK_FLOOR = 3 / 257
"""Logs are taken of values no smaller than this: what is darker is noise (Grosse et al. 2009, 3 of 257)."""

TOLERANCE = 1e-8
"""The solver ends when its measure of the error is this share of what it was: 10 to 25 rounds on real objects."""


class Steps(NamedTuple):
    """What belongs to each pair of neighbors."""

    down: NDArray[Any]
    """(..., h - 1, w)."""
    right: NDArray[Any]
    """(..., h, w - 1)."""


def gray_retinex(image: Values, mask: Mask, threshold: float = 0.37) -> Split:
    """Return reflectance (h, w, 3) and gray shading (h, w), told apart by brightness alone.

    A step in the log of the channels' mean belongs to the reflectance where it is larger than `threshold`. The default
    was chosen as those of `color_retinex` were, over 29 values from 0.001 to 10. All else is as there.
    """
    return _split(image, mask, lambda gray, _: np.abs(gray) > threshold)


def color_retinex(image: Values, mask: Mask, threshold_gray: float = 1.0, threshold_color: float = 0.075) -> Split:
    """Return reflectance (h, w, 3) and gray shading (h, w), told apart by brightness and color.

    With a step in the logs of R, G and B, its mean is the change of brightness and what is left, a 3-vector, that of
    color. A step belongs to the reflectance where the one is larger than `threshold_gray` or the other longer than
    `threshold_color`.

    Both results are linear float32 and zero outside the mask; inside, their product is the image. Between pieces of the
    mask that do not touch, the reflectance is taken to change as little as it can. The scale, which nothing tells, is
    such that the largest reflectance is 1. ValueError where the image or the mask cannot be used.

    The defaults were chosen on the ten training objects of the MIT set by leaving one out: over the 25 pairs of
    Grosse et al. (five values each, from 0.03 to 1), whichever object is left out, they have the least local error
    (mean of reflectance and shading) on the other nine. A grid three times as fine, up to 3 for gray, chose 1.3 for
    gray most often and had a larger local error, though a smaller mean squared one, on the objects left out.
    """

    def is_reflectance(_: NDArray[Any], rgb: NDArray[Any]) -> NDArray[np.bool_]:
        brightness = rgb.mean(axis=0)
        color = np.sqrt(np.sum((rgb - brightness) ** 2, axis=0))
        found: NDArray[np.bool_] = (np.abs(brightness) > threshold_gray) | (color > threshold_color)
        return found

    return _split(image, mask, is_reflectance)


def _split(image: Values, mask: Mask, is_reflectance: Callable[..., NDArray[np.bool_]]) -> Split:
    """Split an image by what `is_reflectance` says of steps in log gray (h, w) and log RGB (3, h, w)."""
    _check(image, mask)
    reflectance, shading = np.zeros(image.shape, np.float32), np.zeros(mask.shape, np.float32)
    rows, columns = (slice(s[0], s[-1] + 1) for s in (np.flatnonzero(mask.any(axis=a)) for a in (1, 0)))
    box, valid = np.where(mask[..., None], image, 0.0)[rows, columns].astype(np.float64), mask[rows, columns]
    # With channels first, NumPy takes their mean several times as fast.
    light = np.maximum(box.transpose(2, 0, 1), DARK_FLOOR).copy(order="C")
    log_gray = np.log(light.mean(axis=0))
    gray_steps, rgb_steps = _steps(log_gray), _steps(np.log(light))
    kept = _each(lambda gray, rgb: np.where(is_reflectance(gray, rgb), gray, 0.0), gray_steps, rgb_steps)
    box_shading = np.exp(log_gray - least_squares_sum(kept, valid))
    box_reflectance = box / box_shading[..., None]
    brightest = float(box_reflectance.max())
    brightest = brightest if brightest > 0 else 1.0  # black has no scale
    reflectance[rows, columns] = box_reflectance / brightest
    shading[rows, columns] = np.where(valid, box_shading * brightest, 0.0)
    return reflectance, shading


def _check(image: Values, mask: Mask) -> None:
    """Refuse what is no image, or has no valid pixel."""
    if mask.ndim != 2 or mask.dtype != np.bool_:
        raise ValueError(f"the mask is {mask.dtype} of shape {mask.shape}; give booleans (h, w), True = valid")
    if image.shape != (*mask.shape, 3):
        raise ValueError(f"the image has shape {image.shape}; give (h, w, 3) to fit the mask, {mask.shape}")
    if not mask.any():
        raise ValueError("the mask is empty; give one with at least one valid pixel")
    if not np.isfinite(image[mask]).all():
        raise ValueError("the image has values inside the mask that are NaN or infinite; replace them")


def least_squares_sum(steps: Steps, mask: Mask) -> NDArray[np.float64]:
    """Return (h, w), zero outside the mask, whose steps inside it come nearest to `steps` by least squares.

    The constant is such that the mean over the mask is zero. Conjugate gradients, preconditioned by the exact solution
    on the whole rectangle, which cosine transforms give: a function on the mask can be continued to the rectangle with
    little more roughness than it has, so the number of rounds hardly depends on size or shape. Between pieces that do
    not touch, the offsets that leave the smoothest continuation come out.
    """
    h, w = mask.shape
    size = (next_fast_len(h, real=True), next_fast_len(w, real=True))
    mask = np.pad(mask, [(0, size[0] - h), (0, size[1] - w)])
    valid = Steps(mask[1:] & mask[:-1], mask[:, 1:] & mask[:, :-1])
    target = Steps(np.zeros((size[0] - 1, size[1])), np.zeros((size[0], size[1] - 1)))
    target.down[: h - 1, :w], target.right[:h, : w - 1] = steps

    def gathered(values: Steps) -> NDArray[np.float64]:
        """The transpose of taking steps, over the valid ones."""
        return _transposed_steps(_each(np.multiply, values, valid))

    def solved_on_rectangle(residual: NDArray[np.float64]) -> NDArray[np.float64]:
        whole: NDArray[np.float64] = idctn(dctn(residual) * inverse)
        return np.where(mask, whole, 0.0)

    inverse = _inverse_eigenvalues(size)
    found = _conjugate_gradients(lambda u: gathered(_steps(u)), gathered(target), solved_on_rectangle)
    found[mask] -= found[mask].mean()
    return found[:h, :w]


def _conjugate_gradients(
    operator: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    right_side: NDArray[np.float64],
    preconditioner: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Solve `operator(u) = right_side`. SciPy's own stops by the residual alone, which says little of the error."""
    found, residual = np.zeros_like(right_side), right_side.copy()
    direction = preconditioned = preconditioner(residual)
    energy = first = float(np.vdot(residual, preconditioned))
    for _ in range(right_side.size):  # but for rounding, no more can be needed
        if energy <= TOLERANCE**2 * first:
            break
        image = operator(direction)
        length = energy / float(np.vdot(direction, image))
        found += length * direction
        residual -= length * image
        preconditioned = preconditioner(residual)
        energy, before = float(np.vdot(residual, preconditioned)), energy
        direction = preconditioned + (energy / before) * direction
    return found


def _inverse_eigenvalues(size: tuple[int, int]) -> NDArray[np.float64]:
    """Return one over what the squared steps of each cosine are (h, w); 0 for the constant, which has none."""
    down, right = (2 - 2 * np.cos(np.pi * np.arange(n) / n) for n in size)
    values: NDArray[np.float64] = down[:, None] + right
    inverse: NDArray[np.float64] = np.divide(1.0, values, out=np.zeros(size), where=values > 0)
    return inverse


def _steps(values: NDArray[Any]) -> Steps:
    return Steps(np.diff(values, axis=-2), np.diff(values, axis=-1))


def _transposed_steps(steps: Steps) -> NDArray[np.float64]:
    """Return (h, w): what comes into each pixel less what goes out."""
    values = np.zeros((steps.right.shape[0], steps.down.shape[1]))
    values[1:] += steps.down
    values[:-1] -= steps.down
    values[:, 1:] += steps.right
    values[:, :-1] -= steps.right
    return values


def _each(function: Callable[..., NDArray[Any]], *steps: Steps) -> Steps:
    """Apply `function` to the steps down and to those to the right."""
    return Steps(*(function(*arrays) for arrays in zip(*steps, strict=True)))
