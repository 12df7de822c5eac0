"""The paper's ablations, trained on the energy itself: rendered worlds for training, others of them to score.

python benchmarks/ablations.py --data worlds:0:240:128x96:24 --seeds 3 --json FILE [--set train.steps=400 ...]

No truth is looked at in training. Every recipe has the same network, scenes, steps and seeds; what differs is what the
ablation of the same name changes. Scored are the network's own R and S for four mixtures of lights of each scene.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro

from _measure import report
from mit_folds import changed
from unlit.color import linear_to_srgb
from unlit.config import Config, ModelSettings, TrainSettings
from unlit.data.batch import UNCHANGED, Batch
from unlit.data.dataset import Dataset, Item, MemorySource
from unlit.data.loader import Loader
from unlit.data.sequence import SequenceError
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.losses.linear_truth import shares_lost
from unlit.losses.settings import EnergySettings
from unlit.recipes import RECIPES
from unlit.train.checkpoint import load_weights
from unlit.train.learner import network_of
from unlit.train.loop import fit
from unlit.worlds.dataset import WorldSource, open_worlds, seeds_of
from unlit.worlds.shelf import Shelf

FULL = "full energy"
ABLATIONS = (
    "per-image-reconstruction", "local-reflectance", "gray-shading", "single-scale-shading", "no-normalized-median",
)  # fmt: skip
METRICS = ("whole R", "whole S", "windows R", "windows S")
"""Shares of the truth's squares that are lost, up to a scale: of whole pictures, and of small windows."""
WINDOW = 20
"""Pixels, as in LMSE."""


def base() -> Config:
    """Return the full energy on mixtures of colored lights; a small network, for a CPU."""
    return Config(
        recipe=FULL,
        data=DataSettings(window=80, frames=6, memory_gb=64),
        augment=AugmentSettings(rotation=8.0, zoom=(0.9, 1.4), mixtures=0.8, light_color=0.7, exposure=0.7),
        model=ModelSettings(network="compact", width=0.25),
        energy=EnergySettings(reflectance=2.0, shading=2.0, scale=0.05),
        train=TrainSettings(steps=400, sequences=2, learning_rate=2e-3, cosine=True, warm_up=40, average=0.99),
    )


def ablated(name: str) -> Config:
    """Return `base` with what the ablation `name` changes in the release's recipe."""
    config = base()
    if name == FULL:
        return config
    its = RECIPES[name]()
    energy = replace(config.energy, all_pairs=its.energy.all_pairs, colored_light=its.energy.colored_light)
    energy = replace(energy, pairwise=its.energy.pairwise)
    return replace(config, recipe=name, energy=energy, model=replace(config.model, gray_shading=its.model.gray_shading))


def rendered(data: str, others: int, device: str) -> dict[str, list[Item]]:
    """Return the scenes for training, and as many `others` for validation, as far as they can be used."""
    training = [source for source in open_worlds(data, device).sources if source.split == "train"]
    assert isinstance(training[0], WorldSource)
    rendering = replace(training[0].shelf.rendering, split="validation")
    found: dict[str, list[Item]] = {"train": [], "validation": []}
    seeds = seeds_of("validation", 0, others)
    shelf = Shelf(seeds, rendering)
    for source in (*training, *(WorldSource(number, shelf) for number in seeds)):
        try:
            found[source.split].append(source.read())
        except SequenceError:
            continue  # next to nothing can be seen in it
    return found


def trained_and_scored(job: tuple[Config, Path, str]) -> dict[str, Any]:
    """Train one network and score it."""
    torch.set_num_threads(1)
    config, file, device = job
    # Its own file, of this run: whoever could change it could change this program.
    items: dict[str, list[Item]] = torch.load(file, weights_only=False)
    with tempfile.TemporaryDirectory() as folder:
        sources = tuple(MemorySource(replace(item, truth=None)) for item in items["train"])
        result = fit(config, Dataset(sources), Path(folder) / "run", device=device, quiet=True)
        weights, _ = load_weights(Path(folder) / "run" / "weights.safetensors", device)
    network = network_of(config.model).to(device).eval()
    network.load_state_dict(weights)
    scores = scored(network, items["validation"], torch.device(device))
    return {"what": config.recipe, "seed": config.train.seed, "steps": result.step, **scores}


@torch.no_grad()
def scored(network: torch.nn.Module, items: list[Item], device: torch.device) -> dict[str, float]:
    """Return mean scores over scenes and mixtures, the same ones for every network."""
    augment = replace(UNCHANGED, mixtures=0.8, light_color=0.7)
    # Windows, since whole pictures would be made as large as the paper's, and the network has never seen them so.
    window = min(items[0].sequence.frames.shape[2:])
    loader = Loader(
        Dataset(tuple(MemorySource(item) for item in items)), DataSettings(frames=4, window=window), augment,
        sequences=1, seed=1, device=device, say=lambda _: None,
    )  # fmt: skip
    batches = loader.batches(0, 1, 1)
    rows = [row for _ in items for row in _rows(network, next(batches))]
    return {name: float(np.mean([row[name] for row in rows])) for name in METRICS}


def _rows(network: torch.nn.Module, batch: Batch) -> list[dict[str, float]]:
    """Return, for the frames of a batch of one sequence, the shares of the truth's squares that R and S lose."""
    truth, mask = batch.truths[0], batch.mask[0]
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    found = network(linear_to_srgb(batch.frames[0]))
    columns = {}
    for name, log, true in (
        ("R", found.log_reflectance, truth.reflectance[None]),
        ("S", found.log_light, truth.shading),
    ):
        for part, lost in zip(("whole", "windows"), shares_lost(log, true, mask, WINDOW), strict=True):
            columns[f"{part} {name}"] = lost.tolist()
    is_seen = (mask.float().mean((1, 2, 3)) >= 0.1).tolist()  # the others are clipped nearly everywhere
    return [{name: values[k] for name, values in columns.items()} for k in range(len(mask)) if is_seen[k]]


def summary(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row of means over seeds, with their spread, for each recipe."""
    rows = []
    for name in dict.fromkeys(result["what"] for result in results):
        mine = [result for result in results if result["what"] == name]
        row: dict[str, Any] = {"what": name, "seeds": len(mine), "steps": mine[0]["steps"]}
        for metric in METRICS:
            values = [result[metric] for result in mine]
            row |= {metric: float(np.mean(values)), f"{metric} ±": float(np.std(values))}
        rows.append(row)
    return rows


def main(
    data: str = "worlds:0:240:128x96:24",
    json: Path | None = None,
    device: str = "cpu",
    seeds: int = 3,
    processes: int = 1,
    others: int = 40,
    set_: Annotated[tuple[str, ...], tyro.conf.arg(name="set")] = (),
) -> None:
    """Train and score.

    Args:
        data: The worlds.
        json: Where to write the results.
        device: To render and train on.
        seeds: How many networks for each recipe.
        processes: Trainings at a time.
        others: Scenes to score on.
        set_: Fields to change, such as train.steps=100.
    """
    quiet = ["journal.sheet_every=0", "journal.checkpoint_every=0"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenes.pt"
        torch.save(rendered(data, others, device), file)
        jobs = []
        for name in (FULL, *ABLATIONS):
            config = changed(ablated(name), [*quiet, *set_])
            seeded = [replace(config, train=replace(config.train, seed=seed)) for seed in range(seeds)]
            jobs += [(each, file, device) for each in seeded]
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
            results = list(pool.map(trained_and_scored, jobs))
    report("ablations", summary(results), torch.device(device), json)


if __name__ == "__main__":
    tyro.cli(main)
