"""The baselines on the MIT objects: scores, time, and thresholds chosen by leaving one object out.

python benchmarks/baselines.py --data MIT [--methods bell zhao] [--json FILE]
python benchmarks/baselines.py --data MIT --choose zhao [--json FILE]
python benchmarks/baselines.py --photo FILE [--size 384 256]

MIT is the folder of object folders. The second form scores a method with each of its parameters on every object, then
for each object takes those with the least local error on all others. The third times every method on one picture.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import tyro
from numpy.typing import NDArray

from _measure import report, timed, timing_row
from unlit.baselines.registry import BASELINES, SEQUENCE_BASELINES
from unlit.baselines.retinex import color_retinex, gray_retinex
from unlit.baselines.weiss import weiss_retinex
from unlit.baselines.zhao import zhao
from unlit.evaluate.mit import MitTruth, load_mit_truth, mean_scores, mit_scores
from unlit.image_io import read_image

LIGHTS = [f"light{k:02}" for k in range(1, 11)]
Pictures = NDArray[Any]


class Item(NamedTuple):
    """One object."""

    name: str
    truth: MitTruth
    frames: Pictures
    """(10, h, w, 3), one for each light; none where no method needs them."""


class Search(NamedTuple):
    """A method and the values that its parameters may have."""

    method: Callable[..., tuple[Pictures, Pictures]]
    values: dict[str, tuple[float, ...]]
    takes_frames: bool = False


FIVE = (0.03, 0.075, 0.18, 0.42, 1.0)
SEARCHES = {
    "retinex-gray": Search(gray_retinex, {"threshold": (0.1, 0.14, 0.19, 0.27, 0.37, 0.52, 0.72, 1.0)}),
    "retinex-color": Search(color_retinex, {"threshold_gray": FIVE, "threshold_color": FIVE}),
    "weiss-retinex": Search(
        weiss_retinex,
        {"threshold_gray": (0.2, 0.3, 0.5, 0.75, 1.0), "threshold_color": (0.02, 0.03, 0.04, 0.05)},
        takes_frames=True,
    ),
    "zhao": Search(zhao, {"threshold_color": (0.015, 0.02, 0.03), "threshold_texture": (0.008, 0.015, 0.03)}),
}


def objects(data: Path, *, with_frames: bool) -> Iterator[Item]:
    """Yield the objects one after the other: all at once would be gigabytes."""
    for folder in sorted(path for path in data.iterdir() if (path / "diffuse.png").is_file()):
        truth = load_mit_truth(folder)
        lights = (
            [read_image(folder / f"{name}.png", encoding="linear").pixels for name in LIGHTS] if with_frames else []
        )
        yield Item(folder.name, truth, np.stack(lights) if lights else np.empty((0, *truth.image.shape)))


def found(name: str, item: Item) -> tuple[Pictures, Pictures]:
    """Return what a method finds for an object."""
    if name in BASELINES:
        return BASELINES[name](item.truth.image, item.truth.mask)
    return SEQUENCE_BASELINES[name](item.frames, item.truth.mask, item.truth.image)


def scores_of(split: tuple[Pictures, Pictures], truth: MitTruth) -> dict[str, float]:
    """Return the scores of a reflectance and a shading."""
    return mit_scores(*split, truth.reflectance, truth.shading, truth.mask)


def row_of(what: str, scores: list[dict[str, float]]) -> dict[str, Any]:
    """Return the means over the objects, R / S."""
    means = mean_scores(scores)
    pairs = {
        metric: (means[f"{metric}/reflectance"], means[f"{metric}/shading"]) for metric in ("mse", "lmse", "dssim")
    }
    return {"what": what, **{metric: f"{r:.4f} / {s:.4f}" for metric, (r, s) in pairs.items()}}


def table(data: Path, methods: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a row for each method, with the time of the process that an object took in the mean and at most."""
    scores: dict[str, list[dict[str, float]]] = {name: [] for name in methods}
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for item in objects(data, with_frames=any(name in SEQUENCE_BASELINES for name in methods)):
        for name in methods:
            start = time.process_time()  # not the clock's: other work on the machine should not count
            split = found(name, item)
            seconds[name].append(time.process_time() - start)
            scores[name].append(scores_of(split, item.truth))
    return [
        {**row_of(name, scores[name]), "seconds": float(np.mean(seconds[name])), "most": max(seconds[name])}
        for name in methods
    ]


def chosen(data: Path, name: str) -> list[dict[str, Any]]:
    """Return, for each object, the parameters that the others choose, and the mean scores that come of it."""
    search = SEARCHES[name]
    grid = list(itertools.product(*search.values.values()))
    scores: dict[str, list[dict[str, float]]] = {}
    for item in objects(data, with_frames=search.takes_frames):
        frames = [item.frames] if search.takes_frames else []
        given = [*frames, item.truth.mask, item.truth.image] if frames else [item.truth.image, item.truth.mask]
        settings = [dict(zip(search.values, values, strict=True)) for values in grid]
        scores[item.name] = [scores_of(search.method(*given, **s), item.truth) for s in settings]
    error = {n: np.array([s["lmse/reflectance"] + s["lmse/shading"] for s in found]) for n, found in scores.items()}
    best = {n: int(np.argmin(sum(e for other, e in error.items() if other != n))) for n in scores}
    rows = [{"what": f"without {n}", **dict(zip(search.values, grid[k], strict=True))} for n, k in best.items()]
    every = int(np.argmin(sum(error.values())))
    rows.append({"what": "all", **dict(zip(search.values, grid[every], strict=True))})
    rows.append(row_of("left out", [scores[n][k] for n, k in best.items()]))
    return [*rows, row_of("all", [found[every] for found in scores.values()])]


def times(photo: Path, size: tuple[int, int]) -> list[dict[str, Any]]:
    """Return how long each method takes on a picture brought to a width and a height."""
    image = torch.from_numpy(read_image(photo).pixels).permute(2, 0, 1)[None]
    sized = torch.nn.functional.interpolate(image, size[::-1], mode="bilinear", antialias=True)
    pixels = sized[0].permute(1, 2, 0).contiguous().numpy()
    place = torch.device("cpu")
    return [
        timing_row(name, timed(lambda: method(pixels), place, calls=3, warm_up=1))  # noqa: B023  # used at once
        for name, method in BASELINES.items()
    ]


def main(
    data: Path | None = None,
    methods: tuple[str, ...] = (*BASELINES, *SEQUENCE_BASELINES),
    choose: str | None = None,
    photo: Path | None = None,
    size: tuple[int, int] = (384, 256),
    json: Path | None = None,
) -> None:
    """Score, choose or time.

    Args:
        data: The MIT set's folder of object folders.
        methods: Which to score.
        choose: A method whose thresholds to choose, instead of scoring.
        photo: A picture to time every method on, instead of scoring.
        size: Width and height that the picture is brought to.
        json: Where to write the results.
    """
    if photo is not None:
        rows = times(photo, size)
    elif data is None:
        raise SystemExit("nothing to do: give --data, the folder of the MIT objects, or --photo, a picture to time")
    elif choose is not None and choose not in SEARCHES:
        raise SystemExit(f"{choose} has no thresholds to choose; give one of {', '.join(SEARCHES)}")
    else:
        rows = chosen(data, choose) if choose is not None else table(data, methods)
    report("baselines", rows, torch.device("cpu"), json)


if __name__ == "__main__":
    tyro.cli(main)
