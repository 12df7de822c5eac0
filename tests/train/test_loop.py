from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.world import metrics, same_weights, tiny_dataset, tiny_sequence
from unlit.config import Config, ConfigError, JournalSettings
from unlit.data.dataset import Dataset, Item, MemorySource, dataset_of, open_dataset
from unlit.data.loader import Loader
from unlit.data.sequence import SequenceError, save_sequence
from unlit.data.truth import Truth
from unlit.holding import held
from unlit.losses.batch import batch_energy
from unlit.losses.energy import LossTerms
from unlit.losses.solved_settings import SolvedSettings
from unlit.losses.supervised_settings import SupervisedSettings
from unlit.model.decomposition import Decomposition
from unlit.recipes import smoke
from unlit.train import loop
from unlit.train.ahead import Ahead, Prepared
from unlit.train.checkpoint import CheckpointError, best_checkpoint, load_checkpoint, load_weights
from unlit.train.distributed import Team
from unlit.train.learner import Learner
from unlit.train.loop import Run, fit
from unlit.train.result import TrainingError

FIRST_LOSSES = [0.7615, 0.7411, 0.9421, 0.7141, 0.5928, 0.7846, 0.7099, 0.8767, 0.7468, 0.8576]
"""Of the first ten steps of `smoke` on four tiny sequences. They move only when the method does."""


def short(**train: Any) -> Config:
    config = smoke()
    return replace(config, train=replace(config.train, **{"steps": 6, **train}))


def in_memory(count: int = 3) -> Dataset:
    return dataset_of([tiny_sequence(k) for k in range(count)])


def test_the_first_ten_losses_of_smoke_are_these(tmp_path: Path) -> None:
    fit(short(steps=10), in_memory(4), tmp_path / "run", device="cpu", quiet=True)
    assert [line["total"] for line in metrics(tmp_path / "run") if "total" in line] == pytest.approx(
        FIRST_LOSSES, rel=2e-3
    )


def test_a_run_leaves_its_config_metrics_sheets_checkpoints_and_weights(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = fit(short(steps=10), in_memory(), run, device="cpu", quiet=True)
    assert result.is_complete
    assert json.loads((run / "config.json").read_text())["train"]["steps"] == 10
    assert [line["step"] for line in metrics(run)] == list(range(1, 11))
    assert (run / "sheets" / "step-00000010.png").is_file()
    assert result.checkpoint.is_dir()
    assert best_checkpoint(run / "checkpoints") is not None
    weights, card = load_weights(run / "weights.safetensors")
    assert all(torch.isfinite(value).all() for value in weights.values())
    assert json.loads(card["config"])["recipe"] == "smoke"


def test_training_lowers_the_energy(tmp_path: Path) -> None:
    config = replace(short(steps=120, learning_rate=2e-3, warm_up=5), augment=replace(smoke().augment, exposure=0.0))
    fit(config, in_memory(2), tmp_path / "run", device="cpu", quiet=True)
    totals = [line["total"] for line in metrics(tmp_path / "run")]
    assert sum(totals[-20:]) < 0.5 * sum(totals[:20])


def stopped_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Make runs stop as if asked to after so many steps."""
    tend = loop.Run._tend

    def asked(self: loop.Run, journal: Any, rate: float, example: Any, *, stopping: bool) -> bool:
        return tend(self, journal, rate, example, stopping=stopping or self.step == steps)

    monkeypatch.setattr(loop.Run, "_tend", asked)


@pytest.mark.parametrize(("log_every", "held"), [(1, None), (4, None), (1, 2)])
def test_a_resumed_run_has_the_losses_and_weights_of_one_that_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_every: int, held: int | None
) -> None:
    config = short(steps=9)
    config = replace(config, journal=replace(config.journal, log_every=log_every), data=replace(config.data, held=held))
    fit(config, in_memory(), tmp_path / "whole", device="cpu", quiet=True)
    with monkeypatch.context() as patch:
        stopped_after(patch, 5)
        result = fit(config, in_memory(), tmp_path / "parts", device="cpu", quiet=True)
        assert (result.step, result.is_complete) == (5, False)
    assert fit(config, in_memory(), tmp_path / "parts", resume=True, device="cpu", quiet=True).is_complete
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    assert same_weights(tmp_path / "parts", tmp_path / "whole")


def test_a_part_of_a_set_moves_through_it_over_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []
    add = Ahead.take

    def noted(self: Ahead) -> Prepared:
        prepared = add(self)
        seen.append(prepared.batch.names)
        return prepared

    monkeypatch.setattr(Ahead, "take", noted)
    config = short(steps=12, passes=2)
    config = replace(config, data=replace(config.data, held=2))
    sequences = [MemorySource(Item(tiny_sequence(k))) for k in range(8)]
    others = [MemorySource(Item(tiny_sequence(k)), "validation") for k in range(3)]
    run = Run(config, Dataset((*sequences, *others)), tmp_path / "run", Team(torch.device("cpu")), quiet=True)
    assert run.validation is not None
    assert run.validation.on_device, "all of what is for validation"
    run.train()
    names = [source.name for source in sequences]
    assert set(seen[0]) == set(names[:2])
    assert set(seen[12]) <= set(names[2:6])
    assert set(seen[-1]) == set(names[6:]), "two passes a step: 24 batches"


def test_a_set_that_streams_from_disk_trains_as_one_in_memory(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "data")
    for name, memory_gb, workers in (("memory", 1.0, 0), ("disk", 0.0, 0), ("workers", 0.0, 2)):
        config = short(steps=4)
        config = replace(config, data=replace(config.data, memory_gb=memory_gb, workers=workers))
        fit(config, open_dataset(data), tmp_path / name, device="cpu", quiet=True)
    assert metrics(tmp_path / "disk") == metrics(tmp_path / "memory") == metrics(tmp_path / "workers")
    assert same_weights(tmp_path / "disk", tmp_path / "memory")


def test_a_finished_run_can_be_resumed_and_stays_as_it_is(tmp_path: Path) -> None:
    for resume in (False, True):
        result = fit(short(), in_memory(), tmp_path / "run", resume=resume, device="cpu", quiet=True)
        assert result.step == 6
    assert [line["step"] for line in metrics(tmp_path / "run")] == list(range(1, 7))


def test_resuming_what_never_began_begins(tmp_path: Path) -> None:
    assert fit(short(steps=2), in_memory(), tmp_path / "run", resume=True, device="cpu", quiet=True).is_complete


def test_a_run_is_not_overwritten_and_goes_on_only_as_it_began(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit(short(), in_memory(), run, device="cpu", quiet=True)
    with pytest.raises(ConfigError, match="say --resume"):
        fit(short(), in_memory(), run, device="cpu", quiet=True)
    with pytest.raises(ConfigError, match=r"train.learning_rate: 0.0005, 0.001"):
        fit(short(learning_rate=1e-3), in_memory(), run, resume=True, device="cpu", quiet=True)
    with pytest.raises(CheckpointError, match="other sequences"):
        fit(short(), in_memory(2), run, resume=True, device="cpu", quiet=True)
    other = replace(short(), journal=replace(short().journal, log_every=3))
    assert fit(other, in_memory(), run, resume=True, device="cpu", quiet=True).is_complete
    assert fit(short(capture=False), in_memory(), run, resume=True, device="cpu", quiet=True).is_complete
    fewer = replace(short(), data=replace(short().data, workers=1))
    assert fit(fewer, in_memory(), run, resume=True, device="cpu", quiet=True).is_complete
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        fit(short(), in_memory(), tmp_path / "full", device="cpu", quiet=True)


def broken_at(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    """Make the energy NaN in these passes, counted from 0."""
    passes = iter(range(10**6))

    def sometimes(*arguments: Any, **keywords: Any) -> LossTerms:
        terms = batch_energy(*arguments, **keywords)
        return replace(terms, total=terms.total * math.nan) if next(passes) in steps else terms

    monkeypatch.setattr("unlit.train.objective.batch_energy", sometimes)


def test_a_bad_step_is_skipped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_at(monkeypatch, {1, 3})
    result = fit(short(), in_memory(), tmp_path / "run", device="cpu", quiet=True)
    assert (result.is_complete, result.skipped_steps) == (True, 2)
    assert [line["skipped"] for line in metrics(tmp_path / "run")] == [0, 1, 1, 2, 2, 2]
    assert [line["total"] is None for line in metrics(tmp_path / "run")] == [False, True, False, True, False, False]
    weights, _ = load_weights(tmp_path / "run" / "weights.safetensors")
    assert all(torch.isfinite(value).all() for value in weights.values())


def test_a_run_whose_steps_stay_bad_ends_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken_at(monkeypatch, set(range(2, 100)))
    with pytest.raises(TrainingError, match=r"3 steps in a row .* lower train.learning_rate"):
        fit(short(steps=20, patience=3), in_memory(), tmp_path / "run", device="cpu", quiet=True)


def test_the_best_checkpoint_is_the_one_that_validates_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, held_out = in_memory(2), tiny_sequence(9)
    item = replace(dataset_of([held_out]).sources[0].read())
    dataset = Dataset((*train.sources, MemorySource(item, "validation")))
    config = short(steps=10)
    config = replace(config, journal=replace(config.journal, validate_every=5))
    fit(config, dataset, tmp_path / "run", device="cpu", quiet=True)
    scores = {line["step"]: line["validation"] for line in metrics(tmp_path / "run") if "validation" in line}
    assert set(scores) == {5, 10}
    best = best_checkpoint(tmp_path / "run" / "checkpoints")
    assert best is not None
    assert int(best.name.split("-")[1]) == min(scores, key=lambda step: scores[step])


def test_what_cannot_be_used_is_named_and_skipped_and_training_goes_on(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "data", 5)
    (data / "place0" / "frames" / "0002.png").write_bytes(b"no picture")
    for mask in (data / "place1" / "masks").iterdir():
        black = data / "place2" / "masks" / mask.name
        shutil.copy(black, mask)
        from unlit.image_io import write_image

        write_image(mask, torch.zeros(40, 48).numpy(), encoding="linear")
    single = json.loads((data / "place3" / "sequence.json").read_text())
    single["frames"] = single["frames"][:1]
    (data / "place3" / "sequence.json").write_text(json.dumps(single))
    said: list[str] = []
    config = smoke()
    loader = Loader(
        open_dataset(data),
        config.data,
        config.augment,
        sequences=1,
        seed=0,
        device=torch.device("cpu"),
        say=said.append,
    )
    assert loader.names == ["place0", "place2", "place4"]
    assert {skipped.name for skipped in loader.skipped} == {"place0: 0002", "place1", "place3"}
    assert len(said) == 3
    assert any("place1" in text and "no frame has a valid pixel" in text for text in said)
    assert any("place3" in text and "single frame" in text for text in said)
    result = fit(short(), open_dataset(data), tmp_path / "run", device="cpu", quiet=True)
    assert (result.is_complete, result.skipped_sequences) == (True, 3)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert all(name in log for name in ("place0: 0002", "place1", "place3", "3 skipped"))


def test_steps_follow_from_epochs_and_passes(tmp_path: Path) -> None:
    config = short(steps=None, epochs=3, sequences=1, passes=2)
    assert fit(config, in_memory(5), tmp_path / "run", device="cpu", quiet=True).steps == 8  # 15 visits, two a step


def test_learning_from_truth_that_nobody_has_is_refused(tmp_path: Path) -> None:
    config = replace(short(), supervised=SupervisedSettings(truth=1.0))
    with pytest.raises(SequenceError, match="no sequence has truth"):
        fit(config, in_memory(), tmp_path / "run", device="cpu", quiet=True)
    assert not (tmp_path / "run" / "config.json").exists(), "a run that cannot begin must not look like one"


def test_a_set_that_streams_without_any_truth_is_refused_after_an_epoch(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for k in range(3):
        save_sequence(tiny_sequence(k), data / f"place{k}")
    config = replace(short(steps=12, sequences=1), supervised=SupervisedSettings(truth=1.0))
    config = replace(config, data=replace(config.data, memory_gb=0.0, workers=0), journal=JournalSettings(log_every=1))
    with pytest.raises(SequenceError, match="no sequence has truth"):
        fit(config, open_dataset(data), tmp_path / "run", device="cpu", quiet=True)
    assert [line["step"] for line in metrics(tmp_path / "run")] == [1, 2], "an epoch is three steps; all of it is seen"


def test_rare_truth_that_was_met_once_is_not_missed_by_a_resumed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(short(steps=8, sequences=1), supervised=SupervisedSettings(truth=1.0))
    config = replace(config, journal=JournalSettings(log_every=1, sheet_every=0))
    truth = Truth(reflectance=torch.full((3, 40, 48), 0.5))
    sources = [MemorySource(Item(tiny_sequence(k), truth if k == 0 else None)) for k in range(3)]
    dataset, run = Dataset(tuple(sources)), tmp_path / "run"
    stopped_after(monkeypatch, 4)
    fit(config, dataset, run, device="cpu", quiet=True)
    monkeypatch.undo()
    assert load_checkpoint(run / "checkpoints" / "step-00000004", torch.device("cpu")).state["has_met_truth"]
    met = [line["supervised"] > 0 for line in metrics(run)]
    assert not all(met), "some steps see no truth"
    assert fit(config, dataset, run, resume=True, device="cpu", quiet=True).is_complete


def test_a_set_whose_sequences_come_and_go_may_have_its_truth_last(tmp_path: Path) -> None:
    config = replace(short(steps=12, sequences=1), supervised=SupervisedSettings(truth=1.0))
    config = replace(config, data=replace(config.data, held=2), journal=JournalSettings(log_every=1, sheet_every=0))
    truth = Truth(reflectance=torch.full((3, 40, 48), 0.5))
    sources = [MemorySource(Item(tiny_sequence(k), truth if k == 5 else None)) for k in range(6)]
    result = fit(config, Dataset(tuple(sources)), tmp_path / "run", device="cpu", quiet=True)
    assert result.is_complete
    assert [line["supervised"] > 0 for line in metrics(tmp_path / "run")][:6] == [False] * 6


def test_truth_is_learned_from_where_it_is_known(tmp_path: Path) -> None:
    truth = Truth(reflectance=torch.full((3, 40, 48), 0.5))
    dataset = Dataset(tuple(MemorySource(Item(tiny_sequence(k), truth)) for k in range(2)))
    fit(replace(short(), supervised=SupervisedSettings(truth=1.0)), dataset, tmp_path / "run", device="cpu", quiet=True)
    assert all(line["supervised"] > 0 for line in metrics(tmp_path / "run"))


def test_solved_sequences_are_learned_from_alone_or_with_the_energy(tmp_path: Path) -> None:
    for alone in (True, False):
        solved = SolvedSettings(weight=0.5, steps=3, alone=alone)
        run = tmp_path / f"{alone}"
        fit(replace(short(steps=3), solved=solved), in_memory(), run, device="cpu", quiet=True)
        for line in metrics(run):
            assert line["solved"] > 0
            assert (line["reconstruction"] == 0) == alone
            if alone:
                assert line["total"] == pytest.approx(0.5 * line["solved"], rel=1e-5)


def test_what_happens_is_told_in_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    solved = SolvedSettings(weight=1.0, steps=1)
    fit(replace(short(steps=2), solved=solved), in_memory(2), tmp_path / "run", device="cpu")
    assert "solving place1" in capfd.readouterr().err
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "solving place0" in log
    assert "done at step 2 of 2" in log


def test_a_place_that_cannot_be_a_folder_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match=r"cannot be the run's folder .* choose another place"):
        fit(short(), in_memory(), tmp_path / "file", device="cpu", quiet=True)


def test_a_bad_pass_does_not_spoil_the_running_means_of_the_normalisation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, passes = Learner.decomposed, iter(range(10**6))

    def sometimes(self: Learner, module: torch.nn.Module, frames: torch.Tensor) -> Decomposition:
        return seen(self, module, frames * (math.nan if next(passes) == 2 else 1))

    monkeypatch.setattr(Learner, "decomposed", sometimes)
    result = fit(short(), in_memory(), tmp_path / "run", device="cpu", quiet=True)
    assert result.skipped_steps == 1
    weights, _ = load_weights(tmp_path / "run" / "weights.safetensors")
    assert all(torch.isfinite(value).all() for value in weights.values())


def test_a_window_of_nothing_but_empty_batches_has_no_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = Ahead._prepared

    def empty(self: Ahead) -> Prepared:
        found = prepared(self)
        return Prepared(found.batch, None, is_empty=True)

    monkeypatch.setattr(Ahead, "_prepared", empty)
    fit(short(steps=2), in_memory(), tmp_path / "run", device="cpu", quiet=True)
    assert [line["total"] for line in metrics(tmp_path / "run")] == [None, None]


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with held(tmp_path / "run", "a folder", "at work"), pytest.raises(ValueError, match="another process is training"):
        fit(short(), in_memory(), tmp_path / "run", device="cpu", quiet=True)
    assert fit(short(), in_memory(), tmp_path / "run", device="cpu", quiet=True).is_complete


def test_a_run_whose_checkpoints_are_all_damaged_is_not_begun_anew(tmp_path: Path) -> None:
    fit(short(), in_memory(), tmp_path / "run", device="cpu", quiet=True)
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    for file in (tmp_path / "run" / "checkpoints").glob("step-*/checkpoint.json"):
        file.write_text("{")
    with pytest.raises(CheckpointError, match="no checkpoint that is whole"):
        fit(short(), in_memory(), tmp_path / "run", resume=True, device="cpu", quiet=True)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_a_resumed_run_does_not_solve_its_sequences_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(short(steps=6), solved=SolvedSettings(weight=1.0, steps=2))
    fit(config, in_memory(), tmp_path / "whole", device="cpu", quiet=True)
    with monkeypatch.context() as patch:
        stopped_after(patch, 3)
        fit(config, in_memory(), tmp_path / "parts", device="cpu", quiet=True)
    monkeypatch.setattr("unlit.train.solving.solved_sequence", None)
    fit(config, in_memory(), tmp_path / "parts", resume=True, device="cpu", quiet=True)
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    assert same_weights(tmp_path / "parts", tmp_path / "whole")


def test_a_bad_step_leaves_the_running_means_as_they_were_before_it(tmp_path: Path) -> None:
    run = Run(short(), in_memory(), tmp_path, Team(torch.device("cpu")), quiet=True)
    learner, batches = run.learner, run.loader.batches(0, 1, 1)

    def step(number: int, *, bad: bool) -> list[torch.Tensor]:
        batch = next(batches)
        found = learner.decomposed(learner.network, batch.frames * (math.nan if bad else 1))
        found.log_light.sum().backward()
        assert bool(learner.update(number)) == bad
        return [value.clone() for value in learner.network.state_dict().values() if value.is_floating_point()]

    first, second, third, fourth = (step(k, bad=k == 2) for k in range(4))
    assert not all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(second, third, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(third, fourth, strict=True))


def test_a_checkpoint_that_was_not_validated_is_never_the_best(tmp_path: Path) -> None:
    validation = replace(in_memory(1).sources[0].read(), sequence=tiny_sequence(9))
    dataset = Dataset((*in_memory(2).sources, MemorySource(validation, "validation")))
    config = short(steps=20)
    config = replace(config, journal=replace(config.journal, validate_every=8, checkpoint_every=5))
    fit(config, dataset, tmp_path / "run", device="cpu", quiet=True)
    best = json.loads((tmp_path / "run" / "checkpoints" / "best.json").read_text())
    scores = {line["step"]: line["validation"] for line in metrics(tmp_path / "run") if "validation" in line}
    assert set(scores) == {8, 16, 20}
    assert (best["step"], best["score"]) == (20, scores[20]), "only the end was both validated and saved"


def test_an_old_validation_says_nothing_of_a_later_step(tmp_path: Path) -> None:
    run = Run(short(), in_memory(), tmp_path, Team(torch.device("cpu")), quiet=True)
    run.validation, run.validated, run.step = run.loader, (8, 0.5), 8
    assert run._score() == 0.5
    run.step = 10
    assert math.isnan(run._score())


def test_a_bad_step_after_resuming_leaves_the_running_means_of_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stopped_after(patch, 5)
        stopped = fit(short(), in_memory(), tmp_path / "run", device="cpu", quiet=True)
    before = load_checkpoint(stopped.checkpoint).model
    broken_at(monkeypatch, {0})
    ended = fit(short(), in_memory(), tmp_path / "run", resume=True, device="cpu", quiet=True)
    after = load_checkpoint(ended.checkpoint).model
    assert ended.skipped_steps == 1
    assert all(torch.equal(before[name], after[name]) for name in before if "tracked" not in name)


def test_ground_truth_is_never_taken_for_what_a_sequence_was_solved_to_be(tmp_path: Path) -> None:
    config = replace(short(steps=2), solved=SolvedSettings(weight=1.0, steps=2))
    told = Truth(reflectance=torch.rand(3, 40, 48))
    with_truth = Dataset(tuple(MemorySource(Item(tiny_sequence(k), told)) for k in range(3)))
    fit(config, in_memory(), tmp_path / "without", device="cpu", quiet=True)
    fit(config, with_truth, tmp_path / "with", device="cpu", quiet=True)
    assert metrics(tmp_path / "with") == metrics(tmp_path / "without")


def test_what_was_solved_before_is_not_solved_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unlit.train.solving.solved_sequence", None)
    config = replace(short(steps=1), solved=SolvedSettings(weight=1.0))
    before = {f"place{k}": torch.full((3, 40, 48), 0.5) for k in range(3)}
    assert fit(config, in_memory(), tmp_path / "run", device="cpu", quiet=True, solved=before).is_complete
