"""How near a decomposition comes to the truth of the MIT Intrinsic Images (Grosse et al. 2009).

Shapes: h x w pixels; an image is gray (h, w) or color (h, w, 3), a mask (h, w) with True = valid. Values are linear
light. Only the shape of an image counts, not its brightness: a score is taken after the estimate is scaled to fit the
truth by least squares. What lies outside the mask counts for nothing. Every score is 0 for the truth itself.

The truth is taken as the files have it, 65535 = 1, divided by nothing: the mean squared error depends on its scale,
and so does SSIM through its constants.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Values = NDArray[np.floating[Any]]
    Mask = NDArray[np.bool_]

LMSE_WINDOW = 20
LMSE_STEP = 10
"""Side of the windows of the local error and the distance between them, in pixels (Grosse et al. 2009)."""

SSIM_SIGMA = 1.5
SSIM_WINDOW = 11
"""The Gaussian of SSIM and the side of its window, in pixels (Wang et al. 2004)."""

SSIM_K1 = 0.01
SSIM_K2 = 0.03
SSIM_RANGE = 1.0
"""SSIM's constants are (k1 · range)² and (k2 · range)² (Wang et al. 2004); the truth's files go from 0 to 1."""


def mse(estimate: Values, truth: Values, mask: Mask) -> float:
    """Return the mean squared error over the mask, after one scale for all pixels and channels.

    `estimate` and `truth` are linear, both (h, w) or both (h, w, 3). ValueError where they cannot be compared.
    """
    estimate, truth = _masked(estimate, truth, mask)
    return float(np.mean((truth - _scale(estimate, truth) * estimate)[mask] ** 2))


def lmse(estimate: Values, truth: Values, mask: Mask) -> float:
    """Return the local error: windows of 20 x 20 pixels, 10 apart, each scaled by itself.

    It is the sum of the windows' squared errors over the sum of their squared truth, so that an estimate of nothing
    scores 1. Each channel is scored alone, and their mean returned. As in the original, windows begin at the top left
    corner and lie wholly inside the image. `estimate` and `truth` are linear, both (h, w) or both (h, w, 3).
    ValueError where they cannot be compared, or where no window has any truth in it.
    """
    estimate, truth = _masked(estimate, truth, mask)
    if min(mask.shape) < LMSE_WINDOW:
        raise ValueError(f"the image has shape {mask.shape}; the local error needs {LMSE_WINDOW} pixels each way")
    channels = (np.reshape(a, (*mask.shape, -1)).transpose(2, 0, 1) for a in (estimate, truth))
    return float(np.mean([_local_error(_windows(e), _windows(t)) for e, t in zip(*channels, strict=True)]))


def dssim(estimate: Values, truth: Values, mask: Mask) -> float:
    """Return (1 − SSIM) / 2, averaged over the pixels of the mask and the channels, after one scale for all of them.

    SSIM is that of Wang et al. 2004, for a range of 1; both images are black outside the mask and beyond the edge, so
    that cropping what is not valid changes nothing. `estimate` and `truth` are linear, both (h, w) or both (h, w, 3).
    ValueError where they cannot be compared.
    """
    from skimage.metrics import structural_similarity

    estimate, truth = _masked(estimate, truth, mask)
    estimate, truth, mask = (_framed(a) for a in (_scale(estimate, truth) * estimate, truth, mask))
    _, similarity = structural_similarity(  # type: ignore[no-untyped-call]  # scikit-image has no types
        estimate,
        truth,
        full=True,
        channel_axis=-1 if truth.ndim == 3 else None,
        data_range=SSIM_RANGE,
        win_size=SSIM_WINDOW,
        gaussian_weights=True,
        sigma=SSIM_SIGMA,
        use_sample_covariance=False,
        K1=SSIM_K1,
        K2=SSIM_K2,
    )
    return float(1 - np.mean(similarity[mask])) / 2


def mit_scores(
    reflectance: Values, shading: Values, true_reflectance: Values, true_shading: Values, mask: Mask
) -> dict[str, float]:
    """Return `mse/reflectance`, `mse/shading`, and the same for `lmse` and `dssim`: less is better.

    Reflectance is (h, w, 3), true shading (h, w), all linear. Shading may be (h, w) or (h, w, 3): the truth has none of
    the light's color, so the mean of its channels is scored. ValueError where they cannot be compared.
    """
    gray = np.mean(shading, axis=-1) if np.ndim(shading) == 3 else shading
    pairs = {"reflectance": (reflectance, true_reflectance), "shading": (gray, true_shading)}
    metrics = {"mse": mse, "lmse": lmse, "dssim": dssim}
    return {
        f"{name}/{part}": metric(estimate, truth, mask)
        for name, metric in metrics.items()
        for part, (estimate, truth) in pairs.items()
    }


def mean_scores(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the arithmetic mean of each score over the objects, and the geometric one as `geometric/...`.

    ValueError where there are no objects, or where they do not all have the same scores.
    """
    if not scores:
        raise ValueError("there are no scores to take the mean of; score at least one object")
    if any(one.keys() != scores[0].keys() for one in scores):
        raise ValueError("the objects have different scores; score each with the same metrics")
    columns = {key: np.array([one[key] for one in scores]) for key in scores[0]}
    with np.errstate(divide="ignore"):  # one perfect score makes the product, and so its root, zero
        geometric = {f"geometric/{key}": float(np.exp(np.mean(np.log(column)))) for key, column in columns.items()}
    return {key: float(np.mean(column)) for key, column in columns.items()} | geometric


class MitTruth(NamedTuple):
    """One object of the set: what a method is given and what it should find. Linear, float32, in [0, 1]."""

    image: NDArray[np.float32]
    """(h, w, 3): the object without its highlights, `diffuse.png`, the usual input."""
    reflectance: NDArray[np.float32]
    """(h, w, 3)."""
    shading: NDArray[np.float32]
    """(h, w), gray. Its product with the reflectance is the image only up to a scale and the noise of the capture."""
    mask: NDArray[np.bool_]
    """(h, w), True on the object."""


def load_mit_truth(folder: str | os.PathLike[str]) -> MitTruth:
    """Read `diffuse.png`, `reflectance.png`, `shading.png` and `mask.png`, 16-bit linear, of one object.

    ImageError where one cannot be read, ValueError where their sizes differ.
    """
    from unlit.image_io import read_image

    names = ("diffuse", "reflectance", "shading", "mask")
    pictures = {name: read_image(Path(folder) / f"{name}.png", encoding="linear").pixels for name in names}
    sizes = {name: pixels.shape[:2] for name, pixels in pictures.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"{folder}: the pictures differ in size ({sizes}); copy the object's folder again")
    mask = pictures["mask"].max(axis=-1) >= 0.5
    return MitTruth(pictures["diffuse"], pictures["reflectance"], pictures["shading"].mean(axis=-1), mask)


def _masked(estimate: Values, truth: Values, mask: Mask) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both in float64, zero outside the mask, having refused what cannot be compared."""
    if mask.ndim != 2 or mask.dtype != np.bool_:
        raise ValueError(f"the mask is {mask.dtype} of shape {mask.shape}; give booleans (h, w), True = valid")
    if truth.shape not in (mask.shape, (*mask.shape, 3)):
        raise ValueError(f"the truth has shape {truth.shape}; give (h, w) or (h, w, 3) to fit the mask, {mask.shape}")
    if estimate.shape != truth.shape:
        raise ValueError(f"the estimate has shape {estimate.shape}; give that of the truth, {truth.shape}")
    if not mask.any():
        raise ValueError("the mask is empty; give one with at least one valid pixel")
    for name, values in (("estimate", estimate), ("truth", truth)):
        if not np.isfinite(values[mask]).all():
            raise ValueError(f"the {name} has values inside the mask that are NaN or infinite; replace them")
    valid = mask.reshape(mask.shape + (1,) * (truth.ndim - 2))
    return np.where(valid, estimate, 0.0).astype(np.float64), np.where(valid, truth, 0.0).astype(np.float64)


def _scale(estimate: Values, truth: Values, axis: tuple[int, ...] | None = None) -> Values:
    """Return the factor of `estimate` that brings it nearest to `truth`, over `axis`, kept; 0 for an estimate of 0."""
    energy = np.sum(estimate**2, axis=axis, keepdims=True)
    product = np.sum(estimate * truth, axis=axis, keepdims=True)
    scale: Values = np.divide(product, energy, out=np.zeros_like(energy), where=energy > 0)
    return scale


def _windows(channel: Values) -> Values:
    """Return the windows of one channel (h, w) as a view (rows, columns, 20, 20)."""
    every: Values = np.lib.stride_tricks.sliding_window_view(channel, (LMSE_WINDOW, LMSE_WINDOW))
    return every[::LMSE_STEP, ::LMSE_STEP]


def _local_error(estimate: Values, truth: Values) -> float:
    """Return the error of windows, each with its own scale, as a share of the truth in them."""
    total = np.sum(truth**2)
    if total == 0:
        raise ValueError("the truth is zero in every window of the local error; check the truth and the mask")
    return float(np.sum((truth - _scale(estimate, truth, axis=(2, 3)) * estimate) ** 2) / total)


def _framed(image: NDArray[Any]) -> NDArray[Any]:
    """Return `image` in a frame of zeros half a window of SSIM wide."""
    frame = SSIM_WINDOW // 2
    return np.pad(image, [(frame, frame)] * 2 + [(0, 0)] * (image.ndim - 2))
