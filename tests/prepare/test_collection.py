"""`unlit prepare` from sources to a dataset that can be trained on."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.prepare.clips import clip, description, shake, write_folder, write_video
from unlit import cli
from unlit.data.dataset import open_dataset
from unlit.data.sequence import load_sequence
from unlit.image_io import read_image, writing
from unlit.prepare.index import Index

SIZE = (72, 96)


def run(*arguments: object) -> int:
    """The exit code of `unlit prepare`."""
    try:
        cli.main(["prepare", *map(str, arguments), "--quiet"])
    except SystemExit as ending:
        return int(ending.code or 0)
    return 0


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures that shake a little, and a video with black at its beginning."""
    place = tmp_path_factory.mktemp("sources")
    write_folder(place / "garden", clip(8, SIZE, moves=shake(8, 1.2), seed=1))
    black = [np.zeros((*SIZE, 3), np.uint8)] * 3
    write_video(place / "street.mp4", black + clip(9, SIZE, seed=2))
    return place


@pytest.fixture(scope="module")
def prepared(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "set"
    assert run(sources / "garden", sources / "street.mp4", "--out", out, "--workers", 1) == 0
    return out


def stated(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "dataset.json").read_text())
    return content


def stamps(out: Path) -> dict[str, int]:
    return {str(p.relative_to(out)): p.stat().st_mtime_ns for p in (out / "sequences").rglob("*") if p.is_file()}


def test_the_dataset_is_one_that_training_reads(prepared: Path) -> None:
    dataset = open_dataset(prepared)
    assert sorted(source.name for source in dataset.sources) == ["garden", "street"]
    for source in dataset.sources:
        sequence = source.read().sequence
        assert 5 <= len(sequence.frames) <= 9
        assert sequence.frames.shape[2:] == SIZE
        assert 0.3 < sequence.mask.float().mean() < 1


def test_every_frame_is_kept_or_has_its_reason(prepared: Path) -> None:
    described = description(prepared / "sequences" / "street")
    kept = {frame["index"] for frame in described["frames"]}
    dropped = {k for entry in described["dropped"] for k in range(int(entry["first"]), int(entry["last"]) + 1)}
    assert kept | dropped == set(range(12))
    assert not kept & dropped
    assert described["dropped"][0] == {"first": "000000", "last": "000002", "reason": "near-black"}
    assert [frame["time"] for frame in described["frames"]] == sorted(frame["time"] for frame in described["frames"])


def test_the_mask_that_counts_is_what_no_kind_leaves_out(prepared: Path) -> None:
    folder = prepared / "sequences" / "garden"
    described = description(folder)
    assert "border" in described["masks"]["kinds"], "the frames shook"
    for frame in described["frames"]:
        kinds = [read_image(folder / file, encoding="linear").pixels.min(-1) for file in frame["kinds"].values()]
        together = read_image(folder / frame["mask"], encoding="linear").pixels.min(-1)
        expected = np.min(kinds, 0) if kinds else np.ones(SIZE)
        np.testing.assert_array_equal(together, expected)
    assert any(frame["kinds"] for frame in described["frames"])


def test_the_report_carries_its_pictures_and_names_everything(prepared: Path) -> None:
    page = (prepared / "report.html").read_text()
    assert page.count("data:image/jpeg;base64,") >= 4
    assert not re.search(r'(src|href)="(?!data:|#)', page), "it needs no other file"
    for text in ('id="garden"', 'id="street"', "near-black", "lights of all frames", "shift in pixels"):
        assert text in page


def test_running_again_does_nothing_and_force_does_all(
    prepared: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stamps(prepared)
    assert run(sources / "garden", sources / "street.mp4", "--out", prepared, "--workers", 1) == 0
    assert stamps(prepared) == before
    assert run(sources / "garden", "--out", prepared, "--workers", 1, "--force") == 0
    changed = {name.split("/")[1] for name, stamp in stamps(prepared).items() if before.get(name) != stamp}
    assert changed == {"garden"}
    assert len(stated(prepared)["sequences"]) == 2, "what was not named stays"


def test_other_settings_or_other_files_prepare_a_source_again(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", clip(8, SIZE))
    arguments = (folder, "--out", tmp_path / "set", "--workers", 1)
    assert run(*arguments) == 0
    assert run(*arguments, "--max-frames", 6) == 0
    assert len(description(tmp_path / "set" / "sequences" / "v")["frames"]) == 6
    (folder / "0001.png").unlink()
    assert run(*arguments) == 0
    names = [frame["name"] for frame in description(tmp_path / "set" / "sequences" / "v")["frames"]]
    assert "0001" not in names
    assert len(names) == 7


def test_kinds_of_masks_can_be_switched_without_the_source(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "v", clip(8, SIZE, moves=shake(8, 1.2)))
    out = tmp_path / "set"
    assert run(folder, "--out", out, "--workers", 1) == 0
    before = load_sequence(out / "sequences" / "v").mask
    for path in folder.iterdir():
        path.unlink()
    everything = description(out / "sequences" / "v")["masks"]["kinds"]
    assert run("--out", out, "--without", *everything) == 0
    assert load_sequence(out / "sequences" / "v").mask.all()
    assert run("--out", out) == 0
    assert (load_sequence(out / "sequences" / "v").mask == before).all()


def test_masks_drawn_by_hand_move_with_their_frames(tmp_path: Path) -> None:
    moves = [{"dx": 0.0}] * 4 + [{"dx": 2.0}] * 3  # the middle one is at rest, so the others are moved back
    folder = write_folder(tmp_path / "v", clip(7, SIZE, moves=moves))
    drawn = np.full((*SIZE, 3), 255, np.uint8)
    drawn[20:40, 30:50] = 0
    write_folder(tmp_path / "hand" / "v", [drawn])
    (tmp_path / "hand" / "v" / "0001.png").rename(tmp_path / "hand" / "v" / "0001_hand.png")
    (tmp_path / "hand" / "v" / "0006_hand.png").write_bytes((tmp_path / "hand" / "v" / "0001_hand.png").read_bytes())
    arguments = (folder, "--out", tmp_path / "set", "--workers", 1, "--by-hand", tmp_path / "hand")
    assert run(*arguments) == 0
    described = description(tmp_path / "set" / "sequences" / "v")
    masks = {frame["name"]: frame["kinds"].get("by-hand") for frame in described["frames"]}
    assert {name for name, file in masks.items() if file} == {"0001", "0006"}
    for name, left in (("0001", 30), ("0006", 28)):
        pixels = read_image(tmp_path / "set" / "sequences" / "v" / str(masks[name]), encoding="linear").pixels[..., 0]
        assert (pixels[21:39, left + 1 : left + 19] == 0).all()
        assert (pixels[:, : left - 2] == 1).all()
        assert (pixels[:, left + 23 :] == 1).all()
    (tmp_path / "hand" / "v" / "0006_hand.png").unlink()
    assert run(*arguments) == 0, "another mask is another fingerprint"
    assert "by-hand" not in description(tmp_path / "set" / "sequences" / "v")["frames"][5]["kinds"]
    (tmp_path / "hand" / "v" / "0001_hand.png").write_bytes(b"no picture")
    assert run(*arguments) == 2


def test_bad_sources_get_a_line_each_and_the_good_ones_are_prepared(
    tmp_path: Path, sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    whole = (sources / "street.mp4").read_bytes()
    (bad / "truncated.mp4").write_bytes(whole[: len(whole) // 2])
    (bad / "zero.mp4").write_bytes(b"")
    from tests.test_video_io import sound_only

    sound_only(bad / "sound.wav")
    write_folder(bad / "single", clip(1, SIZE))
    broken = write_folder(bad / "broken", clip(3, SIZE))
    for path in broken.iterdir():
        path.write_bytes(b"no picture")
    places = [bad / name for name in ("truncated.mp4", "zero.mp4", "sound.wav", "single", "broken", "gone")]
    assert run(*places, sources / "garden", "--out", tmp_path / "set", "--workers", 1) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("unlit: ")]
    assert len(lines) == len(places)
    for place in places:
        (line,) = [line for line in lines if str(place) in line]
        assert "; " in line, "a remedy follows"
    assert [source.name for source in open_dataset(tmp_path / "set").sources] == ["garden"]


def test_where_nothing_can_be_prepared_no_folder_is_made(
    tmp_path: Path, prepared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty", tmp_path / "gone", "--out", tmp_path / "out") == 2
    told = capsys.readouterr().err
    assert "neither pictures nor videos" in told
    assert "1 more cannot" in told
    assert not (tmp_path / "out").exists()
    before = stated(prepared)
    assert run(tmp_path / "gone", "--out", prepared) == 2
    assert stated(prepared) == before, "a dataset that is there stays"


def test_frames_of_another_size_and_unreadable_ones_are_left_out_with_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(tmp_path / "v", clip(8, SIZE))
    write_folder(tmp_path / "w", clip(1, (40, 50)))
    (tmp_path / "w" / "0001.png").rename(folder / "0009.png")
    (folder / "0010.png").write_bytes(b"no picture")
    assert run(folder, "--out", tmp_path / "set", "--workers", 1) == 2
    said = capsys.readouterr().err
    assert "1 frame(s) of another size are left out (the first has 50 x 40 pixels, most have 96 x 72)" in said
    assert "0010.png: is not a picture" in said
    assert len(load_sequence(tmp_path / "set" / "sequences" / "v").frames) == 8


def test_a_full_disk_is_told_and_leaves_nothing_half_written(
    tmp_path: Path, sources: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = writing._copy_to_disk

    def full(file: Any, target: Path) -> None:
        if "garden" in str(target) and "masks" in str(target):
            target.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, target)

    monkeypatch.setattr(writing, "_copy_to_disk", full)
    out = tmp_path / "set"
    assert run(sources / "garden", sources / "street.mp4", "--out", out, "--workers", 1) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert [path.name for path in (out / "sequences").iterdir()] == ["street"]
    monkeypatch.undo()
    assert run(sources / "garden", sources / "street.mp4", "--out", out, "--workers", 1) == 0, "it is tried again"
    assert sorted(path.name for path in (out / "sequences").iterdir()) == ["garden", "street"]


def test_a_source_without_permission_is_told(
    tmp_path: Path, sources: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made up, since whoever runs the tests as root may read everything."""
    real = Path.iterdir

    def guarded(path: Path) -> Any:
        if path.name == "secret":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    (tmp_path / "secret").mkdir()
    monkeypatch.setattr(Path, "iterdir", guarded)
    assert run(tmp_path / "secret", sources / "garden", "--out", tmp_path / "set", "--workers", 1) == 2
    assert f"{tmp_path / 'secret'}: cannot be read (Permission denied); check" in capsys.readouterr().err
    assert (tmp_path / "set" / "sequences" / "garden").is_dir()


def test_an_interrupted_run_leaves_whole_sequences_only(
    tmp_path: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unlit.prepare.writing import write_masks as real

    def interrupted(folder: Path, *arguments: Any) -> Any:
        if "street" in folder.name:
            raise KeyboardInterrupt
        return real(folder, *arguments)

    monkeypatch.setattr("unlit.prepare.pipeline.write_masks", interrupted)
    out = tmp_path / "set"
    assert run(sources / "garden", sources / "street.mp4", "--out", out, "--workers", 1) == 1
    assert [path.name for path in (out / "sequences").iterdir()] == ["garden"]
    assert [source.name for source in open_dataset(out).sources] == ["garden"]
    monkeypatch.undo()
    (out / "sequences" / ".street.0123abcd.unlit-tmp").mkdir()  # as one that was killed leaves it
    before = stamps(out)
    assert run(sources / "garden", sources / "street.mp4", "--out", out, "--workers", 1) == 0
    assert sorted(path.name for path in (out / "sequences").iterdir()) == ["garden", "street"]
    assert {name: stamp for name, stamp in stamps(out).items() if "/garden/" in name} == before


def test_several_processes_give_what_one_gives(tmp_path: Path, sources: Path, prepared: Path) -> None:
    out = tmp_path / "set"
    assert run(sources / "garden", sources / "street.mp4", "--out", out, "--workers", 2) == 0
    for name in ("garden", "street"):
        one, other = load_sequence(prepared / "sequences" / name), load_sequence(out / "sequences" / name)
        assert one.frame_names == other.frame_names
        assert (one.frames == other.frames).all()
        assert (one.mask == other.mask).all()


def test_a_refused_source_is_not_looked_at_again_but_told_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "v", [clip(1, SIZE, seed=k)[0] for k in range(6)])
    assert run(folder, "--out", tmp_path / "set", "--workers", 1) == 2
    said = capsys.readouterr().err
    assert "6 frames show 6 different views" in said
    monkeypatch.setattr("unlit.prepare.collection.prepare_source", lambda *_: pytest.fail("looked at again"))
    assert run(folder, "--out", tmp_path / "set", "--workers", 1) == 2
    assert "6 frames show 6 different views" in capsys.readouterr().err


def test_a_folder_that_is_something_else_is_left_alone(tmp_path: Path, sources: Path) -> None:
    assert run(sources / "garden", "--out", sources / "garden") == 2
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    assert run(sources / "garden", "--out", tmp_path / "mine") == 2
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    (tmp_path / "file").write_text("")
    assert run(sources / "garden", "--out", tmp_path / "file") == 2


def test_a_disk_that_fills_up_later_does_not_cost_what_was_prepared_before(
    tmp_path: Path, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "set"
    assert run(sources / "garden", "--out", out, "--workers", 1) == 0

    def full(file: Any, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "_copy_to_disk", full)
    assert run(sources / "garden", "--out", out, "--workers", 1, "--force") == 2
    assert len(load_sequence(out / "sequences" / "garden").frames) >= 5
    assert [source.name for source in open_dataset(out).sources] == ["garden"]


def test_wrong_usage_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--out", tmp_path / "set") == 2
    assert "name videos or folders to prepare" in capsys.readouterr().err
    assert run(tmp_path, "--out", tmp_path / "set", "--without", "clouds") == 2
    assert "'clouds' is no kind of mask" in capsys.readouterr().err
    assert run(tmp_path, "--out", tmp_path / "set", "--min-frames", 1) == 2
    assert not (tmp_path / "set").exists()


def test_two_runs_cannot_write_one_dataset(tmp_path: Path, sources: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Index(tmp_path / "set").alone():
        assert run(sources / "garden", "--out", tmp_path / "set") == 2
    assert "another process is preparing here" in capsys.readouterr().err


def test_the_result_can_be_trained_on(prepared: Path, tmp_path: Path) -> None:
    cli.main(
        ["train", "smoke", "--data", str(prepared), "--run", str(tmp_path / "run"), "--train.steps", "2", "--quiet"]
    )
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines
    assert (tmp_path / "run" / "weights.safetensors").is_file()


def test_packed_shards_hold_the_same_sequences(prepared: Path, tmp_path: Path) -> None:
    cli.main(["pack", str(prepared), "--out", str(tmp_path / "shards")])
    packed = {source.name: source.read().sequence for source in open_dataset(tmp_path / "shards" / "train").sources}
    assert sorted(packed) == ["garden", "street"]
    plain = load_sequence(prepared / "sequences" / "garden")
    assert (packed["garden"].frames == plain.frames).all()
    assert (packed["garden"].mask == plain.mask).all()
