"""Datasets of worlds on disk: whole or not at all, gone on with, and never by two at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from unlit.cli import main
from unlit.data.dataset import open_dataset
from unlit.data.sizing import unclipped
from unlit.image_io import ImageError
from unlit.worlds.bases import World, bases
from unlit.worlds.dataset import LAST_SEED, _free_memory, open_worlds
from unlit.worlds.scene import EDITION
from unlit.worlds.writing import write_worlds

SIZE = (24, 32)
STATED = {"height": 24, "width": 32, "samples": 2, "edition": EDITION}


def write(out: Path, scenes: int = 3, **changes: object) -> list[str]:
    settings = {"seed": 0, "size": SIZE, "samples": 2, **changes}
    return write_worlds(out, scenes=scenes, **settings)  # type: ignore[arg-type]  # as the tests change them


def test_what_is_written_is_read_as_it_was(tmp_path: Path) -> None:
    assert write(tmp_path / "worlds") == []
    dataset = open_dataset(tmp_path / "worlds", with_truth=True)
    rendered = open_worlds("worlds:0:3:32x24:2")
    assert len(dataset.sources) == 3
    for stored, made in zip(dataset.sources, rendered.sources, strict=False):
        item, exact = unclipped(stored.read()), made.read()
        assert item.one_light
        assert item.truth is not None
        assert item.truth.reflectance is not None
        assert item.truth.shading is not None
        assert exact.truth is not None
        assert exact.truth.reflectance is not None
        torch.testing.assert_close(item.truth.reflectance, exact.truth.reflectance, rtol=1e-3, atol=1e-4)
        product = item.truth.reflectance * item.truth.shading
        valid = item.sequence.mask.expand_as(product) & (product > 0.01)
        torch.testing.assert_close(item.sequence.frames[valid], product[valid], rtol=2e-3, atol=1e-4)
    assert (tmp_path / "worlds" / "sheet.jpg").stat().st_size > 500


def test_finished_scenes_are_not_rendered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 2)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("world-*/frames/*")}
    asked: list[int] = []
    real = bases

    def counted(seeds: Iterator[int], *rest: object) -> object:
        asked.extend(seeds)
        return real(asked, *rest)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr("unlit.worlds.writing.bases", counted)
    write(tmp_path, 3)
    assert asked == [2]
    assert all(p.stat().st_mtime_ns == t for p, t in before.items())
    assert len(json.loads((tmp_path / "dataset.json").read_text())["sequences"]) == 3


def test_an_interruption_leaves_a_dataset_that_can_be_read_and_gone_on_with(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unlit", "worlds", "--out", str(tmp_path / "w"), "--scenes", "40"]
    process = subprocess.Popen([*command, "--size", "32x24", "--samples", "2", "--quiet"], stderr=subprocess.PIPE)
    _wait(lambda: len(list(tmp_path.glob("w/world-*"))) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    done = {p.name for p in tmp_path.glob("w/world-*")}
    count = max(int(name.split("-")[1]) for name in done) + 1
    with pytest.raises(ValueError, match="holds worlds of 32x24 with 2 samples"):
        write(tmp_path / "w", count, samples=3)  # fewer than fifty were done, so none of them was listed yet
    write(tmp_path / "w", count)
    assert len(open_dataset(tmp_path / "w").sources) == count
    assert not list(tmp_path.glob("w/.*"))


def _wait(ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        if ready():
            return
        assert process.poll() is None, "it ended too early"
        time.sleep(0.05)
    raise AssertionError("nothing was rendered in a minute")


BAD = {
    "no scenes": ["--scenes", "0"],
    "no size": ["--scenes", "1", "--size", "0x0"],
    "no samples": ["--scenes", "1", "--samples", "0"],
    "a seed below zero": ["--scenes", "1", "--seed", "-3"],
    "a seed beyond the last": ["--scenes", "2", "--seed", "999999999"],
    "more samples than can be counted": ["--scenes", "1", "--samples", "99999999999"],
    "a device that cannot render": ["--scenes", "1", "--device", "meta"],
    "no such device": ["--scenes", "1", "--device", "abacus"],
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["worlds", "--out", str(tmp_path / "w"), *arguments])
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("unlit: ")
    assert "\n" not in said
    assert not (tmp_path / "w").exists()


def test_too_little_memory_is_said_before_anything_is_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unlit.worlds.dataset._free_memory", lambda: 1_000_000)
    with pytest.raises(ValueError, match=r"too little memory: 32x24 needs .* smaller size"):
        write(tmp_path)


def test_worlds_of_another_size_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with pytest.raises(ValueError, match=r"holds worlds of 32x24 with 2 samples"):
        write(tmp_path, 2, samples=4)


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="holds other things"):
        write(tmp_path, 1)


def test_two_at_once_do_not_meet_and_the_first_keeps_its_unfinished_scene(tmp_path: Path) -> None:
    unfinished, its_frames = tmp_path / ".world-0000000009.abcd", tmp_path / "..world-0000000009.abcd.ef"
    asked = 0

    def second(done: int, text: str) -> None:
        nonlocal asked
        asked += 1
        for folder in (unfinished, its_frames):
            folder.mkdir(exist_ok=True)
        with pytest.raises(ValueError, match="another process is rendering here"):
            write(tmp_path, 1)
        assert unfinished.is_dir()
        assert its_frames.is_dir()

    write(tmp_path, 1, progress=second)
    assert asked == 2
    write(tmp_path, 1)
    assert not list(tmp_path.glob(".*")), "nobody is at work on them any more"


def test_a_full_disk_is_a_failure_and_what_is_whole_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 1)

    def full(path: Path, *_: object, **__: object) -> None:
        raise ImageError(path, "cannot be written", "make room")

    monkeypatch.setattr("unlit.worlds.writing.write_image", full)
    with pytest.raises(OSError, match="cannot be written"):
        write(tmp_path, 3)
    assert [source.name for source in open_dataset(tmp_path).sources] == ["world-0000000000"]
    assert not list(tmp_path.glob(".*"))


def test_as_many_scenes_as_there_are_numbers_begin_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 1)

    def first(seeds: Iterator[int], *_: object) -> Iterator[World]:
        assert next(seeds) == 1
        return iter(())

    monkeypatch.setattr("unlit.worlds.writing.bases", first)
    assert write(tmp_path, LAST_SEED + 1) == []


@pytest.mark.parametrize("worlds", [None, [], {}, {"height": 24, "width": 32}, 7])
def test_a_list_of_something_else_is_refused(worlds: object, tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps({"version": 1, "worlds": worlds, "sequences": []}))
    with pytest.raises(ValueError, match=r"dataset\.json is damaged or of something else .* choose another folder"):
        write(tmp_path, 1)


def test_a_place_below_a_file_is_wrong_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot be the folder of worlds .* choose another place"):
        write(tmp_path / "file" / "w", 1)


def test_scenes_of_an_older_edition_are_not_mixed_with_others(tmp_path: Path) -> None:
    older = {name: value for name, value in STATED.items() if name != "edition"}
    (tmp_path / "dataset.json").write_text(json.dumps({"version": 1, "worlds": older, "sequences": []}))
    with pytest.raises(ValueError, match=r"holds worlds of 32x24 with 2 samples, edition 1 of the scenes; go on with"):
        write(tmp_path, 1)


def test_a_scene_that_is_not_whole_is_named(tmp_path: Path) -> None:
    (tmp_path / "world-0000000000").mkdir()
    (tmp_path / "dataset.json").write_text(json.dumps({"version": 1, "worlds": STATED, "sequences": []}))
    (left_out,) = write(tmp_path, 2)
    assert "world-0000000000: is there and not whole; remove it" in left_out


def test_a_command_that_made_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("unlit.worlds.command.write_worlds", lambda *_, **__: ["world-0000000000: 0 lights"])
    with pytest.raises(SystemExit) as ended:
        main(["worlds", "--out", str(tmp_path / "w"), "--scenes", "1", "--quiet"])
    assert ended.value.code == 1
    assert "take another seed" in capsys.readouterr().err


def test_memory_that_files_fill_for_now_is_free(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 64 kB\nMemFree:   2 kB\nMemAvailable:   48 kB\n")
    assert _free_memory(tmp_path / "meminfo") == 48 * 1024
    assert _free_memory(tmp_path / "missing") > 0
