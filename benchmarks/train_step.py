"""A whole training step of the paper's network beside the network alone, and what its schedule would take.

python benchmarks/train_step.py [--device cuda] [--compile] [--json FILE]

The step is the `release` recipe's, as `unlit train` takes it: augmentation, pairs, energy, gradients, Adam. The network
alone runs forward and backward on the same frames, in the same precision; on a GPU also captured, as in the step, which
saves it the time of launching. The schedule is the paper's, 5,088 steps; its time is the median step's times that
number.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor, nn

from _measure import Timing, report, timed, timing_row
from _scene import frames as scene
from unlit.color import linear_to_srgb
from unlit.config import Config
from unlit.data.dataset import Dataset, dataset_of
from unlit.data.sequence import Sequence
from unlit.losses.batch import batch_energy, batch_pairwise
from unlit.pairwise.pairwise import Pairwise
from unlit.recipes import release
from unlit.train.ahead import TOLERANCE, Ahead
from unlit.train.captured import Captured
from unlit.train.distributed import Team
from unlit.train.interruption import repeatable
from unlit.train.loop import Run
from unlit.train.passing import Passing

SCHEDULE = 5088
"""Steps of the paper's training: 24 epochs of 212 sequences."""


BLOCK = 8
"""Steps that are timed together."""

SHARES = {"network alone": "share_of_network", "captured network alone": "share_of_captured_network"}
"""What a step says of the rows before it: the share of its time that they would take."""

WARM_UP = 4
"""Calls before anything is timed: kernels are compiled and ways of computing chosen at the first."""


def sequences(count: int, m: int, h: int, w: int) -> Dataset:
    """Return sequences to train on."""
    made = []
    for k in range(count):
        made.append(Sequence(scene(m, h, w, seed=k), torch.ones(m, 1, h, w, dtype=torch.bool), f"scene{k}"))
    return dataset_of(made)


def prepared_run(config: Config, dataset: Dataset, device: torch.device) -> tuple[Run, nn.Module]:
    """Return a run that has not begun, and its network, compiled where asked."""
    run = Run(config, dataset, Path(tempfile.mkdtemp()), Team(device), quiet=True)
    return run, run.learner.compiled()


def whole_step(run: Run, module: nn.Module) -> Callable[[], None]:
    """Return what takes one step, building the next batch's pairs while the network works on this one."""
    ahead = Ahead(run.loader.batches(0, 1, 1), run.config.energy, run.device)
    passing = Passing(run.learner, module, captures=run.captures)

    def step() -> None:
        run.learner.set_rate(run.step, run.steps)
        prepared = ahead.take()
        if passing.is_captured(prepared):
            ahead.start()
        passing.run(prepared)
        ahead.start()
        run.learner.update(run.step)
        run.step += 1

    return step


def network_alone(run: Run, module: nn.Module) -> Callable[[], None]:
    """Return what runs the network forward and backward on a batch of the same size."""
    batch = next(run.loader.batches(0, 1, 1))

    def alone() -> None:
        found = run.learner.decomposed(module, batch.frames)
        (found.log_reflectance.float().mean() + found.log_light.float().mean()).backward()
        run.learner.optimizer.zero_grad(set_to_none=True)

    return alone


def network_captured(run: Run, module: nn.Module) -> Callable[[], None]:
    """Return what runs the same network on the same frames, captured as in the step."""
    frames = next(run.loader.batches(0, 1, 1)).frames
    network = run.learner.network

    def said(given: Tensor) -> tuple[Tensor, ...]:
        found = run.learner.decomposed(module, given)
        return found.log_reflectance, found.log_shading, found.light_color

    captured = Captured(said, [frames], list(network.buffers()), parameters=list(network.parameters()))
    values = zip(captured.forward([frames]), captured.has_gradient, strict=True)
    gradients = [torch.full_like(value, 1e-6) for value, wanted in values if wanted]

    def alone() -> None:
        captured.forward([frames])
        captured.backward(gradients)

    return alone


def parts(run: Run) -> dict[str, Callable[[], Any]]:
    """Return the other parts of a step, each on its own."""
    batches = run.loader.batches(0, 1, 1)
    batch = next(batches)

    def pairs_of_batch() -> Pairwise:
        return batch_pairwise(batch.frames, batch.mask, run.config.energy, tolerance=TOLERANCE)

    pairs = pairs_of_batch()
    with torch.no_grad():
        found = run.learner.network(linear_to_srgb(batch.frames.flatten(0, 1)))
    leaves = replace(found, **{name: part.requires_grad_() for name, part in vars(found).items()})

    def energy_of_batch() -> None:
        batch_energy(batch.frames, batch.mask, leaves, pairs, run.config.energy, idle=False).total.backward()

    return {"augmentation": lambda: next(batches), "pairs": pairs_of_batch, "energy": energy_of_batch}


def rate_of(step: Callable[[], None], device: torch.device, calls: int) -> Timing:
    """Return the time of a step among others: one runs ahead of the next, so several are timed together."""

    def block() -> None:
        for _ in range(BLOCK):
            step()

    several = timed(block, device, max(5, calls // BLOCK), warm_up=2)
    return Timing(several.median_ms / BLOCK, several.spread_ms / BLOCK, BLOCK * several.calls)


def networks_alone(run: Run, module: nn.Module, calls: int) -> dict[str, Timing]:
    """Return what the network takes alone, and on a GPU what it takes captured."""
    found = {"network alone": timed(network_alone(run, module), run.device, calls, warm_up=WARM_UP)}
    if run.captures:
        found["captured network alone"] = rate_of(network_captured(run, module), run.device, calls)
        run.learner.optimizer.zero_grad()
    return found


def main(
    json: Path | None = None,
    device: str = "cpu",
    length: int = 31,
    size: tuple[int, int] = (256, 384),
    count: int = 4,
    width: float = 1.0,
    calls: int = 20,
    compile: bool = False,  # noqa: A002  # the recipe's own word
) -> None:
    """Measure; `length` frames of `size` (h, w) in each of `count` sequences, `width` of the network."""
    where = torch.device(device)
    config = replace(release(), model=replace(release().model, width=width))
    dataset = sequences(count, length, *size)
    rows: list[dict[str, Any]] = []

    def row(name: str, timing: Timing, **more: Any) -> None:
        rows.append(timing_row(name, timing, frames_per_second=1000 * length / timing.median_ms, **more))
        print(rows[-1], flush=True)

    kinds = [("", config)]
    if compile:
        kinds.append((", compiled", replace(config, train=replace(config.train, compile=True))))
    if where.type == "cuda":
        kind, chosen = kinds[-1]
        kinds.append((f"{kind}, not repeatable", replace(chosen, train=replace(chosen.train, deterministic=False))))
    for kind, chosen in kinds:
        with repeatable(chosen.train.deterministic):
            run, module = prepared_run(chosen, dataset, where)
            networks = networks_alone(run, module, calls)
            for name, timing in networks.items():
                row(f"{name}{kind}", timing)
            step = rate_of(whole_step(run, module), where, calls)
            shares = {SHARES[name]: timing.median_ms / step.median_ms for name, timing in networks.items()}
            row(f"whole step{kind}", step, **shares, schedule_minutes=step.median_ms * SCHEDULE / 60000)
            if not kind:
                for name, call in parts(run).items():
                    row(name, timed(call, where, calls))
    report("train_step", rows, where, json)


if __name__ == "__main__":
    tyro.cli(main)
