"""Figures by which the weights of the package are chosen: rendered scenes, figures and clean days for validation.

    python benchmarks/choose.py --sets out/choose --weights BEFORE AFTER --shares 0 0.25 0.5 0.75 1

renders the four sets into `--sets` where they are not there yet (three minutes to a quarter of an hour on two CPU
cores), and scores means of the two files' weights: `share` of the second, the rest of the first; `--out` keeps the last
of them. With one file it scores that one.

Scenes are any, in mixtures of their lights; figures are single painted things; days are six frames of one place in the
open, a sun or none under the sky (some of them nights with lamps), without colors of light and without a camera, so
that what varies in R is the network's doing (docs/trials.md). The last column but one is the mean change, over all
sixteen figures, of their logs against the first row. In these the sky does not count. So the last column is of places
under a sky, half of their frames exposed for surfaces alone: how much brighter surfaces are found beside the sky than
they are, and the error of both together, in logs. Nothing here is a test scene.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from unlit.color import floored_log
from unlit.data.augment import exposed, seeded
from unlit.data.dataset import Item
from unlit.data.daylight import drawn_days, has_day, roles_of
from unlit.data.sequence import SequenceError
from unlit.data.truth import LUMINOUS
from unlit.evaluate.mit import mit_scores
from unlit.evaluate.sequences import consistency_and_contrast
from unlit.evaluate.worlds import WorldTruth, true_whdr_scores, world_picture
from unlit.predict.network import DEFAULT_WEIGHTS
from unlit.predict.predictor import Predictor
from unlit.train.weights import load_weights, save_weights
from unlit.worlds.bases import bases
from unlit.worlds.dataset import seeds_of
from unlit.worlds.item import world_item
from unlit.worlds.scene import EDITION, scene

SETS = {"scenes": (500, 40), "figures": (700, 24), "days": (900, 24)}
"""The first seed of each set, and how many scenes it has."""
SKIES = "skies"
_PLACES = {**SETS, SKIES: (2000, 60)}
_LEAST_SKY = 0.05
"""Share of the picture."""
SIZE, SAMPLES, FRAMES = (192, 288), 32, 6
_WHITE = 1.0
_NAMES = ("mse/reflectance", "mse/shading", "lmse/reflectance", "lmse/shading", "whdr@0.1/gamma")


@dataclass(frozen=True)
class Day:
    """Frames of one place, and what is known of them."""

    frames: torch.Tensor
    """(m, 3, h, w) linear, from 0 to 1."""
    mask: torch.Tensor
    """(1, h, w): surfaces."""
    reflectance: torch.Tensor
    """(3, h, w)."""
    shading: torch.Tensor
    """(m, 3, h, w)."""


@dataclass(frozen=True)
class Place:
    """Frames of one place under a sky, and what it reflects."""

    frames: torch.Tensor
    """(m, 3, h, w) linear, from 0 to 1: the first half exposed by all that is seen, the others by surfaces alone."""
    surfaces: torch.Tensor
    """(1, h, w)."""
    sky: torch.Tensor
    """(1, h, w)."""
    reflectance: torch.Tensor
    """(3, h, w), of the sky too."""


def seeds(name: str) -> Iterable[int]:
    """Yield the numbers of the scenes that a set is looked for among."""
    first, _ = _PLACES[name]
    for k in count(first):
        (number,) = seeds_of("validation", k, 1)
        if name == "scenes" or _is_of(name, number):
            yield number


def _is_of(name: str, number: int) -> bool:
    home = scene(number)
    return home.place == "figure" if name == "figures" else has_day(list(home.roles))


def rendered(name: str, number: int) -> Item | Day | Place | None:
    """Return one scene of a set, or None where it shows too little."""
    torch.set_num_threads(1)
    try:
        # For training the sky is valid too.
        item = world_item(next(iter(bases([number], SIZE, SAMPLES))), "train" if name == SKIES else "validation")
    except SequenceError:
        return None
    if name == SKIES:
        return _place(item, number)
    return _day(item, number) if name == "days" else item


def _mixed_by_day(item: Item, number: int, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
    """Return `count` frames and shadings (m, 3, h, w) of a place in white light, and its reflectance."""
    sequence, truth = item.sequence, item.truth
    roles = roles_of(sequence.frame_names)
    if not has_day(roles) or truth is None or truth.reflectance is None or truth.shading is None:
        return None
    # One weight for all channels: white light.
    weights = torch.from_numpy(drawn_days(seeded(number), roles, count).mean(2, keepdims=True)).expand(-1, -1, 3)
    frames, shading = (torch.einsum("mkc,kchw->mchw", weights, values) for values in (sequence.frames, truth.shading))
    return frames, shading, truth.reflectance


def _place(item: Item, number: int) -> Place | None:
    mixed = _mixed_by_day(item, number, FRAMES // 2)
    if mixed is None:
        return None
    frames, _, reflectance = mixed
    mask = item.sequence.mask[0]
    sky = mask & (reflectance >= LUMINOUS).all(0, keepdim=True)
    surfaces = mask & ~sky
    if min(float(sky.float().mean()), float(surfaces.float().mean())) < _LEAST_SKY:
        return None
    lit = [exposed(frames, seen.expand(len(frames), -1, -1, -1)) for seen in (mask, surfaces)]
    return Place(torch.cat(lit).clamp(0, _WHITE), surfaces, sky, reflectance)


def _day(item: Item, number: int) -> Day | None:
    mixed = _mixed_by_day(item, number, FRAMES)
    if mixed is None:
        return None
    frames, shading, reflectance = mixed
    sequence = item.sequence
    mask = sequence.mask[:1]
    lit = exposed(frames, mask.expand(FRAMES, -1, -1, -1))
    factor = lit.sum((1, 2, 3), keepdim=True) / frames.sum((1, 2, 3), keepdim=True).clamp_min(1e-12)
    return Day(lit.clamp(0, _WHITE), mask[0], reflectance, shading * factor)


def a_set(name: str, folder: Path, processes: int) -> list[Any]:
    """Return a set, rendered now or before."""
    (h, w), (first, wanted) = SIZE, _PLACES[name]
    path = folder / f"{name}-e{EDITION}-{w}x{h}-{SAMPLES}-{FRAMES}-{first}-{wanted}.pt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        numbers, found = iter(seeds(name)), list[Any]()
        with ProcessPoolExecutor(processes) as pool:
            while len(found) < wanted:  # some show too little, and many places no sky
                some = list(islice(numbers, wanted - len(found)))
                found += [made for made in pool.map(rendered, [name] * len(some), some) if made is not None]
        whole = path.with_suffix(".part")
        torch.save(found, whole)
        whole.replace(path)
    return list(torch.load(path, weights_only=False))


def mean_scores(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the means of `_NAMES`."""
    return {name: float(np.mean([each[name] for each in found])) for name in _NAMES}


def scored(predictor: Predictor, image: np.ndarray[Any, Any], truth: WorldTruth, seed: int) -> dict[str, float]:
    """Return the scores of one picture."""
    d = predictor.decompose(np.ascontiguousarray(image), encoding="linear")
    gray = truth.shading.mean(-1)
    return mit_scores(d.reflectance, d.shading, truth.reflectance, gray, truth.mask) | true_whdr_scores(
        d.reflectance, truth, seed
    )


def scores_of_items(predictor: Predictor, items: list[Item]) -> dict[str, float]:
    """Return the means over scenes or figures."""
    made = [world_picture(item) for item in items]
    return mean_scores([scored(predictor, picture.image, truth, k) for k, (picture, truth) in enumerate(made)])


def scores_of_days(predictor: Predictor, days: list[Day]) -> dict[str, float]:
    """Return the means over the frames of all days; how much R varies over time, and over the picture."""
    found, steady = [], []
    for number, day in enumerate(days):
        frames, shading = (t.permute(0, 2, 3, 1).numpy() for t in (day.frames, day.shading))
        reflectance, mask = day.reflectance.permute(1, 2, 0).numpy(), day.mask[0].numpy()
        said = [predictor.decompose(np.ascontiguousarray(frame), encoding="linear") for frame in frames]
        for k, d in enumerate(said):
            seen = mask & (frames[k] < 1).all(-1) & (shading[k] > 0).any(-1)
            if not seen.any():
                continue
            level = float(np.quantile(shading[k].max(-1)[seen], 0.99))
            truth = WorldTruth(reflectance, shading[k] / level, shading, seen)
            scores = mit_scores(d.reflectance, d.shading, reflectance, truth.shading.mean(-1), seen)
            found.append(scores | true_whdr_scores(d.reflectance, truth, 100 * number + k))
        masks = np.broadcast_to(mask, (len(frames), *mask.shape))
        steady.append(consistency_and_contrast(np.stack([d.reflectance for d in said]), frames, masks))
    spread, contrast = np.mean(steady, 0).tolist()
    return mean_scores(found) | {"spread": spread, "contrast": contrast}


def levels(predictor: Predictor, places: list[Place]) -> tuple[float, float]:
    """Return how much brighter surfaces are found beside the sky than they are, and the error of both, in logs."""
    brighter, errors = [], []
    for place in places:
        sky, surfaces = place.sky[0].numpy(), place.surfaces[0].numpy()
        for frame in place.frames.permute(0, 2, 3, 1).numpy():
            said = predictor.decompose(np.ascontiguousarray(frame), encoding="linear").reflectance
            truth = place.reflectance.permute(1, 2, 0).numpy()
            error = (floored_log(said) - floored_log(truth)).mean(-1)
            brighter.append(error[surfaces].mean() - np.median(error[sky]))
            errors.append(error[sky | surfaces].var())
    return float(np.mean(brighter)), float(np.sqrt(np.mean(errors)))


def all_scores(weights: Path, sets: dict[str, list[Any]]) -> dict[str, dict[str, float]]:
    """Return the scores of one file of weights on each set."""
    predictor = Predictor(weights, precision="float32")
    return {
        name: scores_of_days(predictor, items) if name == "days" else scores_of_items(predictor, items)
        for name, items in sets.items()
    }


def sixteen(scores: dict[str, dict[str, float]]) -> list[float]:
    """Return the logs of what the mean change is taken over: five scores of each set, and spread over contrast."""
    values = [scores[name][key] for name in SETS for key in _NAMES]
    return [math.log(v) for v in (*values, scores["days"]["spread"] / scores["days"]["contrast"])]


def mixed(first: Path, second: Path, share: float, out: Path) -> Path:
    """Write the mean of two files' weights, `share` of the second, and return where."""
    (a, metadata), (b, _) = load_weights(first), load_weights(second)
    both = {
        name: torch.lerp(a[name].float(), b[name].float(), share).to(a[name].dtype)
        if a[name].is_floating_point()
        else a[name]
        for name in a
    }
    save_weights(out, both, metadata)
    return out


def row(label: str, scores: dict[str, dict[str, float]], change: float, beside: tuple[float, float]) -> str:
    """Return a line of the table."""
    parts = [label.ljust(9)]
    for name in SETS:
        r, s, lr, ls, whdr = (scores[name][key] for key in _NAMES)
        parts.append(f"{r:.4f} / {s:.4f}, {lr:.4f} / {ls:.4f}, {100 * whdr:.1f}")
    spread, contrast = scores["days"]["spread"], scores["days"]["contrast"]
    parts += [f"{spread:.3f} at {contrast:.3f} ({spread / contrast:.3f})", f"{100 * change:+.1f} %"]
    return " | ".join([*parts, f"{beside[0]:+.3f}, {beside[1]:.3f}"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sets", type=Path, default=Path("out/choose"), help="folder for the rendered sets")
    parser.add_argument("--weights", type=Path, nargs="+", default=[DEFAULT_WEIGHTS], help="one file, or two")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.25, 0.5, 0.75, 1.0])
    parser.add_argument("--out", type=Path, help="file for the mean of the last share")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    if len(given.weights) > 2:
        parser.error(f"--weights takes one file, or two to mix, not {len(given.weights)}")
    sets = {name: a_set(name, given.sets, given.processes) for name in SETS}
    places = a_set(SKIES, given.sets, given.processes)
    heads = ("scenes", "figures", "days", "spread at contrast", "change", "surfaces beside the sky, error")
    print("MSE R / S, LMSE R / S, WHDR in per cent, of", " | ".join(heads), flush=True)
    before: list[float] = []
    shares = given.shares if len(given.weights) == 2 else [0.0]
    for share in shares:
        with TemporaryDirectory() as folder:
            weights = given.weights[0]
            if len(given.weights) == 2:
                weights = mixed(given.weights[0], given.weights[1], share, Path(folder) / "mixed.safetensors")
            scores = all_scores(weights, sets)
            beside = levels(Predictor(weights, precision="float32"), places)
        now = sixteen(scores)
        before = before or now
        print(row(f"{share:g}", scores, float(np.mean(np.subtract(now, before))), beside), flush=True)
    if given.out is not None:
        mixed(given.weights[0], given.weights[-1], shares[-1], given.out)


if __name__ == "__main__":
    main()
