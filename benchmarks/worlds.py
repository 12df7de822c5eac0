"""Rendered worlds: scenes a second, memory, noise, and whether the fast form is the readable one.

python benchmarks/worlds.py [--json FILE] [--device cuda] [--size 256 384] [--samples 256]

Noise is how far irradiance at `samples` is from that at 32 times as many: the root of the mean square over the pixels
that are seen, over the mean of a light; the median over lights of all scenes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor

from _measure import peak_memory_mb, report, timed, timing_row
from unlit.worlds.description import LightBasis
from unlit.worlds.render import Form, render
from unlit.worlds.render_packing import packed
from unlit.worlds.scene import Scene, scene

CPU = torch.device("cpu")
CHECK_SIZE = (32, 48)
"""Small, since the readable form is slow."""
CHECK_SAMPLES = 32


def main(
    json: Path | None = None,
    device: str = "cpu",
    size: tuple[int, int] = (256, 384),
    samples: int = 256,
    scenes: int = 8,
    calls: int = 3,
) -> None:
    """Measure the rendering of the first few scenes, h x w, with 8 lights each."""
    place = torch.device(device)
    worlds = [scene(seed) for seed in range(scenes)]
    rows: list[dict[str, Any]] = []
    for world in worlds:
        timing = timed(lambda: _basis(world, size, samples, place), place, calls=calls, warm_up=1)  # noqa: B023  # used at once
        host = timed(lambda: packed(world.shapes, world.lights), CPU, calls=calls)  # noqa: B023  # used at once
        label = f"seed {world.seed}, {world.place}, {len(world.shapes.kind)} shapes"
        rows.append(timing_row(label, timing, scenes_per_s=1000 / timing.median_ms, packing_ms=host.median_ms))
    # Without waiting between them: the host prepares one scene while the device renders another.
    together = timed(lambda: [_basis(world, size, samples, place) for world in worlds], place, calls=calls, warm_up=0)
    memory = peak_memory_mb(lambda: _basis(worlds[0], size, samples, place), place)
    rate = 1000 * scenes / together.median_ms
    rows.append(timing_row(f"all {scenes}, one after another", together, scenes_per_s=rate, peak_mb=memory))
    noise, typical = zip(*[_noise(world, size, samples, place) for world in worlds], strict=True)
    rows.append({"what": f"noise at {samples} samples", "noise": _median(noise), "typical_error": _median(typical)})
    rows.append({"what": "fast form against readable form", **_difference(worlds[:4], place)})
    report("worlds", rows, place, json)


def _basis(
    world: Scene, size: tuple[int, int], samples: int, device: torch.device, form: Form = "auto", seed: int = 0
) -> LightBasis:
    return render(
        world.shapes, world.lights, world.camera, size=size, samples=samples, seed=seed, form=form, device=device
    )


def _noise(world: Scene, size: tuple[int, int], samples: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Root mean square error over mean, and median error over the pixel's own value, for each light that is seen."""
    few = _basis(world, size, samples, device)
    many = _basis(world, size, 32 * samples, device, seed=1)
    seen = many.mask[0]
    a, b = few.irradiance[:, :, seen], many.irradiance[:, :, seen]
    mean = b.mean((1, 2))
    shines = mean > 1e-3 * mean.max()
    square = (a - b).square().mean((1, 2)).sqrt() / mean.clamp_min(1e-20)
    relative = ((a - b).abs() / b.clamp_min(1e-3 * mean.clamp_min(1e-20)[:, None, None])).flatten(1).median(1).values
    return square[shines], relative[shines]


def _median(parts: tuple[Tensor, ...]) -> float:
    return float(torch.cat(parts).median())


def _difference(worlds: list[Scene], device: torch.device) -> dict[str, float]:
    """How far the two forms are apart with the same random numbers: mean, and share of pixels beyond a thousandth."""
    apart = []
    for world in worlds:
        fast = _basis(world, CHECK_SIZE, CHECK_SAMPLES, device, "kernel").irradiance
        readable = _basis(world, CHECK_SIZE, CHECK_SAMPLES, device, "reference").irradiance
        apart.append(((fast - readable).abs() / readable.mean((1, 2, 3), keepdim=True).clamp_min(1e-20)).flatten())
    every = torch.cat(apart)
    return {"mean_difference": float(every.mean()), "beyond_1e-3": float((every > 1e-3).float().mean())}


if __name__ == "__main__":
    tyro.cli(main)
