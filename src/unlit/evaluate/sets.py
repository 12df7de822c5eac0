"""Small sets in the layouts of IIW and SAW, made from scenes whose answer is known.

They let the whole path be run by tests and newcomers who do not have the originals. Their figures compare with nothing
that is published: the scenes are others, and the answers come from the truth, not from people. `unlit-set.json` in the
folder says so, and every report repeats it.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unlit.color import floored_log
from unlit.evaluate.benchmark import Picture
from unlit.evaluate.iiw import DELTA
from unlit.evaluate.points import point_pairs, true_comparisons
from unlit.evaluate.saw import IGNORED, SMOOTH, WINDOW, gradient_magnitude
from unlit.evaluate.worlds import WorldsBenchmark, WorldTruth
from unlit.image_io import ImageError, write_image

Kind = Literal["iiw", "saw"]
MARK = "unlit-set.json"
CONFUSION = 0.1
"""The share of judgements that are not what the truth says: about as often do people contradict each other in IIW."""
BLUR = 2.0
"""Pixels: rendered shading has noise, which is no edge."""
SMOOTH_BELOW = 8 * 0.02
EDGE_ABOVE = 8 * 0.06
"""Change of log shading a pixel, times 8 as Sobel has it: below the first it is smooth, above the second an edge."""
LASTING = 0.5
"""An edge that has this share of its strength in the median of all lights belongs to the shape, else to a shadow."""
LABELS_FOLDER = "saw_data-made-by-unlit-not-comparable"

_NOTE = (
    "a set in the layout of {kind}, made by unlit from scenes whose answer is known, with judgements from the truth in "
    "place of people's"
)


def write_set(
    kind: Kind, data: Path, out: Path, *, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> dict[str, str]:
    """Make a set of `kind` in `out`, a new or empty folder, from a dataset with truth, and return what was left out.

    It appears whole or not at all: half of one would not say that unlit made it.
    Photographs are numbered from 1 in the dataset's order. ValueError where none can be made.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"a set cannot be {kind!r}; choose iiw or saw")
    if seed < 0:
        raise ValueError(f"the seed cannot be {seed}; give 0 or more")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out}: is not an empty folder; choose another place for the set")
    benchmark = WorldsBenchmark(data)
    names = benchmark.ids
    unfinished = out.resolve().with_name(f".{out.resolve().name}.{secrets.token_hex(4)}")
    try:
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise ValueError(f"{out}: cannot be written to ({error.strerror}); choose another place for the set") from error
    try:
        skipped = _write_pictures(unfinished, kind, benchmark, names, seed, progress)
        unfinished.rename(out.resolve())
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return skipped


def _write_pictures(
    out: Path,
    kind: Kind,
    benchmark: WorldsBenchmark,
    names: list[str],
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> dict[str, str]:
    """Write all files of a set into `out`, and return what was left out."""
    skipped, numbers = dict[str, str](), list[int]()
    for k, name in enumerate(names, 1):
        try:
            case = benchmark.read(name)
            write = _write_iiw if kind == "iiw" else _write_saw
            write(out, k, case.pictures[0], case.truth, np.random.default_rng([seed, k]))
            numbers.append(k)
        except ValueError as error:
            if isinstance(error, ImageError) and str(out) in str(error):  # a full disk: no fault of the picture's
                raise OSError(str(error)) from error
            skipped[name] = str(error)
        if progress:
            progress(k, len(names))
    if not numbers:
        raise ValueError(f"{benchmark.place}: no picture could be made ({next(iter(skipped.values()), 'it is empty')})")
    if kind == "saw":
        _write_splits(out, numbers)
    mark = {"kind": kind, "comparable": False, "note": _NOTE.format(kind=kind.upper()), "seed": seed}
    (out / MARK).write_text(json.dumps(mark, indent=1) + "\n", encoding="utf-8")
    return skipped


def made_here(folder: Path) -> str:
    """Return what a set says of itself where unlit made it, else nothing."""
    path = folder / MARK
    if not path.is_file():
        return ""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["note"])
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return f"{path} says that unlit made this set, and is damaged"


def _write_iiw(out: Path, number: int, picture: Picture, truth: WorldTruth, rng: np.random.Generator) -> None:
    """Write a photograph and judgements of it, one in ten confused, all with weights as people's have them."""
    h, w = truth.mask.shape
    first, second = point_pairs(truth.mask, rng)
    if not len(first):
        raise ValueError(f"{picture.id}: too little of it is valid to compare points")
    said = true_comparisons(truth.reflectance, first, second, DELTA, "gamma").darker
    # The other two answers are 1 or 2 further on, around the three.
    confused = np.where(rng.random(len(said)) < CONFUSION, (said + rng.integers(1, 3, len(said))) % 3, said)
    pixels = sorted({tuple(p) for p in np.concatenate([first, second]).tolist()})
    number_of = {pixel: k for k, pixel in enumerate(pixels, 1)}
    points = [
        {"id": k, "x": (column + 0.5) / w, "y": (row + 0.5) / h, "opaque": True}
        for (row, column), k in number_of.items()
    ]
    comparisons: list[dict[str, Any]] = [
        {
            "id": k,
            "point1": number_of[tuple(p)],
            "point2": number_of[tuple(q)],
            "darker": "E12"[answer],
            "darker_score": round(float(weight), 4),
        }
        for k, (p, q, answer, weight) in enumerate(
            zip(first.tolist(), second.tolist(), confused, rng.uniform(0.2, 2, len(said)), strict=True), 1
        )
    ]
    write_image(out / f"{number}.png", picture.image, encoding="srgb", bits=8)
    stated = {"intrinsic_points": points, "intrinsic_comparisons": comparisons}
    (out / f"{number}.json").write_text(json.dumps(stated) + "\n", encoding="utf-8")


def _write_saw(out: Path, number: int, picture: Picture, truth: WorldTruth, _: np.random.Generator) -> None:
    """Write a photograph and the labels of its pixels."""
    labels = shading_labels(truth)
    if not (labels == SMOOTH).any():
        raise ValueError(f"{picture.id}: has no smooth shading; its labels would say nothing")
    images, place = out / "saw_images_512", out / "saw_pixel_labels" / LABELS_FOLDER
    for folder in (images, place):
        folder.mkdir(parents=True, exist_ok=True)
    write_image(images / f"{number}.png", picture.image, encoding="srgb", bits=8)
    np.save(place / f"{number}.npy", labels, allow_pickle=False)


def shading_labels(truth: WorldTruth) -> NDArray[np.uint8]:
    """Return labels (h, w) by the true shading: 2 smooth, 1 a shadow's boundary, 0 a jump that all lights show.

    Pixels in between, near the unknown, or at an edge of unclear kind have 100.
    """
    from scipy.ndimage import maximum_filter, minimum_filter

    strength = _edge_strength(truth.shading)
    lasting = np.median([_edge_strength(shading) for shading in truth.shadings], axis=0)
    valid = minimum_filter(truth.mask, size=3)
    labels = np.full(strength.shape, IGNORED, np.uint8)
    labels[maximum_filter(strength, size=WINDOW) < SMOOTH_BELOW] = SMOOTH
    edge = strength > EDGE_ABOVE
    if len(truth.shadings) > 1:  # a single light does not tell what stays
        labels[edge & (lasting < LASTING * strength)] = 1
        labels[edge & (lasting >= LASTING * strength)] = 0
    labels[~valid] = IGNORED
    return labels


def _edge_strength(shading: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
    """Return the gradient's length (h, w) of the log of `shading` (h, w, 3), blurred over where it is known."""
    from scipy.ndimage import gaussian_filter

    known = (shading > 0).any(axis=-1).astype(np.float64)
    logs = floored_log(shading.mean(axis=-1).astype(np.float64)) * known
    share = gaussian_filter(known, BLUR)
    return gradient_magnitude(gaussian_filter(logs, BLUR) / np.maximum(share, np.finfo(np.float32).tiny))


def _write_splits(out: Path, numbers: list[int]) -> None:
    """Write the lists: every fifth photograph is for testing, as every fifth of IIW is; the rest for training."""
    splits = {"test": numbers[::5], "train": [n for k, n in enumerate(numbers) if k % 5], "val": list[int]()}
    (out / "saw_splits").mkdir()
    for split, chosen in splits.items():
        np.save(out / "saw_splits" / f"{split}_ids.npy", np.array(chosen, np.int64), allow_pickle=False)
