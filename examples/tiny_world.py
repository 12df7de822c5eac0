"""A tiny time-lapse whose answer is known, decomposed: `make demo-sequence`.

    python examples/tiny_world.py --out out/demo-sequence

A painted, bumpy plate is lit by a sun that moves and a sky that does not; eight pictures are taken. The paper's energy
is then minimised for this sequence, with no network and no training, and the reflectance compared with the paint. This
shows the energy at work; it is not the decomposition of a single photograph, which needs the trained network.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

import unlit
from unlit.image_io import write_image

HEIGHT, WIDTH, FRAMES = 192, 288, 8


def main(out: Path = Path("out/demo-sequence"), seed: int = 4, steps: int = 100) -> None:
    """Make the sequence, decompose it, and write one sheet that shows everything."""
    paint, light = painted_plate(seed), moving_light(seed)
    noise = 0.004 * torch.randn(light.shape, generator=torch.Generator().manual_seed(seed))
    frames = (paint * light + noise).clamp(0, 1)
    sequence = unlit.Sequence(
        frames, (frames.amax(1, keepdim=True) < 0.99) & (frames.amin(1, keepdim=True) > 0), "plate"
    )
    print(f"Minimising the energy of {FRAMES} frames of {WIDTH} x {HEIGHT} (no network, no training) ...")
    result = unlit.decompose_sequence(sequence, steps=steps)
    result.save(out)
    truth = paint.permute(1, 2, 0).numpy()
    write_image(out / "sheet.png", sheet(frames, truth, result.reflectance, result.shadings))
    guesses = {
        "one frame as it is": frames[0].permute(1, 2, 0).numpy(),
        "median of the frames": frames.median(0).values.permute(1, 2, 0).numpy(),
        "unlit": result.reflectance,
    }
    print("Error of the reflectance against the paint (mean square, after the best scale; smaller is better):")
    for name, guess in guesses.items():
        print(f"  {name:22} {scaled_error(guess, truth):.5f}")
    print(f"A sheet of three of the frames: {out / 'sheet.png'}")
    print("Its columns: the frame; the reflectance found, as bright as the paint; the frame's shading; the paint.")


def painted_plate(seed: int) -> Tensor:
    """Return the reflectance (3, h, w): patches of paint, rings and fine stripes, mostly dull, some vivid."""
    g = torch.Generator().manual_seed(seed)
    y, x = _grid()
    centers = torch.rand(24, 2, generator=g) * torch.tensor([1, WIDTH / HEIGHT])
    patch = torch.stack([(y - a) ** 2 + (x - b) ** 2 for a, b in centers.tolist()]).argmin(0)
    gray = 0.12 + 0.6 * torch.rand(24, 1, generator=g)
    tint = 0.35 * (torch.rand(24, 3, generator=g) - 0.5) * torch.rand(24, 1, generator=g)
    color = (gray * (1 + 2 * tint)).clamp(0.03, 0.9)[patch].permute(2, 0, 1)
    ring = (torch.hypot(y - 0.5, x - 0.45) * 14).remainder(1) < 0.5
    ring &= torch.hypot(y - 0.5, x - 0.45) < 0.28
    stripes = ((x + 0.3 * y) * 30).remainder(1) < 0.4
    stripes &= x > 1.1
    return color * torch.where(ring | stripes, 0.45, 1.0)


def moving_light(seed: int) -> Tensor:
    """Return the shading (m, 3, h, w): a sun on its way from left to right, with cast shadows, and a steady sky."""
    g = torch.Generator().manual_seed(seed + 1)
    coarse = torch.randn(1, 1, 5, 7, generator=g)
    ground = interpolate(coarse, (HEIGHT, WIDTH), mode="bicubic", align_corners=True)[0, 0] * 0.06
    y, x = _grid()
    ground = ground + 0.22 * torch.exp(-((y - 0.35) ** 2 + (x - 0.8) ** 2) / 0.004)  # a post that throws a shadow
    slope_y, slope_x = torch.gradient(ground, spacing=1 / HEIGHT)
    normal = torch.stack([-slope_x, -slope_y, torch.ones_like(ground)])
    normal = normal / normal.norm(dim=0)
    frames = []
    for k in range(FRAMES):
        angle = math.radians(25 + 130 * k / (FRAMES - 1))
        sun = torch.tensor([math.cos(angle), -0.35, max(math.sin(angle), 0.35)])
        sun = sun / sun.norm()
        lit = (normal * sun[:, None, None]).sum(0).clamp_min(0) * _sunlit(ground, sun)
        warmth = torch.tensor([1.0, 0.93 - 0.15 * abs(math.cos(angle)), 0.85 - 0.35 * abs(math.cos(angle))])
        sky = torch.tensor([0.85, 0.95, 1.1]) * 0.22 * (0.5 + 0.5 * normal[2])[..., None]
        frames.append(0.8 * lit * warmth[:, None, None] + sky.permute(2, 0, 1))
    return torch.stack(frames)


def _sunlit(ground: Tensor, sun: Tensor) -> Tensor:
    """Return 1 where the ray to the sun clears the ground, with a soft edge, and 0 where it does not."""
    rows, columns = torch.meshgrid(torch.arange(HEIGHT), torch.arange(WIDTH), indexing="ij")
    clearance = torch.full_like(ground, 1.0)
    for step in range(1, 90):
        distance = step / HEIGHT
        i = (rows + step * sun[1] / sun[:2].norm()).round().long().clamp(0, HEIGHT - 1)
        j = (columns + step * sun[0] / sun[:2].norm()).round().long().clamp(0, WIDTH - 1)
        ray = ground + distance * sun[2] / sun[:2].norm()
        clearance = torch.minimum(clearance, (ray - ground[i, j]) / distance)
    return (clearance / 0.06 + 0.5).clamp(0, 1)


def _grid() -> tuple[Tensor, Tensor]:
    y, x = torch.meshgrid(torch.arange(HEIGHT) / HEIGHT, torch.arange(WIDTH) / HEIGHT, indexing="ij")
    return y, x


def scaled_error(guess: NDArray[np.float32], truth: NDArray[np.float32]) -> float:
    """Return the mean square difference from the truth after the one factor that makes it least."""
    factor = float((guess * truth).sum() / (guess * guess).sum())
    return float(((factor * guess - truth) ** 2).mean())


def sheet(
    frames: Tensor, truth: NDArray[np.float32], reflectance: NDArray[np.float32], shadings: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return one picture: a frame, our reflectance and its shading in each row; the true reflectance at the end."""
    chosen = [0, FRAMES // 2, FRAMES - 1]
    brightest = np.quantile(shadings, 0.99)
    # Shown as bright as the truth, which the frames alone cannot tell.
    shown = reflectance * float((reflectance * truth).sum() / (reflectance**2).sum())
    rows = [np.hstack([frames[i].permute(1, 2, 0).numpy(), shown, shadings[i] / brightest, truth]) for i in chosen]
    return np.vstack(rows).clip(0, 1)


if __name__ == "__main__":
    tyro.cli(main)
