from __future__ import annotations

import json
import math
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.train.saver import checkpoint
from unlit.train.checkpoint import (
    Checkpoint,
    CheckpointError,
    best_checkpoint,
    check_same_tensors,
    latest_checkpoint,
    load_checkpoint,
    mark_best,
    save_checkpoint,
)

FILES = ["checkpoint.json", "model.safetensors", "optimizer.safetensors", "ema.safetensors"]


def bits(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.reshape(-1).view(torch.uint8).tolist()


def steps_in(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


def every_kind_of_tensor() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((4, 3, 2, 5), generator=generator)
    return {
        "z first": x,
        "bf16": x.bfloat16(),
        "half": x.half(),
        "double": x.double(),
        "int64": torch.tensor([2**63 - 1, -(2**63)]),
        "bool": x > 0,
        "bytes": torch.arange(256).to(torch.uint8),
        "0-dim": torch.tensor(3.0),
        "0-dim int": torch.tensor(7),
        "empty": torch.empty(0, 3),
        "odd": torch.tensor([math.nan, -math.nan, math.inf, -0.0, 1e-45]),
        "NaN with a payload": torch.tensor([0x7FC00123], dtype=torch.int32).view(torch.float32),
        "channels last": x.contiguous(memory_format=torch.channels_last),
        "1x1 channels last": x[:, :, :1, :1].clone(memory_format=torch.channels_last),
    }


def test_every_tensor_comes_back_bit_for_bit_in_order_and_layout(tmp_path: Path) -> None:
    tensors = every_kind_of_tensor()
    optimizer = {"state": {k: {name: t} for k, (name, t) in enumerate(tensors.items())}, "param_groups": []}
    path = save_checkpoint(tmp_path, Checkpoint(12, tensors, optimizer, tensors, {}), keep=1)
    assert path == tmp_path / "step-00000012"
    found = load_checkpoint(path)
    assert (found.step, found.state) == (12, {})
    assert found.ema is not None
    assert list(found.model) == list(found.ema) == list(tensors)
    for k, (name, tensor) in enumerate(tensors.items()):
        for back in (found.model[name], found.ema[name], found.optimizer["state"][k][name]):
            assert bits(back) == bits(tensor), name
            assert back.device.type == "cpu"


def test_shared_and_sliced_tensors_come_back_with_their_values(tmp_path: Path) -> None:
    x = torch.arange(12.0).reshape(3, 4)
    views = {"whole": x, "tied": x, "slice": x[1:], "column": x[:, 1], "turned": x.T, "expanded": x[:1].expand(3, 4)}
    path = save_checkpoint(tmp_path, replace(checkpoint(1), model=views), keep=1)
    found = load_checkpoint(path).model
    assert all(torch.equal(found[name], view) for name, view in views.items())
    assert (tmp_path / "step-00000001" / "model.safetensors").stat().st_size < 2000, "no more than what is seen"


def test_no_ema_and_an_optimizer_that_took_no_step_come_back(tmp_path: Path) -> None:
    optimizer = torch.optim.Adam([nn.Parameter(torch.ones(3))]).state_dict()
    path = save_checkpoint(tmp_path, Checkpoint(0, {}, optimizer, None, {}), keep=1)
    found = load_checkpoint(path)
    assert found.ema is None
    assert found.optimizer == optimizer
    assert not (path / "ema.safetensors").exists()


def test_the_state_comes_back_as_it_was(tmp_path: Path) -> None:
    state = {"best": math.inf, "pi": math.pi, "tiny": 5e-324, "big": 2**80, "name": "gården\udc80", "none": None}
    state |= {"nested": {"list": [1, 2.5, True, []]}, "random": torch.get_rng_state().tolist()}
    found = load_checkpoint(save_checkpoint(tmp_path, replace(checkpoint(1), state=state), keep=1))
    assert found.state == state
    assert list(found.state) == list(state)
    state = {"score": math.nan}
    assert math.isnan(
        load_checkpoint(save_checkpoint(tmp_path, replace(checkpoint(1), state=state), keep=1)).state["score"]
    )


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"a": {"b": (1, 2)}}, r"state\.a\.b, a tuple"),
        ({"a": [0, torch.tensor(1)]}, r"state\.a\[1\], a Tensor"),
        ({"a": {1: 2}}, r"state\.a, a dict"),
        ({"a": b"x"}, r"state\.a, a bytes"),
    ],
)
def test_a_state_that_json_would_change_is_refused(tmp_path: Path, state: dict[str, Any], place: str) -> None:
    with pytest.raises(CheckpointError, match=rf"checkpoint.json: cannot hold {place}.*; give"):
        save_checkpoint(tmp_path, replace(checkpoint(1), state=state), keep=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("optimizer", "wrong"),
    [
        ({"state": {0: {"step": 3}}, "param_groups": []}, "cannot hold 0.step, a int"),
        ({"state": {"weight": {"step": torch.ones(1)}}, "param_groups": []}, "cannot hold such a state"),
        ({"state": {0: {"x": torch.ones(1, dtype=torch.complex128)}}, "param_groups": []}, "cannot hold such tensors"),
        ({"state": {}, "param_groups": [{"lr": torch.tensor(1.0)}]}, r"param_groups\[0\]\.lr, a Tensor"),
    ],
)
def test_an_optimizer_that_cannot_be_kept_is_refused(tmp_path: Path, optimizer: dict[str, Any], wrong: str) -> None:
    with pytest.raises(CheckpointError, match=wrong):
        save_checkpoint(tmp_path, replace(checkpoint(1), optimizer=optimizer), keep=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
def test_training_goes_on_bit_for_bit(tmp_path: Path, options: dict[str, Any]) -> None:
    def started() -> tuple[nn.Sequential, torch.optim.Adam]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 1, 1))
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's types leave it out
        return model, torch.optim.Adam(model.parameters(), 1e-2, **options)

    def trained(model: nn.Sequential, optimizer: torch.optim.Adam, steps: range) -> list[float]:
        losses = []
        for step in steps:
            loss = model(torch.randn((2, 3, 8, 8), generator=torch.Generator().manual_seed(step))).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    model, optimizer = started()
    trained(model, optimizer, range(3))
    kept = Checkpoint(3, model.state_dict(), optimizer.state_dict(), None, {})
    path = save_checkpoint(tmp_path, kept, keep=1)
    expected = trained(model, optimizer, range(3, 6))

    found = load_checkpoint(path)
    again, again_optimizer = started()
    check_same_tensors(path, found.model, again.state_dict())
    again.load_state_dict(found.model)
    again_optimizer.load_state_dict(found.optimizer)
    assert again_optimizer.param_groups[0]["betas"] == (0.9, 0.999)
    for before, after in zip(optimizer.state.values(), again_optimizer.state.values(), strict=True):
        assert {k: v.stride() for k, v in before.items()} == {k: v.stride() for k, v in after.items()}
    assert trained(again, again_optimizer, range(3, 6)) == expected
    for one, other in zip(model.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_the_tensors_of_another_network_are_refused() -> None:
    ours = {"a": torch.ones(3), "b": torch.ones(2)}
    check_same_tensors(Path("x"), dict(reversed(ours.items())), ours)
    for theirs, wrong in [
        ({"a": torch.ones(3)}, r"b is nothing, not float32 \(2,\)"),
        ({**ours, "c": torch.ones(1)}, r"c is float32 \(1,\), not nothing"),
        ({**ours, "a": torch.ones(4)}, r"a is float32 \(4,\), not float32 \(3,\)"),
        ({**ours, "a": torch.ones(3).double()}, r"a is float64 \(3,\), not float32 \(3,\)"),
    ]:
        with pytest.raises(CheckpointError, match=rf"^x: is of another network \({wrong}\); use the config"):
            check_same_tensors(Path("x"), theirs, ours)


def test_older_ones_are_removed_but_not_the_best(tmp_path: Path) -> None:
    for step in (100, 200, 300, 400, 500):
        save_checkpoint(tmp_path, checkpoint(step), keep=2)
        if step == 200:
            mark_best(tmp_path, 200, score=0.25)
    assert steps_in(tmp_path) == [200, 400, 500]
    assert json.loads((tmp_path / "best.json").read_text()) == {"step": 200, "score": 0.25}
    assert best_checkpoint(tmp_path) == tmp_path / "step-00000200"
    assert latest_checkpoint(tmp_path) == tmp_path / "step-00000500"
    mark_best(tmp_path, 500, score=math.nan)
    assert json.loads((tmp_path / "best.json").read_text()) == {"step": 500, "score": None}
    save_checkpoint(tmp_path, checkpoint(600), keep=1)
    assert steps_in(tmp_path) == [500, 600]


def test_damaged_ones_do_not_count_and_later_ones_are_left(tmp_path: Path) -> None:
    for step in (1, 2, 3, 9):
        save_checkpoint(tmp_path, checkpoint(step), keep=9)
    (tmp_path / "step-00000003" / "model.safetensors").unlink()
    save_checkpoint(tmp_path, checkpoint(4), keep=2)
    assert steps_in(tmp_path) == [2, 4, 9]


def test_other_things_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "step-notes").mkdir()
    (tmp_path / "step-00000001x").mkdir()
    (tmp_path / "step-00000002").write_text("a file")
    (tmp_path / ".hidden").write_text("mine")
    for step in (3, 4):
        save_checkpoint(tmp_path, checkpoint(step), keep=1)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"step-notes", "step-00000001x", "step-00000002", ".hidden", "step-00000004"}


def test_a_file_in_the_place_of_a_checkpoint_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "step-00000002").write_text("a file")
    assert load_checkpoint(save_checkpoint(tmp_path, checkpoint(2), keep=1)).step == 2


def test_nothing_saved_is_nothing_found(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "nowhere") is None
    assert latest_checkpoint(tmp_path) is None
    assert best_checkpoint(tmp_path) is None
    with pytest.raises(CheckpointError, match="has no checkpoint of step 3; save it"):
        mark_best(tmp_path, 3)
    save_checkpoint(tmp_path, checkpoint(3), keep=1)
    mark_best(tmp_path, 3)
    (tmp_path / "step-00000003").rename(tmp_path / "moved")
    assert best_checkpoint(tmp_path) is None


@pytest.mark.parametrize("junk", [b"{", b"[]", b'{"step": "3"}', b'{"step": true}', b"\xff"])
def test_a_damaged_mark_is_an_error_and_nothing_is_removed_for_it(tmp_path: Path, junk: bytes) -> None:
    save_checkpoint(tmp_path, checkpoint(1), keep=1)
    (tmp_path / "best.json").write_bytes(junk)
    save_checkpoint(tmp_path, checkpoint(2), keep=1)
    assert steps_in(tmp_path) == [1, 2]
    with pytest.raises(CheckpointError, match=r"best.json: is damaged .*; delete it"):
        best_checkpoint(tmp_path)


def test_the_same_step_saved_again_stays_if_equal_and_is_replaced_if_not(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, checkpoint(5), keep=1)
    first = path.stat().st_ino
    save_checkpoint(tmp_path, checkpoint(5), keep=1)
    assert path.stat().st_ino == first
    save_checkpoint(tmp_path, replace(checkpoint(5), state={"other": 1}), keep=1)
    assert load_checkpoint(path).state == {"other": 1}
    save_checkpoint(tmp_path, checkpoint(5), keep=1)
    flip(path / "model.safetensors")  # of the same size, under the same manifest
    save_checkpoint(tmp_path, checkpoint(5), keep=1)
    assert load_checkpoint(path).step == 5
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000005"]


def test_a_replacement_counts_before_it_has_its_name(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path / "a", checkpoint(5, value=1), keep=1)
    new = save_checkpoint(tmp_path / "b", checkpoint(5, value=2), keep=1).rename(path.with_name(f"{path.name}.new"))
    assert latest_checkpoint(tmp_path / "a") == new
    mark_best(tmp_path / "a", 5)
    assert best_checkpoint(tmp_path / "a") == new
    save_checkpoint(tmp_path / "a", checkpoint(6), keep=2)
    assert load_checkpoint(path).model["weight"][0] == 2
    assert steps_in(tmp_path / "a") == [5, 6]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def cut_to_nothing(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def junk(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [truncate, cut_to_nothing, flip, junk, Path.unlink])
def test_damage_is_found_and_named(tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    save_checkpoint(tmp_path, checkpoint(1), keep=2)
    path = save_checkpoint(tmp_path, checkpoint(2), keep=2)
    damage(path / name)
    with pytest.raises(CheckpointError) as error:
        load_checkpoint(path)
    message = str(error.value)
    assert message.startswith(f"{path / name}: ")
    assert ("does not exist" if damage is Path.unlink else "is damaged") in message
    assert "; delete this checkpoint's folder" in message
    assert "\n" not in message
    if name == "checkpoint.json" or damage not in (flip, junk):  # which the size alone does not tell
        warnings: list[str] = []
        assert latest_checkpoint(tmp_path, warnings.append) == tmp_path / "step-00000001"
        assert len(warnings) == 1
        assert str(path / name) in warnings[0]
        with pytest.warns(UserWarning, match="left out: "):
            latest_checkpoint(tmp_path)


def test_a_flipped_bit_anywhere_in_the_manifest_is_found_or_harmless(tmp_path: Path) -> None:
    before = replace(checkpoint(1), state={"score": 0.125, "name": "a"})
    path = save_checkpoint(tmp_path, before, keep=1)
    text = (path / "checkpoint.json").read_bytes()
    for k in range(len(text)):
        flipped = bytearray(text)
        flipped[k] ^= 1 << (k % 7)
        (path / "checkpoint.json").write_bytes(flipped)
        try:
            found = load_checkpoint(path)
        except CheckpointError:
            continue
        assert (found.step, found.state) == (1, before.state)


def with_manifest(path: Path, **changes: Any) -> None:
    manifest = json.loads((path / "checkpoint.json").read_text())
    (path / "checkpoint.json").write_text(json.dumps(manifest | changes))


@pytest.mark.parametrize("text", ["[1]", "3", "{}", '{"version": "1"}', '{"version": 1}', "[" * 100_000])
def test_json_that_is_no_checkpoint_is_refused(tmp_path: Path, text: str) -> None:
    path = save_checkpoint(tmp_path, checkpoint(1), keep=1)
    (path / "checkpoint.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"checkpoint.json: is damaged"):
        load_checkpoint(path)


def test_a_newer_version_is_refused_not_passed_over_and_not_removed(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint(1), keep=2)
    path = save_checkpoint(tmp_path, checkpoint(2), keep=2)
    with_manifest(path, version=99, something="else")
    match = r"checkpoint.json: is of version 99, and this unlit reads up to 1; update unlit"
    with pytest.raises(CheckpointError, match=match):
        load_checkpoint(path)
    with pytest.raises(CheckpointError, match=match):
        latest_checkpoint(tmp_path)
    save_checkpoint(tmp_path, checkpoint(3), keep=2)
    assert steps_in(tmp_path) == [2, 3]


def resigned(path: Path, **files: bytes) -> None:
    """Put other content into files, with a manifest that fits: not damage, but not a checkpoint either."""
    from hashlib import sha256

    manifest = json.loads((path / "checkpoint.json").read_text())
    del manifest["sha256"]
    for name, content in files.items():
        (path / f"{name}.safetensors").write_bytes(content)
        manifest["files"][f"{name}.safetensors"] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    manifest["sha256"] = sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    (path / "checkpoint.json").write_text(json.dumps(manifest))


def test_wrong_tensors_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save

    path = save_checkpoint(tmp_path, checkpoint(1), keep=1)
    resigned(path, model=save({"weight": torch.ones(3)}))
    with pytest.raises(CheckpointError, match=r"model.safetensors: does not hold the tensors of a checkpoint"):
        load_checkpoint(path)
    resigned(path, model=b"no safetensors")
    with pytest.raises(CheckpointError, match=r"model.safetensors: is damaged, or not a safetensors file"):
        load_checkpoint(path)
    path = save_checkpoint(tmp_path, checkpoint(1), keep=1)
    resigned(path, optimizer=(path / "model.safetensors").read_bytes())
    with pytest.raises(CheckpointError, match=r"optimizer.safetensors: holds 'weight', which is not of an optimizer"):
        load_checkpoint(path)


def test_a_manifest_without_an_optimizer_is_refused(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, checkpoint(1), keep=1)
    manifest = json.loads((path / "checkpoint.json").read_text())
    del manifest["files"]["optimizer.safetensors"]
    with_manifest(path, files=manifest["files"])
    resigned(path)
    with pytest.raises(CheckpointError, match="lists no model or no optimizer"):
        load_checkpoint(path)


def test_a_manifest_without_a_state_is_refused(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, checkpoint(1), keep=1)
    manifest = json.loads((path / "checkpoint.json").read_text())
    del manifest["state"]
    (path / "checkpoint.json").write_text(json.dumps(manifest))
    resigned(path)
    with pytest.raises(CheckpointError, match=r"checkpoint.json: is damaged"):
        load_checkpoint(path)


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match=r"checkpoint.json: does not exist"):
            load_checkpoint(path)


def test_the_disk_has_everything_before_the_rename_and_the_rename_before_any_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def recorded_fsync(file: int) -> None:
        inode = os.fstat(file).st_ino
        name = next(path.name for path in [tmp_path, *tmp_path.rglob("*")] if path.stat().st_ino == inode)
        done.append("sync folder" if name == tmp_path.name else "sync new" if name.startswith(".") else name)
        fsync(file)

    def recorded_rename(path: Path, target: Path) -> Path:
        done.append("remove" if target.name.startswith(".") else f"rename to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(Path, "rename", recorded_rename)
    written = ["model.safetensors", "optimizer.safetensors", "ema.safetensors", "checkpoint.json", "sync new"]
    save_checkpoint(tmp_path, checkpoint(1), keep=1)
    assert done == [*written, "rename to step-00000001", "sync folder"]
    done.clear()
    save_checkpoint(tmp_path, checkpoint(2), keep=1)
    assert done == [*written, "rename to step-00000002", "sync folder", "remove"]
    done.clear()
    save_checkpoint(tmp_path, checkpoint(2, value=9), keep=1)
    replaced = ["rename to step-00000002.new", "sync folder", "remove", "rename to step-00000002", "sync folder"]
    assert done == [*written, *replaced]


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes: writing fails as it does on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_leaves_the_old_ones_and_names_the_file(tmp_path: Path) -> None:
    old = save_checkpoint(tmp_path, checkpoint(1), keep=1)
    large = replace(checkpoint(2), ema={"weight": torch.ones(100_000)})
    with files_up_to(50_000), pytest.raises(OSError, match="those before it are whole") as error:
        save_checkpoint(tmp_path, large, keep=1)
    assert error.value.filename == str(tmp_path / "step-00000002" / "ema.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert load_checkpoint(old).step == 1
    with files_up_to(5), pytest.raises(OSError, match="File too large") as error:
        mark_best(tmp_path, 1)
    assert error.value.filename == str(tmp_path / "best.json")
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


@pytest.mark.parametrize(("keep", "step"), [(0, 1), (-1, 1), (1, -1)])
def test_impossible_wishes_are_refused(tmp_path: Path, keep: int, step: int) -> None:
    with pytest.raises(ValueError, match="keep must be at least 1 and step at least 0"):
        save_checkpoint(tmp_path, checkpoint(step), keep=keep)
