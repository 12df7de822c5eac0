"""Photographs: the default network beside the paper's, a 24-megapixel file to files, a folder, 100 megapixels' memory.

python benchmarks/photo.py [--device cuda] [--weights FILE] [--large] [--json FILE]

Files are measured as a user meets them: `unlit decompose` in a process of its own, its start included, with its time by
the clock, its processor time and its largest memory. Pictures are scikit-image's, enlarged, with noise. Without weights
a network with random ones serves: speed does not depend on them.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from skimage import data

from _measure import peak_memory_mb, report, timed, timing_row
from unlit.color import srgb_to_linear
from unlit.config import Config, ModelSettings, config_to_json
from unlit.image_io import write_image
from unlit.model.unet import UNet
from unlit.predict.network import DEFAULT_WEIGHTS, Network, Precision
from unlit.predict.predictor import Predictor
from unlit.train.learner import network_of
from unlit.train.weights import save_weights

SEEN = (256, 384)

# What the system tells of a child's memory counts that of its parent before it became another program.
_COMMAND = """
import atexit, pathlib
from unlit.cli import main
status = pathlib.Path("/proc/self/status")
@atexit.register
def tell():
    if status.exists():
        print(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")))
main()
"""


def main(
    device: str = "cpu",
    weights: Path | None = None,
    photos: int = 200,
    megapixels: int = 24,
    calls: int = 7,
    large: bool = False,
    json: Path | None = None,
) -> None:
    """Measure everything, and print it.

    Args:
        device: Where the networks run.
        weights: A model; the default one, if the package has it, else a random one.
        photos: Photographs of 512 pixels in the folder.
        megapixels: Of the large file.
        calls: Of each network, to take the median of.
        large: Measure 100 megapixels in memory, too.
        json: Where to keep the results.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        chosen = weights or (DEFAULT_WEIGHTS if DEFAULT_WEIGHTS.exists() else random_weights(folder / "w.safetensors"))
        rows = network_rows(chosen, device, calls)
        rows.append(file_row(folder, chosen, device, megapixels))
        rows.append(folder_row(folder, chosen, device, photos))
        if large:
            rows.append(large_row(chosen, device))
    report("photo", rows, torch.device(device), json)


def network_rows(weights: Path, device: str, calls: int) -> list[dict[str, Any]]:
    """Return the times of the paper's network and of this one, on the same image, in the same run."""
    place = torch.device(device)
    images = torch.rand(1, 3, *SEEN, generator=torch.Generator().manual_seed(0)).to(place)
    paper = UNet().to(place).eval()
    with torch.inference_mode():
        slow = timed(lambda: paper(images), place, calls)
    rows = [timing_row("paper's network, float32", slow)]
    precisions: tuple[Precision, ...] = ("float32", "auto")
    for precision in precisions:
        network = Network(weights, device=device, precision=precision)
        quick = timed(partial(network.decomposed, images), place, calls)
        rows.append(timing_row(f"this network, {precision}", quick, times=slow.median_ms / quick.median_ms))
    return rows


def file_row(folder: Path, weights: Path, device: str, megapixels: int) -> dict[str, Any]:
    """Return what one large JPEG takes."""
    h = round((megapixels * 1e6 * 2 / 3) ** 0.5)
    write_image(folder / "large.jpg", enlarged("coffee", h, h * 3 // 2))
    return {"what": f"{megapixels} megapixels, file to files", **command(folder / "large.jpg", folder, weights, device)}


def folder_row(folder: Path, weights: Path, device: str, photos: int) -> dict[str, Any]:
    """Return what a folder of small photographs takes."""
    (folder / "many").mkdir()
    pictures = [enlarged(name, 384, 512) for name in ("coffee", "astronaut", "chelsea")]
    for k in range(photos):
        write_image(folder / "many" / f"{k:04}.jpg", np.roll(pictures[k % 3], 5 * k, axis=1))
    row = command(folder / "many", folder, weights, device)
    return {"what": f"{photos} photographs of 512 pixels", **row, "per_second": photos / row["seconds"]}


def large_row(weights: Path, device: str) -> dict[str, Any]:
    """Return by how much memory grows for 100 megapixels, whose own pixels are 1,200 MB."""
    image = np.tile(enlarged("coffee", 1000, 1000), (10, 10, 1))
    predictor = Predictor(weights, device=device)
    start = time.perf_counter()
    peak = peak_memory_mb(lambda: predictor.decompose(image, encoding="linear"), torch.device("cpu"))
    return {"what": "100 megapixels, array to shading", "seconds": time.perf_counter() - start, "memory_mb": peak}


def command(source: Path, folder: Path, weights: Path, device: str) -> dict[str, Any]:
    """Return time, processor time and largest memory of `unlit decompose`."""
    arguments = ["decompose", source, "--out", folder / f"{source.stem}.out", "--quiet"]
    arguments += ["--weights", weights, "--device", device]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    answer = subprocess.run(
        [sys.executable, "-c", _COMMAND, *map(str, arguments)], check=True, capture_output=True, text=True
    )
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "processor_seconds": used, "memory_mb": int(answer.stdout or 0) / 1e3 or None}


def enlarged(name: str, h: int, w: int) -> NDArray[np.float32]:
    """Return linear light of one of scikit-image's pictures at another size, with a camera's noise."""
    planes = torch.from_numpy(getattr(data, name)()[..., :3].copy()).permute(2, 0, 1)[None] / 255
    grown = torch.nn.functional.interpolate(planes, (h, w), mode="bilinear", antialias=True)[0].permute(1, 2, 0).numpy()
    noise = np.random.default_rng(0).normal(0, 0.01, (h, w, 1)).astype(np.float32)
    return np.asarray(srgb_to_linear(np.clip(grown + noise, 0, 1)), np.float32)


def random_weights(path: Path) -> Path:
    """Write the weights of an untrained network of the default kind."""
    settings = ModelSettings(network="compact")
    save_weights(path, network_of(settings).state_dict(), {"config": config_to_json(Config(model=settings))})
    return path


if __name__ == "__main__":
    tyro.cli(main)
