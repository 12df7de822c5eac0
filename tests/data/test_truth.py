from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from unlit.data.judgements import Judgements
from unlit.data.sequence import Sequence, SequenceError, load_sequence, save_sequence
from unlit.data.truth import Truth, load_truth
from unlit.image_io import read_image, write_image

H, W = 6, 8
SIZE = (H, W)
NAMES = ("dawn", "noon", "dusk")
IDENTITY = torch.eye(2, 3)
FLIP = torch.tensor([[-1.0, 0, 0], [0, 1, 0]])


def light(level: float = 0.5, size: tuple[int, int] = SIZE) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A picture (h, w, 3) that is the same nowhere twice."""
    values = np.linspace(0.5, 1, size[0] * size[1] * 3, dtype=np.float32).reshape(*size, 3)
    return level * values


def tensor(level: float = 0.5) -> Tensor:
    return torch.from_numpy(light(level)).permute(2, 0, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frames = torch.from_numpy(np.stack([light()] * 3)).permute(0, 3, 1, 2)
    save_sequence(Sequence(frames, torch.ones(3, 1, H, W, dtype=torch.bool), "garden", NAMES), tmp_path / "garden")
    (tmp_path / "garden" / "truth" / "shading").mkdir(parents=True)
    return tmp_path / "garden"


def loaded(folder: Path, names: tuple[str, ...] = NAMES, size: tuple[int, int] = SIZE) -> Truth:
    truth = load_truth(folder, names, size)
    assert truth is not None
    return truth


def point(k: int, x: float, y: float, opaque: bool = True) -> dict[str, Any]:
    return {"id": k, "x": x, "y": y, "opaque": opaque}


def comparison(a: int, b: int, darker: Any = "1", **score: Any) -> dict[str, Any]:
    return {"point1": a, "point2": b, "darker": darker, **(score or {"darker_score": 1.5})}


def judge(folder: Path, points: Any, comparisons: Any) -> None:
    stated = {"intrinsic_points": points, "intrinsic_comparisons": comparisons, "id": 7}
    (folder / "truth" / "judgements.json").write_text(json.dumps(stated))


def judged(folder: Path, points: Any, comparisons: Any) -> Judgements:
    judge(folder, points, comparisons)
    judgements = loaded(folder).judgements
    assert judgements is not None
    return judgements


def label(folder: Path, labels: Any, mode: str = "L") -> None:
    PIL.Image.fromarray(np.asarray(labels, np.uint8)).convert(mode).save(folder / "truth" / "shading_classes.png")


def labels_with(value: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    labels = np.full(SIZE, 100, np.uint8)
    labels[2, 5], labels[0, 0], labels[1, 1] = value, 0, 2
    return labels


def some_judgements(*points: tuple[float, float]) -> Judgements:
    """Points, each compared with the next."""
    pairs = torch.tensor([[k, k + 1] for k in range(len(points) - 1)])
    return Judgements(torch.tensor(points), pairs, torch.arange(len(pairs)) % 3, 1 + torch.arange(len(pairs)).float())


def whole_truth() -> Truth:
    shading = torch.stack([tensor(0.8), torch.zeros(3, H, W), tensor(0.3)])
    classes = torch.from_numpy(labels_with(1))
    said = some_judgements((0.0625, 0.25), (0.9375, 0.75), (0.4375, 0.75))
    return Truth(tensor(), shading, torch.tensor([True, False, True]), said, classes)


def test_nothing_known_is_none(folder: Path, tmp_path: Path) -> None:
    assert load_truth(folder, NAMES, SIZE) is None
    (folder / "truth" / "shading").rmdir()
    (folder / "truth").rmdir()
    assert load_truth(folder, NAMES, SIZE) is None
    assert load_truth(tmp_path / "missing", NAMES, SIZE) is None


@pytest.mark.parametrize(
    ("suffix", "options"), [("exr", {}), ("png", {"bits": 16}), ("tiff", {}), ("tif", {"bits": 32})]
)
def test_reflectance_comes_back_linear_from_every_kind_of_file(
    folder: Path, suffix: str, options: dict[str, Any]
) -> None:
    write_image(folder / "truth" / f"reflectance.{suffix}", light(), **options)
    truth = loaded(folder)
    assert truth.reflectance is not None
    assert truth.reflectance.dtype == torch.float32
    torch.testing.assert_close(truth.reflectance, tensor(), rtol=1e-3, atol=0)
    assert [name for name, part in vars(truth).items() if part is not None] == ["reflectance"]


def test_each_frame_has_its_shading_and_some_have_none(folder: Path) -> None:
    write_image(folder / "truth" / "shading" / "0001.exr", light(3.0), bits=32)
    write_image(folder / "truth" / "shading" / "0003.png", light(0.3)[..., 0], encoding="linear", bits=16)
    (folder / "truth" / "shading" / "._0001.exr").write_bytes(b"what some systems leave beside a file")
    truth = loaded(folder)
    assert truth.shading is not None
    assert truth.shading_valid is not None
    assert truth.shading.shape == (3, 3, H, W)
    assert truth.shading_valid.tolist() == [True, False, True]
    torch.testing.assert_close(truth.shading[0], tensor(3.0))
    assert not truth.shading[1].any()
    gray = tensor(0.3)[:1].expand(3, H, W)
    torch.testing.assert_close(truth.shading[2], gray, rtol=0, atol=1e-5)


def test_frames_left_out_on_reading_take_their_shading_with_them(folder: Path) -> None:
    for k in (1, 2, 3):
        write_image(folder / "truth" / "shading" / f"{k:04}.exr", light(k), bits=32)
    PIL.Image.fromarray(np.zeros(SIZE, np.uint8)).save(folder / "masks" / "0001.png")
    sequence = load_sequence(folder)
    assert sequence.dropped == ("dawn",)
    truth = loaded(folder, sequence.frame_names)
    assert truth.shading is not None
    torch.testing.assert_close(truth.shading, torch.stack([tensor(2.0), tensor(3.0)]))


def test_a_single_shading_is_that_of_the_first_frame(folder: Path) -> None:
    (folder / "truth" / "shading").rmdir()
    write_image(folder / "truth" / "shading.exr", light(2.0), bits=32)
    truth = loaded(folder)
    assert truth.shading_valid is not None
    assert truth.shading_valid.tolist() == [True, False, False]
    assert load_truth(folder, NAMES[1:], SIZE) is None


def test_in_a_plain_folder_frames_are_in_the_order_given(folder: Path) -> None:
    (folder / "sequence.json").unlink()
    write_image(folder / "truth" / "shading" / "0002.exr", light(2.0), bits=32)
    truth = loaded(folder, ("a", "b"))
    assert truth.shading_valid is not None
    assert truth.shading_valid.tolist() == [False, True]


def test_folders_of_the_mit_set_are_read_as_they_are(tmp_path: Path) -> None:
    write_image(tmp_path / "reflectance.png", light(), encoding="linear", bits=16)
    # As in the set, nothing in the file says that it is linear.
    PIL.Image.fromarray(np.rint(light(0.25)[..., 0] * 65535).astype(np.uint16)).save(tmp_path / "shading.png")
    truth = loaded(tmp_path, ("diffuse", "light01"))
    assert truth.shading is not None
    assert truth.shading_valid is not None
    assert truth.shading_valid.tolist() == [True, False]
    torch.testing.assert_close(truth.shading[0], tensor(0.25)[:1].expand(3, H, W), rtol=0, atol=2e-5)
    lamps = loaded(tmp_path, ("light01", "light02"))
    assert lamps.shading is None
    assert lamps.reflectance is not None
    torch.testing.assert_close(lamps.reflectance, tensor(0.5), rtol=0, atol=2e-5)


@pytest.mark.data
def test_the_real_mit_set_is_reflectance_times_shading(shared_data: Path) -> None:
    folder = shared_data / "mit-intrinsic" / "cup1"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    image = read_image(folder / "diffuse.png", encoding="linear").pixels
    truth = loaded(folder, ("diffuse",), (image.shape[0], image.shape[1]))
    assert truth.reflectance is not None
    assert truth.shading is not None
    product = (truth.reflectance * truth.shading[0]).permute(1, 2, 0).numpy()
    bright = image > 0.1
    ratio = product[bright] / image[bright]
    assert bright.any()
    # A few percent as the set was made; 0.6 where the files are taken for sRGB.
    assert np.median(np.abs(ratio / np.median(ratio) - 1)) < 0.1


def test_judgements_that_count_are_kept_and_no_others(folder: Path) -> None:
    points = [point(10, 0.1, 0.2), point(11, 0.9, 0.9), point(12, 0.5, 0.5, opaque=False), point(13, 0, 1)]
    comparisons = [
        comparison(10, 11, "1", darker_score=2),
        comparison(13, 10, "2", darker_score=0.25),
        comparison(11, 13, "E", darker_score=1),
        comparison(10, 12, "1"),
        comparison(12, 10, "1"),
        comparison(10, 11, "1", darker_score=0),
        comparison(10, 11, "1", darker_score=-1),
        comparison(10, 11, "1", darker_score=None),
        comparison(10, 11, "1", darker_score=math.nan),
        comparison(10, 11, "1", darker_score=math.inf),
        comparison(10, 11, "?"),
        comparison(10, 11, None),
        {"point1": 10, "point2": 11, "darker": "1"},
        {"point1": 10, "point2": 11, "darker_score": 1.0},
    ]
    said = judged(folder, points, comparisons)
    assert said.pairs.tolist() == [[0, 1], [2, 0], [1, 2]]
    assert said.darker.tolist() == [1, 2, 0]
    assert said.weight.tolist() == [2, 0.25, 1]
    assert (said.pairs.dtype, said.darker.dtype, said.weight.dtype) == (torch.int64, torch.int64, torch.float32)
    assert said.points.dtype == torch.float32


def test_points_lie_in_the_middle_of_the_pixel_that_is_scored(folder: Path) -> None:
    places = [(0.0, 0.0), (1.0, 1.0), (3 / 8, 2 / 6), (0.499, 0.999)]
    said = judged(folder, [point(k, *place) for k, place in enumerate(places)], [])
    columns = [min(int(x * W), W - 1) for x, _ in places]
    rows = [min(int(y * H), H - 1) for _, y in places]
    expected = torch.tensor([[(c + 0.5) / W, (r + 0.5) / H] for c, r in zip(columns, rows, strict=True)])
    torch.testing.assert_close(said.points, expected)


@pytest.mark.parametrize("opaque", [True, False])
def test_judgements_without_any_that_counts_are_empty(folder: Path, opaque: bool) -> None:
    said = judged(folder, [point(0, 0.5, 0.5, opaque)], [])
    assert said.points.shape == (int(opaque), 2)
    assert (said.pairs.shape, said.darker.shape, said.weight.shape) == ((0, 2), (0,), (0,))
    assert said.warped(FLIP).points.shape == (int(opaque), 2)


def test_labels_are_read_as_bytes(folder: Path) -> None:
    label(folder, labels_with(1))
    classes = loaded(folder).shading_classes
    assert classes is not None
    assert classes.dtype == torch.uint8
    assert torch.equal(classes, torch.from_numpy(labels_with(1)))


def spoil(folder: Path, how: str) -> None:
    truth = folder / "truth"
    good = [point(0, 0.1, 0.1), point(1, 0.9, 0.9)]
    match how:
        case "size":
            write_image(truth / "reflectance.exr", light(size=(H, W + 1)))
        case "shading size":
            write_image(truth / "shading" / "0002.exr", light(size=(H + 1, W)))
        case "classes size":
            label(folder, labels_with(1)[:, 1:])
        case "two":
            write_image(truth / "reflectance.exr", light())
            write_image(truth / "reflectance.png", light())
        case "both":
            write_image(truth / "shading.exr", light())
        case "too many":
            write_image(truth / "shading" / "0004.exr", light())
        case "other name":
            write_image(truth / "shading" / "dawn.exr", light())
        case "no picture":
            (truth / "reflectance.png").write_bytes(b"no picture")
        case "unknown encoding":
            values = np.full(SIZE, 30000, np.uint16)
            PIL.Image.fromarray(values).save(truth / "reflectance.png")
        case "label":
            label(folder, labels_with(3))
        case "color":
            color = np.stack([labels_with(1), labels_with(1), np.full(SIZE, 2)], -1)
            label(folder, color, "RGB")
        case "16 bits":
            PIL.Image.fromarray(labels_with(1).astype(np.uint16) * 257).save(truth / "shading_classes.png")
        case "no json":
            (truth / "judgements.json").write_text("{")
        case "no object":
            (truth / "judgements.json").write_text("[]")
        case "no comparisons":
            (truth / "judgements.json").write_text(json.dumps({"intrinsic_points": good}))
        case "points of nothing":
            judge(folder, 3, [])
        case "no coordinate":
            judge(folder, [{"id": 0, "x": 0.5, "opaque": True}], [])
        case "outside":
            judge(folder, [point(0, 1.1, 0.5)], [])
        case "not a number":
            judge(folder, [point(0, math.nan, 0.5)], [])
        case "unknown point":
            judge(folder, good, [comparison(0, 5)])
        case "wordy score":
            judge(folder, good, [comparison(0, 1, darker_score="sure")])
        case "heavy score":
            judge(folder, good, [comparison(0, 1, darker_score=1e39)])
        case "damaged sequence":
            (folder / "sequence.json").write_text("{}")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("size", r"reflectance.exr: has 9 x 6 pixels, the frames 8 x 6; give"),
        ("shading size", r"0002.exr: has 8 x 7 pixels"),
        ("classes size", r"shading_classes.png: has 7 x 6 pixels"),
        ("two", r"reflectance.exr: reflectance.png says the same; remove one"),
        ("both", r"shading.exr: shading/ says the same; remove one"),
        ("too many", r"0004.exr: belongs to none of 3 frames"),
        ("other name", r"dawn.exr: belongs to none of 3 frames; call it 0001"),
        ("no picture", r"reflectance.png: is .*; "),
        ("unknown encoding", r"reflectance.png: .*does not say how they are encoded; pass encoding="),
        ("label", r"shading_classes.png: has the label 3; give"),
        ("color", r"shading_classes.png: has 8-bit numbers or colors; give 8-bit gray"),
        ("16 bits", r"shading_classes.png: has 16-bit numbers or colors"),
        ("no json", r"judgements.json: is damaged .*; copy it again"),
        ("no object", r"judgements.json: is damaged"),
        ("no comparisons", r"lacks or misstates 'intrinsic_comparisons'"),
        ("points of nothing", r"judgements.json: is damaged"),
        ("no coordinate", r"lacks or misstates 'y'"),
        ("outside", r"point 0 lies outside the image"),
        ("not a number", r"point 0 lies outside the image"),
        ("unknown point", r"a comparison of the points \(0, 5\), which are not there"),
        ("wordy score", r"judgements.json: is damaged"),
        ("heavy score", r"judgements.json: is damaged .*weighs 1e\+39"),
        ("damaged sequence", r"sequence.json: is damaged .*; prepare the sequence again"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(folder: Path, how: str, message: str) -> None:
    spoil(folder, how)
    with pytest.raises(SequenceError, match=message) as caught:
        load_truth(folder, NAMES, SIZE)
    assert "\n" not in str(caught.value)


def test_names_of_another_sequence_are_refused(folder: Path) -> None:
    with pytest.raises(SequenceError, match="has no frame 'night'"):
        load_truth(folder, ("dawn", "night"), SIZE)


def test_the_encoding_may_be_given(folder: Path) -> None:
    spoil(folder, "unknown encoding")
    truth = load_truth(folder, NAMES, SIZE, encoding="linear")
    assert truth is not None
    assert truth.reflectance is not None
    torch.testing.assert_close(truth.reflectance, torch.full((3, H, W), 30000 / 65535))


def test_parts_that_do_not_fit_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="shading_valid must be"):
        Truth(shading=torch.zeros(2, 3, H, W))
    with pytest.raises(ValueError, match="shading_valid must be"):
        Truth(shading=torch.zeros(2, 3, H, W), shading_valid=torch.ones(3, dtype=torch.bool))
    with pytest.raises(ValueError, match="one size"):
        Truth(tensor(), shading_classes=torch.zeros(H, W + 1, dtype=torch.uint8))


def assert_same(a: Truth, b: Truth) -> None:
    assert a.judgements is not None
    assert b.judgements is not None
    for left, right in ((vars(a), vars(b)), (vars(a.judgements), vars(b.judgements))):
        for name, value in left.items():
            if isinstance(value, Tensor):
                torch.testing.assert_close(value, right[name], rtol=1e-5, atol=1e-6)


def test_the_identity_keeps_everything() -> None:
    truth = whole_truth()
    assert_same(truth.warped(IDENTITY, SIZE), truth)
    assert_same(truth.resized(SIZE), truth)
    assert_same(truth.to("cpu"), truth)
    assert_same(truth.frames(torch.arange(3)), truth)
    assert Truth().warped(IDENTITY, SIZE) == Truth().resized(SIZE) == Truth().frames(torch.tensor([0])) == Truth()


def test_every_part_moves_to_another_device() -> None:
    moved = whole_truth().to("meta")
    assert moved.judgements is not None
    parts = [*vars(moved).values(), *vars(moved.judgements).values()]
    assert {part.device.type for part in parts if isinstance(part, Tensor)} == {"meta"}


def test_a_flip_mirrors_pictures_classes_and_points() -> None:
    truth, flipped = whole_truth(), whole_truth().warped(FLIP, SIZE)
    assert truth.reflectance is not None
    assert flipped.reflectance is not None
    assert truth.shading is not None
    assert flipped.shading is not None
    assert truth.shading_classes is not None
    assert flipped.shading_classes is not None
    assert truth.judgements is not None
    assert flipped.judgements is not None
    torch.testing.assert_close(flipped.reflectance, truth.reflectance.flip(-1))
    torch.testing.assert_close(flipped.shading, truth.shading.flip(-1))
    assert torch.equal(flipped.shading_classes, truth.shading_classes.flip(-1))
    mirrored = truth.judgements.points.clone()
    mirrored[:, 0] = 1 - mirrored[:, 0]
    torch.testing.assert_close(flipped.judgements.points, mirrored)
    assert torch.equal(flipped.judgements.pairs, truth.judgements.pairs)


@pytest.mark.parametrize(
    ("theta", "size"),
    [
        (IDENTITY, SIZE),
        (FLIP, SIZE),
        (torch.tensor([[0.0, 1, 0], [-1, 0, 0]]), (W, H)),  # a quarter turn
        (torch.tensor([[-0.5, 0, -0.25], [0, 2 / 3, 1 / 3]]), (4, 4)),  # a flip and a crop, pixel for pixel
        (torch.tensor([[2.0, 0, 0.3], [0, 1.5, 0.1]]), (40, 50)),
    ],
)
def test_a_point_on_a_marked_pixel_stays_on_it(theta: Tensor, size: tuple[int, int]) -> None:
    h, w = size
    seen = 0
    for row in range(H):
        for column in range(W):
            picture = torch.full((3, H, W), 0.1)
            picture[:, row, column] = 1
            classes = (picture[0] == 1).to(torch.uint8)
            middle = ((column + 0.5) / W, (row + 0.5) / H)
            truth = Truth(picture, judgements=some_judgements(middle, middle), shading_classes=classes)
            moved = truth.warped(theta, size)
            assert moved.judgements is not None
            assert moved.reflectance is not None
            assert moved.shading_classes is not None
            for x, y in moved.judgements.points.tolist():
                place = int(y * h), int(x * w)
                assert moved.shading_classes[place] == 1
                if size != (40, 50) or (0 < row < H - 1 and 0 < column < W - 1):  # else partly outside
                    assert moved.reflectance[0][place] == moved.reflectance.max() > 0.5
                seen += 1
    assert seen >= 2 * 16


def test_a_crop_drops_points_outside_and_their_pairs() -> None:
    left = torch.tensor([[0.5, 0, -0.5], [0, 1, 0]])
    said = some_judgements((0.1, 0.5), (0.2, 0.5), (0.8, 0.5), (0.3, 0.9), (0.4, 0.1))
    kept = said.warped(left)
    torch.testing.assert_close(kept.points, torch.tensor([[0.2, 0.5], [0.4, 0.5], [0.6, 0.9], [0.8, 0.1]]))
    assert kept.pairs.tolist() == [[0, 1], [2, 3]]
    assert kept.darker.tolist() == [0, 0]
    assert kept.weight.tolist() == [1, 4]


def test_outside_everything_is_unknown() -> None:
    far = torch.tensor([[1.0, 0, 1], [0, 1, 0]])  # the right half, then nothing
    moved = whole_truth().warped(far, SIZE)
    assert moved.reflectance is not None
    assert moved.shading is not None
    assert moved.shading_classes is not None
    assert not moved.reflectance[..., W // 2 :].any()
    assert not moved.shading[..., W // 2 :].any()
    assert (moved.shading_classes[:, W // 2 :] == 100).all()
    torch.testing.assert_close(moved.reflectance[..., : W // 2], tensor()[..., W // 2 :])


@pytest.mark.parametrize("shift", [0.3, 1.0, 1.7])
def test_light_is_never_mixed_with_the_black_of_what_is_unknown(shift: float) -> None:
    flat = torch.full((3, H, W), 0.5)
    flat[:, 2, 3] = 0
    moved = Truth(flat).warped(torch.tensor([[1.0, 0, shift / W], [0, 1, -shift / H]]), SIZE).reflectance
    smaller = Truth(flat).resized((4, 5)).reflectance
    for picture in (moved, smaller):
        assert picture is not None
        assert (picture == 0).any()
        known = picture[picture > 0]
        torch.testing.assert_close(known, torch.full_like(known, 0.5))


def test_a_smaller_picture_has_the_means_of_areas() -> None:
    truth = whole_truth().resized((H // 2, W // 2))
    assert truth.reflectance is not None
    assert truth.shading_classes is not None
    means = tensor().reshape(3, H // 2, 2, W // 2, 2).mean((2, 4))
    torch.testing.assert_close(truth.reflectance, means)
    assert truth.shading_classes.shape == (H // 2, W // 2)
    assert set(truth.shading_classes.unique().tolist()) <= {0, 1, 2, 100}
    assert truth.judgements is not None
    larger = whole_truth().resized((2 * H, 2 * W)).reflectance
    assert larger is not None
    assert larger.shape == (3, 2 * H, 2 * W)
    torch.testing.assert_close(larger.mean(), means.mean(), rtol=0.02, atol=0)
    assert (larger[..., 1:] != larger[..., :-1]).all(), "in between it is linear"


def test_frames_are_chosen_by_number_or_by_truth() -> None:
    truth = whole_truth()
    assert truth.shading is not None
    chosen = truth.frames(torch.tensor([2, 1]))
    assert chosen.shading is not None
    assert chosen.shading_valid is not None
    assert chosen.shading_valid.tolist() == [True, False]
    assert torch.equal(chosen.shading, truth.shading[[2, 1]])
    assert chosen.reflectance is truth.reflectance
    kept = truth.frames(torch.tensor([False, True, True])).shading_valid
    assert kept is not None
    assert kept.tolist() == [False, True]


def test_without_shading_only_what_holds_in_any_light_is_left() -> None:
    truth = whole_truth()
    left = truth.without_shading()
    assert left.reflectance is truth.reflectance
    assert left.judgements is truth.judgements
    assert left.shading is left.shading_valid is left.shading_classes is None
