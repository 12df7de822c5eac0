"""Masks by meaning: sky, people, animals and vehicles as a segmenter of the package `transformers` sees them.

The pictures are made ready here, after the model's own `preprocessor_config.json`: the package's image processors want
torchvision, which nothing else here needs. Shapes: m frames, h x w pixels. Masks are True where a pixel is left out.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray
    from torch import Tensor

WORDS: dict[str, frozenset[str]] = {
    "sky": frozenset({"sky", "cloud", "clouds"}),
    "person": frozenset({"person", "people", "pedestrian", "rider", "man", "woman", "child", "human"}),
    "animal": frozenset(
        [
            "animal",
            "dog",
            "cat",
            "horse",
            "cow",
            "sheep",
            "bird",
            "bear",
            "zebra",
            "giraffe",
            "elephant",
            "goat",
            "pig",
            "duck",
            "chicken",
            "deer",
        ]
    ),
    "vehicle": frozenset(
        [
            "vehicle",
            "car",
            "bus",
            "truck",
            "van",
            "train",
            "tram",
            "motorcycle",
            "motorbike",
            "minibike",
            "bicycle",
            "bike",
            "boat",
            "ship",
            "airplane",
            "aeroplane",
            "caravan",
            "trailer",
        ]
    ),
}
"""For each kind the words, one of which stands in the name of a class: of ADE20K, Cityscapes, COCO, Pascal VOC."""

_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet: what nearly all models were trained with, for those that do not say."""

_SIDE = 512
"""Pixels: the side that a picture is brought to for models that do not say."""


class SegmenterError(ValueError):
    """A segmenter cannot be used: which, what is wrong, and what to do."""


@dataclass(frozen=True)
class Segmenter:
    """A model, what it wants its pictures to be, and which of its classes belong to which kind."""

    model: Any
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    size: tuple[int, int] | int
    """(h, w), or the shorter side."""
    classes: dict[str, list[int]]


def load_segmenter(name: str, kinds: Iterable[str]) -> Segmenter:
    """Return the segmenter `name`, a folder or a name of the hub, for those of `kinds` that it knows."""
    try:
        import transformers
    except ImportError as error:
        raise SegmenterError(
            f"{name}: needs the package transformers; install it with `pip install unlit[masks]`"
        ) from error
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        universal = type(config) in transformers.AutoModelForUniversalSegmentation._model_mapping
        kind = "AutoModelForUniversalSegmentation" if universal else "AutoModelForSemanticSegmentation"
        model = getattr(transformers, kind).from_pretrained(name).eval()
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise SegmenterError(
            f"{name}: is no segmenter that can be loaded ({reason}); name another, or a folder"
        ) from error
    classes = kind_classes(config.id2label, kinds)
    if not classes:
        raise SegmenterError(f"{name}: knows none of {', '.join(kinds)}; name a segmenter with such classes")
    return Segmenter(model, *_picture_settings(name), classes)


def kind_classes(labels: Mapping[int, str], kinds: Iterable[str]) -> dict[str, list[int]]:
    """Return, for each of `kinds` that has any, the numbers of the classes whose name has one of its words."""
    words = {int(number): set(re.findall(r"[a-z]+", label.lower())) for number, label in labels.items()}
    found = {kind: [number for number, has in words.items() if has & WORDS[kind]] for kind in kinds}
    return {kind: numbers for kind, numbers in found.items() if numbers}


def _picture_settings(name: str) -> tuple[tuple[float, ...], tuple[float, ...], tuple[int, int] | int]:
    """Return the mean, the deviation and the size that a model wants, from its `preprocessor_config.json`."""
    from transformers.utils.hub import cached_file

    found = cached_file(name, "preprocessor_config.json", _raise_exceptions_for_missing_entries=False)
    said = json.loads(Path(found).read_text(encoding="utf-8")) if found else {}
    size = said.get("size", _SIDE)
    if isinstance(size, dict):
        size = (size["height"], size["width"]) if "height" in size else size.get("shortest_edge", _SIDE)
    return tuple(said.get("image_mean", _MEAN)), tuple(said.get("image_std", _DEVIATION)), size


def semantic_masks(frames_u8: NDArray[np.uint8], segmenter: Segmenter) -> dict[str, NDArray[np.bool_]]:
    """Return what the segmenter sees in (m, h, w, 3) sRGB-encoded frames: (m, h, w) for each kind that it knows."""
    import torch

    masks = {kind: np.zeros(frames_u8.shape[:3], bool) for kind in segmenter.classes}
    with torch.inference_mode():
        for i, frame in enumerate(frames_u8):  # one at a time: large pictures, large models
            best = _class_scores(segmenter, frame).argmax(dim=0).numpy()
            for kind, numbers in segmenter.classes.items():
                masks[kind][i] = np.isin(best, numbers)
    return masks


def _class_scores(segmenter: Segmenter, frame_u8: NDArray[np.uint8]) -> Tensor:
    """Return how well each class fits each pixel of (h, w, 3): (classes, h, w)."""
    import torch
    from torch.nn.functional import interpolate

    h, w, _ = frame_u8.shape
    picture = torch.from_numpy(frame_u8.copy()).permute(2, 0, 1)[None].float() / 255
    picture = interpolate(picture, _model_size(segmenter.size, h, w), mode="bilinear", antialias=True)
    mean, deviation = (torch.tensor(values)[:, None, None] for values in (segmenter.mean, segmenter.deviation))
    seen = segmenter.model(pixel_values=(picture - mean) / deviation)
    if "class_queries_logits" in seen:  # one mask a query, and the class of each query; the last class is "nothing"
        queries = seen.class_queries_logits.softmax(dim=-1)[..., :-1]
        scores = torch.einsum("bqc,bqhw->bchw", queries, seen.masks_queries_logits.sigmoid())
    else:
        scores = seen.logits
    return interpolate(scores, (h, w), mode="bilinear")[0]


def _model_size(size: tuple[int, int] | int, h: int, w: int) -> tuple[int, int]:
    """Return the size that a picture of h x w is brought to; sides that keep their ratio are multiples of 32."""
    if isinstance(size, tuple):
        return size
    return max(32, round(h * size / min(h, w) / 32) * 32), max(32, round(w * size / min(h, w) / 32) * 32)
