"""Training of the quadratic (`quadratic/`): few parameters, all pictures in every step, on the CPU.

A run is a folder as that of a network is (`loop.py`), without sheets. Before the first step each sequence is asked for
its reflectance, once: the answers lie in `solved.safetensors`. Nothing is random, and a checkpoint holds weights and
optimizer: so a run that was stopped goes on exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unlit.config import Config, ConfigError
from unlit.data.dataset import Dataset, Item, Skipped
from unlit.data.sequence import SequenceError
from unlit.quadratic.learning import Sample, departure, loss_of
from unlit.quadratic.network import QuadraticNet
from unlit.quadratic.weights import Weights
from unlit.train.checkpoint import (
    Checkpoint,
    CheckpointError,
    check_same_tensors,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
    save_weights,
)
from unlit.train.distributed import Team
from unlit.train.interruption import asked_to_stop
from unlit.train.journal import Journal
from unlit.train.messages import Messages
from unlit.train.quadratic_samples import Targets, usable_item
from unlit.train.result import Result, TrainingError
from unlit.train.schedule import is_due, learning_rate
from unlit.train.starting import card_of, starting_weights
from unlit.train.weights import file_of


class QuadraticRun:
    """A run of one process."""

    def __init__(
        self,
        config: Config,
        dataset: Dataset,
        run: Path,
        team: Team,
        *,
        quiet: bool,
        solved: Mapping[str, Tensor] | None = None,
        start: str | Path | None = None,
    ) -> None:
        if team.world > 1:
            raise ConfigError(
                f"model.network quadratic trains in one process, not {team.world}; start it without torchrun"
            )
        self.config, self.run, self.quiet, self.device = config, run, quiet, team.device
        self.fingerprint = dataset.fingerprint
        self.messages = Messages(shown=not quiet)
        self._say = self.messages.say
        self.skipped: list[Skipped] = []
        self.network, self.first = QuadraticNet(), Weights()
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=config.train.learning_rate, betas=config.train.betas
        )
        self.has_start = start is not None and not any((run / "checkpoints").glob("step-*"))
        if start is not None and self.has_start:
            self._begin_with(Path(start))  # before the data are read, which takes longer
        self.items = self._usable(dataset)
        self.solved = solved or {}
        self.steps = config.train.steps or config.train.epochs  # a step sees every sequence once
        self.step, self.skipped_steps, self.bad_in_a_row = 0, 0, 0

    def train(self) -> Result:
        """Take the steps that are left."""
        self._resume()
        journal = Journal(self.run, steps=self.steps, quiet=self.quiet)
        with journal, asked_to_stop() as stop:
            self._begin(journal)
            samples = self._samples(stop) if self.step < self.steps else []
            while self.step < self.steps and not stop:
                self._take_step(journal, samples)
                if is_due(self.step, self.config.journal.checkpoint_every) and self.step < self.steps:
                    self._save(journal)
            checkpoint = self._save(journal)
            journal.note(f"{'done' if self.step == self.steps else 'stopped'} at step {self.step} of {self.steps}")
            if self.step == self.steps:
                save_weights(
                    self.run / "weights.safetensors", self.network.state_dict(), card_of(self.config, self.step)
                )
            return Result(self.step, self.steps, checkpoint, self.skipped_steps, len(self.skipped))

    def _take_step(self, journal: Journal, samples: list[Sample]) -> None:
        train = self.config.train
        rate = learning_rate(
            self.step, base=train.learning_rate, steps=self.steps, halve_at=train.halve_at, warm_up=train.warm_up,
            final="cosine" if train.cosine else "steps",
        )  # fmt: skip
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.zero_grad()
        pictures = self._learn(samples)
        away = train.weight_decay * departure(self.network.weights, self.first)
        away.backward()
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), train.clip or math.inf)
        is_bad = not bool(torch.isfinite(norm))
        if not is_bad:
            self.optimizer.step()
        self.skipped_steps += is_bad
        self.bad_in_a_row = (self.bad_in_a_row + 1) * is_bad
        self.step += 1
        journal.advance(self.step, len(samples))
        if self.step % self.config.journal.log_every == 0 or self.step == self.steps:
            terms = {"pictures": pictures, "departure": away.item(), "total": pictures + away.item()}
            journal.record(
                self.step, epoch=float(self.step), terms=terms, learning_rate=rate, skipped=self.skipped_steps
            )
        if self.bad_in_a_row >= train.patience:
            raise TrainingError(
                f"{self.bad_in_a_row} steps in a row had a gradient that is no number, the last before step "
                f"{self.step}; begin anew with a lower train.learning_rate, or look for broken frames"
            )

    def _learn(self, samples: list[Sample]) -> float:
        """Return the mean loss, with its gradient in the weights.

        Samples are solved by as many threads as torch has, each alone, and added up in their order: so the sum is the
        same, however many there are.
        """
        weights = list(self.network.parameters())

        def learned(sample: Sample) -> tuple[float, tuple[Tensor, ...]]:
            loss = loss_of(sample, self.network.weights) / len(samples)
            return loss.item(), torch.autograd.grad(loss, weights)

        total = 0.0
        count = torch.get_num_threads()
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for loss, gradients in pool.map(learned, samples):
                total += loss
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight.grad = gradient if weight.grad is None else weight.grad + gradient
        return total

    def _usable(self, dataset: Dataset) -> list[Item]:
        """Return the sequences that can be learned from; name those that are left out."""
        for skipped in dataset.skipped:
            self._skip(skipped)
        part, items = dataset.part("train"), []
        for source in part.sources:
            item = usable_item(source, self.config.data)
            if isinstance(item, Skipped):
                self._skip(item)
            else:
                items.append(item)
        if not items:
            first = f" (the first: {self.skipped[0].reason})" if self.skipped else ""
            raise SequenceError(f"{dataset.place}: no sequence of {len(part.sources)} can be used{first}")
        if others := len(dataset.part("validation").sources):
            self._say(f"{others} sequences for validation are not looked at")
        return items

    def _samples(self, stop: list[int]) -> list[Sample]:
        """Return what is learned from each sequence, up to being asked to stop: then it does not matter."""
        targets = Targets(self.config, self.run, self.device, self._say)
        targets.know(self.solved)
        samples = []
        for number, item in enumerate(self.items):
            if stop:
                break
            try:
                samples.append(targets.sample(item, number))
            except ValueError as error:
                name = item.sequence.name
                self._skip(Skipped(name, f"{name}: {error}"))
        if not samples and not stop:
            raise SequenceError(f"no sequence of {len(self.items)} can be used (the first: {self.skipped[-1].reason})")
        return samples

    def _save(self, journal: Journal) -> Path:
        journal.sync()
        state = {
            "data": self.fingerprint,
            "sequences": [item.sequence.name for item in self.items],
            "skipped_steps": self.skipped_steps,
            "bad_in_a_row": self.bad_in_a_row,
        }
        checkpoint = Checkpoint(self.step, self.network.state_dict(), self.optimizer.state_dict(), None, state)
        return save_checkpoint(self.run / "checkpoints", checkpoint, keep=self.config.journal.keep)

    def _resume(self) -> None:
        """Go on from the last checkpoint, where there is one."""
        folder = self.run / "checkpoints"
        path = latest_checkpoint(folder, self._say)
        if path is None:
            if any(folder.glob("step-*")) or (self.run / "weights.safetensors").exists():
                raise CheckpointError(folder, "holds no checkpoint that is whole", "begin anew in another folder")
            return
        saved = load_checkpoint(path)
        state: dict[str, Any] = saved.state
        if (state["data"], state["sequences"]) != (self.fingerprint, [item.sequence.name for item in self.items]):
            raise CheckpointError(path, "was trained on other sequences", "give the data that the run began with")
        check_same_tensors(path, saved.model, self.network.state_dict())
        self.network.load_state_dict(saved.model)
        self.optimizer.load_state_dict(saved.optimizer)
        self.step, self.skipped_steps = saved.step, state["skipped_steps"]
        self.bad_in_a_row = state["bad_in_a_row"]

    def _begin(self, journal: Journal) -> None:
        """Open the journal with what was said before there was one."""
        journal.resume_at(self.step)
        count = f"{len(self.items)} sequences, {len(self.skipped)} skipped"
        self.messages.open(journal, f"{self.config.recipe}: {count}; step {self.step} of {self.steps}")
        if self.has_start:
            self._save(journal)  # a run that is killed early must not be resumed without its start

    def _begin_with(self, weights: Path) -> None:
        path = file_of(weights)
        expected = self.network.state_dict()
        self.network.load_state_dict(starting_weights(path, expected, self.config, torch.device("cpu")))
        self._say(f"begins with {path}")

    def _skip(self, skipped: Skipped) -> None:
        self.skipped.append(skipped)
        self._say(f"skipped {skipped.name}: {skipped.reason}")
