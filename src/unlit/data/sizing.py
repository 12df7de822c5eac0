"""Items as training keeps them: what is clipped is masked, and pictures have the size that a step needs."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor
from torch.nn.functional import interpolate

from unlit.data.dataset import Item, Skipped, Source
from unlit.data.sequence import SequenceError
from unlit.data.settings import DataSettings
from unlit.image_io import ImageError

LANDSCAPE, PORTRAIT, SQUARE = (256, 384), (384, 256), (256, 256)
ASPECT = 1.2247
"""The root of 1.5: wider pictures than this become landscape, narrower ones than its inverse portrait (the release)."""


def read_usable(source: Source, settings: DataSettings) -> Item | Skipped:
    """Return a source's item at its training size, or why it cannot be used."""
    try:
        return sized(unclipped(source.read()), settings)
    except (SequenceError, ImageError, OSError) as error:
        return Skipped(source.name, str(error))


def unclipped(item: Item) -> Item:
    """Return the item with the pixels masked that a camera clipped: some channel is white to the last bit.

    Here, before anything is resized or made darker: afterwards they look like any other. Floats beyond white are light;
    a sequence with much of it is made darker as a whole, since training clips at white.
    """
    item = _exposed(item)
    mask = item.sequence.mask & (item.sequence.frames != 1).all(1, keepdim=True)
    if not bool(mask.any()):
        raise SequenceError(f"{item.sequence.name}: every valid pixel is clipped; take darker frames")
    return replace(item, sequence=replace(item.sequence, mask=mask))


def _exposed(item: Item) -> Item:
    """Return the item, divided by what all but its brightest hundredth stay below where that is more than white.

    What is known of the light is divided too: R · S is still what is seen, in its scale as well.
    """
    frames, mask = item.sequence.frames, item.sequence.mask
    if float(frames.amax()) <= 1:
        return item
    values = frames.amax(1, keepdim=True)[mask]
    bright = float(values.kthvalue(max(1, round(0.99 * values.numel()))).values)
    if bright <= 1:
        return item
    truth = item.truth
    if truth is not None and truth.shading is not None:
        truth = replace(truth, shading=truth.shading / bright)
    return replace(item, sequence=replace(item.sequence, frames=frames / bright), truth=truth)


def paper_size(h: int, w: int) -> tuple[int, int]:
    """Return the size to which the paper resizes a picture of h x w: by its aspect, one of three."""
    if w / h > ASPECT:
        return LANDSCAPE
    return PORTRAIT if h / w > ASPECT else SQUARE


def training_size(h: int, w: int, settings: DataSettings) -> tuple[int, int]:
    """Return the size at which a picture of h x w is kept for training."""
    if settings.window is None:
        return paper_size(h, w)
    shrink = min(1.0, settings.longest / max(h, w))
    return max(1, round(h * shrink)), max(1, round(w * shrink))


def sized(item: Item, settings: DataSettings) -> Item:
    """Return the item at the size at which it is kept for training."""
    h, w = item.sequence.frames.shape[2:]
    size = training_size(h, w, settings)
    if size == (h, w):
        return item
    mask = resized(item.sequence.mask.float(), size) > 1 - 1e-3  # a pixel counts only if all that it covers does
    if not bool(mask.any()):
        raise SequenceError(f"{item.sequence.name}: its valid pixels are too scattered to be made smaller; skip it")
    keep = mask.flatten(1).any(1)
    if int(keep.sum()) < 2 and item.truth is None:
        raise SequenceError(f"{item.sequence.name}: a single frame has valid pixels left when made smaller; skip it")
    names = tuple(n for n, kept in zip(item.sequence.frame_names, keep.tolist(), strict=True) if kept)
    dropped = (*item.sequence.dropped, *(name for name in item.sequence.frame_names if name not in names))
    frames = resized(item.sequence.frames, size)[keep]
    sequence = replace(item.sequence, frames=frames, mask=mask[keep], frame_names=names, dropped=dropped)
    truth = None if item.truth is None else item.truth.frames(keep).resized(size)
    picture = None if item.picture is None else resized(item.picture[None], size)[0]
    return Item(sequence, truth, item.one_light, picture)


def resized(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Return images (m, c, h, w) of another size: means over areas where they shrink, else linear in between."""
    h, w = images.shape[-2:]
    if h >= size[0] and w >= size[1]:
        return interpolate(images, size, mode="area")
    return interpolate(images, size, mode="bilinear", align_corners=False, antialias=True)


def places_of(item: Item) -> Tensor:
    """Return (n, 2) on the CPU: rows and columns where at least one frame is valid."""
    return item.sequence.mask.any(0)[0].cpu().nonzero()
