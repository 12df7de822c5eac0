"""Benchmarks by their names, as the command line has them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

from unlit.evaluate.benchmark import Benchmark
from unlit.evaluate.iiw import TEST_EVERY, IiwBenchmark
from unlit.evaluate.mit_set import MitBenchmark
from unlit.evaluate.saw import LARGEST_RATIO
from unlit.evaluate.saw_set import SawBenchmark, SawSplit
from unlit.evaluate.sequences import SequencesBenchmark
from unlit.evaluate.worlds import WorldsBenchmark
from unlit.image_io import Encoding

LARGEST_EVER = 1e6
"""Of SAW's ratios: neighbors never differ by more, and thresholds are spread evenly up to it."""

Name = Literal["iiw", "saw", "mit", "worlds", "sequences"]

SPLITS: dict[str, tuple[str, ...]] = {
    "iiw": ("test", "all"),
    "saw": ("test", "val", "train"),
    "mit": ("all", "train", "test"),
    "worlds": ("all", "train", "validation", "test"),
    "sequences": ("all",),
}
"""The splits of each benchmark, the usual one first."""


def open_benchmark(
    name: Name,
    data: Path,
    split: str | None = None,
    *,
    largest_ratio: float = LARGEST_RATIO,
    input_encoding: Encoding | None = None,
) -> Benchmark:
    """Return the benchmark called `name` over the set in the folder `data`; ValueError where that cannot be.

    `largest_ratio` is where SAW's thresholds end: 8 in the paper, 64 in later work. `input_encoding` is that of the
    frames of sequences whose files do not say; the other sets leave no doubt.
    """
    if not data.is_dir():
        raise ValueError(f"{data}: is not a folder; give the folder that the set lies in")
    split = split or SPLITS[name][0]
    if split not in SPLITS[name]:
        raise ValueError(f"{name} has no split {split!r}; choose one of {', '.join(SPLITS[name])}")
    if input_encoding is not None and name != "sequences":
        raise ValueError(f"{name} says itself how its pictures are encoded; leave --input-encoding out")
    if not 1.501 < largest_ratio <= LARGEST_EVER:
        raise ValueError(f"the largest ratio must be from 1.501 to {LARGEST_EVER:g}, not {largest_ratio}; take 8 or 64")
    if name == "iiw":
        return IiwBenchmark(data, TEST_EVERY if split == "test" else 1)
    if name == "saw":
        return SawBenchmark(data, cast(SawSplit, split), largest_ratio)
    if name == "mit":
        return MitBenchmark(data, split)
    return WorldsBenchmark(data, split) if name == "worlds" else SequencesBenchmark(data, input_encoding)
