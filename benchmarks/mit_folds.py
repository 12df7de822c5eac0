"""The paper's Table 3 on the MIT training objects: sequences without ground truth, tested on objects left out.

python benchmarks/mit_folds.py --data mit-intrinsic --json FILE [--seeds 3] [--set train.steps=1000 ...]

Five folds of the ten objects: trained on eight, tested on the two left out, input `diffuse.png`. Truth is read only to
score. What an object's own lights say of it is found once for all folds: it depends on no other object. `--data` may be
a file that `--pack FILE` made, for machines without a reader of pictures.
"""

from __future__ import annotations

import json as json_module
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import torch
import tyro

from _measure import report
from _mit import (
    Logs,
    Object,
    load_objects,
    logs_of,
    quadratic_logs_of,
    scores_of,
    solved_before,
    training_items,
    with_zhao,
    write_packed,
    write_solved,
    write_targets,
)
from unlit.config import Config, config_from_json, config_to_json
from unlit.data.dataset import Dataset, MemorySource
from unlit.evaluate.mit import mean_scores
from unlit.losses.settings import EnergySettings
from unlit.pairwise.settings import PairwiseSettings
from unlit.quadratic.network import QuadraticNet
from unlit.quadratic.weights import Weights
from unlit.recipes import RECIPES
from unlit.train.checkpoint import load_weights
from unlit.train.learner import network_of
from unlit.train.loop import fit

FOLDS = 5
T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """One training: which config, which fold is left out."""

    name: str
    config: Config
    fold: int
    data: Path
    device: str
    threads: int = 1
    solved: Path | None = None
    """Reflectances that the recipe's energy gives the sequences; None where it trains on the energy itself, or finds
    them in its own time."""


def fold_names(names: Iterable[str], fold: int) -> list[str]:
    """Return the objects that fold number `fold` leaves out: every fifth, in alphabetic order."""
    return sorted(names)[fold::FOLDS]


def trained_and_scored(job: Job) -> dict[str, Any]:
    """Train one network and score it on the objects it did not see."""
    torch.set_num_threads(job.threads)
    objects, device = load_objects(job.data), torch.device(job.device)
    left_out = fold_names(objects, job.fold)
    seen = {name: item for name, item in objects.items() if name not in left_out}
    known = {} if job.solved is None else {n: r for n, r in solved_before(job.solved).items() if n in seen}
    with tempfile.TemporaryDirectory() as folder:
        run, start = Path(folder) / "run", time.perf_counter()
        result = fit(
            job.config, Dataset(tuple(MemorySource(item) for item in training_items(seen))), run, device=job.device,
            quiet=True, solved=known,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        weights, _ = load_weights(run / "weights.safetensors", device)
    network = network_of(job.config.model).to(device)
    network.load_state_dict(weights)
    network.eval()
    logs: dict[str, dict[str, Logs]] = {}
    for name in left_out:
        if isinstance(network, QuadraticNet):
            ways = {"untrained": Weights(), "trained": network.weights.cpu()}
            logs[name] = {way: quadratic_logs_of(weights, objects[name]) for way, weights in ways.items()}
        else:
            logs[name] = logs_of(network, objects[name], job.config.data.longest, device)
    scores = {name: {way: scores_of(log, objects[name]) for way, log in found.items()} for name, found in logs.items()}
    return {
        "name": job.name, "fold": job.fold, "seed": job.config.train.seed, "seconds": seconds, "steps": result.step,
        "skipped": result.skipped_steps, "scores": scores,
        "logs": {name: found["views"] for name, found in logs.items() if "views" in found},
    }  # fmt: skip


def together(results: list[dict[str, Any]], objects: Mapping[str, Object]) -> list[dict[str, Any]]:
    """Return, for each name and fold, the scores of the mean over its seeds' logs, with and without Zhao's method."""
    found = []
    for name, fold in dict.fromkeys((result["name"], result["fold"]) for result in results):
        mine = [result for result in results if (result["name"], result["fold"]) == (name, fold)]
        if not mine[0]["logs"]:
            continue  # the quadratic learns without chance: there is nothing to average
        scores = {}
        for left_out in mine[0]["logs"]:
            mean: Logs = np.stack([result["logs"][left_out] for result in mine]).mean(0)
            item = objects[left_out]
            ways = {"views": mean, "views and zhao": with_zhao(mean, item)}
            scores[left_out] = {f"{way}, {len(mine)} networks": scores_of(log, item) for way, log in ways.items()}
        seconds = sum(result["seconds"] for result in mine)
        found.append({"name": name, "fold": fold, "seed": None, "seconds": seconds, "scores": scores})
    return found


def solve(job: Job) -> None:
    """Minimise a recipe's energy for every object, once for all its trainings; for the quadratic, find its targets."""
    torch.set_num_threads(job.threads)
    assert job.solved is not None
    write = write_targets if job.config.model.network == "quadratic" else write_solved
    write(load_objects(job.data), job.config, job.solved, torch.device(job.device))


def changed(config: Config, changes: list[str]) -> Config:
    """Return the config with fields such as `train.steps=100` set."""
    stated = json_module.loads(config_to_json(config))
    for change in changes:
        path, _, value = change.partition("=")
        *sections, field = path.split(".")
        part = stated
        for section in sections:
            part = part[section]
        part[field] = json_module.loads(value)
    return config_from_json(json_module.dumps(stated))


def ablated(name: str) -> Config:
    """Return `mit` or `mit-network`; the latter with what an ablation changes; or, `energy`, trained on that itself.

    The light of `mit-network` is gray, so that the ablation `gray-shading` is that.
    """
    if name == "mit":
        return RECIPES["mit"]()
    config = RECIPES["mit-network"]()
    if name in ("mit-network", "energy"):
        return replace(config, solved=replace(config.solved, weight=float(name == "mit-network")))
    ablation, plain = RECIPES[name]().energy, EnergySettings()
    changes = {f.name: getattr(ablation.pairwise, f.name) for f in fields(PairwiseSettings)}
    changed_pairs = {k: v for k, v in changes.items() if v != getattr(plain.pairwise, k)}
    pairwise = replace(config.energy.pairwise, **changed_pairs)
    return replace(config, recipe=name, energy=replace(config.energy, all_pairs=ablation.all_pairs, pairwise=pairwise))


def summary(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row of mean scores for each name and way of looking, over all objects, with the spread over seeds."""
    rows = []
    for name in dict.fromkeys(result["name"] for result in results):
        mine = [result for result in results if result["name"] == name]
        for variant in next(iter(mine[0]["scores"].values())):
            by_seed = []
            for seed in dict.fromkeys(result["seed"] for result in mine):
                found = [s[variant] for r in mine if r["seed"] == seed for s in r["scores"].values()]
                by_seed.append(mean_scores(found))
            row: dict[str, Any] = {"what": name, "variant": variant, "seeds": len(by_seed)}
            for metric in ("mse", "lmse", "dssim"):
                parts = [[s[f"{metric}/{part}"] for s in by_seed] for part in ("reflectance", "shading")]
                row[metric] = float(np.mean(parts))
                row[f"{metric} R/S"] = " / ".join(f"{np.mean(p):.4f}" for p in parts)
                row[f"{metric} ±"] = float(np.std(np.mean(parts, axis=0)))
            row["seconds"] = max(result["seconds"] for result in mine)
            rows.append(row)
    return rows


def all_of(work: Callable[[Job], T], jobs: list[Job], processes: int) -> list[T]:
    """Return the results of all jobs, some at a time."""
    if processes == 1:
        return [work(job) for job in jobs]
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(work, jobs))


def main(
    data: Path,
    json: Path | None = None,
    device: str = "cpu",
    seeds: int = 1,
    processes: int = 1,
    threads: int = 1,
    alone: bool = False,
    recipes: tuple[str, ...] = ("mit",),
    set_: Annotated[tuple[str, ...], tyro.conf.arg(name="set")] = (),
    pack: Path | None = None,
) -> None:
    """Train and score.

    Args:
        data: The MIT set's folder, or a packed file.
        json: Where to write the results.
        device: To train on.
        seeds: How many networks for each fold; their mean is scored too. The quadratic of `mit` needs one.
        processes: Trainings at a time on the device.
        threads: Of each of them, on the CPU.
        alone: Let every training find what its sequences say by itself, in its own time.
        recipes: `mit`, `mit-network`; ablations of the latter's energy by name; `energy`, trained on the energy itself.
        set_: Fields to change, such as train.steps=100.
        pack: Write the pictures into this file instead of training.
    """
    torch.set_num_threads(threads)
    if pack:
        write_packed(load_objects(data), pack)
        return
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for name in recipes:
            config = changed(ablated(name), list(set_))
            solved = Path(folder) / f"{name}.npz" if config.solved.weight and not alone else None
            jobs.append(Job(name, config, 0, data, device, threads, solved))
        start = time.perf_counter()
        all_of(solve, [job for job in jobs if job.solved], processes)
        print(f"solved in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        trainings = [
            replace(job, fold=fold, config=replace(job.config, train=replace(job.config.train, seed=seed)))
            for job in jobs
            for seed in range(seeds)
            for fold in range(FOLDS)
        ]
        results = all_of(trained_and_scored, trainings, processes)
    all_seeds = together(results, load_objects(data))
    report("mit_folds", summary(results) + summary(all_seeds), torch.device(device), json)
    if json:
        kept = [{key: value for key, value in r.items() if key != "logs"} for r in [*results, *all_seeds]]
        json.with_suffix(".objects.json").write_text(json_module.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
