"""Masks by meaning, with a tiny segmenter of random weights that a test saves to a folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from unlit.masks.build import build_masks
from unlit.masks.semantic import SegmenterError, _model_size, kind_classes, load_segmenter, semantic_masks
from unlit.masks.settings import MaskSettings

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install unlit[masks]")
import torch  # noqa: E402  (only worth its time where transformers is there)

LABELS = {0: "wall", 1: "sky", 2: "car, auto, automobile", 3: "person", 4: "carpet", 5: "dog"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SegFormer that sees sky where a picture is bright: random weights but for the last layer."""
    torch.manual_seed(0)
    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[1, 1], hidden_sizes=[8, 8], patch_sizes=[3, 3], strides=[2, 2],
        num_attention_heads=[1, 1], mlp_ratios=[1, 1], decoder_hidden_size=8, id2label=LABELS,
    )  # fmt: skip
    place = tmp_path_factory.mktemp("segmenter")
    transformers.SegformerForSemanticSegmentation(config).save_pretrained(place)
    said = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": {"height": 64, "width": 96}}
    (place / "preprocessor_config.json").write_text(json.dumps(said))
    return place


def frames(m: int = 2, h: int = 40, w: int = 60) -> NDArray[np.uint8]:
    return np.random.default_rng(1).integers(0, 256, (m, h, w, 3), dtype=np.uint8)


def test_masks_are_what_the_model_says_of_the_picture_made_ready_as_it_asks(folder: Path) -> None:
    segmenter = load_segmenter(str(folder), ("sky", "person", "animal", "vehicle"))
    masks = semantic_masks(frames(), segmenter)
    model = transformers.SegformerForSemanticSegmentation.from_pretrained(folder).eval()
    picture = torch.from_numpy(frames()).permute(0, 3, 1, 2).float() / 255
    picture = (torch.nn.functional.interpolate(picture, (64, 96), mode="bilinear", antialias=True) - 0.5) / 0.25
    with torch.inference_mode():
        logits = torch.nn.functional.interpolate(model(picture).logits, (40, 60), mode="bilinear")
    best = logits.argmax(dim=1).numpy()
    assert set(masks) == {"sky", "person", "animal", "vehicle"}
    for kind, number in {"sky": 1, "vehicle": 2, "person": 3, "animal": 5}.items():
        assert (masks[kind] != (best == number)).mean() < 1e-3, kind
    assert any(mask.any() for mask in masks.values())


def test_models_that_give_a_mask_for_each_query_work_too(folder: Path) -> None:
    segmenter = load_segmenter(str(folder), ("sky",))

    class Seen(dict[str, Any]):
        __getattr__ = dict.__getitem__

    def model(pixel_values: torch.Tensor) -> Seen:
        queries = torch.full((1, 2, len(LABELS) + 1), -9.0)
        queries[0, 0, 1], queries[0, 1, 0] = 9.0, 9.0  # the first query is sky, the second wall
        masks = torch.full((1, 2, 8, 8), -9.0)
        masks[0, 0, :4], masks[0, 1, 4:] = 9.0, 9.0
        return Seen(class_queries_logits=queries, masks_queries_logits=masks)

    from dataclasses import replace

    mask = semantic_masks(frames(1), replace(segmenter, model=model))["sky"][0]
    assert mask[:18].all()
    assert not mask[22:].any()


def test_classes_are_found_by_whole_words() -> None:
    found = kind_classes(LABELS, ("vehicle", "animal", "person"))
    assert found == {"vehicle": [2], "animal": [5], "person": [3]}, "a carpet is no car"
    assert kind_classes({0: "wall"}, ("sky",)) == {}


def test_build_masks_adds_the_kinds_of_the_segmenter(folder: Path) -> None:
    settings = MaskSettings(segmenter=str(folder), segmenter_kinds=("person", "vehicle"), moving=False, sky=False)
    masks = build_masks(frames(), settings)
    assert list(masks) == ["saturated", "dark", "border", "person", "vehicle"]
    assert masks["person"].shape == (2, 40, 60)


def test_the_segmenters_sky_is_added_to_the_sky(folder: Path) -> None:
    settings = MaskSettings(segmenter=str(folder), segmenter_kinds=("sky",), moving=False)
    seen = semantic_masks(frames(), load_segmenter(str(folder), ("sky",)))["sky"]
    assert seen.any()
    assert (build_masks(frames(), settings)["sky"] >= seen).all()


def test_torchvision_is_not_needed(folder: Path) -> None:
    import sys

    load_segmenter(str(folder), ("sky",))
    assert "torchvision" not in sys.modules


@pytest.mark.parametrize(("what", "message"), [("empty", "no segmenter that can be loaded"), ("walls", "knows none")])
def test_what_cannot_be_used_is_said_in_one_line(folder: Path, tmp_path: Path, what: str, message: str) -> None:
    place, kinds = (tmp_path, ("sky",)) if what == "empty" else (folder, ())
    with pytest.raises(SegmenterError, match=message) as raised:
        load_segmenter(str(place), kinds)
    assert "\n" not in str(raised.value)


def test_the_shorter_side_is_kept_where_a_model_gives_only_that() -> None:
    assert _model_size(512, 480, 640) == (512, 672)
    assert _model_size((64, 96), 480, 640) == (64, 96)
