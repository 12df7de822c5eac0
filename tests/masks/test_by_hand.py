"""What was left out by hand: PNG, LabelMe, COCO; and what is wrong with files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from unlit.image_io import write_image
from unlit.masks.by_hand import HandMaskError, hand_masks

if TYPE_CHECKING:
    from pathlib import Path

NAMES, SIZE = ("a", "b", "c"), (20, 30)
SQUARE = [[5, 5], [15, 5], [15, 12], [5, 12]]


def square() -> np.ndarray[Any, np.dtype[np.bool_]]:
    mask = np.zeros(SIZE, bool)
    mask[5:12, 5:15] = True
    return mask


def labelme(path: Path, kind: str, points: list[list[float]], size: tuple[int, int] = SIZE) -> None:
    shape = {"label": "x", "points": points, "shape_type": kind}
    path.write_text(json.dumps({"shapes": [shape], "imageHeight": size[0], "imageWidth": size[1]}))


@pytest.mark.parametrize(("kind", "points"), [("polygon", SQUARE), ("rectangle", [SQUARE[0], SQUARE[2]])])
def test_labelme_shapes_are_left_out_of_their_frame(tmp_path: Path, kind: str, points: list[list[float]]) -> None:
    labelme(tmp_path / "b.json", kind, points)
    masks = hand_masks(tmp_path, NAMES, SIZE)
    assert np.array_equal(masks[1], square())
    assert not masks[[0, 2]].any()


def test_a_circle_is_round(tmp_path: Path) -> None:
    labelme(tmp_path / "a.json", "circle", [[15, 10], [15, 16]])
    assert hand_masks(tmp_path, NAMES, SIZE)[0].sum() == pytest.approx(np.pi * 36, rel=0.05)


def test_labels_drawn_on_a_larger_picture_are_scaled(tmp_path: Path) -> None:
    labelme(tmp_path / "a.json", "polygon", [[2 * x, 2 * y] for x, y in SQUARE], (40, 60))
    assert np.array_equal(hand_masks(tmp_path, NAMES, SIZE)[0], square())


def test_coco_polygons_go_to_the_frames_that_they_name(tmp_path: Path) -> None:
    images = [{"id": 7, "file_name": "shots/c.jpg", "height": 20, "width": 30}]
    annotations = [{"image_id": 7, "segmentation": [[v for point in SQUARE for v in point]]}]
    (tmp_path / "labels.json").write_text(json.dumps({"images": images, "annotations": annotations}))
    for place in (tmp_path, tmp_path / "labels.json"):
        masks = hand_masks(place, NAMES, SIZE)
        assert np.array_equal(masks[2], square())
        assert not masks[:2].any()


def test_a_png_has_255_for_valid_and_all_holds_for_every_frame(tmp_path: Path) -> None:
    valid = np.repeat(~square()[..., None], 3, axis=-1).astype(np.float32)
    write_image(tmp_path / "all.png", valid, encoding="linear", bits=8)
    assert np.array_equal(hand_masks(tmp_path, NAMES, SIZE), np.stack([square()] * 3))
    assert np.array_equal(hand_masks(tmp_path / "all.png", NAMES, SIZE), np.stack([square()] * 3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("{}", "neither LabelMe nor COCO"),
        ("[]", "neither LabelMe nor COCO"),
        ('{"shapes": [{"shape_type": "line", "points": [[0, 0], [1, 1]]}]}', "no inside"),
        ('{"images": [], "annotations": [{"image_id": 1, "segmentation": []}]}', "not COCO as expected"),
        ('{"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 1, "segmentation": {}}]}', "run"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(HandMaskError, match=message) as raised:
        hand_masks(tmp_path, NAMES, SIZE)
    assert "\n" not in str(raised.value)
    assert "a.json" in str(raised.value)


def test_a_place_without_masks_for_these_frames_is_refused(tmp_path: Path) -> None:
    labelme(tmp_path / "other.json", "polygon", SQUARE)  # type: ignore[arg-type]  # whole numbers will do
    with pytest.raises(HandMaskError, match="no mask for any frame"):
        hand_masks(tmp_path, NAMES, SIZE)
    with pytest.raises(HandMaskError, match="does not exist"):
        hand_masks(tmp_path / "nowhere", NAMES, SIZE)
    write_image(tmp_path / "a.png", np.ones((5, 5, 3), np.float32), encoding="linear", bits=8)
    with pytest.raises(HandMaskError, match="5 x 5"):
        hand_masks(tmp_path, NAMES, SIZE)
