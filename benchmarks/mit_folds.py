"""The paper's Table 3 on the MIT training objects: sequences without ground truth, tested on objects left out.

python benchmarks/mit_folds.py --data mit-intrinsic --json FILE [--seeds 3] [--set train.steps=1000 ...]

Five folds of the ten objects: trained on eight, tested on the two left out, input `diffuse.png`. Truth is read only to
score. `--data` may be a file that `--pack FILE` made, for machines without a reader of pictures.
"""

from __future__ import annotations

import json as json_module
import multiprocessing
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from _measure import report
from unlit.color import floored_log, linear_to_srgb
from unlit.config import Config, config_from_json, config_to_json
from unlit.data.augment import MIXTURE_MEAN, exposed
from unlit.data.dataset import dataset_of
from unlit.data.sequence import Sequence
from unlit.evaluate.mit import mean_scores, mit_scores
from unlit.losses.settings import EnergySettings
from unlit.model.compact import CompactNet
from unlit.model.unet import UNet
from unlit.pairwise.settings import PairwiseSettings
from unlit.recipes import RECIPES
from unlit.sequence.solve import solved_sequence
from unlit.train.checkpoint import load_weights
from unlit.train.learner import network_of
from unlit.train.loop import fit

SIZES = (0.5, 0.75, 1.0)
"""At which a picture is looked at."""
FOLDS = 5
LIGHTS = [f"light{k:02}" for k in range(1, 11)]
PICTURES = (*LIGHTS, "diffuse", "reflectance", "shading", "mask")
Object = dict[str, NDArray[np.uint16]]
Network = UNet | CompactNet


@dataclass(frozen=True)
class Job:
    """One training: which config, which fold is left out (None: none), which seed."""

    name: str
    config: Config
    fold: int | None
    data: Path
    device: str
    keep: Path | None = None
    """Where to keep the weights."""
    folds: int = FOLDS
    solved: Path | None = None
    """Reflectances that `--solve` found, so that trainings at the same time need not each find them."""


def load_objects(data: Path) -> dict[str, Object]:
    """Return the pictures of all objects, 16-bit linear, from the set's folder or from a packed file."""
    if data.is_file():
        with np.load(data) as packed:
            names = sorted({key.split("/")[0] for key in packed.files})
            return {name: {picture: packed[f"{name}/{picture}"] for picture in PICTURES} for name in names}
    from unlit.image_io import read_image

    objects = {}
    for folder in sorted(path for path in data.iterdir() if (path / "light01.png").is_file()):
        pictures = {name: read_image(folder / f"{name}.png", encoding="linear").pixels for name in PICTURES}
        objects[folder.name] = {n: np.round(65535 * p.clip(0, 1)).astype(np.uint16) for n, p in pictures.items()}
    return objects


def pictures_of(item: Object, names: list[str]) -> Tensor:
    """Return pictures (k, 3, h, w), linear."""
    stacked = np.stack([item[name] for name in names]).astype(np.float32) / 65535
    return torch.from_numpy(stacked).permute(0, 3, 1, 2).contiguous()


def mask_of(item: Object) -> Tensor:
    """Return the object's mask (1, 1, h, w)."""
    return torch.from_numpy(item["mask"][..., 0] > 32768)[None, None]


def training_sequences(objects: Mapping[str, Object]) -> list[Sequence]:
    """Return what training may see: the ten lights and the mask."""
    sequences = []
    for name, item in objects.items():
        frames = pictures_of(item, LIGHTS)
        sequences.append(Sequence(frames, mask_of(item).expand(len(frames), -1, -1, -1).clone(), name))
    return sequences


def solved_before(file: Path | None) -> dict[str, Tensor]:
    """Return the reflectances that `--solve` found, by the objects' names."""
    if file is None:
        return {}
    with np.load(file) as found:
        return {name: torch.from_numpy(found[name].astype(np.float32)) for name in found.files}


def write_solved(objects: Mapping[str, Object], config: Config, file: Path, device: torch.device) -> None:
    """Minimise the energy of every object's lights, as training would, and keep the reflectances."""
    found = {}
    for s in training_sequences(objects):
        frames, mask = s.frames.to(device), s.mask.to(device)
        solved = solved_sequence(frames, mask, config.energy, config.solved.steps)
        found[s.name] = (solved.log_reflectance[0].exp() * mask.any(0)).cpu().numpy().astype(np.float16)
    np.savez_compressed(file, **found)  # type: ignore[arg-type]  # numpy's stub takes them for its options


def fold_names(names: list[str], fold: int, folds: int = FOLDS) -> list[str]:
    """Return the objects that fold number `fold` leaves out: every fifth, in alphabetic order."""
    return sorted(names)[fold::folds]


@torch.no_grad()
def decomposed(network: Network, image: Tensor, mask: Tensor, *, views: bool = True) -> tuple[Tensor, Tensor]:
    """Return log reflectance (3, h, w) and log shading (1, h, w) of a linear image (1, 3, h, w) with its mask.

    With `views` they are means over mirrored, turned and rescaled looks at the picture.
    """
    image = exposed(image * mask, mask, MIXTURE_MEAN)
    sizes = SIZES if views else (1.0,)
    total: list[Tensor] = []
    for scale in sizes:
        size = [round(side * scale) for side in image.shape[-2:]]
        sized = image if scale == 1 else interpolate(image, size, mode="bilinear", antialias=True)
        for turns in range(4 if views else 1):
            for mirror in (False, True) if views else (False,):
                seen = torch.rot90(sized.flip(-1) if mirror else sized, turns, (-2, -1))
                found = network(linear_to_srgb(seen.clamp(0, 1)))
                logs = torch.cat([found.log_reflectance, found.log_shading], 1)
                logs = torch.rot90(logs, -turns, (-2, -1))
                logs = logs.flip(-1) if mirror else logs
                whole = logs if scale == 1 else interpolate(logs, image.shape[-2:], mode="bilinear")
                total.append(whole[0])
    mean = torch.stack(total).mean(0)
    return mean[:3], mean[3:]


def shared(image: Tensor, log_reflectance: Tensor, log_shading: Tensor, share: float | None) -> tuple[Tensor, Tensor]:
    """Return R and S; with a `share`, the part of what is left of the image that S gets, so that R · S = I."""
    if share is None:
        return log_reflectance.exp(), log_shading.exp()
    log_image = floored_log(image[0])
    left = (log_image - log_reflectance - log_shading).mean(0, keepdim=True)
    log_shading = log_shading + share * left
    return (log_image - log_shading).exp(), log_shading.exp()


VARIANTS: dict[str, tuple[bool, float | None]] = {
    "raw": (False, None),
    "exact": (False, 0.5),
    "views": (True, None),
    "views, R = I / S": (True, 0.0),
    "views, exact": (True, 0.5),
    "views, S = I / R": (True, 1.0),
}
"""Ways of getting R and S from the network: several looks or one, and the share."""


def scores_of(network: Network, item: Object, device: torch.device) -> dict[str, dict[str, float]]:
    """Return the scores of one object for each variant."""
    image = pictures_of(item, ["diffuse"]).to(device)
    mask = mask_of(item).to(device)
    truth = [pictures_of(item, [name])[0].permute(1, 2, 0).numpy() for name in ("reflectance", "shading")]
    looks = {views: decomposed(network, image, mask, views=views) for views in (False, True)}
    scores = {}
    for name, (views, share) in VARIANTS.items():
        reflectance, shading = shared(image, *looks[views], share)
        scores[name] = mit_scores(
            reflectance.permute(1, 2, 0).cpu().numpy(),
            shading[0].cpu().numpy(),
            truth[0],
            truth[1][..., 0],
            mask[0, 0].cpu().numpy(),
        )
    return scores


def trained_and_scored(job: Job) -> dict[str, Any]:
    """Train one network and score it on the objects it did not see."""
    torch.set_num_threads(1)
    objects = load_objects(job.data)
    left_out = [] if job.fold is None else fold_names(list(objects), job.fold, job.folds)
    seen = {name: item for name, item in objects.items() if name not in left_out}
    device = torch.device(job.device)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        result = fit(
            job.config, dataset_of(training_sequences(seen), one_light=True), Path(folder) / "run", device=job.device,
            quiet=True, solved=solved_before(job.solved),
        )  # fmt: skip
        seconds = time.perf_counter() - start
        last = json_module.loads((Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()[-1])
        weights, _ = load_weights(Path(folder) / "run" / "weights.safetensors", device)
        if job.keep:
            job.keep.parent.mkdir(parents=True, exist_ok=True)
            job.keep.write_bytes((Path(folder) / "run" / "weights.safetensors").read_bytes())
    network = network_of(job.config.model).to(device)
    network.load_state_dict(weights)
    network.eval()
    scores = {name: scores_of(network, objects[name], device) for name in left_out}
    return {
        "name": job.name, "fold": job.fold, "seed": job.config.train.seed, "seconds": seconds, "steps": result.step,
        "skipped": result.skipped_steps, "last": last, "scores": scores,
    }  # fmt: skip


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
    """Return `mit` trained on its energy itself, with the change that the ablation `name` makes to it; or `mit`.

    `energy` is the full energy, that the ablations are compared with.
    """
    config = RECIPES["mit"]()
    if name == "mit":
        return config
    energy = config.energy
    if name != "energy":
        ablation, plain = RECIPES[name]().energy, EnergySettings()
        changes = {f.name: getattr(ablation.pairwise, f.name) for f in fields(PairwiseSettings)}
        changed_pairs = {k: v for k, v in changes.items() if v != getattr(plain.pairwise, k)}
        energy = replace(energy, all_pairs=ablation.all_pairs, pairwise=replace(energy.pairwise, **changed_pairs))
    return replace(config, recipe=name, energy=energy, solved=replace(config.solved, weight=0.0))


def summary(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row of mean scores for each name and variant, over all objects tested, with the spread over seeds."""
    rows = []
    for name in dict.fromkeys(result["name"] for result in results):
        mine = [result for result in results if result["name"] == name]
        for variant in VARIANTS:
            by_seed = []
            for seed in sorted({result["seed"] for result in mine}):
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


def run_jobs(jobs: list[Job], processes: int) -> list[dict[str, Any]]:
    """Return the results of all jobs, some at a time."""
    if processes == 1:
        return [trained_and_scored(job) for job in jobs]
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(trained_and_scored, jobs))


def main(
    data: Path,
    json: Path | None = None,
    device: str = "cpu",
    seeds: int = 1,
    processes: int = 1,
    recipes: tuple[str, ...] = ("mit",),
    set_: Annotated[tuple[str, ...], tyro.conf.arg(name="set")] = (),
    pack: Path | None = None,
    solve: Path | None = None,
    solved: Path | None = None,
) -> None:
    """Train and score.

    Args:
        data: The MIT set's folder, or a packed file.
        json: Where to write the results.
        device: To train on.
        seeds: How many.
        processes: Trainings at a time on the device.
        recipes: `mit`; `energy`, the same trained on its energy itself; or ablations of that by name.
        set_: Fields to change, such as train.steps=100.
        pack: Write the pictures into this file instead of training.
        solve: Write what the sequences are solved to be into this file instead of training.
        solved: A file that --solve wrote; without it every training solves its own.
    """
    if pack:
        objects = load_objects(data)
        pictures = {f"{name}/{p}": pixels for name, item in objects.items() for p, pixels in item.items()}
        np.savez_compressed(pack, **pictures)  # type: ignore[arg-type]  # numpy's stub takes them for its options
        return
    if solve:
        write_solved(load_objects(data), changed(ablated("mit"), list(set_)), solve, torch.device(device))
        return
    jobs = [
        Job(name, changed(ablated(name), [*set_, f"train.seed={seed}"]), fold, data, device, solved=solved)
        for name in recipes
        for seed in range(seeds)
        for fold in range(FOLDS)
    ]
    results = run_jobs(jobs, processes)
    report("mit_folds", summary(results), torch.device(device), json)
    if json:
        json.with_suffix(".objects.json").write_text(json_module.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
