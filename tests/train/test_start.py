from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.train.world import same_weights, tiny_sequence
from unlit.config import Config
from unlit.data.dataset import Dataset, dataset_of
from unlit.recipes import smoke
from unlit.train import loop
from unlit.train.checkpoint import CheckpointError, load_weights, save_weights
from unlit.train.loop import fit

STILL = 1e-30
"""A learning rate that changes no weight."""


def of(steps: int, rate: float = 1e-3) -> Config:
    config = smoke()
    return replace(config, train=replace(config.train, steps=steps, learning_rate=rate))


@pytest.fixture
def data() -> Dataset:
    return dataset_of([tiny_sequence(k) for k in range(3)])


def test_a_run_begins_with_the_weights_it_is_given(tmp_path: Path, data: Dataset) -> None:
    fit(of(3), data, tmp_path / "first", device="cpu", quiet=True)
    fit(of(1, STILL), data, tmp_path / "second", device="cpu", quiet=True, start=tmp_path / "first")
    fit(of(1, STILL), data, tmp_path / "third", device="cpu", quiet=True)
    first, second, third = (
        load_weights(tmp_path / name / "weights.safetensors")[0] for name in ("first", "second", "third")
    )
    learned = [name for name in first if name.endswith("weight")]
    assert all(torch.equal(first[name], second[name]) for name in learned)
    assert not all(torch.equal(first[name], third[name]) for name in learned)


def test_weights_of_fewer_digits_will_do_and_those_of_another_network_will_not(tmp_path: Path, data: Dataset) -> None:
    fit(of(1), data, tmp_path / "first", device="cpu", quiet=True)
    weights, card = load_weights(tmp_path / "first" / "weights.safetensors")
    half = {name: t.half() if t.is_floating_point() else t for name, t in weights.items()}
    save_weights(tmp_path / "half.safetensors", half, card)
    fit(of(1), data, tmp_path / "second", device="cpu", quiet=True, start=tmp_path / "half.safetensors")
    other = replace(of(1), model=replace(of(1).model, network="compact"))
    with pytest.raises(CheckpointError, match=r"half.*its and this run's model\.network: unet, compact\); set"):
        fit(other, data, tmp_path / "third", device="cpu", quiet=True, start=tmp_path / "half.safetensors")
    save_weights(tmp_path / "unsaid.safetensors", half, {})
    with pytest.raises(CheckpointError, match=r"unsaid\.safetensors: is of another network \(.* is nothing"):
        fit(other, data, tmp_path / "third", device="cpu", quiet=True, start=tmp_path / "unsaid.safetensors")
    assert not (tmp_path / "third" / "config.json").exists()


def test_weights_that_cannot_be_begun_with_are_refused_before_the_data_are_read(
    tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("the data are read")

    monkeypatch.setattr(loop, "Loader", read)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no weights")
    for name, said in (("none", "none: does not exist"), ("empty", "weights.safetensors: does not exist")):
        with pytest.raises(CheckpointError, match=said):
            fit(of(1), data, tmp_path / "run", device="cpu", quiet=True, start=tmp_path / name)
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        fit(of(1), data, tmp_path / "run", device="cpu", quiet=True, start=tmp_path / "text")
    assert not (tmp_path / "run").exists(), "nothing has begun there"


def test_a_folder_that_was_there_stays_when_a_run_is_refused(tmp_path: Path, data: Dataset) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(CheckpointError):
        fit(of(1), data, tmp_path / "mine", device="cpu", quiet=True, start=tmp_path / "nothing")
    assert (tmp_path / "mine").is_dir()


def test_a_run_that_was_killed_before_its_first_checkpoint_is_not_resumed_with_chance(
    tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fit(of(2), data, tmp_path / "first", device="cpu", quiet=True)
    fit(of(2), data, tmp_path / "whole", device="cpu", quiet=True, start=tmp_path / "first")
    with monkeypatch.context() as patch:
        patch.setattr("unlit.train.passing.Passing.run", killed)
        with pytest.raises(KeyboardInterrupt):
            fit(of(2), data, tmp_path / "again", device="cpu", start=str(tmp_path / "first"))
    assert f"begins with {tmp_path / 'first'}" in capfd.readouterr().err
    shutil.rmtree(tmp_path / "first")
    fit(of(2), data, tmp_path / "again", device="cpu", resume=True, start=tmp_path / "first")
    assert "begins with" not in capfd.readouterr().err
    assert same_weights(tmp_path / "whole", tmp_path / "again")


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_run_that_is_resumed_does_not_begin_again(tmp_path: Path, data: Dataset) -> None:
    fit(of(2), data, tmp_path / "first", device="cpu", quiet=True)
    config = replace(of(4), journal=replace(of(4).journal, checkpoint_every=2))
    for name in ("whole", "again"):
        fit(config, data, tmp_path / name, device="cpu", quiet=True, start=tmp_path / "first")
    shutil.rmtree(tmp_path / "again" / "checkpoints" / "step-00000004")
    (tmp_path / "again" / "weights.safetensors").unlink()
    fit(config, data, tmp_path / "again", device="cpu", quiet=True, start=tmp_path / "first", resume=True)
    assert same_weights(tmp_path / "whole", tmp_path / "again")
