"""What people and disks do to `unlit prepare`: each gets a line, and costs nothing else."""

from __future__ import annotations

import errno
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.prepare.clips import clip, description, write_folder, write_video
from tests.prepare.test_collection import run, stated
from unlit.image_io import writing
from unlit.prepare.finding import find_sources
from unlit.prepare.settings import PrepareSettings

SIZE = (72, 96)
SETTINGS = PrepareSettings()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line]


def is_consistent(out: Path) -> bool:
    """Whether exactly what is listed is there, and nothing half-written."""
    listed = sorted(one["name"] for one in stated(out)["sequences"])
    return listed == sorted(path.name for path in (out / "sequences").iterdir())


def two_views(folder: Path) -> Path:
    return write_folder(folder, clip(6, SIZE, seed=11) + clip(6, SIZE, seed=12))


def test_a_disk_that_fills_up_at_the_second_view_takes_the_first_one_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = writing._copy_to_disk

    def full(file: Any, target: Path) -> None:
        if "cuts-2" in str(target) and "masks" in str(target):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, target)

    monkeypatch.setattr(writing, "_copy_to_disk", full)
    place, out = two_views(tmp_path / "cuts"), tmp_path / "set"
    assert run(place, "--out", out, "--workers", 1) == 2
    assert lines(capsys) == [
        f"unlit: {place}: cannot be prepared ({out}: No space left on device); make room or check permissions"
    ]
    assert is_consistent(out)
    assert not list((out / "sequences").iterdir())


@pytest.fixture(params=[20, 150, 330, 450])
def tiny_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A real disk of so many kilobytes, where whoever runs the tests may mount one."""
    place = tmp_path / "tiny"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}k", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full_leaves_whole_and_listed_sequences_only(
    tmp_path: Path, tiny_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [two_views(tmp_path / "cuts"), write_folder(tmp_path / "v", clip(6, SIZE))]
    assert run(*places, "--out", tiny_disk / "set", "--workers", 1) == 2
    said = lines(capsys)
    assert said
    assert all("No space left on device); make room" in line for line in said)
    assert is_consistent(tiny_disk / "set")


def test_views_get_no_name_that_another_source_has(tmp_path: Path) -> None:
    two_views(tmp_path / "cuts")
    write_folder(tmp_path / "cuts-1", clip(6, SIZE, seed=13))
    out = tmp_path / "set"
    assert run(tmp_path / "cuts", tmp_path / "cuts-1", "--out", out, "--workers", 1) == 0
    of = {entry["name"]: entry["sequences"] for entry in stated(out)["sources"]}
    assert of == {"cuts": ["cuts-2", "cuts-3"], "cuts-1": ["cuts-1"]}
    write_folder(tmp_path / "more" / "cuts-2", clip(6, SIZE, seed=14))
    assert run(tmp_path / "more" / "cuts-2", "--out", out, "--workers", 1) == 0
    assert len(stated(out)["sequences"]) == 4
    assert is_consistent(out)


def test_a_source_is_known_again_from_wherever_and_beside_whatever_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, name in enumerate(("x", "y")):
        write_folder(tmp_path / name / "cam", clip(6, SIZE, seed=seed))
    out = tmp_path / "set"
    monkeypatch.chdir(tmp_path / "x")
    assert run("cam", "--out", out, "--workers", 1) == 0
    monkeypatch.chdir(tmp_path / "y")
    assert run("cam", "../x/cam", "--out", out, "--workers", 1) == 0
    places = {entry["name"]: entry["place"] for entry in stated(out)["sources"]}
    assert places == {"cam": str(tmp_path / "x" / "cam"), "y-cam": str(tmp_path / "y" / "cam")}


def test_names_that_are_no_text_or_no_line_are_prepared_and_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    try:
        write_folder(odd, clip(6, SIZE))
    except OSError:
        pytest.skip("this disk has no such names")
    (odd / "0006.png").rename(odd / os.fsdecode(b"\xe9.png"))
    broken = write_folder(tmp_path / "new\nline", clip(6, SIZE))
    (broken / "0006.png").write_bytes(b"no picture")
    assert run(odd, broken, "--out", tmp_path / "set", "--workers", 1) == 2
    (line,) = lines(capsys)
    assert "new\\nline/0006.png: is not a picture" in line
    assert len(stated(tmp_path / "set")["sequences"]) == 2
    assert (tmp_path / "set" / "report.html").is_file()


def test_a_fault_in_one_source_does_not_cost_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from unlit.prepare.shot import choose_shots as real

    def faulty(source: Any, *arguments: Any) -> Any:
        if source.name == "a":
            raise ZeroDivisionError("no such thing")
        return real(source, *arguments)

    monkeypatch.setattr("unlit.prepare.pipeline.choose_shots", faulty)
    places = [write_folder(tmp_path / name, clip(6, SIZE)) for name in "ab"]
    assert run(*places, "--out", tmp_path / "set", "--workers", 1) == 2
    (line,) = lines(capsys)
    assert line.startswith(f"unlit: {places[0]}: failed (ZeroDivisionError('no such thing'), test_hostile.py:")
    assert [one["name"] for one in stated(tmp_path / "set")["sequences"]] == ["b"]


def test_links_that_lead_in_a_circle_are_followed_once(tmp_path: Path) -> None:
    write_folder(tmp_path / "all" / "v", clip(2, SIZE))
    (tmp_path / "all" / "again").symlink_to(tmp_path / "all")
    (tmp_path / "all" / "lost.mp4").symlink_to(tmp_path / "nowhere.mp4")
    sources, refused = find_sources([tmp_path / "all"], SETTINGS)
    assert [source.name for source in sources] == ["v"]
    assert not refused


def test_a_source_and_a_link_to_it_are_one(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", clip(2, SIZE))
    (tmp_path / "w").symlink_to(folder)
    assert len(find_sources([folder, tmp_path / "w"], SETTINGS)[0]) == 1


def test_bad_lines_of_a_list_are_told_and_the_others_taken(tmp_path: Path) -> None:
    write_folder(tmp_path / "v", clip(2, SIZE))
    write_folder(tmp_path / "one", clip(1, SIZE))
    content = "\ufeffv\r\nnowhere.png\r\nnow\0here.png\r\none\r\nlist.txt\r\n"
    (tmp_path / "list.txt").write_bytes(content.encode())
    sources, refused = find_sources([tmp_path / "list.txt"], SETTINGS)
    assert [source.name for source in sources] == ["v"]
    assert [refusal.reason.split("; ")[0].split(str(tmp_path))[-1] for refusal in refused] == [
        "/nowhere.png, which does not exist",
        "/now\\0here.png, which does not exist",
        "/one: has 1 picture(s)",
        "/list.txt, which is a list itself",
    ]


def test_a_folder_inside_that_cannot_be_read_does_not_cost_its_neighbors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "all" / "v", clip(2, SIZE))
    (tmp_path / "all" / "secret").mkdir()
    real = Path.iterdir

    def guarded(path: Path) -> Any:
        if path.name == "secret":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", guarded)
    sources, (refusal,) = find_sources([tmp_path / "all"], SETTINGS)
    assert [source.name for source in sources] == ["v"]
    assert "secret: cannot be read (Permission denied); check" in refusal.reason


def test_what_is_neither_file_nor_folder_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    _, (refusal,) = find_sources([tmp_path / "pipe.mp4"], SETTINGS)
    assert "is neither a file nor a folder" in refusal.reason


def test_the_dataset_is_no_source_of_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path / "all" / "v", clip(6, SIZE))
    out = tmp_path / "all" / "set"
    for _ in range(2):  # the second time, the first one's sequences lie there
        assert run(tmp_path / "all", "--out", out, "--workers", 1) == 0
    assert [one["name"] for one in stated(out)["sequences"]] == ["v"]
    capsys.readouterr()
    assert run(out / "sequences" / "v" / "frames", "--out", out, "--workers", 1) == 2
    assert "lies in the dataset that is being written; give" in lines(capsys)[0]


def test_a_video_that_states_too_many_frames_gives_those_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video = write_video(tmp_path / "v.avi", clip(6, SIZE), codec="mjpeg", pix_fmt="yuvj444p", options={"qmin": "1"})
    content = bytearray(video.read_bytes())
    struct.pack_into("<I", content, content.find(b"avih") + 24, 90000)
    struct.pack_into("<I", content, content.find(b"strh") + 40, 90000)
    video.write_bytes(content)
    assert run(video, "--out", tmp_path / "set", "--workers", 1) == 2
    (line,) = lines(capsys)
    assert "6 of 90000 frames are there; copy" in line
    assert len(description(tmp_path / "set" / "sequences" / "v")["frames"]) == 6


def test_an_extra_that_is_missing_is_named_with_its_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    video = write_video(tmp_path / "v.mp4", clip(6, SIZE))
    good = write_folder(tmp_path / "good", clip(6, SIZE))
    monkeypatch.setitem(sys.modules, "av", None)  # as where it is not installed
    assert run(video, good, "--out", tmp_path / "set", "--workers", 1) == 2
    (line,) = lines(capsys)
    assert line == f"unlit: {video}: reading video needs PyAV; install it with: pip install 'unlit[video]'"
    assert [one["name"] for one in stated(tmp_path / "set")["sequences"]] == ["good"]


def test_frames_that_a_decoder_made_up_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = clip(12, SIZE)
    video = write_video(tmp_path / "v.mp4", frames, options={"g": "6", "bf": "0", "sc_threshold": "0"})
    import av

    with av.open(str(video)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        second = next(packet for packet in packets[1:] if packet.is_keyframe)
        start, size = int(second.pos or 0), second.size
    content = bytearray(video.read_bytes())
    content[start + size // 3 : start + size] = bytes(np.random.default_rng(0).bytes(size - size // 3))
    video.write_bytes(content)
    assert run(video, "--out", tmp_path / "set", "--workers", 1) == 2
    assert "v.mp4: is damaged at frame 6; copy or download it again" in lines(capsys)[0]
    kept = [frame["index"] for frame in description(tmp_path / "set" / "sequences" / "v")["frames"]]
    assert kept == [0, 1, 2, 3, 4, 5]


def test_a_mask_of_another_size_costs_its_own_frame_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(tmp_path / "0001" / "data", clip(7, SIZE), ".jpg")
    for k in range(1, 7):  # one has none
        write_folder(tmp_path / "mask", [np.full((20 if k == 4 else SIZE[0], SIZE[1], 3), 255, np.uint8)])
        (tmp_path / "mask" / "0001.png").rename(folder / f"{k:04}_mask.png")
    assert run(tmp_path / "0001", "--out", tmp_path / "set", "--workers", 1) == 2
    (line,) = lines(capsys)
    assert "0004_mask.png: has 96 x 20 pixels, its frame 96 x 72; give a mask of the frame's size" in line
    names = [frame["name"] for frame in description(tmp_path / "set" / "sequences" / "0001")["frames"]]
    assert names == ["0001", "0002", "0003", "0005", "0006", "0007"]


def test_hand_drawn_masks_of_one_source_do_not_cost_another(tmp_path: Path) -> None:
    places = [write_folder(tmp_path / name, clip(6, SIZE)) for name in "ab"]
    write_folder(tmp_path / "hand" / "a", [np.zeros((*SIZE, 3), np.uint8)])
    out = tmp_path / "set"
    assert run(*places, "--out", out, "--workers", 1, "--by-hand", tmp_path / "hand") == 0
    assert [one["name"] for one in stated(out)["sequences"]] == ["a", "b"]
    before = (out / "sequences" / "b" / "sequence.json").stat().st_mtime_ns
    write_folder(tmp_path / "hand" / "a", [np.full((*SIZE, 3), 255, np.uint8)])
    assert run(*places, "--out", out, "--workers", 1, "--by-hand", tmp_path / "hand") == 0
    assert (out / "sequences" / "b" / "sequence.json").stat().st_mtime_ns == before, "only the other one's changed"


def test_a_sequence_that_somebody_removed_is_told_and_prepared_again_when_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    places = [write_folder(tmp_path / name, clip(6, SIZE)) for name in "ab"]
    out = tmp_path / "set"
    assert run(*places, "--out", out, "--workers", 1) == 0
    shutil.rmtree(out / "sequences" / "a")
    capsys.readouterr()
    assert run(places[1], "--out", out, "--workers", 1) == 2
    assert lines(capsys) == [f"unlit: {places[0]}: a of it is gone from the dataset; give it again to prepare it anew"]
    assert is_consistent(out)
    assert json.loads((out / "dataset.json").read_text())["sources"][0]["name"] == "a"
    assert run(*places, "--out", out, "--workers", 1) == 0
    assert len(stated(out)["sequences"]) == 2


def test_a_view_that_its_masks_leave_nothing_of_is_told_and_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = two_views(tmp_path / "cuts")
    for k in range(1, 13):  # all of the second view, and one frame of the first
        write_folder(tmp_path / "mask", [np.full((*SIZE, 3), 255 if k < 6 else 0, np.uint8)])
        (tmp_path / "mask" / "0001.png").rename(folder / f"{k:04}_mask.png")
    assert run(folder, "--out", tmp_path / "set", "--workers", 1) == 2
    (line,) = lines(capsys)
    assert "masks leave 0 of 6 chosen frames, and 5 are needed; switch kinds of masks off" in line
    assert is_consistent(tmp_path / "set")
    (name,) = [one["name"] for one in stated(tmp_path / "set")["sequences"]]
    described = description(tmp_path / "set" / "sequences" / name)
    assert [frame["name"] for frame in described["frames"]] == [f"{k:04}" for k in range(1, 6)]
    assert len(list((tmp_path / "set" / "sequences" / name / "frames").iterdir())) == 5
    assert {"first": "0006", "last": "0006", "reason": "nearly all of it is masked"} in described["dropped"]
