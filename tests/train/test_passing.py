"""A pass that is captured must do what one that is launched piece by piece does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.train.world import metrics, same_weights, tiny_sequence
from unlit.config import Config
from unlit.data.dataset import Dataset, Item, MemorySource
from unlit.data.judgements import Judgements
from unlit.data.truth import Truth
from unlit.losses.settings import EnergySettings
from unlit.losses.supervised_settings import SupervisedSettings
from unlit.recipes import smoke
from unlit.train import passing as module
from unlit.train.ahead import Ahead, Prepared
from unlit.train.captured import Captured
from unlit.train.distributed import Team
from unlit.train.interruption import repeatable
from unlit.train.learner import Learner
from unlit.train.loop import Run, fit
from unlit.train.passing import Passing

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CONSISTENT = EnergySettings(reconstruction=0.0, consistency=0.3, reflectance=0.0, shading=0.0, scale=0.0)


class Replayed:
    """Stands in for `Captured` where there is no GPU: the same inputs, outputs and gradients, nothing captured."""

    made = 0

    def __init__(
        self,
        function: Callable[..., tuple[Tensor, ...]],
        inputs: Sequence[Tensor],
        state: Sequence[Tensor],
        pool: object = None,
        parameters: Sequence[Tensor] = (),
    ) -> None:
        self.function, self.shapes = function, [given.shape for given in inputs]
        self.parameters = parameters
        before = [values.clone() for values in state]
        self.has_gradient = [values.requires_grad for values in function(*inputs)]
        for values, old in zip(state, before, strict=True):
            values.copy_(old)
        Replayed.made += 1

    def forward(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        assert [given.shape for given in inputs] == self.shapes
        self.outputs = self.function(*inputs)
        return tuple(values.detach() for values in self.outputs)

    def backward(self, gradients: Sequence[Tensor]) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        torch.autograd.backward([v for v in self.outputs if v.requires_grad], list(gradients))


def config_of(kind: str) -> Config:
    config = replace(smoke(), train=replace(smoke().train, steps=6, passes=1 if kind == "one pass" else 2))
    if kind in ("energy", "one pass"):
        return config
    if kind == "gray light":  # of which nothing flows back through the color
        energy = replace(config.energy, colored_light=False)
        return replace(config, energy=energy, model=replace(config.model, network="compact", gray_shading=True))
    return replace(config, energy=CONSISTENT, supervised=SupervisedSettings(truth=1.0, truth_linear=2.0))


def data(*, known: bool = True) -> Dataset:
    items = []
    for seed in range(3):
        sequence = tiny_sequence(seed)
        surface = sequence.frames.amax(0)
        truth = Truth(surface, sequence.frames / surface, torch.ones(4, dtype=torch.bool)) if known else None
        items.append(MemorySource(Item(sequence, truth)))
    return Dataset(tuple(items))


def prepared_run(config: Config, folder: Path, device: str = "cpu") -> tuple[Run, list[Prepared]]:
    run = Run(config, data(), folder, Team(torch.device(device)), quiet=True)
    ahead = Ahead(run.loader.batches(0, 1, 1), config.energy, run.device)
    return run, [ahead.take() for _ in range(4)]


def passed(run: Run, batches: list[Prepared], *, captures: bool) -> tuple[list[Tensor | None], list[Tensor]]:
    """Return the terms of all batches, and the sum of the gradients."""
    passing = Passing(run.learner, run.learner.network, captures=captures)
    terms = [passing.run(batch) for batch in batches]
    gradients = [p.grad.clone() for p in run.learner.network.parameters() if p.grad is not None]
    return terms, gradients


def assert_same(config: Config, folder: Path, device: str) -> None:
    plain = passed(*prepared_run(config, folder / "a", device), captures=False)
    captured = passed(*prepared_run(config, folder / "b", device), captures=True)
    assert None not in plain[0]
    for ones, others in zip(plain, captured, strict=True):
        torch.testing.assert_close(ones, others, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["energy", "gray light", "truth"])
def test_what_is_captured_gives_the_same_terms_and_gradients(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Captured", Replayed)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    Replayed.made = 0
    assert_same(config_of(kind), tmp_path, "cpu")
    assert Replayed.made == 1  # four batches of one shape


def step_by_step(run: Run, batches: list[Prepared], *, captures: bool) -> list[list[Tensor]]:
    """Return the gradients of each batch alone."""
    passing, found = Passing(run.learner, run.learner.network, captures=captures), []
    for batch in batches:
        passing.run(batch)
        found.append([p.grad.clone() for p in run.learner.network.parameters() if p.grad is not None])
        run.learner.optimizer.zero_grad()
    return found


def assert_steps_are_the_same(config: Config, folder: Path, device: str) -> None:
    """Also where shapes take turns, each of which has gradients of its own."""
    (one, batches), (other, _) = (prepared_run(config, folder / name, device) for name in "ab")
    mixed = [b for batch in batches[:2] for b in (batch, _smaller(batch, config))]
    torch.testing.assert_close(
        step_by_step(other, mixed, captures=True), step_by_step(one, mixed, captures=False), rtol=1e-5, atol=1e-7
    )
    assert not other.learner._keeps_gradients


def _smaller(prepared: Prepared, config: Config) -> Prepared:
    """The left half of all frames."""
    batch = prepared.batch
    frames, mask = (values[..., : values.shape[-1] // 2].contiguous() for values in (batch.frames, batch.mask))
    half = replace(batch, frames=frames, mask=mask, truths=(None,) * len(frames))
    return Ahead(iter([half]), config.energy, frames.device).take()


def test_one_pass_a_step_sets_the_gradients_whatever_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Captured", Replayed)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    assert_steps_are_the_same(config_of("one pass"), tmp_path, "cpu")


def test_only_what_has_been_captured_lets_the_next_batch_start_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Captured", Replayed)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    run, (first, *_) = prepared_run(config_of("one pass"), tmp_path)
    passing = Passing(run.learner, run.learner.network, captures=True)
    assert not passing.is_captured(first)
    passing.run(first)
    assert passing.is_captured(first)
    assert not passing.is_captured(_smaller(first, run.config))
    assert not passing.is_captured(replace(first, pairwise=None))


@pytest.mark.parametrize("only", ["judgements", "shading_classes"])
def test_what_is_known_of_one_part_alone_is_learned_from(
    only: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the other part nothing flows back, which must not be in the way."""
    monkeypatch.setattr(module, "Captured", Replayed)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    config = replace(config_of("truth"), energy=replace(CONSISTENT, consistency=0.0))
    run, batches = prepared_run(
        replace(config, supervised=SupervisedSettings(judgements=1.0, shading_classes=1.0)), tmp_path
    )
    batch = batches[0].batch
    said = Judgements(
        torch.tensor([[0.2, 0.5], [0.7, 0.5]]), torch.tensor([[0, 1]]), torch.ones(1).long(), torch.ones(1)
    )
    classes = torch.full(batch.frames.shape[-2:], 2, dtype=torch.uint8)
    truth = Truth(judgements=said) if only == "judgements" else Truth(shading_classes=classes)
    known = replace(batches[0], batch=replace(batch, truths=(truth,) * len(batch.truths)), pairwise=None)
    _, plain = passed(run, [known], captures=False)
    run.learner.network.zero_grad()
    _, captured = passed(run, [known], captures=True)
    assert sum(float(g.abs().sum()) for g in plain) > 0
    torch.testing.assert_close(captured, plain, rtol=1e-5, atol=1e-7)


def test_of_many_shapes_only_the_first_are_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Captured", Replayed)
    monkeypatch.setattr(module, "MOST_SHAPES", 1)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    Replayed.made = 0
    config = config_of("truth")
    run, batches = prepared_run(config, tmp_path)
    shorter = [replace(b, batch=replace(b.batch, frames=b.batch.frames[:1], mask=b.batch.mask[:1])) for b in batches]
    shorter = [replace(b, batch=replace(b.batch, truths=b.batch.truths[:1], names=("one",))) for b in shorter]
    terms, gradients = passed(run, [*batches[:1], *shorter], captures=True)
    assert Replayed.made == 1
    assert all(values is not None and values.isfinite().all() for values in terms)
    assert sum(float(g.abs().sum()) for g in gradients) > 0


def test_a_batch_without_valid_pixels_adds_nothing(tmp_path: Path) -> None:
    run, batches = prepared_run(config_of("truth"), tmp_path)
    terms, gradients = passed(run, [replace(batches[0], is_empty=True)], captures=False)
    assert terms == [None]
    assert all(not g.any() for g in gradients)


def test_on_a_cpu_nothing_is_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Captured", None)
    assert fit(config_of("truth"), data(), tmp_path / "run", device="cpu", quiet=True).is_complete


def whole_run(config: Config, run: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with validation, sheets, a step that is no number, and a stop half way."""
    short = replace(
        config, journal=replace(config.journal, log_every=1, sheet_every=2, checkpoint_every=3, validate_every=2)
    )
    update, count = Learner.update, iter(range(100))

    def sometimes(learner: Learner, step: int) -> Tensor:
        if step == 2 and next(count) == 0:
            next(p for p in learner.network.parameters() if p.grad is not None).grad.fill_(torch.nan)  # type: ignore[union-attr]  # it has one
        if step == 4 and next(count) == 1:
            raise KeyboardInterrupt
        return update(learner, step)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "update", sometimes)
        with pytest.raises(KeyboardInterrupt):
            fit(short, data(), run, device=device, quiet=True)
        found = fit(short, data(), run, device=device, quiet=True, resume=True)
    assert found.is_complete
    assert found.skipped_steps == 1


@pytest.mark.parametrize("kind", ["energy", "one pass", "gray light", "truth"])
def test_a_run_of_captured_passes_ends_as_one_without(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_run(config_of(kind), tmp_path / "plain", "cpu", monkeypatch)
    monkeypatch.setattr(module, "Captured", Replayed)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(Run, "captures", True)
    whole_run(config_of(kind), tmp_path / "captured", "cpu", monkeypatch)
    assert same_weights(tmp_path / "plain", tmp_path / "captured")


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kind", ["one pass", "gray light", "truth"])
def test_on_a_gpu_a_run_of_captured_passes_ends_as_one_without(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(kind)
    whole_run(config, tmp_path / "captured", "cuda", monkeypatch)
    whole_run(replace(config, train=replace(config.train, capture=False)), tmp_path / "plain", "cuda", monkeypatch)
    for one, other in zip(metrics(tmp_path / "plain"), metrics(tmp_path / "captured"), strict=True):
        assert one == pytest.approx(other, rel=2e-3, nan_ok=True)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kind", ["energy", "gray light", "truth"])
def test_on_a_gpu_captured_passes_are_those_launched_piece_by_piece(kind: str, tmp_path: Path) -> None:
    with repeatable(True):
        assert_same(config_of(kind), tmp_path, "cuda")


@pytest.mark.gpu
@needs_gpu
def test_on_a_gpu_one_pass_a_step_sets_the_gradients(tmp_path: Path) -> None:
    with repeatable(True):
        assert_steps_are_the_same(config_of("one pass"), tmp_path, "cuda")


@pytest.mark.gpu
@needs_gpu
def test_capturing_leaves_the_statistics_as_they_were(tmp_path: Path) -> None:
    run, batches = prepared_run(config_of("truth"), tmp_path, "cuda")
    before = [b.clone() for b in run.learner.network.buffers()]
    run.learner.keep_gradients()
    frames = batches[0].batch.frames
    passing = Passing(run.learner, run.learner.network, captures=True)
    Captured(passing._said, [frames], list(run.learner.network.buffers()))
    assert all(torch.equal(a, b) for a, b in zip(before, run.learner.network.buffers(), strict=True))
    assert all(not p.grad.any() for p in run.learner.network.parameters() if p.grad is not None)
