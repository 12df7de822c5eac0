from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.prepare.clips import clip, write_folder, write_video
from unlit.prepare.finding import find_sources
from unlit.prepare.settings import PrepareSettings
from unlit.prepare.source import SmallFrame, Unreadable, full_frames, picture_time, small_frames

SETTINGS = PrepareSettings()
FRAMES = clip(3, (40, 56))


def with_time(path: Path, time: str) -> None:
    """A picture whose EXIF data state a time."""
    from PIL import Image

    image = Image.fromarray(FRAMES[0])
    exif = image.getexif()
    exif[0x0132] = time
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, exif=exif)


def test_a_folder_is_a_source_with_its_pictures_in_natural_order(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "garden", FRAMES)
    (folder / "0002.png").rename(folder / "0010.png")
    (folder / "notes.txt").write_text("no picture")
    (source,), refused = find_sources([folder], SETTINGS)
    assert source.name == "garden"
    assert [path.name for path in source.pictures] == ["0001.png", "0003.png", "0010.png"]
    assert not refused


def test_pictures_can_be_ordered_by_the_time_they_were_taken(tmp_path: Path) -> None:
    for name, hour in (("a", 15), ("b", 9), ("c", 12)):
        with_time(tmp_path / "v" / f"{name}.jpg", f"2026:05:04 {hour:02}:00:00")
    (source,), _ = find_sources([tmp_path / "v"], PrepareSettings(order="time"))
    assert [path.stem for path in source.pictures] == ["b", "c", "a"]
    times = [frame.time for frame in small_frames(source, SETTINGS) if isinstance(frame, SmallFrame)]
    assert times == [0, 3 * 3600, 6 * 3600]


def test_without_a_time_that_order_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", FRAMES)
    assert picture_time(folder / "0001.png") is None
    _, (refusal,) = find_sources([folder], PrepareSettings(order="time"))
    assert "0001.png has no time in its EXIF data; use --order name" in refusal.reason


def test_a_text_file_lists_frames_folders_and_videos(tmp_path: Path) -> None:
    write_folder(tmp_path / "a", FRAMES)
    write_folder(tmp_path / "b", FRAMES)
    write_video(tmp_path / "c.mp4", FRAMES)
    (tmp_path / "list.txt").write_text("# frames\na/0003.png\na/0001.png\n\nb\nc.mp4\n")
    sources, refused = find_sources([tmp_path / "list.txt"], SETTINGS)
    assert [source.name for source in sources] == ["list", "b", "c"]
    assert [path.name for path in sources[0].pictures] == ["0003.png", "0001.png"], "in the order of the list"
    assert sources[2].is_video
    assert not refused


def test_a_release_of_bigtime_is_taken_as_it_is(tmp_path: Path) -> None:
    for name in ("0001", "0002"):
        folder = write_folder(tmp_path / "BigTime_v1" / name / "data", FRAMES, ".jpg")
        for k in (1, 2, 3):
            mask = np.zeros((40, 56, 3), np.uint8)
            mask[:, 10 * k :] = 255
            write_folder(tmp_path / "mask", [mask])
            (tmp_path / "mask" / "0001.png").rename(folder / f"{k:04}_mask.png")
    sources, refused = find_sources([tmp_path / "BigTime_v1"], SETTINGS)
    assert [source.name for source in sources] == ["0001", "0002"]
    assert [path.stem for path in sources[0].pictures] == ["0001", "0002", "0003"]
    frames = list(full_frames(sources[0], [0, 2], None))
    for frame, columns in zip(frames, (10, 30), strict=True):
        assert frame.valid is not None
        assert not frame.valid[:, :columns].any()
        assert frame.valid[:, columns:].all()
    assert not refused


def test_names_that_two_sources_share_get_their_folders_before_them(tmp_path: Path) -> None:
    places = [write_folder(tmp_path / camera / "day", FRAMES) for camera in ("north", "south")]
    sources, _ = find_sources(places, SETTINGS)
    assert [source.name for source in sources] == ["north-day", "south-day"]


def test_a_source_named_twice_is_one(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", FRAMES)
    assert len(find_sources([folder, folder], SETTINGS)[0]) == 1


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("missing", "does not exist"),
        ("empty", "has neither pictures nor videos"),
        ("one", r"has 1 picture\(s\)"),
        ("one/0001.png", "is a single picture"),
        ("lost.txt", "lists .*nowhere.png, which does not exist"),
        ("nothing.txt", "lists nothing"),
    ],
)
def test_what_is_no_source_is_refused_in_one_line_and_the_rest_is_found(tmp_path: Path, name: str, wrong: str) -> None:
    import re

    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "one", FRAMES[:1])
    (tmp_path / "lost.txt").write_text("nowhere.png")
    (tmp_path / "nothing.txt").write_text("\n# nothing\n")
    good = write_folder(tmp_path / "good", FRAMES)
    sources, (refusal,) = find_sources([tmp_path / name, good], SETTINGS)
    assert [source.name for source in sources] == ["good"]
    assert re.search(wrong, refusal.reason)
    assert "\n" not in refusal.reason


def test_an_unreadable_picture_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", FRAMES)
    (folder / "0002.png").write_bytes(b"no picture")
    (source,), _ = find_sources([folder], SETTINGS)
    frames = list(small_frames(source, SETTINGS))
    assert [type(frame) for frame in frames] == [SmallFrame, Unreadable, SmallFrame]
    assert isinstance(frames[1], Unreadable)
    assert "0002.png" in frames[1].reason


def test_frames_with_one_stem_have_names_of_their_own(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", FRAMES)
    write_folder(folder, FRAMES[:2], ".jpg")
    (source,), _ = find_sources([folder], SETTINGS)
    names = [frame.name for frame in small_frames(source, SETTINGS)]
    assert len(set(names)) == 5


def test_only_every_third_frame_of_a_video_is_looked_at(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", clip(8, (40, 56)))
    (source,), _ = find_sources([path], SETTINGS)
    frames = list(small_frames(source, PrepareSettings(every=3)))
    assert [frame.index for frame in frames] == [0, 3, 6]
