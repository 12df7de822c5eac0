"""Compare worlds with the MIT set's ground truth and with photographs: python benchmarks/world_variety.py.

Prints a table of docs/worlds.md. Pictures are brought to one size first, since steps depend on it. Needs the pictures
that CONTRIBUTING.md names (UNLIT_DATA, or ../shared/data); without them only the worlds are measured.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from unlit.image_io import Encoding, read_image
from unlit.worlds.bases import bases
from unlit.worlds.compose import compose, drawn_weights, usable_lights
from unlit.worlds.dataset import seeds_of
from unlit.worlds.variety import Variety, variety

LONGER = 192
Masked = tuple[Tensor, Tensor]


def sized(light: Tensor, mask: Tensor) -> Masked:
    """Return a picture and its mask with a longer side of 192 pixels."""
    scale = LONGER / max(light.shape[1:])
    size = [round(side * scale) for side in light.shape[1:]]
    return interpolate(light[None], size, mode="area")[0], interpolate(mask[None].float(), size, mode="area")[0] > 0.999


def loaded(path: Path, encoding: Encoding | None = None) -> Tensor:
    """Return a picture (3, h, w), linear."""
    return torch.from_numpy(read_image(path, encoding=encoding).pixels).permute(2, 0, 1)


def mit(folder: Path, what: str) -> Iterable[Masked]:
    """Yield reflectance or shading of the MIT objects."""
    for place in sorted(p for p in folder.iterdir() if (p / "mask.png").is_file()):
        yield sized(loaded(place / f"{what}.png", "linear"), loaded(place / "mask.png", "linear")[:1] > 0.5)


def photographs(folder: Path) -> Iterable[Masked]:
    """Yield the photographs of a folder, wholly valid."""
    for path in sorted(p for p in folder.iterdir() if p.suffix.lower() in (".jpg", ".png")):
        light = loaded(path)
        yield sized(light, torch.ones_like(light[:1]) > 0)


def rendered(count: int, samples: int, device: str) -> dict[str, list[Masked]]:
    """Return reflectance, shading and frames of worlds kept for testing."""
    found: dict[str, list[Masked]] = {"worlds, reflectance": [], "worlds, shading": [], "worlds, frames": []}
    for world in bases(seeds_of("test", 0, count), (LONGER * 2 // 3, LONGER), samples, device):
        lights = usable_lights(world)
        if len(lights) < 2 or float(world.basis.mask.float().mean()) < 0.05:
            continue
        draw = np.random.default_rng(world.scene.seed)
        made = compose(world, drawn_weights(draw, world, lights, 1), lights, torch.tensor([0.25]))
        found["worlds, reflectance"].append((made.reflectance.cpu(), world.basis.mask.cpu()))
        found["worlds, shading"].append((made.shading[0].cpu(), world.basis.mask.cpu()))
        found["worlds, frames"].append((made.frames[0].cpu(), world.basis.mask.cpu()))
    return found


def row(name: str, pictures: Iterable[Masked]) -> str:
    """Return a line of the table: means over pictures, and of the median luminance its spread."""
    figures: list[Variety] = [variety(light, mask) for light, mask in pictures if int(mask.sum()) > 50]
    grays = torch.stack([f.grays for f in figures])
    chroma = torch.stack([f.chroma for f in figures]).mean(0)
    levels = " ".join(f"{g:.2f}" for g in grays.mean(0).tolist())
    colors = " ".join(f"{c:.2f}" for c in chroma.tolist())
    means = [float(np.mean([getattr(f, key) for f in figures])) for key in ("edges", "flat", "spread")]
    tails = float(np.median([f.kurtosis for f in figures]))
    return (
        f"| {name} | {len(figures)} | {levels} ± {grays[:, 2].std():.2f} | {colors} "
        f"| {means[0]:.1%} | {means[1]:.1%} | {means[2]:.3f} | {tails:.0f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=24)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    print("| set | pictures | luminance 5 25 50 75 95 | chroma 25 50 90 | edges | flat | spread | kurtosis |")
    print("|---|---|---|---|---|---|---|---|")
    folder = Path(os.environ.get("UNLIT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if (folder / "mit-intrinsic").is_dir():
        print(row("MIT, reflectance", mit(folder / "mit-intrinsic", "reflectance")))
        print(row("MIT, shading", mit(folder / "mit-intrinsic", "shading")))
        print(row("photographs", photographs(folder / "photos")))
    for name, pictures in rendered(options.scenes, options.samples, options.device).items():
        print(row(name, pictures))


if __name__ == "__main__":
    main()
