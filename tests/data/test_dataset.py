"""Datasets of every kind: what is found, how it is read, and what is said of the rest."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor

from tests.data.packed import assert_equal, without_index
from tests.train.world import tiny_dataset, tiny_sequence
from unlit.data.dataset import Dataset, FolderSource, Item, MemorySource, Skipped, dataset_of, open_dataset
from unlit.data.sequence import Sequence, SequenceError, load_sequence, save_sequence
from unlit.data.settings import DataSettings
from unlit.data.shards import write_shards
from unlit.data.sizing import LANDSCAPE, PORTRAIT, SQUARE, paper_size, places_of, read_usable, resized, sized, unclipped
from unlit.data.truth import Truth
from unlit.image_io import write_image

SMALL = {"m": 2, "h": 10, "w": 12}


def small(seed: int = 0, name: str | None = None) -> Sequence:
    sequence = tiny_sequence(seed, **SMALL)
    return replace(sequence, name=name or sequence.name)


def described(folder: Path, *entries: dict[str, Any], version: Any = 1) -> Path:
    """Write `dataset.json` and return its folder."""
    folder.mkdir(exist_ok=True)
    (folder / "dataset.json").write_text(json.dumps({"version": version, "sequences": entries}))
    return folder


def pictures(folder: Path, names: tuple[str, ...], suffix: str = ".png") -> Path:
    folder.mkdir(parents=True)
    for k, name in enumerate(names):
        write_image(folder / f"{name}{suffix}", np.full((6, 8, 3), 0.1 + 0.1 * k, np.float32))
    return folder


def names(dataset: Dataset) -> list[str]:
    return [source.name for source in dataset.sources]


# Kinds ---------------------------------------------------------------------------------------------------------------


def test_a_prepared_dataset_has_the_sequences_it_names_in_its_splits(tmp_path: Path) -> None:
    for k in range(4):
        save_sequence(small(k), tmp_path / "data" / "all" / str(k))
    described(
        tmp_path / "data",
        {"name": "wall", "folder": "all/2", "split": "train"},
        {"name": "street", "folder": "all/0", "split": "validation"},
        {"name": "garden", "folder": "all/1", "split": "test"},
        {"name": "yard", "folder": "all/3"},
    )
    dataset = open_dataset(tmp_path / "data")
    assert names(dataset) == ["wall", "street", "garden", "yard"]
    assert names(dataset.part("train")) == ["wall", "yard"]
    assert names(dataset.part("validation")) == ["street"]
    assert names(dataset.part("test")) == ["garden"]
    assert dataset.place == str(tmp_path / "data")
    item = dataset.sources[0].read()
    assert item.sequence.name == "wall"
    torch.testing.assert_close(item.sequence.frames, small(2).frames, rtol=0, atol=1e-4)
    assert torch.equal(item.sequence.mask, small(2).mask)
    assert (item.truth, item.one_light) == (None, False)


def test_sequences_in_shards_are_read_as_from_their_folders(tmp_path: Path) -> None:
    for k in range(3):
        save_sequence(small(k), tmp_path / str(k))
    write_shards([tmp_path / str(k) for k in range(3)], tmp_path / "shards", shard_bytes=1)
    dataset = open_dataset(tmp_path / "shards")
    assert (names(dataset), dataset.skipped) == (["place0", "place1", "place2"], ())
    for k, source in enumerate(dataset.sources):
        assert_equal(source.read().sequence, load_sequence(tmp_path / str(k)))


@pytest.mark.parametrize("damage", [b"", b"not a tar file at all"])
def test_damaged_shards_are_named_and_the_others_are_used(tmp_path: Path, damage: bytes) -> None:
    for k in range(3):
        save_sequence(small(k), tmp_path / str(k))
    shards = write_shards([tmp_path / str(k) for k in range(3)], tmp_path / "shards", shard_bytes=1)
    without_index(tmp_path / "shards")
    shards[1].write_bytes(damage)
    dataset = open_dataset(tmp_path / "shards")
    assert names(dataset) == ["place0", "place2"]
    (skipped,) = dataset.skipped
    assert str(shards[1]) in skipped.reason
    assert "copy the shard again" in skipped.reason
    assert dataset.part("train").skipped == dataset.skipped
    for shard in shards:
        shard.write_bytes(damage)
    with pytest.raises(SequenceError, match=r"has no sequences \(.*unlit-000000.tar"):
        open_dataset(tmp_path / "shards")


def test_other_archives_do_not_make_a_folder_one_of_shards(tmp_path: Path) -> None:
    pictures(tmp_path / "data" / "wall", ("a", "b"))
    (tmp_path / "data" / "backup.tar").write_bytes(b"")
    assert names(open_dataset(tmp_path / "data")) == ["wall"]


def mit_like(folder: Path, lights: int = 3) -> Path:
    """An object as the MIT set has it: its files do not say that they are linear."""
    folder.mkdir(parents=True)
    for k in range(1, lights + 1):
        PIL.Image.new("RGB", (8, 6), (51 * k,) * 3).save(folder / f"light{k:02}.png")
    for name in ("original", "diffuse", "shading", "reflectance", "specular"):
        PIL.Image.new("RGB", (8, 6), (204,) * 3).save(folder / f"{name}.png")
    mask = np.ones((6, 8), np.float32)
    mask[:2] = 0
    write_image(folder / "mask.png", mask, encoding="linear")
    return folder


@pytest.mark.parametrize("whole_set", [True, False])
def test_an_object_of_the_mit_set_has_its_lamps_for_frames_and_nothing_else(tmp_path: Path, whole_set: bool) -> None:
    mit_like(tmp_path / "set" / "apple")
    mit_like(tmp_path / "set" / "box")
    dataset = open_dataset(tmp_path / "set" if whole_set else tmp_path / "set" / "apple")
    assert names(dataset) == (["apple", "box"] if whole_set else ["apple"])
    item = dataset.sources[0].read()
    assert item.sequence.frame_names == ("light01", "light02", "light03")
    assert item.one_light
    assert item.truth is None
    # Linear as they are stored, with one mask for all.
    levels = item.sequence.frames.mean((1, 2, 3)).tolist()
    assert levels == pytest.approx([0.2, 0.4, 0.6], abs=1e-4)
    assert torch.equal(item.sequence.mask[:, 0], (torch.arange(6) >= 2)[None, :, None].expand(3, 6, 8))


def test_truth_is_read_where_it_is_wanted(tmp_path: Path) -> None:
    mit_like(tmp_path / "set" / "apple")
    (source,) = open_dataset(tmp_path / "set", with_truth=True).sources
    truth = source.read().truth
    assert truth is not None
    assert truth.reflectance is not None
    torch.testing.assert_close(truth.reflectance, torch.full((3, 6, 8), 0.8), rtol=0, atol=1e-4)


def test_a_folder_of_folders_is_a_set_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("wall", "garden", ".hidden"):
        pictures(tmp_path / "set" / name, ("a", "b"))
    (tmp_path / "set" / "notes.txt").write_text("mine")
    dataset = open_dataset(tmp_path / "set")
    assert names(dataset) == ["garden", "wall"]
    assert [source.split for source in dataset.sources] == ["train", "train"]
    assert dataset.sources[1].read().sequence.frame_names == ("a", "b")


@pytest.mark.parametrize("suffix", [".png", ".PNG", ".tif", ".jpg", ".webp", ".hdr"])
def test_one_folder_of_frames_is_a_set_of_one(tmp_path: Path, suffix: str) -> None:
    pictures(tmp_path / "plain", ("a", "b"), ".png" if suffix == ".PNG" else suffix)
    if suffix == ".PNG":
        for path in (tmp_path / "plain").iterdir():
            path.rename(path.with_suffix(".PNG"))
    dataset = open_dataset(tmp_path / "plain")
    assert names(dataset) == ["plain"]
    assert len(dataset.sources[0].read().sequence.frames) == 2


def test_a_prepared_sequence_alone_is_a_set_of_one(tmp_path: Path) -> None:
    save_sequence(small(), tmp_path / "prepared")
    assert names(open_dataset(tmp_path / "prepared")) == ["prepared"]


def test_sequences_in_memory_are_a_set(tmp_path: Path) -> None:
    dataset = dataset_of([small(0), small(1)], one_light=True)
    assert (names(dataset), dataset.place) == (["place0", "place1"], "memory")
    assert dataset.sources[0].read().one_light
    assert not MemorySource(Item(small())).read().one_light


@pytest.mark.parametrize("stated", [True, False, None, 1])
def test_a_sequence_may_say_that_it_has_one_lamp_a_frame(tmp_path: Path, stated: Any) -> None:
    save_sequence(small(), tmp_path / "s")
    file = tmp_path / "s" / "sequence.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "one_light": stated}))
    assert open_dataset(tmp_path / "s").sources[0].read().one_light is (stated is True)
    write_shards([tmp_path / "s"], tmp_path / "shards")
    assert open_dataset(tmp_path / "shards").sources[0].read().one_light is (stated is True)


# What is wrong -------------------------------------------------------------------------------------------------------


def test_no_folder_and_no_sequences_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SequenceError, match=r"nowhere: is not a folder"):
        open_dataset(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(SequenceError, match=r"file: is not a folder"):
        open_dataset(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SequenceError, match=r"empty: has no sequences; give"):
        open_dataset(tmp_path / "empty")
    with pytest.raises(SequenceError, match=r"none: has no sequences; give"):
        open_dataset(described(tmp_path / "none"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "[" * 10_000,
        "{}",
        '{"version": 1}',
        '{"version": 1, "sequences": 3}',
        '{"version": 1, "sequences": [3]}',
        '{"version": 1, "sequences": ["wall"]}',
        '{"version": 1, "sequences": [{"folder": "wall"}]}',
        '{"version": 1, "sequences": [{"name": "wall"}]}',
    ],
)
def test_a_damaged_description_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "dataset.json").write_text(text)
    with pytest.raises(SequenceError, match=r"dataset.json: is damaged \(.*prepare the dataset again") as caught:
        open_dataset(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_description_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SequenceError, match=r"dataset.json: is damaged"):
        open_dataset(tmp_path)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_other_versions_are_refused(tmp_path: Path, version: Any) -> None:
    described(tmp_path, {"name": "wall", "folder": "wall"}, version=version)
    with pytest.raises(SequenceError, match=rf"dataset.json: has version {version!r}, and only 1 is known; update"):
        open_dataset(tmp_path)


@pytest.mark.parametrize("folder", ["../wall", "a/../../wall", "/etc", ".."])
def test_folders_outside_the_dataset_are_refused(tmp_path: Path, folder: str) -> None:
    described(tmp_path, {"name": "wall", "folder": folder})
    with pytest.raises(SequenceError, match=r"dataset.json: .* lies outside the dataset"):
        open_dataset(tmp_path)


@pytest.mark.parametrize("split", ["training", "", None, 3, ["train"]])
def test_unknown_splits_are_refused(tmp_path: Path, split: Any) -> None:
    described(tmp_path, {"name": "wall", "folder": "wall", "split": split})
    with pytest.raises(SequenceError, match=r"dataset.json: split .* is none of train, validation, test"):
        open_dataset(tmp_path)


def test_a_frame_that_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    pictures(tmp_path / "wall", ("a", "b", "c"))
    (tmp_path / "wall" / "b.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    sequence = open_dataset(tmp_path / "wall").sources[0].read().sequence
    assert (sequence.frame_names, sequence.dropped) == (("a", "c"), ("b",))


def test_what_cannot_be_used_is_skipped_with_the_reason(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "data", **SMALL)
    (data / "place0" / "sequence.json").write_text("{")
    for frame in (data / "place1" / "frames").iterdir():
        frame.write_bytes(b"")
    (data / "place2" / "frames" / "0001.png").unlink()
    settings = DataSettings(window=8)
    for source, reason in zip(
        open_dataset(data).sources, ("sequence.json: is damaged", ".png", "0001.png is named"), strict=True
    ):
        skipped = read_usable(source, settings)
        assert isinstance(skipped, Skipped)
        assert skipped.name == source.name
        assert reason in skipped.reason


def test_a_single_frame_is_no_sequence_unless_its_truth_is_known(tmp_path: Path) -> None:
    pictures(tmp_path / "one", ("a",))
    source = FolderSource("one", tmp_path / "one", with_truth=True)
    with pytest.raises(SequenceError, match=r"one: has a single frame; a sequence needs 2"):
        source.read()
    (tmp_path / "one" / "truth").mkdir()
    write_image(tmp_path / "one" / "truth" / "reflectance.png", np.full((6, 8, 3), 0.5, np.float32))
    assert source.read().truth is not None
    pictures(tmp_path / "broken", ("a", "b"))
    (tmp_path / "broken" / "b.png").write_bytes(b"")
    with pytest.raises(SequenceError, match=r"single frame \(1 left out\)"):
        FolderSource("broken", tmp_path / "broken").read()


def test_the_fingerprint_is_of_the_names_in_their_order() -> None:
    def fingerprint(*chosen: str) -> str:
        return dataset_of([small(0, name) for name in chosen]).fingerprint

    assert fingerprint("a", "b") == fingerprint("a", "b")
    assert len({fingerprint(*some) for some in (("a", "b"), ("b", "a"), ("ab",), ("a",), ("a", "c"))}) == 5


# Size ----------------------------------------------------------------------------------------------------------------


def test_the_paper_chooses_by_aspect_and_turns_at_the_root_of_one_and_a_half() -> None:
    turn = math.sqrt(1.5)
    for side in (100, 1000, 4000):
        above, below = math.ceil(side * turn * 1.001), math.floor(side * turn / 1.001)
        assert paper_size(side, above) == LANDSCAPE == (256, 384)
        assert paper_size(above, side) == PORTRAIT == (384, 256)
        assert paper_size(side, below) == paper_size(below, side) == SQUARE == (256, 256)
    assert paper_size(480, 640) == LANDSCAPE
    assert paper_size(5, 5) == SQUARE
    assert paper_size(1, 1000) == LANDSCAPE


def item(h: int, w: int, m: int = 2, seed: int = 0) -> Item:
    g = torch.Generator().manual_seed(seed)
    frames = torch.rand(m, 3, h, w, generator=g)
    # A plain wall: its shading is resampled as frames are, where that of a pattern is what the light leaving it says.
    truth = Truth(torch.full((3, h, w), 0.5), frames + 0.2, torch.ones(m, dtype=torch.bool))
    return Item(Sequence(frames, torch.ones(m, 1, h, w, dtype=torch.bool), "wall"), truth, one_light=True)


@pytest.mark.parametrize("size", [(300, 500), (20, 31), (256, 384)])
def test_whole_pictures_get_the_size_of_the_paper_with_their_truth(size: tuple[int, int]) -> None:
    result = sized(item(*size), DataSettings())
    assert result.sequence.frames.shape == (2, 3, 256, 384)
    assert result.sequence.mask.shape == (2, 1, 256, 384)
    assert result.sequence.mask.all()
    assert result.truth is not None
    assert result.truth.reflectance is not None
    assert result.truth.shading is not None
    assert result.truth.reflectance.shape == (3, 256, 384)
    assert result.truth.shading.shape == (2, 3, 256, 384)
    assert result.one_light
    torch.testing.assert_close(result.truth.shading, result.sequence.frames + 0.2, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("before", "after"),
    [((20, 30), (20, 30)), ((40, 20), (32, 16)), ((33, 64), (16, 32)), ((20, 32), (20, 32)), ((1, 640), (1, 32))],
)
def test_pictures_for_windows_shrink_to_the_longest_side_allowed_and_never_grow(
    before: tuple[int, int], after: tuple[int, int]
) -> None:
    settings = DataSettings(window=8, longest=32)
    result = sized(item(*before), settings)
    assert result.sequence.frames.shape[2:] == after
    if before == after:
        assert torch.equal(result.sequence.frames, item(*before).sequence.frames)


def test_shrinking_takes_means_and_growing_keeps_the_range() -> None:
    frames = item(40, 60).sequence.frames
    halved = frames.reshape(2, 3, 20, 2, 30, 2).mean((3, 5))
    torch.testing.assert_close(resized(frames, (20, 30)), halved)
    for size in ((80, 120), (20, 120), (80, 30)):
        assert resized(frames, size).shape == (2, 3, *size)
        assert resized(frames, size).min() >= 0
        assert resized(frames, size).max() <= 1
        assert resized(frames, size).mean().item() == pytest.approx(frames.mean().item(), abs=0.01)


def covered(mask: Tensor, size: tuple[int, int]) -> Tensor:
    """Where a smaller picture's pixels (h, w) lie on masked ones, at least with half a pixel."""
    (h, w), out = mask.shape, torch.zeros(size, dtype=torch.bool)
    for y in range(size[0]):
        for x in range(size[1]):
            rows = [r for r in range(h) if min(r + 1, (y + 1) * h / size[0]) - max(r, y * h / size[0]) >= 0.5]
            columns = [c for c in range(w) if min(c + 1, (x + 1) * w / size[1]) - max(c, x * w / size[1]) >= 0.5]
            out[y, x] = not bool(mask[rows][:, columns].all())
    return out


def test_a_smaller_pixel_counts_only_if_all_that_it_covers_does() -> None:
    one = item(40, 60)
    mask = torch.rand(2, 1, 40, 60, generator=torch.Generator().manual_seed(1)) > 0.02
    one = replace(one, sequence=replace(one.sequence, mask=mask))
    result = sized(one, DataSettings(window=8, longest=25)).sequence
    for k in range(2):
        assert not (result.mask[k, 0] & covered(mask[k, 0], (17, 25))).any()
    assert result.mask.any()


def test_frames_that_lose_their_last_valid_pixel_are_left_out_and_named() -> None:
    one = item(40, 60, m=3)
    mask = one.sequence.mask.clone()
    mask[1] = False
    mask[1, :, 5, 5] = True
    sequence = replace(one.sequence, mask=mask, dropped=("gone",))
    result = sized(replace(one, sequence=sequence), DataSettings(window=8, longest=20))
    assert result.sequence.frame_names == ("0001", "0003")
    assert result.sequence.dropped == ("gone", "0002")
    assert len(result.sequence.frames) == len(result.sequence.mask) == 2
    assert result.truth is not None
    assert result.truth.shading is not None
    torch.testing.assert_close(result.truth.shading, result.sequence.frames + 0.2)


def test_a_sequence_whose_valid_pixels_are_too_scattered_is_refused() -> None:
    one = item(40, 60)
    mask = torch.zeros(2, 1, 40, 60, dtype=torch.bool)
    mask[:, :, ::3, ::3] = True
    one = replace(one, sequence=replace(one.sequence, mask=mask))
    skipped = read_usable(MemorySource(one), DataSettings(window=8, longest=20))
    assert isinstance(skipped, Skipped)
    assert "too scattered" in skipped.reason


def test_places_are_those_where_some_frame_is_valid() -> None:
    one = item(4, 5)
    mask = torch.zeros(2, 1, 4, 5, dtype=torch.bool)
    mask[0, 0, 1, 3] = mask[1, 0, 1, 3] = mask[1, 0, 2, 0] = True
    one = replace(one, sequence=replace(one.sequence, mask=mask))
    assert places_of(one).tolist() == [[1, 3], [2, 0]]


def test_pixels_that_the_camera_clipped_are_masked_before_anything_makes_them_darker() -> None:
    sequence = small()
    frames = sequence.frames.clone()
    frames[0, 1, 6, 7] = 1.0
    frames[1, 0, 4, 5] = 1.5  # a float beyond white is light, not a clipped pixel
    mask = unclipped(Item(replace(sequence, frames=frames))).sequence.mask
    assert not mask[0, 0, 6, 7]
    assert mask.sum() == sequence.mask.sum() - 1


def test_a_sequence_that_is_clipped_everywhere_is_refused() -> None:
    sequence = small()
    with pytest.raises(SequenceError, match="every valid pixel is clipped"):
        unclipped(Item(replace(sequence, frames=torch.ones_like(sequence.frames))))


def test_other_files_have_another_fingerprint(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "data", 2, **SMALL)
    before = open_dataset(data).fingerprint
    assert open_dataset(data).fingerprint == before
    (data / "place1" / "frames" / "0001.png").write_bytes(b"another picture")
    assert open_dataset(data).fingerprint != before


def test_folders_that_do_not_say_can_be_said_to_be_linear_and_of_one_light_each(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for k in range(2):
        PIL.Image.fromarray(np.full((4, 5), 16384, np.uint16)).save(tmp_path / "a" / f"{k}.png")
    (source,) = open_dataset(tmp_path, encoding="linear", one_light=True).sources
    item = source.read()
    assert item.one_light
    np.testing.assert_allclose(item.sequence.frames, 0.25, atol=1e-4)


def test_a_sequence_brighter_than_white_is_made_darker_as_a_whole() -> None:
    sequence = small()
    found = unclipped(Item(replace(sequence, frames=20 * sequence.frames))).sequence
    ratio = found.frames / sequence.frames
    torch.testing.assert_close(ratio, ratio[0, 0, 0, 0].expand_as(ratio))
    assert 0.9 < found.frames.amax(1, keepdim=True)[found.mask].quantile(0.99) <= 1.001


def test_what_is_known_of_the_light_is_made_darker_with_the_sequence() -> None:
    reflectance = 0.1 + 0.8 * torch.rand(3, 6, 8, generator=torch.Generator().manual_seed(0))
    shading = 20 * torch.rand(2, 3, 6, 8, generator=torch.Generator().manual_seed(1))
    frames, mask = reflectance * shading, torch.ones(2, 1, 6, 8, dtype=torch.bool)
    truth = Truth(reflectance, shading, torch.ones(2, dtype=torch.bool))
    found = unclipped(Item(Sequence(frames, mask, "bright"), truth))
    assert found.sequence.frames.amax() < frames.amax() / 2
    assert found.truth is not None
    assert found.truth.shading is not None
    torch.testing.assert_close(reflectance * found.truth.shading, found.sequence.frames)
