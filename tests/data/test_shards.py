import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.data.packed import assert_equal, contents, dataset, without_index
from unlit.data.sequence import SequenceError, load_sequence
from unlit.data.shards import ShardReader, holds_shards, write_shards

ODD_NAMES = ["garden", "v1.2.old", "a b", "窓 – fenêtre", "garden-1", "__meta__", "n" * 200]


@pytest.mark.parametrize("has_index", [True, False])
def test_sequences_of_any_name_come_back_as_their_folders(tmp_path: Path, has_index: bool) -> None:
    folders = dataset(tmp_path, ODD_NAMES)
    write_shards(folders, tmp_path / "out")
    reader = ShardReader(tmp_path / "out" if has_index else without_index(tmp_path / "out"))
    assert reader.names == tuple(ODD_NAMES)
    assert reader.damaged == ()
    for name, folder in zip(ODD_NAMES, folders, strict=True):
        assert_equal(reader.load(name), load_sequence(folder))
        with reader.folder(name) as copy:
            assert contents(copy) == contents(folder)
        assert not copy.exists()


def test_file_names_that_are_long_hidden_or_no_text_come_back(tmp_path: Path) -> None:
    (folder,) = dataset(tmp_path, ["garden"])
    for name in (b"truth-x.png", b"~_.png", b"x" * 150, b".hidden", b"\xff.png", b"a\nb", b"..a", b"%2F"):
        (folder / os.fsdecode(name)).write_bytes(name)
    (folder / "masks").rename(tmp_path / "elsewhere")
    (folder / "masks").symlink_to(tmp_path / "elsewhere")
    before = contents(folder) | {f"masks/{p.name}": p.read_bytes() for p in (folder / "masks").iterdir()}
    write_shards([folder], tmp_path / "out")
    with ShardReader(tmp_path / "out").folder("garden") as copy:
        assert contents(copy) == before


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # webdataset 1.0.2 closes none of its shards
def test_webdataset_sees_each_sequence_as_one_sample(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed (extra ray)")
    folders = dataset(tmp_path, ODD_NAMES)
    shards = write_shards(folders, tmp_path / "out", shard_bytes=20_000)
    assert len(shards) > 1
    samples = list(webdataset.WebDataset([str(shard) for shard in shards], shardshuffle=False).decode())
    assert [sample["sequence.json"]["name"] for sample in samples] == ODD_NAMES
    assert len({sample["__key__"] for sample in samples}) == len(ODD_NAMES)
    assert all(len(sample["__key__"]) < 50 for sample in samples), "long names would need headers of their own"
    for sample, folder in zip(samples, folders, strict=True):
        files = [key for key in sample if not key.startswith("__")]
        assert len(files) == len(contents(folder))
        assert sample["frames-0001.png"] == (folder / "frames" / "0001.png").read_bytes()


def test_packing_twice_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = dataset(tmp_path, ["garden", "street"])
    write_shards(folders, tmp_path / "a")
    copies = [shutil.copytree(folder, tmp_path / "copies" / folder.name) for folder in folders]
    for k, path in enumerate(sorted((tmp_path / "copies").rglob("*"), reverse=True)):
        path.chmod(0o700)
        os.utime(path, (k, k))
    walk = os.walk  # the order in which a disk lists its files is its own affair
    monkeypatch.setattr(os, "walk", lambda *a, **k: [(root, d, f[::-1]) for root, d, f in walk(*a, **k)][::-1])
    write_shards(copies, tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    with tarfile.open(tmp_path / "a" / "unlit-000000.tar") as tar:
        assert {(info.mtime, info.uid, info.gid, info.uname, info.mode) for info in tar} == {(0, 0, 0, "", 0o644)}


def test_shards_json_states_sizes_and_hashes(tmp_path: Path) -> None:
    shards = write_shards(dataset(tmp_path, ["garden", "street"]), tmp_path / "out", shard_bytes=1)
    stated = json.loads((tmp_path / "out" / "shards.json").read_text())["shards"]
    assert [tmp_path / "out" / entry["file"] for entry in stated] == shards
    for entry, shard in zip(stated, shards, strict=True):
        assert entry["bytes"] == shard.stat().st_size
        assert entry["sha256"] == hashlib.sha256(shard.read_bytes()).hexdigest()


def bytes_in_shard(place: Path) -> int:
    write_shards(dataset(place, ["s0"]), place / "out")
    return int(json.loads((place / "out" / "shards.json").read_text())["shards"][0]["sequences"][0]["end"])


@pytest.mark.parametrize(("sequences", "less", "count"), [(0, 0, 5), (2, 1, 5), (2, 0, 3), (99, 0, 1)])
def test_a_sequence_is_never_split(tmp_path: Path, sequences: int, less: int, count: int) -> None:
    names = [f"s{k}" for k in range(5)]
    shard_bytes = sequences * bytes_in_shard(tmp_path / "one") - less
    shards = write_shards(dataset(tmp_path, names), tmp_path / "out", shard_bytes=shard_bytes)
    assert [shard.name for shard in shards] == [f"unlit-{k:06}.tar" for k in range(count)]
    keys = []
    for shard in shards:
        with tarfile.open(shard) as tar:
            keys += sorted({info.name.partition(".")[0] for info in tar})
    assert len(keys) == len(set(keys)) == 5
    assert ShardReader(tmp_path / "out").names == ShardReader(without_index(tmp_path / "out")).names == tuple(names)


def test_threads_and_processes_share_a_reader_that_keeps_nothing_open(tmp_path: Path) -> None:
    folders = dataset(tmp_path, ["garden", "street"])
    write_shards(folders, tmp_path / "out")
    reader = pickle.loads(pickle.dumps(ShardReader(tmp_path / "out")))
    with ThreadPoolExecutor(4) as pool:
        for k, loaded in enumerate(pool.map(reader.load, reader.names * 4)):
            assert_equal(loaded, load_sequence(folders[k % 2]))
    if Path("/proc/self/fd").is_dir():
        open_files = [fd.readlink() for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        assert not [path for path in open_files if path.is_relative_to(tmp_path)]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    write_shards(dataset(tmp_path, ["garden"]), tmp_path / "out")
    with pytest.raises(SequenceError, match="has no sequence 'gardn'; choose"):
        ShardReader(tmp_path / "out").load("gardn")
    with pytest.raises(SequenceError, match="holds no shards"):
        ShardReader(tmp_path / "prepared")
    assert [holds_shards(tmp_path / name) for name in ("out", "prepared", "nothing")] == [True, False, False]
    index = (tmp_path / "out" / "shards.json").read_bytes()
    assert holds_shards(without_index(tmp_path / "out"))
    (tmp_path / "out" / "unlit-000000.tar").unlink()
    assert not holds_shards(tmp_path / "out")
    (tmp_path / "out" / "shards.json").write_bytes(index)
    assert holds_shards(tmp_path / "out")


def spoil_description(folder: Path, **stated: Any) -> None:
    path = folder / "sequence.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | stated))


SPOILED: list[tuple[Callable[[Path], Any], str]] = [
    (shutil.rmtree, "is no prepared sequence"),
    (lambda folder: (folder / "sequence.json").unlink(), "is no prepared sequence"),
    (lambda folder: (folder / "sequence.json").write_text("["), "is no prepared sequence"),
    (lambda folder: spoil_description(folder, name=3), "the name is no text"),
    (lambda folder: spoil_description(folder, name="garden"), "second sequence that is called 'garden'"),
    (lambda folder: (folder / "masks" / "0002.png").unlink(), "masks/0002.png is named in sequence.json but missing"),
    (lambda folder: os.mkfifo(folder / "pipe"), "pipe is not a plain file"),
    (lambda folder: (folder / "truth" / "REFLECTANCE.exr").touch(), "upper and lower case"),
    (lambda folder: (folder / "truth" / "round").symlink_to(folder), "is no prepared sequence"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILED)
def test_what_is_no_prepared_sequence_is_refused_before_anything_is_written(
    tmp_path: Path, spoil: Callable[[Path], Any], message: str
) -> None:
    folders = dataset(tmp_path, ["garden", "street"])
    spoil(folders[1])
    with pytest.raises(SequenceError, match=message) as caught:
        write_shards(folders, tmp_path / "out")
    assert str(folders[1]) in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_subfolder_that_cannot_be_read_is_not_taken_for_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = dataset(tmp_path, ["garden"])
    scandir = os.scandir

    def locked(path: Any) -> Any:
        if Path(path).name == "truth":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", locked)
    with pytest.raises(SequenceError, match=r"Permission denied: .*truth"):
        write_shards([folder], tmp_path / "out")


def test_nothing_is_overwritten_and_nothing_is_not_packed(tmp_path: Path) -> None:
    folders = dataset(tmp_path, ["garden"])
    with pytest.raises(SequenceError, match="exists already"):
        write_shards(folders, folders[0])
    with pytest.raises(SequenceError, match="no sequences to pack"):
        write_shards([], tmp_path / "out")
    (tmp_path / "out").mkdir()
    assert write_shards(folders, tmp_path / "out") == [tmp_path / "out" / "unlit-000000.tar"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_no_half_of_the_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    folders = dataset(tmp_path, ["garden", "street"])
    read = Path.read_bytes

    def fail(path: Path) -> bytes:
        if path == folders[1] / "masks" / "0001.png":
            raise error
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(SequenceError if isinstance(error, OSError) else KeyboardInterrupt):
        write_shards(folders, tmp_path / "out", shard_bytes=1)
    assert list((tmp_path / "out").iterdir()) == []


KILLED = """
import os, pathlib, signal, sys, tarfile
from unlit.data.shards import write_shards

target, name, times = {"member": (tarfile.TarFile, "addfile", 10), "sync": (os, "fsync", 2)}[sys.argv[3]]
called = getattr(target, name)

def kill_at_last(*arguments):
    global times
    times -= 1
    if times == 0:
        if name == "addfile":
            arguments[0].fileobj.write(b"half of a header")
            arguments[0].fileobj.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return called(*arguments)

setattr(target, name, kill_at_last)
write_shards(sorted(pathlib.Path(sys.argv[1]).iterdir()), sys.argv[2], shard_bytes=1)
"""


@pytest.mark.parametrize("moment", ["member", "sync"])
def test_a_killed_writer_leaves_whole_shards_only(tmp_path: Path, moment: str) -> None:
    folders = dataset(tmp_path, ["garden", "street", "wall"])
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "prepared"), str(out), moment], check=False)
    assert killed.returncode == -9
    visible = [path.name for path in out.iterdir() if not path.name.startswith(".")]
    assert visible == ["unlit-000000.tar"]
    assert len(list(out.iterdir())) == 2, "it was killed in the middle of the second"
    reader = ShardReader(out)
    assert (reader.names, reader.damaged) == (("garden",), ())
    assert_equal(reader.load("garden"), load_sequence(folders[0]))
    with pytest.raises(SequenceError, match="exists already"):
        write_shards(folders, out)
