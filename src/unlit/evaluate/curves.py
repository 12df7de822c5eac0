"""Plots of a benchmark run.

Precision over recall for SAW, consistency over contrast for sequences, else how scores are spread over the images.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unlit.evaluate.benchmark import Benchmark
from unlit.evaluate.plot import Axis, Curve, write_plot
from unlit.evaluate.running import MethodResult
from unlit.evaluate.saw import precision_recall, thresholds
from unlit.evaluate.saw_set import SawBenchmark


def write_curves(folder: Path, benchmark: Benchmark, results: Mapping[str, MethodResult]) -> list[str]:
    """Write the plots that fit a benchmark, and return their files' names."""
    scored = {name: result for name, result in results.items() if result.outcomes}
    if not scored:
        return []
    if isinstance(benchmark, SawBenchmark):
        return _precision_recall(folder, benchmark, scored)
    if benchmark.name == "sequences":
        return _contrast(folder, scored)
    return [_spread(folder, key, scored) for key in _spread_keys(benchmark)]


def _precision_recall(folder: Path, benchmark: SawBenchmark, results: Mapping[str, MethodResult]) -> list[str]:
    """Write precision over recall, a plot for each way, and their points as `curves.json`."""
    files: list[str] = []
    points: dict[str, dict[str, dict[str, list[float]]]] = {}
    for key in next(iter(next(iter(results.values())).outcomes.values())).counts:
        curves: dict[str, Curve] = {}
        for name, result in results.items():
            outcomes = list(result.outcomes.values())
            table = benchmark.summed(outcomes, np.ones((1, len(outcomes))), key)[0]
            precision, recall = precision_recall(table)
            if np.isfinite(precision).all():  # without smooth pixels there is no curve
                curves[name] = (recall, precision)
                levels = thresholds("original" if key.endswith("original") else "paper", benchmark.largest_ratio)
                values = {"threshold": levels, "precision": precision, "recall": recall}
                points.setdefault(name, {})[key] = {k: v.tolist() for k, v in values.items()}
        file = f"precision-recall-{key.removeprefix('ap/')}.png"
        write_plot(folder / file, f"SAW, {key}", Axis("recall"), Axis("precision", 0.4), curves)
        files.append(file)
    (folder / "curves.json").write_text(json.dumps(points) + "\n", encoding="utf-8")
    return files


def _contrast(folder: Path, results: Mapping[str, MethodResult]) -> list[str]:
    """Write a dot for each sequence: nobody should be consistent by being gray."""
    curves: dict[str, Curve] = {}
    for name, result in results.items():
        scores = sorted((o.scores["contrast"], o.scores["consistency"]) for o in result.outcomes.values())
        curves[name] = ([s[0] for s in scores], [s[1] for s in scores])
    sides = [max([1.0, *(v for c in curves.values() for v in c[k])]) for k in (0, 1)]
    axes = Axis("contrast kept (more is better)", 0, sides[0]), Axis("consistency (less is better)", 0, sides[1])
    write_plot(folder / "consistency-contrast.png", "a dot for each sequence", *axes, curves, dots=True)
    return ["consistency-contrast.png"]


def _spread_keys(benchmark: Benchmark) -> list[str]:
    return [benchmark.main_key] if benchmark.name == "iiw" else ["lmse/reflectance", "lmse/shading"]


def _spread(folder: Path, key: str, results: Mapping[str, MethodResult]) -> str:
    """Write which share of images scores below a value, over the value."""
    curves: dict[str, Curve] = {}
    for name, result in results.items():
        values = np.sort([o.scores[key] for o in result.outcomes.values()])
        curves[name] = (np.repeat(values, 2), np.linspace(0, 1, len(values) + 1).repeat(2)[1:-1])
    # The worst few images would squeeze all else into a corner.
    high = max(float(np.quantile(curve[0], 0.98)) for curve in curves.values())
    file = f"{key.replace('/', '-').replace('@', '-')}.png"
    axes = Axis(key, 0, high or 1.0), Axis("share of images below")
    write_plot(folder / file, "", *axes, curves, names_at_right=True)
    return file
