"""Runs of the quadratic: what they leave, how they stop and go on, what they refuse."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.quadratic.objects import ball, lit_sequence, objects, write_objects
from tests.quadratic.objects import picture_of as picture_in_light
from tests.train.world import metrics, same_weights, tiny_sequence
from unlit import cli
from unlit.config import Config, ConfigError
from unlit.data.dataset import Dataset, Item, MemorySource, Source, open_dataset
from unlit.data.sequence import Sequence, SequenceError
from unlit.evaluate.benchmark import Picture
from unlit.evaluate.methods import method_of
from unlit.holding import held
from unlit.image_io import write_image
from unlit.predict.predictor import Predictor
from unlit.quadratic.decompose import decomposed
from unlit.quadratic.learning import loss_of
from unlit.quadratic.network import QuadraticNet
from unlit.quadratic.weights import Weights
from unlit.recipes import mit, smoke
from unlit.train import loop, quadratic, quadratic_samples
from unlit.train.checkpoint import CheckpointError, load_weights
from unlit.train.distributed import Team
from unlit.train.loop import fit
from unlit.train.quadratic_samples import picture_of, usable_item
from unlit.train.result import TrainingError


def short(steps: int = 5, **train: Any) -> Config:
    config = mit()
    return replace(
        config,
        train=replace(config.train, steps=steps, **train),
        solved=replace(config.solved, steps=5),
        journal=replace(config.journal, checkpoint_every=2),
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    run = tmp_path_factory.mktemp("whole") / "run"
    fit(short(), objects(), run, device="cpu", quiet=True)
    return run


def test_a_run_leaves_its_config_metrics_checkpoints_reflectances_and_weights(whole: Path) -> None:
    assert json.loads((whole / "config.json").read_text())["model"]["network"] == "quadratic"
    lines = metrics(whole)
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    assert lines[-1]["total"] < lines[0]["total"]
    assert lines[0]["departure"] == 0
    assert lines[0]["learning_rate"] == 0.1
    assert [path.name for path in sorted((whole / "checkpoints").iterdir())] == ["step-00000004", "step-00000005"]
    weights, card = load_weights(whole / "weights.safetensors")
    assert sum(value.numel() for value in weights.values()) == 81
    assert (card["format"], card["step"], json.loads(card["config"])["recipe"]) == ("unlit", "5", "mit")
    found = load_weights(whole / "solved.safetensors")[0]
    assert {name: tuple(value.shape) for name, value in found.items()} == dict.fromkeys(("ball0", "ball1"), (1, 40, 40))
    assert "done at step 5 of 5" in (whole / "log.txt").read_text()


def stopped_in(monkeypatch: pytest.MonkeyPatch, name: str, calls: int, act: Any) -> None:
    """Let something happen to a run during one of its calls of a function."""
    module = quadratic if name == "loss_of" else quadratic_samples
    function, number = getattr(module, name), itertools.count(1)  # pictures are learned from by several threads

    def called(*arguments: Any) -> Any:
        if next(number) == calls:
            act()
        return function(*arguments)

    monkeypatch.setattr(module, name, called)


def terminated() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def interrupted() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def broken() -> None:
    raise ZeroDivisionError("as if the power had gone")


@pytest.mark.parametrize(
    ("name", "calls", "act", "step"),
    [("loss_of", 5, terminated, 3), ("loss_of", 4, interrupted, 2), ("pseudo_reflectance", 1, terminated, 0)],
)
def test_a_run_that_is_asked_to_stop_saves_and_goes_on_exactly(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, calls: int, act: Any, step: int
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        stopped_in(patch, name, calls, act)
        result = fit(short(), objects(), run, device="cpu", quiet=True)
    assert (result.step, result.is_complete) == (step, False)
    assert result.checkpoint.is_dir()
    assert not (run / "weights.safetensors").exists()
    assert len(load_weights(run / "solved.safetensors")[0]) == (2 if step else 1)
    assert fit(short(), objects(), run, device="cpu", quiet=True, resume=True).is_complete
    assert same_weights(run, whole)
    assert metrics(run) == metrics(whole)


def test_a_run_that_died_goes_on_from_its_checkpoint_and_does_not_solve_again(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        stopped_in(patch, "loss_of", 8, broken)
        with pytest.raises(ZeroDivisionError):
            fit(short(), objects(), run, device="cpu")
    assert capfd.readouterr().err.count("solving") == 2
    fit(short(), objects(), run, device="cpu", resume=True)
    said = capfd.readouterr().err
    assert "solving" not in said
    assert "2 sequences, 0 skipped; step 2 of 5" in said
    assert same_weights(run, whole)
    assert metrics(run) == metrics(whole)


def test_one_thread_and_several_learn_exactly_the_same(tmp_path: Path) -> None:
    side = 400  # torch shares the work on a picture only if it is large
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    reflectance = np.where(np.sin(9 * x) > 0, 0.3, 0.7)
    frames = [reflectance * (0.6 + 0.3 * np.cos(a) * x + 0.3 * np.sin(a) * y) for a in range(4)]
    pictures = torch.from_numpy(np.stack(frames)).float()[:, None].expand(-1, 3, -1, -1).contiguous()
    sequence = Sequence(pictures, torch.ones(4, 1, side, side, dtype=torch.bool), "large")
    data = Dataset((MemorySource(Item(sequence, None, one_light=True)),))
    known = {"large": torch.from_numpy(reflectance).float()[None]}
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            fit(short(1), data, tmp_path / str(count), device="cpu", quiet=True, solved=known)
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert same_weights(tmp_path / "1", tmp_path / "3")
    assert metrics(tmp_path / "1") == metrics(tmp_path / "3")


def test_what_was_solved_before_the_power_went_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        stopped_in(patch, "pseudo_reflectance", 2, broken)
        with pytest.raises(ZeroDivisionError):
            fit(short(1), objects(), tmp_path / "run", device="cpu")
    assert capfd.readouterr().err.count("solving") == 2
    fit(short(1), objects(), tmp_path / "run", device="cpu", resume=True)
    assert capfd.readouterr().err.count("solving") == 1


def test_reflectances_that_are_known_are_not_solved(whole: Path, tmp_path: Path, capfd: Any) -> None:
    known = load_weights(whole / "solved.safetensors")[0]
    fit(short(), objects(), tmp_path / "run", device="cpu", solved=known)
    assert "solving" not in capfd.readouterr().err
    assert same_weights(tmp_path / "run", whole)


def test_a_run_that_is_done_stays_as_it_is(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = metrics(whole)
    stopped_in(monkeypatch, "loss_of", 1, broken)
    assert fit(short(), objects(), whole, device="cpu", quiet=True, resume=True).is_complete
    assert metrics(whole) == before


def test_a_run_is_not_resumed_with_other_data_nor_with_another_config(whole: Path) -> None:
    with pytest.raises(CheckpointError, match="was trained on other sequences"):
        fit(short(), objects(3), whole, device="cpu", quiet=True, resume=True)
    with pytest.raises(ConfigError, match=r"began with another config \(train.steps: 5, 6"):
        fit(short(6), objects(), whole, device="cpu", quiet=True, resume=True)
    with pytest.raises(ConfigError, match="has a run in it"):
        fit(short(), objects(), whole, device="cpu", quiet=True)


def test_a_run_begins_with_weights_of_a_quadratic_and_of_nothing_else(whole: Path, tmp_path: Path) -> None:
    still = short(1, learning_rate=1e-30, weight_decay=0.0)
    known = load_weights(whole / "solved.safetensors")[0]
    fit(still, objects(), tmp_path / "more", device="cpu", quiet=True, start=whole, solved=known)
    assert same_weights(tmp_path / "more", whole)
    network = replace(smoke(), train=replace(smoke().train, steps=1))
    fit(network, Dataset((MemorySource(Item(tiny_sequence(0))),)), tmp_path / "net", device="cpu", quiet=True)
    with pytest.raises(CheckpointError, match=r"another network .*model\.network: unet, quadratic"):
        fit(still, objects(), tmp_path / "other", device="cpu", quiet=True, start=tmp_path / "net")
    with pytest.raises(CheckpointError, match=r"another network .*model\.network: quadratic, unet"):
        fit(network, objects(), tmp_path / "other", device="cpu", quiet=True, start=whole)
    assert not (tmp_path / "other").exists()


def test_sequences_that_cannot_be_used_are_named_and_counted(tmp_path: Path, capfd: Any) -> None:
    good, dark = lit_sequence(0), lit_sequence(3)
    black = replace(dark, frames=torch.zeros_like(dark.frames), name="black")
    masked = replace(lit_sequence(4), name="masked")
    masked.mask[:] = False
    masked.mask[:3] = True  # three frames are valid, never four
    items = [Item(good, None, True), Item(tiny_sequence(1, m=6), None, False), Item(lit_sequence(2, 3), None, True)]
    items += [Item(black, None, True), Item(masked, None, True)]
    sources: tuple[Source, ...] = tuple(MemorySource(item) for item in items)
    result = fit(short(1), Dataset(sources), tmp_path / "run", device="cpu")
    said = capfd.readouterr().err
    assert "skipped place1: place1: its frames are not of one light each; say --data.one-light" in said
    assert "skipped ball2: ball2: has 3 lights; 4 or more" in said
    assert "skipped black: black: has 0 lights that show something" in said
    assert "skipped masked: masked:" in said
    assert (result.is_complete, result.skipped_sequences) == (True, 4)
    assert "skipped ball2" in (tmp_path / "run" / "log.txt").read_text()


def test_where_nothing_can_be_used_one_line_says_why(tmp_path: Path) -> None:
    plain = Dataset((MemorySource(Item(tiny_sequence(0, m=6))),))
    with pytest.raises(SequenceError, match=r"no sequence of 1 can be used \(the first: place0: its frames are not of"):
        fit(short(), plain, tmp_path / "run", device="cpu", quiet=True)
    assert not (tmp_path / "run").exists()
    few = Dataset((MemorySource(Item(lit_sequence(0, 3), None, True)),))
    with pytest.raises(SequenceError, match="has 3 lights"):
        fit(short(), few, tmp_path / "run", device="cpu", quiet=True)


def test_several_processes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def of_two(_: str) -> Iterator[Team]:
        yield Team(torch.device("cpu"), 0, 2)

    monkeypatch.setattr(loop, "joined_team", of_two)
    with pytest.raises(ConfigError, match="trains in one process, not 2; start it without torchrun"):
        fit(short(), objects(), tmp_path / "run", device="cpu", quiet=True)


def test_a_folder_has_one_writer(tmp_path: Path) -> None:
    with held(tmp_path / "run", "a folder", "testing"), pytest.raises(ValueError, match="another process is training"):
        fit(short(), objects(), tmp_path / "run", device="cpu", quiet=True)


def test_steps_whose_gradient_is_no_number_are_skipped_and_many_end_the_run(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = load_weights(whole / "solved.safetensors")[0]
    real, number = loss_of, itertools.count()

    def at_times(*arguments: Any) -> torch.Tensor:
        return real(*arguments) * (1.0 if next(number) else float("nan"))

    def never(*arguments: Any) -> torch.Tensor:
        return real(*arguments) * float("nan")

    monkeypatch.setattr(quadratic, "loss_of", at_times)
    result = fit(short(2), objects(), tmp_path / "one", device="cpu", quiet=True, solved=known)
    assert result.skipped_steps == 1
    assert all(value.isfinite().all() for value in load_weights(tmp_path / "one" / "weights.safetensors")[0].values())
    monkeypatch.setattr(quadratic, "loss_of", never)
    with pytest.raises(TrainingError, match="3 steps in a row had a gradient that is no number"):
        fit(short(5, patience=3), objects(), tmp_path / "all", device="cpu", quiet=True, solved=known)


def test_a_picture_in_ordinary_light_is_learned_from_where_there_is_one(tmp_path: Path) -> None:
    folder = write_objects(tmp_path / "set", 1)
    plain, lit = (open_dataset(folder, with_picture=wanted).sources[0].read() for wanted in (False, True))
    assert plain.picture is None
    assert lit.picture is not None
    assert torch.equal(plain.sequence.frames, lit.sequence.frames)
    image, mask = picture_of(lit, 0)
    assert image.shape == (40, 40, 3)
    assert not torch.equal(torch.from_numpy(image).permute(2, 0, 1), lit.sequence.frames[0])
    frame, _ = picture_of(plain, 2)
    assert torch.equal(torch.from_numpy(frame).permute(2, 0, 1), plain.sequence.frames[14 % 5])
    assert mask.sum() == int(lit.sequence.mask[0].sum())
    (folder / "ball0" / "diffuse.png").write_bytes((folder / "ball0" / "mask.png").read_bytes()[:40])
    with pytest.raises(ValueError, match=r"diffuse\.png"):
        open_dataset(folder, with_picture=True).sources[0].read()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": {"width": 0.5}}, "model.width"),
        ({"model": {"gray_shading": False}}, "model.gray_shading"),
        ({"model": {"fine": True}}, "model.fine is for model.network compact"),
        ({"solved": {"weight": 0.0}}, "set solved.weight to 1"),
        ({"energy": {"colored_light": True}}, "energy.no-colored-light"),
        ({"augment": {"mixtures": 0.5}}, "leave augment.mixtures out"),
        ({"train": {"sequences": 2}}, "train.sequences is for networks"),
        ({"supervised": {"truth": 1.0}}, "cannot go together"),
    ],
)
def test_fields_that_the_quadratic_does_not_know_are_refused(change: dict[str, dict[str, Any]], said: str) -> None:
    ((section, fields),) = change.items()
    with pytest.raises(ConfigError, match=said):
        replace(mit(), **{section: replace(getattr(mit(), section), **fields)})


def test_the_command_line_trains_and_evaluates(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder, run = write_objects(tmp_path / "set"), tmp_path / "run"
    options = ["--device", "cpu", "--train.steps", "2", "--solved.steps", "3"]
    cli.main(["train", "mit", "--data", str(folder), "--run", str(run), *options])
    captured = capfd.readouterr()
    assert captured.out == ""
    assert f"2 steps; weights: {run / 'weights.safetensors'}" in captured.err
    cli.main(["evaluate", "mit", "--data", str(folder), "--method", str(run), "--out", str(tmp_path / "report")])
    scores = json.loads((tmp_path / "report" / "report.json").read_text())["methods"]["run"]
    assert set(scores["images"]) == {"ball0", "ball1"}
    assert 0 < scores["scores"]["mse/reflectance"] < 0.1
    with pytest.raises(SystemExit) as ending:
        cli.main(["export", "--weights", str(run), "--out", str(tmp_path / "x.onnx")])
    assert ending.value.code == 2
    assert "is a quadratic, which is solved and not computed" in capfd.readouterr().err


def test_a_method_is_given_the_picture_at_its_own_size_with_its_mask(whole: Path) -> None:
    image, mask = picture_in_light(0), ball(0).mask
    network = QuadraticNet()
    network.load_state_dict(load_weights(whole / "weights.safetensors")[0])
    method = method_of(str(whole), device="cpu")
    found = method(Picture("ball", image, mask, None))
    reflectance, shading = decomposed(image, mask, network.weights)
    assert found.reflectance is not None
    assert found.shading is not None
    assert np.array_equal(found.reflectance, reflectance)
    assert np.array_equal(found.shading, shading)
    everywhere = method(Picture("ball", image + 0.1, None, None)).shading
    assert everywhere is not None
    assert np.all(everywhere > 0)


def test_photographs_are_decomposed_by_these_weights(whole: Path, tmp_path: Path) -> None:
    picture = (0.02 + picture_in_light(0, 60)).clip(0, 1)
    found = Predictor(whole, device="cpu", size=64).decompose(picture, encoding="linear")
    assert np.allclose(found.reflectance * found.shading, picture, rtol=1e-4, atol=1e-6)
    write_image(tmp_path / "thing.png", picture, encoding="srgb", bits=8)
    out = tmp_path / "out"
    cli.main(["decompose", str(tmp_path / "thing.png"), "--out", str(out), "--weights", str(whole), "--device", "cpu"])
    assert (out / "thing.reflectance.png").is_file()


def test_a_picture_is_made_smaller_with_its_frames() -> None:
    small = replace(mit().data, longest=20)
    item = usable_item(objects().sources[0], small)
    assert isinstance(item, Item)
    assert item.picture is not None
    assert item.sequence.frames.shape[2:] == item.picture.shape[1:] == (20, 20)


@pytest.mark.data
def test_one_fold_of_the_mit_set_improves_on_what_it_has_not_seen(shared_data: Path, tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    try:
        from _mit import load_objects, quadratic_logs_of, scores_of, training_items
    finally:
        sys.path.pop(0)

    names = ("cup1", "paper1", "phone", "panther")
    (tmp_path / "few").mkdir()
    for name in names:
        (tmp_path / "few" / name).symlink_to(shared_data / "mit-intrinsic" / name)
    small = {
        name: {key: pixels[::3, ::3].copy() for key, pixels in item.items()}
        for name, item in load_objects(tmp_path / "few").items()
    }
    left_out = small.pop("panther")
    sources = tuple(MemorySource(item) for item in training_items(small))
    config = replace(short(6), solved=replace(mit().solved, steps=20))
    fit(config, Dataset(sources), tmp_path / "run", device="cpu", quiet=True)
    network = QuadraticNet()
    network.load_state_dict(load_weights(tmp_path / "run" / "weights.safetensors")[0])
    lines = metrics(tmp_path / "run")
    assert lines[-1]["pictures"] < 0.9 * lines[0]["pictures"]
    trained = scores_of(quadratic_logs_of(network.weights, left_out), left_out)
    untrained = scores_of(quadratic_logs_of(Weights(), left_out), left_out)
    assert sum(trained.values()) < sum(untrained.values())


def test_networks_are_used_and_trained_without_scipy() -> None:
    """It takes a second of every command's time, and a machine for training may not have it."""
    code = "import sys, unlit.predict.predictor, unlit.train.loop; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
