"""The training loop, from top to bottom.

A run is a folder: `config.json` (every field), `metrics.jsonl`, `log.txt`, `sheets/`, `checkpoints/` and, at the end,
`weights.safetensors`. All randomness follows from the seed and the number of the step, and a checkpoint holds the rest:
so a run that was stopped anywhere goes on with exactly the losses that it would have had.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from unlit.color import linear_to_srgb
from unlit.config import Config, config_to_json
from unlit.data.batch import Batch
from unlit.data.dataset import Dataset
from unlit.data.loader import Loader
from unlit.data.sequence import SequenceError
from unlit.holding import held
from unlit.losses.batch import batch_pairwise
from unlit.train.ahead import Ahead
from unlit.train.checkpoint import (
    Checkpoint,
    CheckpointError,
    check_same_tensors,
    latest_checkpoint,
    load_checkpoint,
    mark_best,
    save_checkpoint,
    save_weights,
)
from unlit.train.distributed import Team, joined_team
from unlit.train.durable import replace_durably
from unlit.train.folder import check_folder
from unlit.train.interruption import asked_to_stop, repeatable
from unlit.train.journal import Journal, NullJournal
from unlit.train.learner import Learner
from unlit.train.messages import Messages
from unlit.train.objective import TERMS, objective
from unlit.train.passing import Passing
from unlit.train.result import Result, TrainingError
from unlit.train.schedule import is_due
from unlit.train.solving import Solver
from unlit.train.starting import card_of, starting_weights
from unlit.train.weights import file_of

if TYPE_CHECKING:
    from unlit.train.quadratic import QuadraticRun

SMOOTHING = 0.99
"""Of the running mean of the energy, which says which checkpoint is best where there is no validation set."""


def fit(
    config: Config,
    dataset: Dataset,
    run: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    quiet: bool = False,
    solved: Mapping[str, Tensor] | None = None,
    start: str | Path | None = None,
) -> Result:
    """Train a network on the sequences of `dataset` and leave everything in the folder `run`.

    With `resume` a run goes on from its last checkpoint, or from the start if it has none yet; the config must be the
    one it began with, but for `journal` and `train.capture`. Under `torchrun` all processes call this alike. `solved`
    are reflectances (3, h, w) by the names of sequences, where `config.solved` asks for them and they were found
    before; for the quadratic they are gray, (1, h, w), as its runs keep them. `start` is a file of weights of the same
    network, or the folder of a run, to begin with instead of with chance; a run that is resumed from a checkpoint does
    not look at it.
    """
    run = Path(run)
    with joined_team(device) as team, ExitStack() as stack:
        if team.is_first:
            stack.enter_context(held(run, "the run's folder", "training"))
        check_folder(run, config, resume=resume)
        kind = _quadratic_run() if config.model.network == "quadratic" else Run
        made = kind(config, dataset, run, team, quiet=quiet, solved=solved, start=start)
        team.wait()  # all have looked at the folder before anything is written to it
        if team.is_first:
            replace_durably(run / "config.json", config_to_json(config).encode())
        return made.train()


def _quadratic_run() -> type[QuadraticRun]:
    """Return it; it needs SciPy, which machines that train networks may not have."""
    from unlit.train.quadratic import QuadraticRun

    return QuadraticRun


class Run:
    """One process's part of a run."""

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
        self.config, self.run, self.team, self.device = config, run, team, team.device
        self.fingerprint, self.quiet = dataset.fingerprint, quiet
        train = config.train
        self.learner = Learner(config, self.device)
        self.messages = Messages(shown=team.is_first and not quiet)
        self._say = self.messages.say
        is_new = not any((run / "checkpoints").glob("step-*"))
        self.has_start = start is not None and is_new
        if start is not None and self.has_start:
            self.begin_with(Path(start))  # before the data are read or rendered, which takes long
        elif train.fixed_statistics and is_new:
            raise ValueError("train.fixed_statistics needs weights that have some: give --start, or leave it out")
        self.solver = Solver(config, run, self.device, self._say)
        self.solver.know(solved or {})
        self.uses_energy = config.energy.any and not (config.solved.weight > 0 and config.solved.alone)
        self.place, self.has_met_truth = dataset.place, False
        self.loader = self._loader(dataset.part("train"), augmented=True)
        self._check_truth()
        validation = dataset.part("validation")
        self.validation = self._loader(validation, augmented=False) if validation.sources else None
        self.batches_per_step = train.passes * team.world
        whole = train.epochs * self.loader.plan.per_epoch
        self.steps = train.steps or -(-whole // self.batches_per_step)
        self.step = 0
        zero = torch.zeros((), device=self.device)
        self.skipped_steps, self.bad_in_a_row = zero.clone(), zero.clone()
        self.smooth_energy = math.nan
        self.sums, self.summed = torch.zeros(len(TERMS), device=self.device), 0
        self.best, self.validated = math.inf, (-1, math.nan)

    def _loader(self, part: Dataset, *, augmented: bool) -> Loader:
        config = self.config
        return Loader(
            part,
            config.data,
            config.augment if augmented else None,
            sequences=config.train.sequences if augmented else 1,
            seed=config.train.seed,
            device=self.device,
            say=self._say,
            prepare=self.solver.solve if config.solved.weight > 0 and augmented else None,
            run=(config.train.steps or 0) * config.train.passes * self.team.world if augmented else None,
        )

    def _check_truth(self) -> None:
        """Refuse to learn from truth where none is known; say how much there is.

        Of sets that stream `_check_truth_was_met` finds out.
        """
        if self.config.supervised.any and self.loader.on_device:
            if not self.loader.with_truth:
                raise self._no_truth()
            self._say(f"truth: {self.loader.with_truth} of {len(self.loader.names)} sequences")

    @property
    def _epoch(self) -> float:
        """How often each sequence was visited."""
        return self.step * self.batches_per_step / self.loader.plan.per_epoch

    def _check_truth_was_met(self) -> None:
        """Refuse to go on after an epoch without any: of a set that streams nobody could know before.

        Of a set whose sequences come and go (`data.held`) an epoch has not seen all, and nothing is refused.
        """
        if self.config.supervised.any and not self.loader.slides:
            self.has_met_truth = self.team.any(self.has_met_truth)
            if self._epoch >= 1 and not self.has_met_truth:
                raise self._no_truth()

    def _no_truth(self) -> SequenceError:
        wrong = "no sequence has truth, which the supervised terms learn from"
        return SequenceError(f"{self.place}: {wrong}; give a dataset with truth/, or set their weights to 0")

    def train(self) -> Result:
        """Take the steps that are left."""
        config, team, learner = self.config, self.team, self.learner
        self.resume()
        if team.is_first:
            self.solver.keep()
        module = learner.compiled()
        if team.world > 1:
            module = DistributedDataParallel(module, device_ids=[self.device] if self.device.type == "cuda" else None)
        first = self.step * self.batches_per_step + team.rank * config.train.passes
        batches = self.loader.batches(first, self.batches_per_step, config.train.passes)
        ahead = Ahead(batches, config.energy if self.uses_energy else None, self.device)
        passing = Passing(learner, module, captures=self.captures)
        with (
            closing(ahead),
            self._journal() as journal,
            asked_to_stop() as stop,
            repeatable(config.train.deterministic),
        ):
            if self.has_start:
                self._save(journal)  # a run that is killed early must not be resumed with chance
            while self.step < self.steps:
                rate = learner.set_rate(self.step, self.steps)
                frames, example = 0, None
                for k in range(config.train.passes):
                    is_last = k == config.train.passes - 1
                    prepared = ahead.take()
                    goes_on = not (is_last and self.step + 1 == self.steps)
                    if goes_on and passing.is_captured(prepared):
                        ahead.start()
                    waits = isinstance(module, DistributedDataParallel) and not is_last
                    with module.no_sync() if waits else nullcontext():  # type: ignore[operator]  # only DDP has it
                        self._add(passing.run(prepared))
                    frames, example = frames + prepared.batch.count, prepared.batch
                    self.has_met_truth |= any(truth is not None for truth in example.truths)
                    if goes_on:
                        ahead.start()
                bad = learner.update(self.step)
                self.skipped_steps += bad
                self.bad_in_a_row = (self.bad_in_a_row + 1) * bad
                self.step += 1
                journal.advance(self.step, frames * team.world)
                leaving = self._tend(journal, rate, example, stopping=bool(stop))
                if leaving:
                    break
            checkpoint = self._save(journal)
            journal.note(f"{'done' if self.step == self.steps else 'stopped'} at step {self.step} of {self.steps}")
            if self.step == self.steps and team.is_first:
                save_weights(self.run / "weights.safetensors", learner.weights, card_of(config, self.step))
            team.wait()
            skipped = int(self.skipped_steps.item())
            return Result(self.step, self.steps, checkpoint, skipped, len(self.loader.skipped))

    @property
    def captures(self) -> bool:
        """Whether passes are captured: one process alone, on a GPU."""
        return self.config.train.capture and self.device.type == "cuda" and self.team.world == 1

    def _add(self, terms: Tensor | None) -> None:
        if terms is not None:
            self.sums += terms
            self.summed += 1

    def _tend(self, journal: Journal, rate: float, example: Batch | None, *, stopping: bool) -> bool:
        """Do after a step what is due: lines, sheets, scores, checkpoints. Return whether to leave."""
        config = self.config.journal
        is_end = self.step == self.steps
        if self.step % config.log_every == 0 or is_end:
            self._record(journal, rate)
            stopping = self.team.any(stopping)
        elif self.team.world > 1:
            stopping = False  # processes leave together, so only where they meet
        if example is not None and journal.sheet_is_due(self.step):
            self._sheet(journal, example)
        if self.validation is not None and (is_end or is_due(self.step, config.validate_every)):
            self._validate(journal)
        if is_due(self.step, config.checkpoint_every) and not is_end and not stopping:
            self._save(journal)
        return stopping and not is_end

    def _record(self, journal: Journal, rate: float) -> None:
        *sums, count = self.team.sum(torch.cat([self.sums, self.sums.new_tensor([self.summed])])).tolist()
        means = [value / count if count else math.nan for value in sums]  # of nothing but empty batches: no number
        skipped, bad = int(self.skipped_steps.item()), int(self.bad_in_a_row.item())
        terms = dict(zip(TERMS, means, strict=True))
        if math.isfinite(means[-1]):
            before = self.smooth_energy if math.isfinite(self.smooth_energy) else means[-1]
            self.smooth_energy = SMOOTHING * before + (1 - SMOOTHING) * means[-1]
        self._check_truth_was_met()
        journal.record(self.step, epoch=self._epoch, terms=terms, learning_rate=rate, skipped=skipped)
        self.sums.zero_()
        self.summed = 0
        if bad >= self.config.train.patience:
            raise TrainingError(
                f"{bad} steps in a row had a gradient that is no number, the last before step {self.step}; "
                "begin anew with a lower train.learning_rate, or look for broken frames"
            )

    def _sheet(self, journal: Journal, batch: Batch) -> None:
        with self.learner.evaluating():
            journal.sheet(self.step, batch.frames[0], self.learner.network(linear_to_srgb(batch.frames[0])))

    def _validate(self, journal: Journal) -> None:
        """Measure energy and supervised terms of the validation sequences, each as it is."""
        assert self.validation is not None
        totals = []
        with self.learner.evaluating():
            batches = self.validation.batches(0, 1, 1)
            for _ in range(self.validation.plan.per_epoch):
                batch = next(batches)
                if bool(batch.mask.any()):
                    found = self.learner.network(linear_to_srgb(batch.frames.flatten(0, 1)))
                    needed = self.config.energy.any
                    pairwise = batch_pairwise(batch.frames, batch.mask, self.config.energy) if needed else None
                    totals.append(objective(batch, pairwise, found, self.config)["total"].item())
        score = sum(totals) / len(totals) if totals else math.nan
        journal.record_scores(self.step, {"validation": score})
        self.validated = (self.step, score)

    def _save(self, journal: Journal) -> Path:
        """Write a checkpoint; the first process does."""
        folder = self.run / "checkpoints"
        path = folder / f"step-{self.step:08d}"
        if not self.team.is_first:
            return path
        journal.sync()
        score = self._score()
        is_best = score <= self.best
        self.best = min(self.best, score) if math.isfinite(score) else self.best
        learner = self.learner
        checkpoint = Checkpoint(
            self.step, learner.network.state_dict(), learner.optimizer.state_dict(), learner.average, self._state()
        )
        path = save_checkpoint(folder, checkpoint, keep=self.config.journal.keep)
        if is_best:
            mark_best(folder, self.step, score)
        return path

    def _score(self) -> float:
        """Return by what checkpoints are compared, or NaN where this one cannot be.

        The validation's score where there is one, else the running mean of what training makes small.
        """
        if self.validation is None:
            return self.smooth_energy
        step, score = self.validated
        return score if step == self.step else math.nan

    def _state(self) -> dict[str, Any]:
        return {
            "seed": self.config.train.seed,
            "data": self.fingerprint,
            "sequences": self.loader.names,
            "batches_per_step": self.batches_per_step,
            "skipped_steps": self.skipped_steps.item(),
            "bad_in_a_row": self.bad_in_a_row.item(),
            "smooth_energy": _plain(self.smooth_energy),
            "best": _plain(self.best),
            "sums": [_plain(value) for value in self.sums.tolist()],
            "summed": self.summed,
            # Of other processes too: a run that was not refused after an epoch has met it somewhere.
            "has_met_truth": self.has_met_truth or self._epoch >= 1,
        }

    def begin_with(self, weights: Path) -> None:
        """Begin with weights that another run has left."""
        path = file_of(weights)
        expected = self.learner.network.state_dict()
        self.learner.begin_with(starting_weights(path, expected, self.config, self.device))
        self._say(f"begins with {path}")

    def resume(self) -> None:
        """Go on from the last checkpoint, where there is one."""
        folder = self.run / "checkpoints"
        path = latest_checkpoint(folder, self._say)
        if path is None:
            if any(folder.glob("step-*")) or (self.run / "weights.safetensors").exists():
                raise CheckpointError(folder, "holds no checkpoint that is whole", "begin anew in another folder")
            return
        saved = load_checkpoint(path, self.device)
        state = saved.state
        if (state["data"], state["sequences"]) != (self.fingerprint, self.loader.names):
            raise CheckpointError(path, "was trained on other sequences", "give the data that the run began with")
        if state["batches_per_step"] != self.batches_per_step:
            wrong = f"had {state['batches_per_step']} passes a step over all processes, not {self.batches_per_step}"
            raise CheckpointError(path, wrong, "change train.passes or the number of processes so that they agree")
        check_same_tensors(path, saved.model, self.learner.network.state_dict())
        self.learner.load(saved)
        self.step = saved.step
        self.skipped_steps.fill_(state["skipped_steps"])
        self.bad_in_a_row.fill_(state["bad_in_a_row"])
        self.smooth_energy = _number(state["smooth_energy"])
        self.best = _number(state["best"], math.inf)
        self.sums = torch.tensor([_number(value) for value in state["sums"]], device=self.device)
        self.summed = state["summed"]
        self.has_met_truth = state.get("has_met_truth", True)  # checkpoints of before do not say

    def _journal(self) -> Journal:
        if not self.team.is_first:
            return NullJournal()
        journal = Journal(self.run, steps=self.steps, quiet=self.quiet, sheet_every=self.config.journal.sheet_every)
        journal.resume_at(self.step)
        count = f"{len(self.loader.names)} sequences {self.loader.where}, {len(self.loader.skipped)} skipped"
        self.messages.open(journal, f"{self.config.recipe}: {count}; step {self.step} of {self.steps} on {self.device}")
        return journal


def _plain(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None


def _number(value: float | None, missing: float = math.nan) -> float:
    return missing if value is None else value
