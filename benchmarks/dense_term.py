"""The dense reflectance term, from frames to value and gradient: lattice, bistochastic scale, quadratic form.

    python benchmarks/dense_term.py [--json FILE] [--device cuda] [--frames FRAMES.npy]

Side by side in one run: this project; the same lattice filtered in plain torch; and the way of the authors' release,
SciPy matrices for splat and blur with the usual iteration for the scale. The lattice in C++ by Krähenbühl, which the
release builds on, is timed too where `pydensecrf2` is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
import tyro
from torch import Tensor

from _measure import Timing, peak_memory_mb, report, timed, timing_row
from _scene import frames as scene_frames
from unlit.losses.reflectance import dense_reflectance_term
from unlit.pairwise.features import pixel_features
from unlit.pairwise.filtering import TorchFilter
from unlit.pairwise.lattice import PermutohedralLattice
from unlit.pairwise.pairwise import DensePairs

USUAL_ROUNDS = 20
"""Of N ← sqrt(N / (W N)): what it takes to a change of 1e-6."""


def main(
    json: Path | None = None,
    device: str = "cpu",
    frames: Path | None = None,
    length: int = 10,
    sequences: int = 1,
    references: bool = True,
) -> None:
    """Measure the term for `sequences` of `length` frames of 256 x 384 at once, or for FRAMES.npy, (m, 3, h, w)."""
    place = torch.device(device)
    images = scene_frames(sequences * length) if frames is None else torch.from_numpy(np.load(frames))
    images = images.to(place)
    group = torch.arange(len(images), device=place) // (len(images) // sequences)
    rows = _ours(images, group, place)
    total = sum(row["median_ms"] for row in rows[:4])
    rows.append({"what": "unlit, in all", "median_ms": total})
    if references:
        rows += _plain(images, place)
        if place.type == "cpu":
            rows += _release_way(images, place)
    for row in rows:
        if row["what"].endswith("in all"):
            row["times"] = row["median_ms"] / total
    report("dense_term", rows, place, json)


def _features(images: Tensor) -> Tensor:
    return pixel_features(images).permute(0, 2, 3, 1).reshape(-1, 5).contiguous()


def _ours(images: Tensor, group: Tensor, place: torch.device) -> list[dict[str, Any]]:
    group = group.repeat_interleave(images.shape[2] * images.shape[3])
    features = _features(images)
    lattice = PermutohedralLattice(features, group)
    scaled = lattice.bistochastic()
    pairs = DensePairs(lattice, scaled, None)
    values = images.clamp_min(1e-4).log().requires_grad_()

    def step() -> None:
        torch.autograd.grad(dense_reflectance_term(pairs, values), values)

    def everything() -> None:
        again = PermutohedralLattice(_features(images), group)
        torch.autograd.grad(dense_reflectance_term(DensePairs(again, again.bistochastic(), None), values), values)

    counts = {"points": lattice.n, "vertices": lattice.vertex_count, "rounds": scaled.rounds}
    return [
        timing_row("unlit: features", timed(lambda: _features(images), place), **counts),
        timing_row("unlit: lattice", timed(lambda: PermutohedralLattice(features, group), place)),
        timing_row("unlit: bistochastic scale", timed(lattice.bistochastic, place)),
        timing_row("unlit: value and gradient", timed(step, place)),
        timing_row("unlit, measured as one", timed(everything, place), peak_mb=peak_memory_mb(everything, place)),
        {"what": "the frames themselves", "peak_mb": images.numel() * 4 / 1e6},
    ]


def _plain(images: Tensor, place: torch.device) -> list[dict[str, Any]]:
    """The same lattice, in plain torch operations with the usual iteration."""
    lattice = PermutohedralLattice(_features(images))
    plain = TorchFilter(lattice.structure)
    values = images.clamp_min(1e-4).log().permute(0, 2, 3, 1).reshape(-1, 3)

    def scale() -> Tensor:
        n = torch.ones_like(values[:, :1])
        for _ in range(USUAL_ROUNDS):
            n = torch.sqrt(n / plain(n))
        return n

    build = timed(lambda: PermutohedralLattice(_features(images)), place, calls=3)
    rounds, value = timed(scale, place, calls=3, warm_up=1), timed(lambda: plain(values), place, calls=3)
    total = build.median_ms + rounds.median_ms + value.median_ms
    return [
        timing_row("plain torch: bistochastic scale, usual iteration", rounds),
        timing_row("plain torch: value and gradient", value),
        {"what": "plain torch, in all", "median_ms": total},
    ]


def _release_way(images: Tensor, place: torch.device) -> list[dict[str, Any]]:
    """Matrices and the usual iteration in SciPy, and the C++ lattice (or, without it, this project's for its part)."""
    features = _features(images)
    structure = PermutohedralLattice(features).structure
    values = images.clamp_min(1e-4).log().permute(0, 2, 3, 1).reshape(-1, 3).numpy()
    cpp = _cpp_lattice(features)
    matrices = timed(lambda: _matrices(structure.weights, structure), place, calls=3, warm_up=1)
    splat, blurs = _matrices(structure.weights, structure)

    def filtered(x: Any) -> Any:
        forward = backward = splat @ x
        for a, b in zip(blurs, reversed(blurs), strict=True):
            forward, backward = a @ forward, b @ backward
        return splat.T @ (forward + backward)

    def scale() -> Any:
        n = np.ones(features.shape[0], np.float32)
        for _ in range(USUAL_ROUNDS):
            n = np.sqrt(n / filtered(n))
        return n

    rounds, value = timed(scale, place, calls=3, warm_up=1), timed(lambda: filtered(values), place, calls=3)
    lattice = cpp or timed(lambda: PermutohedralLattice(features), place, calls=3)
    parts = [
        timing_row(
            "release's way: lattice" + (" (C++, pydensecrf2)" if cpp else " (unlit's; no pydensecrf2)"), lattice
        ),
        timing_row("release's way: matrices", matrices),
        timing_row("release's way: bistochastic scale", rounds),
        timing_row("release's way: value", value),
    ]
    return [*parts, {"what": "release's way, in all", "median_ms": sum(part["median_ms"] for part in parts)}]


def _matrices(weights: Tensor, structure: Any) -> tuple[Any, list[Any]]:
    """Return the splat (v, n) and the blurs (v, v) as sparse matrices, made from triples as the release does."""
    n, width = weights.shape
    v = structure.neighbors.shape[2]
    rows = structure.corners[structure.simplex].reshape(-1).numpy()
    splat = scipy.sparse.coo_array(
        (weights.reshape(-1).numpy(), (rows, np.repeat(np.arange(n), width))), (v, n)
    ).tocsr()
    blurs = []
    for behind, ahead in structure.neighbors.numpy():
        vertex = np.arange(v)
        entries = [(vertex, vertex, 1.0)] + [(vertex[to < v], to[to < v], 0.5) for to in (behind, ahead)]
        data = np.concatenate([np.full(len(a), value, np.float32) for a, _, value in entries])
        where = (np.concatenate([a for a, _, _ in entries]), np.concatenate([b for _, b, _ in entries]))
        blurs.append(scipy.sparse.coo_array((data, where), (v, v)).tocsr())
    return splat, blurs


def _cpp_lattice(features: Tensor) -> Timing | None:
    try:
        import pydensecrf.densecrf as densecrf
    except ImportError:
        return None
    table = np.ascontiguousarray(features.numpy().T)

    def build() -> None:
        crf = densecrf.DenseCRF(table.shape[1], 2)
        crf.addPairwiseEnergy(table, compat=1.0, normalization=densecrf.NO_NORMALIZATION)

    return timed(build, torch.device("cpu"), calls=3, warm_up=1)


if __name__ == "__main__":
    tyro.cli(main)
