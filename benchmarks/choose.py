"""Figures by which the weights of the package are chosen: rendered scenes, figures and clean days for validation.

    python benchmarks/choose.py --sets out/choose --weights BEFORE AFTER --shares 0 0.25 0.5 0.75 1

renders the three sets into `--sets` where they are not there yet (a quarter of an hour on two CPU cores), and scores
means of the two files' weights: `share` of the second, the rest of the first. With one file it scores that one. Scenes are any,
in mixtures of their lights; figures are single painted things; days are six frames of one place in the open, a sun or
none under the sky, without colors of light and without a camera, so that what varies in R is the network's doing
(docs/trials.md). The last column is the mean change, over all sixteen figures, of their logs against the first row.
Nothing here is a test scene.
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

from unlit.data.augment import exposed, seeded
from unlit.data.dataset import Item
from unlit.data.daylight import drawn_days, has_day, roles_of
from unlit.data.sequence import SequenceError
from unlit.evaluate.mit import mit_scores
from unlit.evaluate.sequences import consistency_and_contrast
from unlit.evaluate.worlds import WorldTruth, true_whdr_scores, world_picture
from unlit.predict.network import DEFAULT_WEIGHTS
from unlit.predict.predictor import Predictor
from unlit.train.weights import load_weights, save_weights
from unlit.worlds.bases import bases
from unlit.worlds.dataset import seeds_of
from unlit.worlds.item import world_item
from unlit.worlds.scene import scene

SETS = {"scenes": (500, 40), "figures": (700, 24), "days": (900, 24)}
"""The first seed of each set, and how many scenes it has."""
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


def seeds(name: str) -> Iterable[int]:
    """Yield the numbers of the scenes that a set is looked for among."""
    first, _ = SETS[name]
    for k in count(first):
        (number,) = seeds_of("validation", k, 1)
        if name == "scenes" or _is_of(name, number):
            yield number


def _is_of(name: str, number: int) -> bool:
    home = scene(number)
    return home.place == "figure" if name == "figures" else has_day(list(home.roles))


def rendered(name: str, number: int) -> Item | Day | None:
    """Return one scene of a set, or None where it shows too little."""
    torch.set_num_threads(1)
    try:
        item = world_item(next(iter(bases([number], SIZE, SAMPLES))), "validation")
    except SequenceError:
        return None
    return _day(item, number) if name == "days" else item


def _day(item: Item, number: int) -> Day | None:
    sequence, truth = item.sequence, item.truth
    roles = roles_of(sequence.frame_names)
    if not has_day(roles) or truth is None or truth.reflectance is None or truth.shading is None:
        return None
    # One weight for all channels: white light.
    weights = torch.from_numpy(drawn_days(seeded(number), roles, FRAMES).mean(2, keepdims=True))
    frames, shading = (torch.einsum("mkc,kchw->mchw", weights.expand(-1, -1, 3), values) for values in (sequence.frames, truth.shading))
    mask = sequence.mask[:1]
    lit = exposed(frames, mask.expand(FRAMES, -1, -1, -1))
    factor = lit.sum((1, 2, 3), keepdim=True) / frames.sum((1, 2, 3), keepdim=True).clamp_min(1e-12)
    return Day(lit.clamp(0, _WHITE), mask[0], truth.reflectance, shading * factor)


def a_set(name: str, folder: Path, processes: int) -> list[Any]:
    """Return a set, rendered now or before."""
    path = folder / f"{name}.pt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        wanted = SETS[name][1]
        numbers = list(islice(seeds(name), wanted + wanted // 8))
        with ProcessPoolExecutor(processes) as pool:
            found = [made for made in pool.map(rendered, [name] * len(numbers), numbers) if made is not None]
        torch.save(found[:wanted], path)
    return list(torch.load(path, weights_only=False))


if __name__ == "__main__":
    import sys
    for name in SETS:
        print(name, len(a_set(name, Path(sys.argv[1]), 2)))
