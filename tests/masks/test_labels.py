"""Sky and moving things on real frames, against what was drawn by hand in tests/masks/labels (docs/masks.md)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import ndimage
from skimage.draw import polygon2mask

from unlit.color import linear_to_srgb
from unlit.image_io import read_image
from unlit.masks.build import build_masks
from unlit.masks.settings import MaskSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

LABELS = sorted((Path(__file__).parent / "labels").glob("*.json"))
TOLERANCE = 4
"""Pixels: what is masked so near to a label counts as labelled, since labels are coarse."""


def drawn(polygons: list[list[list[float]]], size: tuple[int, int]) -> Mask:
    mask = np.zeros(size, bool)
    for polygon in polygons:
        mask |= polygon2mask(size, np.array(polygon)[:, ::-1] - 0.5)  # type: ignore[no-untyped-call]  # has no types
    return mask


@cache
def masked(source: Path) -> tuple[list[str], dict[str, Mask]]:
    """Every picture of a folder, or every fifteenth frame of a video: names and masks."""
    if source.is_dir():
        files = sorted(source.glob("*.jpg"))
        pictures = [np.rint(255 * linear_to_srgb(read_image(file).pixels)).astype(np.uint8) for file in files]
        return [file.stem for file in files], build_masks(np.stack(pictures), MaskSettings())
    av = pytest.importorskip("av", reason="needs PyAV: pip install unlit[video]")
    with av.open(str(source)) as video:
        chosen = [(k, f.to_ndarray(format="rgb24")) for k, f in enumerate(video.decode(video=0)) if k % 15 == 7]
    return [f"{k:04}" for k, _ in chosen], build_masks(np.stack([f for _, f in chosen]), MaskSettings())


def group(frame: dict[str, Any]) -> str:
    """Which labels a frame is of: those tuned on, those once kept aside, or those drawn later and kept aside."""
    return "later" if frame.get("later") else "aside" if frame["aside"] else "tuned on"


def counts(label: dict[str, Any], source: Path, which: str) -> NDArray[np.int64]:
    """Pixels labelled and found, labelled, masked rightly, masked; outside the sky and what is not judged."""
    names, masks = masked(source)
    size = (label["size"][1], label["size"][0])
    sky = ndimage.binary_dilation(drawn(label["sky"], size), iterations=3)
    unjudged = drawn(label["ignored"], size) if label["ignored"] else np.zeros(size, bool)
    total = np.zeros(4, np.int64)
    for name, frame in label["frames"].items():
        if group(frame) == which:
            truth = drawn(frame["moving"], size)
            near = ndimage.binary_dilation(truth, iterations=TOLERANCE)
            found = masks["moving"][names.index(name)] & ~sky
            judged = found & (near | ~unjudged)
            total += [(found & truth).sum(), truth.sum(), (judged & near).sum(), judged.sum()]
    return total


@pytest.mark.data
@pytest.mark.parametrize("path", LABELS, ids=lambda path: path.stem)
def test_the_sky_is_where_it_was_drawn(path: Path, shared_data: Path) -> None:
    label = json.loads(path.read_text())
    found = masked(shared_data / label["source"])[1]["sky"][0]
    truth = drawn(label["sky"], (label["size"][1], label["size"][0]))
    assert (found & truth).sum() / (found | truth).sum() >= 0.90


@pytest.mark.data
@pytest.mark.parametrize("which", ["tuned on", "aside", "later"])
def test_moving_things_are_found(shared_data: Path, which: str) -> None:
    labels = [json.loads(path.read_text()) for path in LABELS]
    rows = [counts(label, shared_data / label["source"], which) for label in labels]
    found, drawn_pixels, right, masked_pixels = np.sum(rows, axis=0)
    assert found / drawn_pixels >= 0.8
    assert right / masked_pixels >= 0.5


@pytest.mark.data
@pytest.mark.parametrize("scene", ["one-day", "panorama"])
def test_little_is_masked_where_nothing_moves(shared_data: Path, scene: str) -> None:
    label = json.loads((Path(__file__).parent / "labels" / f"{scene}.json").read_text())
    names, masks = masked(shared_data / label["source"])
    sky = ndimage.binary_dilation(drawn(label["sky"], (label["size"][1], label["size"][0])), iterations=3)
    shares = [(masks["moving"][names.index(name)] & ~sky).mean() for name in label["frames"]]
    assert np.mean(shares) <= 0.02, shares


def test_there_are_enough_labels_and_half_of_them_were_kept_aside() -> None:
    frames = [frame for path in LABELS for frame in json.loads(path.read_text())["frames"].values()]
    kept = [group(frame) for frame in frames]
    assert len(frames) >= 50
    assert 0.4 < np.mean([which != "tuned on" for which in kept]) < 0.7
    assert kept.count("later") >= 10
