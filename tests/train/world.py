"""Small sequences to train on, from a seed: patches of surface under soft light that moves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import interpolate

from unlit.data.sequence import Sequence, save_sequence
from unlit.train.checkpoint import load_weights

TIMES = ("frames_per_second", "memory_mb", "seconds")


def tiny_sequence(seed: int, m: int = 4, h: int = 40, w: int = 48) -> Sequence:
    g = torch.Generator().manual_seed(seed)
    surface = interpolate(0.1 + 0.6 * torch.rand(1, 3, 5, 6, generator=g), (h, w), mode="nearest")
    light = interpolate(0.3 + torch.rand(m, 1, 3, 3, generator=g), (h, w), mode="bilinear")
    mask = torch.ones(m, 1, h, w, dtype=torch.bool)
    mask[:, :, :4, :4] = False
    return Sequence((surface * light).clamp(0, 0.99), mask, f"place{seed}")


def tiny_dataset(folder: Path, count: int = 3, **size: int) -> Path:
    """Write a prepared dataset and return its folder."""
    entries = []
    for k in range(count):
        save_sequence(tiny_sequence(k, **size), folder / f"place{k}")
        entries.append({"name": f"place{k}", "folder": f"place{k}"})
    (folder / "dataset.json").write_text(json.dumps({"version": 1, "sequences": entries}))
    return folder


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's metrics without what depends on the clock."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in TIMES} for line in lines]


def same_weights(one: Path, other: Path) -> bool:
    """Whether two runs ended with the same weights, to the last bit."""
    first, second = (load_weights(run / "weights.safetensors")[0] for run in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
