import json
import random
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.data.packed import assert_equal, contents, dataset, member, rewritten, without_index
from unlit.data.sequence import SequenceError, load_sequence
from unlit.data.shards import ShardReader, write_shards


@pytest.mark.parametrize("has_index", [True, False])
def test_a_truncated_shard_loses_only_what_was_cut(tmp_path: Path, has_index: bool) -> None:
    folders = dataset(tmp_path, ["garden", "street", "wall"])
    (shard,) = write_shards(folders, tmp_path / "out")
    stated = json.loads((tmp_path / "out" / "shards.json").read_text())["shards"][0]["sequences"][1]
    whole = shard.read_bytes()
    if not has_index:
        without_index(tmp_path / "out")
    for size in range(stated["offset"] + 2048, stated["end"], 512):
        shard.write_bytes(whole[:size])
        reader = ShardReader(tmp_path / "out")
        assert_equal(reader.load("garden"), load_sequence(folders[0]))
        for name in ("street", "wall"):
            with pytest.raises(SequenceError, match=r"unlit-000000.tar: .*copy the shard again") as caught:
                reader.load(name)
            assert "\n" not in str(caught.value)
        assert len(reader.damaged) == (0 if has_index else 1)


def test_a_shard_that_is_missing_or_replaced_is_named(tmp_path: Path) -> None:
    folders = dataset(tmp_path, ["garden", "street", "wall"])
    first, second, _ = write_shards(folders, tmp_path / "out", shard_bytes=1)
    reader = ShardReader(tmp_path / "out")
    first.unlink()
    second.write_bytes(b"")
    for name, shard in (("garden", first), ("street", second)):
        with pytest.raises(SequenceError, match=f"{shard.name}: sequence '{name}' cannot be unpacked .*; copy the"):
            reader.load(name)
    assert_equal(reader.load("wall"), load_sequence(folders[2]))


Members = list[tuple[tarfile.TarInfo, bytes]]
KEY = "000001-street"
INTRUDERS = [  # none would leave tmp_path, should a guard be broken
    *[member(f"{KEY}.{path}", b"!") for path in ("..-x", "..-..-x", "%2E%2E-x", "truth-..-..-x", "..%2F..%2Fx", "./x")],
    *[member(f"{KEY}.{path}", b"!") for path in ("", "a-", "-a", "a%2F", "a%00", "..%5Cx")],
    member(f"{KEY}.hole", b"!", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": "600"}),
    member(f"{KEY}.link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    member(f"{KEY}.link", type=tarfile.LNKTYPE, linkname=f"{KEY}.sequence.json"),
    member(f"{KEY}.device", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    member(f"{KEY}.pipe", type=tarfile.FIFOTYPE),
    member(f"{KEY}.frames-0001.png", b"a second of that name"),
    member(f"{KEY}.frames-0001.png-x", b"a file as a folder"),
]


@pytest.mark.parametrize("intruder", INTRUDERS, ids=lambda one: f"{one[0].name}-{one[0].type.decode()}")
def test_members_that_lead_out_or_are_no_files_are_refused(
    tmp_path: Path, intruder: tuple[tarfile.TarInfo, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = dataset(tmp_path, ["garden", "street", "wall"])
    (shard,) = write_shards(folders, tmp_path / "out")
    rewritten(shard, lambda members: members.insert(2 * len(members) // 3, intruder))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = set(tmp_path.rglob("*"))
    reader = ShardReader(tmp_path / "out")
    assert reader.names == ("garden", "street", "wall")
    with pytest.raises(SequenceError, match=r"unlit-000000.tar: sequence 'street' cannot be unpacked .*; copy the sh"):
        reader.load("street")
    assert_equal(reader.load("garden"), load_sequence(folders[0]))
    assert_equal(reader.load("wall"), load_sequence(folders[2]))
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["../x", "/etc/x.png", "a/b.png", "plain", "nobody.frames-0001.png", "./x"])
def test_strangers_in_a_shard_are_reported_and_left(tmp_path: Path, name: str) -> None:
    folders = dataset(tmp_path, ["garden", "street"])
    (shard,) = write_shards(folders, tmp_path / "out")
    rewritten(shard, lambda members: members.insert(len(members) // 2, member(name, b"!")))
    reader = ShardReader(tmp_path / "out")
    assert len(reader.damaged) == 1
    assert "unlit-000000.tar" in reader.damaged[0]
    for sequence, folder in zip(reader.names, folders, strict=True):
        assert_equal(reader.load(sequence), load_sequence(folder))


def test_an_absolute_path_is_refused(tmp_path: Path) -> None:
    (shard,) = write_shards(dataset(tmp_path, ["garden"]), tmp_path / "out")
    outside = tmp_path / "outside"
    name = f"000000-garden.{str(outside).replace('-', '%2D')}"
    rewritten(shard, lambda members: members.append(member(name, b"!")))
    with pytest.raises(SequenceError, match="leads out of the folder"):
        ShardReader(tmp_path / "out").load("garden")
    assert not outside.exists()


def test_a_key_that_leads_out_leads_nowhere(tmp_path: Path) -> None:
    (folder,) = dataset(tmp_path, ["garden"])
    (shard,) = write_shards([folder], tmp_path / "out")
    key = str(tmp_path / "outside")

    def lead_out(members: Members) -> None:
        members[:] = [member(info.name.replace("000000-garden", key), data) for info, data in members]

    rewritten(shard, lead_out)
    with ShardReader(tmp_path / "out").folder("garden") as copy:
        assert contents(copy) == contents(folder)
        assert not Path(key).exists()


def test_a_missing_member_and_a_damaged_picture_are_named_with_their_shard(tmp_path: Path) -> None:
    (shard,) = write_shards(dataset(tmp_path, ["garden"]), tmp_path / "out")

    def lose(members: Members) -> None:
        members[:] = [one for one in members if not one[0].name.endswith(".masks-0002.png")]

    def spoil(members: Members) -> None:
        members[:] = [member(i.name, d if "frames" not in i.name else b"spoiled") for i, d in members]

    for change, message in ((lose, "masks/0002.png is named in .*; prepare"), (spoil, "frames/0001.png: .*; check")):
        kept = shard.read_bytes()
        rewritten(shard, change)
        with pytest.raises(SequenceError, match=f"unlit-000000.tar: sequence 'garden': {message}"):
            ShardReader(tmp_path / "out").load("garden")
        shard.write_bytes(kept)


def test_two_sequences_of_one_name_and_a_damaged_description_are_reported(tmp_path: Path) -> None:
    folders = dataset(tmp_path, ["garden", "street", "wall"])
    (shard,) = write_shards(folders, tmp_path / "out")
    write_shards(folders[:1], tmp_path / "again")
    (tmp_path / "again" / "unlit-000000.tar").rename(tmp_path / "out" / "unlit-000009.tar")

    def spoil(members: Members) -> None:
        members[:] = [member(i.name, b"{" if i.name == f"{KEY}.sequence.json" else data) for i, data in members]

    rewritten(shard, spoil)
    reader = ShardReader(tmp_path / "out")
    assert reader.names == ("garden", "wall")
    assert [Path(line.partition(": ")[0]).name for line in reader.damaged] == ["unlit-000000.tar", "unlit-000009.tar"]
    with pytest.raises(SequenceError, match=r"no sequence 'street' \(.*unlit-000000.tar: '000001-street'"):
        reader.load("street")
    for k, name in ((0, "garden"), (2, "wall")):
        assert_equal(reader.load(name), load_sequence(folders[k]))


@pytest.mark.parametrize("has_index", [True, False])
def test_a_download_that_left_a_hole_is_not_taken_for_the_end(tmp_path: Path, has_index: bool) -> None:
    folders = dataset(tmp_path, [f"s{k}" for k in range(8)])
    (shard,) = write_shards(folders, tmp_path / "out")
    places = json.loads((tmp_path / "out" / "shards.json").read_text())["shards"][0]["sequences"]
    whole = shard.read_bytes()
    if not has_index:
        without_index(tmp_path / "out")
    middle, last_header = places[4]["offset"], places[7]["end"] - 1024
    for lost, start, size in (("s4", middle, len(whole) - middle), ("s4", middle, 2048), ("s7", last_header, 512)):
        shard.write_bytes(whole[:start] + bytes(size) + whole[start + size :])
        reader = ShardReader(tmp_path / "out")
        with pytest.raises(SequenceError, match=r"unlit-000000.tar: "):
            reader.load(lost)
        assert_equal(reader.load("s2"), load_sequence(folders[2]))


def test_content_that_is_not_what_was_packed_is_refused(tmp_path: Path) -> None:
    (folder,) = dataset(tmp_path, ["garden"])
    (shard,) = write_shards([folder], tmp_path / "out")
    truth = (folder / "truth" / "reflectance.exr").read_bytes()
    shard.write_bytes(shard.read_bytes().replace(truth + bytes(8), truth.upper() + bytes(8)))
    with pytest.raises(SequenceError, match="checksum"):
        ShardReader(tmp_path / "out").load("garden")


def test_a_full_temporary_folder_is_told_from_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(dataset(tmp_path, ["garden"]), tmp_path / "out")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(SequenceError, match="TMPDIR"):
        ShardReader(tmp_path / "out").load("garden")


def test_errors_of_those_who_borrow_a_folder_are_their_own(tmp_path: Path) -> None:
    write_shards(dataset(tmp_path, ["garden"]), tmp_path / "out")
    with pytest.raises(KeyError, match="mine"), ShardReader(tmp_path / "out").folder("garden") as copy:
        raise KeyError("mine")
    assert not copy.exists()


@pytest.mark.parametrize("size", [-1024, 2**60])
def test_a_header_that_lies_about_its_size_does_no_harm(tmp_path: Path, size: int) -> None:
    (shard,) = write_shards(dataset(tmp_path, ["garden"]), tmp_path / "out")
    header = bytearray(member("x.sequence.json")[0].tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (size % 2**96 | (2**95 if size > 0 else 0)).to_bytes(12, "big")  # in base 256
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    whole = shard.read_bytes()
    end = json.loads((tmp_path / "out" / "shards.json").read_text())["shards"][0]["sequences"][0]["end"]
    shard.write_bytes(whole[:end] + bytes(header) + whole[end:])
    (wrong,) = ShardReader(without_index(tmp_path / "out")).damaged
    assert "'x.sequence.json' does not end inside" in wrong


@pytest.mark.parametrize("index", ["[]", "{", '{"version": 2, "shards": []}', '{"version": 1}', "OUTSIDE"])
def test_a_damaged_index_is_refused_with_its_remedy(tmp_path: Path, index: str) -> None:
    write_shards(dataset(tmp_path, ["garden"]), tmp_path / "out")
    path = tmp_path / "out" / "shards.json"
    path.write_text(path.read_text().replace("unlit-000000", "../x") if index == "OUTSIDE" else index)
    with pytest.raises(SequenceError, match=r"shards.json: .*remove it"):
        ShardReader(tmp_path / "out")


@pytest.mark.parametrize("has_index", [True, False])
def test_random_damage_gives_the_right_sequence_or_one_line(tmp_path: Path, has_index: bool) -> None:
    folders = dataset(tmp_path, ["garden", "street"])
    expected = {name: load_sequence(folder) for name, folder in zip(("garden", "street"), folders, strict=True)}
    (shard,) = write_shards(folders, tmp_path / "out")
    whole, chance = shard.read_bytes(), random.Random(0)
    headers = [k for k in range(0, len(whole), 512) if whole[k + 257 : k + 262] == b"ustar"]
    if not has_index:
        without_index(tmp_path / "out")
    wrong = []
    for _ in range(100):
        damaged = bytearray(whole)
        header = chance.choice(headers)
        damaged[header + chance.randrange(512)] = chance.randrange(256)
        # A right checksum lets the damage through to what reads the fields.
        damaged[header + 148 : header + 156] = b" " * 8
        damaged[header + 148 : header + 156] = f"{sum(damaged[header : header + 512]):06o}\0 ".encode()
        shard.write_bytes(damaged)
        reader = ShardReader(tmp_path / "out")
        for name in reader.names:
            try:
                loaded = reader.load(name)
            except SequenceError as error:
                wrong.append(str(error))
            else:
                assert_equal(loaded, expected[name])
    assert wrong
    assert all("unlit-000000.tar: " in line and "\n" not in line for line in wrong)
