import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from tests.image_io.files import png_bytes
from unlit.color import linear_to_srgb
from unlit.data.sequence import Sequence, SequenceError, load_sequence, save_sequence
from unlit.image_io import ImageError, write_image


def sequence(m: int = 3, h: int = 5, w: int = 7, name: str = "garden") -> Sequence:
    generator = torch.Generator().manual_seed(0)
    frames = torch.rand((m, 3, h, w), generator=generator)
    mask = torch.rand((m, 1, h, w), generator=generator) > 0.3
    return Sequence(frames, mask, name, tuple(f"light{k}" for k in range(m)))


def saved(tmp_path: Path, **options: Any) -> Path:
    save_sequence(sequence(**options), tmp_path / "garden")
    return tmp_path / "garden"


def add_frame(folder: Path, name: str, light: float = 0.5, size: tuple[int, int] = (5, 7)) -> None:
    write_image(folder / name, np.full((*size, 3), light, np.float32))


def add_mask(folder: Path, name: str, valid: int = 255, size: tuple[int, int] = (5, 7)) -> None:
    PIL.Image.fromarray(np.full(size, valid, np.uint8)).save(folder / name)


def test_a_sequence_comes_back_from_disk(tmp_path: Path) -> None:
    before = sequence()
    save_sequence(before, tmp_path / "new" / "garden")
    after = load_sequence(tmp_path / "new" / "garden")
    difference = linear_to_srgb(after.frames) - linear_to_srgb(before.frames)
    assert difference.abs().max() <= 0.51 / 65535
    assert torch.equal(after.mask, before.mask)
    assert (after.name, after.frame_names, after.dropped) == (before.name, before.frame_names, ())


@pytest.mark.parametrize(("frame_format", "encoding"), [("png", "linear"), ("exr", None)])
def test_a_sequence_comes_back_from_other_files(tmp_path: Path, frame_format: Any, encoding: Any) -> None:
    save_sequence(sequence(), tmp_path / "a", frame_format=frame_format, encoding=encoding)
    assert (load_sequence(tmp_path / "a").frames - sequence().frames).abs().max() <= 0.51 / 65535


def test_frames_beyond_white_are_not_clipped_without_a_word(tmp_path: Path) -> None:
    bright = Sequence(3 * sequence().frames - 0.5, sequence().mask, "bright")
    with pytest.raises(SequenceError, match="frame_format='exr'"):
        save_sequence(bright, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    save_sequence(bright, tmp_path / "a", frame_format="exr")
    assert torch.equal(load_sequence(tmp_path / "a").frames, bright.frames)


def test_masks_on_disk_are_white_where_valid(tmp_path: Path) -> None:
    mask = np.asarray(PIL.Image.open(saved(tmp_path) / "masks" / "0001.png"))
    np.testing.assert_array_equal(mask, 255 * sequence().mask[0, 0].numpy())


def test_a_folder_that_has_something_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    save_sequence(sequence(), tmp_path / "a")
    with pytest.raises(SequenceError, match="exists already"):
        save_sequence(sequence(), tmp_path / "a")


def test_a_failure_leaves_no_half_sequence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, *_: Any, **__: Any) -> None:
        if path.name == "0002.png":
            raise ImageError(path, "cannot be written (disk full)", "make room")

    monkeypatch.setattr("unlit.data.sequence.write_image", fail)
    with pytest.raises(ImageError):
        save_sequence(sequence(), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_the_stated_encoding_serves_files_that_state_none(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    change(folder, lambda s: s.update(encoding="linear"))
    values = np.full((5, 7, 3), 32768, np.uint16)
    for path in (folder / "frames").iterdir():
        path.write_bytes(png_bytes(values))
    assert load_sequence(folder).frames.mean() == pytest.approx(0.5, abs=1e-4)
    assert load_sequence(folder, encoding="srgb").frames.mean() == pytest.approx(0.214, abs=1e-3)


def test_truth_is_left_alone(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder / "truth").mkdir()
    add_frame(folder / "truth", "reflectance.png", size=(9, 9))
    assert len(load_sequence(folder).frames) == 3


def test_a_folder_of_pictures_is_a_sequence_in_natural_order(tmp_path: Path) -> None:
    for name, light in {"frame10.png": 1.0, "frame2.jpg": 0.5, "frame1.exr": 0.0}.items():
        add_frame(tmp_path, name, light)
    (tmp_path / "notes.txt").write_text("sunny")
    (tmp_path / ".hidden.png").write_text("not a picture")
    (tmp_path / "subfolder.png").mkdir()
    loaded = load_sequence(tmp_path)
    assert loaded.frame_names == ("frame1", "frame2", "frame10")
    np.testing.assert_allclose(loaded.frames.mean((1, 2, 3)), [0, 0.5, 1], atol=0.01)
    assert loaded.mask.all()
    assert loaded.name == tmp_path.name
    assert loaded.frames.dtype == torch.float32


def test_masks_beside_the_frames_are_theirs(tmp_path: Path) -> None:
    for k in range(2):
        add_frame(tmp_path, f"{k}.png")
        half = np.zeros((5, 7), np.uint8)
        half[:, : 3 + k] = 255
        PIL.Image.fromarray(half).save(tmp_path / f"{k}_mask.png")
    assert load_sequence(tmp_path).mask.sum((1, 2, 3)).tolist() == [15, 20]


def test_one_mask_may_serve_all_frames_that_have_none(tmp_path: Path) -> None:
    for k in range(3):
        add_frame(tmp_path, f"{k}.png")
    shared, own = np.zeros((5, 7), np.uint8), np.zeros((5, 7), np.uint8)
    shared[0], own[:2] = 255, 255
    PIL.Image.fromarray(shared).save(tmp_path / "mask.png")
    PIL.Image.fromarray(own).save(tmp_path / "1_mask.png")
    assert load_sequence(tmp_path).mask.sum((1, 2, 3)).tolist() == [7, 14, 7]


def test_a_mask_is_valid_from_half_of_white_on(tmp_path: Path) -> None:
    for k in range(2):
        add_frame(tmp_path, f"{k}.png", size=(1, 4))
    PIL.Image.fromarray(np.array([[0, 127, 128, 255]], np.uint8)).save(tmp_path / "mask.png")
    assert load_sequence(tmp_path).mask[0].flatten().tolist() == [False, False, True, True]


def test_a_mask_missing_beside_one_frame_only_is_refused(tmp_path: Path) -> None:
    for k in range(3):
        add_frame(tmp_path, f"{k}.png")
    add_mask(tmp_path, "0_mask.png")
    with pytest.raises(SequenceError, match=r"1\.png has no mask though others have"):
        load_sequence(tmp_path)


def test_a_pattern_chooses_the_frames(tmp_path: Path) -> None:
    for name in ("light01.png", "light02.png", "diffuse.png", "shading.png"):
        add_frame(tmp_path, name)
    add_mask(tmp_path, "mask.png")
    assert load_sequence(tmp_path, pattern="light*").frame_names == ("light01", "light02")
    with pytest.raises(SequenceError, match=r"shading\.png does not look like a frame; move it"):
        load_sequence(tmp_path)
    with pytest.raises(SequenceError, match=r"no pictures that fit 'dark\*'"):
        load_sequence(tmp_path, pattern="dark*")


def test_frames_of_differing_size_are_refused_with_both_sizes(tmp_path: Path) -> None:
    for k, size in enumerate([(5, 7), (5, 7), (7, 5)]):
        add_frame(tmp_path, f"{k}.png", size=size)
    with pytest.raises(SequenceError, match=r"2\.png has 5 x 7 pixels, the others 7 x 5"):
        load_sequence(tmp_path)


def test_a_mask_of_another_size_is_refused(tmp_path: Path) -> None:
    for k in range(2):
        add_frame(tmp_path, f"{k}.png")
    add_mask(tmp_path, "mask.png", size=(4, 4))
    with pytest.raises(SequenceError, match=r"mask\.png has 4 x 4 pixels, the others 7 x 5"):
        load_sequence(tmp_path)


def test_frames_without_a_valid_pixel_are_dropped_by_name(tmp_path: Path) -> None:
    for k in range(4):
        add_frame(tmp_path, f"{k}.png", light=k / 4)
        add_mask(tmp_path, f"{k}_mask.png", valid=0 if k in (0, 2) else 255)
    loaded = load_sequence(tmp_path)
    assert loaded.frame_names == ("1", "3")
    assert loaded.dropped == ("0", "2")
    np.testing.assert_allclose(loaded.frames.mean((1, 2, 3)), [0.25, 0.75], atol=0.01)
    with pytest.raises(SequenceError, match=r"2 frame\(s\) and 2 wholly masked or unreadable; a sequence needs 3"):
        load_sequence(tmp_path, min_frames=3)


def test_a_sequence_without_a_valid_pixel_is_refused(tmp_path: Path) -> None:
    for k in range(2):
        add_frame(tmp_path, f"{k}.png")
    add_mask(tmp_path, "mask.png", valid=0)
    with pytest.raises(SequenceError, match="no frame has a valid pixel"):
        load_sequence(tmp_path)


def test_a_single_frame_is_refused_unless_one_is_enough(tmp_path: Path) -> None:
    add_frame(tmp_path, "only.png")
    with pytest.raises(SequenceError, match="a sequence needs 2"):
        load_sequence(tmp_path)
    assert load_sequence(tmp_path, min_frames=1).frames.shape == (1, 3, 5, 7)


def test_what_is_no_folder_of_pictures_is_refused(tmp_path: Path) -> None:
    add_frame(tmp_path, "a.png")
    for path in (tmp_path / "a.png", tmp_path / "none"):
        with pytest.raises(SequenceError, match="is not a folder"):
            load_sequence(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SequenceError, match="has no pictures"):
        load_sequence(tmp_path / "empty")


def test_a_frame_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    add_frame(tmp_path, "0.png")
    (tmp_path / "1.png").write_bytes((tmp_path / "0.png").read_bytes()[:-20])
    with pytest.raises(ImageError, match=r"1\.png: is cut short"):
        load_sequence(tmp_path)


@pytest.mark.parametrize("file", ["frames/0002.png", "masks/0003.png"])
def test_a_file_named_but_missing_is_refused(tmp_path: Path, file: str) -> None:
    folder = saved(tmp_path)
    (folder / file).unlink()
    with pytest.raises(SequenceError, match=f"{file} is named in sequence.json but missing"):
        load_sequence(folder)


def change(folder: Path, edit: Callable[[Any], Any]) -> None:
    stated = json.loads((folder / "sequence.json").read_text())
    edit(stated)
    (folder / "sequence.json").write_text(json.dumps(stated))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda s: s.update(version=2), "has version 2, and only 1 is known"),
        (lambda s: s.pop("version"), "is damaged .*version"),
        (lambda s: s.pop("frames"), "is damaged .*frames"),
        (lambda s: s.update(frames=[]), "is damaged .no frames"),
        (lambda s: s.update(frames=[7]), "is damaged"),
        (lambda s: s["frames"][0].pop("file"), "is damaged .*file"),
        (lambda s: s["frames"][0].update(file=7), "is damaged"),
        (lambda s: s.update(encoding="gamma"), "is damaged .*gamma"),
        (lambda s: s.update(size=None), "is damaged"),
        (lambda s: s["size"].update(height="tall"), "is damaged"),
        (lambda s: s["size"].update(height=9), "has 7 x 5 pixels, the others 7 x 9"),
        (lambda s: s["frames"][0].update(file="../secret.png"), "lies outside"),
        (lambda s: s["frames"][1].update(mask="masks/../../secret.png"), "lies outside"),
        (lambda s: s["frames"][0].update(file="/etc/secret.png"), "lies outside"),
        (lambda s: s["frames"][0].update(file="..\\secret.png"), "lies outside"),
    ],
)
def test_a_description_that_cannot_be_right_is_refused(tmp_path: Path, edit: Callable[[Any], Any], words: str) -> None:
    folder = saved(tmp_path)
    add_frame(tmp_path, "secret.png")
    change(folder, edit)
    with pytest.raises(SequenceError, match=words):
        load_sequence(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"version": 1}'])
def test_a_description_that_is_damaged_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = saved(tmp_path)
    (folder / "sequence.json").write_bytes(content)
    with pytest.raises(SequenceError, match=r"sequence\.json: is damaged .*; prepare the sequence again"):
        load_sequence(folder)


def test_a_frame_may_be_stated_without_mask_or_name(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    change(folder, lambda s: [s["frames"][1].pop("mask"), s["frames"][1].pop("name"), s["frames"][2].update(mask=None)])
    shutil.rmtree(folder / "masks")
    change(folder, lambda s: s["frames"][0].pop("mask"))
    loaded = load_sequence(folder)
    assert loaded.mask.all()
    assert loaded.frame_names == ("light0", "0002", "light2")


def test_names_of_any_script_come_back(tmp_path: Path) -> None:
    save_sequence(sequence(name="Gärten 庭"), tmp_path / "mit Leerzeichen 庭")
    assert load_sequence(tmp_path / "mit Leerzeichen 庭").name == "Gärten 庭"


FRAMES, MASK = sequence().frames, sequence().mask


@pytest.mark.parametrize(
    ("frames", "mask", "words"),
    [
        (FRAMES[0], MASK, r"shape \(3, 5, 7\)"),
        (FRAMES[:, :1], MASK, "shape"),
        (FRAMES[:0], MASK[:0], "at least one frame"),
        (FRAMES.double(), MASK, "torch.float32"),
        (FRAMES, MASK[:2], r"\(3, 1, 5, 7\)"),
        (FRAMES, MASK.expand(-1, 3, -1, -1), r"\(3, 1, 5, 7\)"),
        (FRAMES, MASK.float(), "torch.bool"),
        (FRAMES.clone().index_fill_(0, torch.tensor([1]), torch.nan), MASK, "frame '0002' has values that are NaN"),
        (FRAMES, torch.zeros_like(MASK), "no frame has a valid pixel"),
    ],
)
def test_what_is_no_sequence_is_refused(frames: torch.Tensor, mask: torch.Tensor, words: str) -> None:
    with pytest.raises(SequenceError, match=words):
        Sequence(frames, mask, "bad")


def test_there_is_a_name_for_each_frame() -> None:
    assert Sequence(FRAMES, MASK, "a").frame_names == ("0001", "0002", "0003")
    with pytest.raises(SequenceError, match="2 names for 3 frames"):
        Sequence(FRAMES, MASK, "a", ("b", "c"))


@pytest.mark.data
def test_the_mit_objects_are_sequences(shared_data: Path) -> None:
    loaded = load_sequence(shared_data / "mit-intrinsic" / "apple", pattern="light*", encoding="linear")
    assert loaded.frame_names == tuple(f"light{k:02}" for k in range(1, 11))
    assert loaded.name == "apple"
    assert 0.05 < loaded.mask.float().mean() < 0.95
    assert loaded.mask[0].equal(loaded.mask[9])


@pytest.mark.data
def test_webcams_and_objects_are_sequences(shared_data: Path) -> None:
    assert len(load_sequence(shared_data / "webcams" / "courbevoie").frames) >= 40
    objects = load_sequence(shared_data / "lights-uw" / "gray")
    assert objects.frame_names == tuple(str(k) for k in range(12))


@pytest.mark.parametrize("name", ["../escaped", "/absolute", "a/b", "", "..", "a\0b", "back\\slash"])
def test_a_name_that_leads_out_of_its_folder_is_refused(name: str) -> None:
    frames, mask = torch.zeros(2, 3, 4, 4), torch.ones(2, 1, 4, 4, dtype=torch.bool)
    with pytest.raises(SequenceError, match="name"):
        Sequence(frames, mask, name)
    with pytest.raises(SequenceError, match="name"):
        Sequence(frames, mask, "view", ("fine", name))


def test_two_frames_of_one_name_are_refused() -> None:
    with pytest.raises(SequenceError, match="'a' names two frames"):
        Sequence(torch.zeros(2, 3, 4, 4), torch.ones(2, 1, 4, 4, dtype=torch.bool), "view", ("a", "a"))


@pytest.mark.parametrize("height", ["Infinity", "1e400", "null", '"x"'])
def test_a_size_that_is_no_number_is_damage_and_no_crash(tmp_path: Path, height: str) -> None:
    save_sequence(Sequence(torch.zeros(2, 3, 4, 4), torch.ones(2, 1, 4, 4, dtype=torch.bool), "view"), tmp_path / "s")
    description = (tmp_path / "s" / "sequence.json").read_text()
    (tmp_path / "s" / "sequence.json").write_text(description.replace('"height": 4', f'"height": {height}'))
    with pytest.raises(SequenceError, match="damaged"):
        load_sequence(tmp_path / "s")


def test_json_nested_too_deeply_and_names_too_long_are_damage(tmp_path: Path) -> None:
    save_sequence(Sequence(torch.zeros(2, 3, 4, 4), torch.ones(2, 1, 4, 4, dtype=torch.bool), "view"), tmp_path / "s")
    description = (tmp_path / "s" / "sequence.json").read_text()
    for damaged in ("[" * 100_000, description.replace("frames/0001.png", "f" * 300)):
        (tmp_path / "s" / "sequence.json").write_text(damaged)
        with pytest.raises(SequenceError, match=r"damaged|missing"):
            load_sequence(tmp_path / "s")
