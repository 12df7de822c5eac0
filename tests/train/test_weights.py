from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from tests.train.test_checkpoint import bits, every_kind_of_tensor
from unlit.train.weights import CheckpointError, load_weights, save_weights


def test_weights_and_metadata_come_back(tmp_path: Path) -> None:
    tensors = {name: tensor.contiguous() for name, tensor in every_kind_of_tensor().items()}
    metadata = {"recipe": "paper", "commit": "0123abc", "note": 'ä "quoted"'}
    save_weights(tmp_path / "w.safetensors", tensors, metadata)
    found, found_metadata = load_weights(tmp_path / "w.safetensors")
    assert found_metadata == metadata
    assert list(found) == sorted(tensors)
    for name, tensor in tensors.items():
        assert bits(found[name])[::3] == bits(tensor)[::3]
    assert [path.name for path in tmp_path.iterdir()] == ["w.safetensors"]


def test_other_readers_can_read_them(tmp_path: Path) -> None:
    save_weights(tmp_path / "w.safetensors", {"a": torch.arange(3.0)}, {"recipe": "paper"})
    with safe_open(tmp_path / "w.safetensors", "pt") as file:
        assert file.metadata() == {"recipe": "paper"}
        assert torch.equal(file.get_tensor("a"), torch.arange(3.0))


def test_the_same_weights_give_the_same_bytes(tmp_path: Path) -> None:
    for k, letters in enumerate(["abc", "bca", "cab", "abc", "abc"]):  # safetensors itself would vary the order
        metadata = {c: c for c in letters + "def"}
        save_weights(tmp_path / str(k), {c: torch.ones(2) for c in letters}, metadata)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize("length", range(8))
def test_tensors_begin_at_a_multiple_of_8_as_the_format_wants(tmp_path: Path, length: int) -> None:
    save_weights(tmp_path / "w", {"a": torch.ones(2)}, {"note": "x" * length})
    assert int.from_bytes((tmp_path / "w").read_bytes()[:8], "little") % 8 == 0


def test_files_without_metadata_are_read(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.ones(2)}, tmp_path / "w.safetensors")
    tensors, metadata = load_weights(tmp_path / "w.safetensors")
    assert metadata == {}
    assert torch.equal(tensors["a"], torch.ones(2))


def test_files_that_are_no_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    with pytest.raises(CheckpointError, match=r"w.safetensors: does not exist; check the name"):
        load_weights(path)
    with pytest.raises(CheckpointError, match="is a folder; check the name"):
        load_weights(tmp_path)
    save_weights(path, {"a": torch.ones(2)}, {})
    whole = path.read_bytes()
    for content in (b"", b"junk", whole[:-1], whole + b"x", whole[:20], b"\xff" * 100):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"w.safetensors: is damaged, or not a safetensors file"):
            load_weights(path)


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}])
def test_metadata_that_are_no_strings_are_refused(tmp_path: Path, metadata: dict[Any, Any]) -> None:
    with pytest.raises(CheckpointError, match="give strings"):
        save_weights(tmp_path / "w", {}, metadata)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, {"a": torch.ones(2)}, {})
    with pytest.raises(CheckpointError, match="cannot hold such tensors"):
        save_weights(path, {"a": torch.ones(2, dtype=torch.complex128)}, {})
    assert torch.equal(load_weights(path)[0]["a"], torch.ones(2))
    with pytest.raises(FileNotFoundError) as error:
        save_weights(tmp_path / "nowhere" / "w", {}, {})
    assert error.value.filename == str(tmp_path / "nowhere" / "w")


def test_the_disk_has_the_file_before_its_name_and_then_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.safetensors"
    seen: list[tuple[bool, bool]] = []
    monkeypatch.setattr(os, "fsync", lambda file: seen.append((stat.S_ISDIR(os.fstat(file).st_mode), path.exists())))
    save_weights(path, {"a": torch.ones(2)}, {})
    assert seen == [(False, False), (True, True)]
