"""All metrics of IIW, and of SAW, over 1,000 synthetic images, after prediction: time and memory.

python benchmarks/evaluate.py [--json FILE] [--images 1000]

Photographs, judgements, labels and results are made first, at the size of the originals (512 x 341), and not timed:
what is measured reads them from the disk, scores them in all ways, draws the bootstrap and writes the report. Seconds
of the processor are given too, since others may be at work on the same machine.
"""

from __future__ import annotations

import json as json_module
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray

from _measure import peak_memory_mb, report
from unlit.evaluate.benchmark import Benchmark
from unlit.evaluate.iiw import IiwBenchmark
from unlit.evaluate.report import Heading, write_report
from unlit.evaluate.running import run_benchmark
from unlit.evaluate.saw_set import SawBenchmark
from unlit.image_io import write_image

SIZE = (341, 512)
COMPARISONS = 110
"""About as many as an image of IIW has."""
DIFFERENT = 20
"""Pictures that are really made; the others are links to them, since only reading and scoring are measured."""


def surface(rng: np.random.Generator) -> NDArray[np.float32]:
    """Return a smooth random picture (h, w, 3)."""
    coarse = rng.random((12, 18, 3))
    rows, columns = (np.linspace(0, n - 1.001, side) for n, side in zip(coarse.shape, SIZE, strict=False))
    i, j = rows.astype(int), columns.astype(int)
    y, x = (rows - i)[:, None, None], (columns - j)[None, :, None]
    near, far = (coarse[i + k][:, j] * (1 - x) + coarse[i + k][:, j + 1] * x for k in (0, 1))
    noisy = near * (1 - y) + far * y + rng.normal(0, 0.01, (*SIZE, 1))
    clipped: NDArray[np.float32] = np.clip(noisy, 0.02, 1).astype(np.float32)
    return clipped


def judgements(rng: np.random.Generator) -> str:
    """Return the JSON file of an image."""
    count = COMPARISONS
    points = [{"id": k, "x": rng.random(), "y": rng.random(), "opaque": True} for k in range(count)]
    answers = rng.integers(3, size=count)
    comparisons = [
        {"id": k, "point1": k, "point2": (k + 1) % count, "darker": "E12"[answers[k]], "darker_score": rng.random()}
        for k in range(count)
    ]
    return json_module.dumps({"intrinsic_points": points, "intrinsic_comparisons": comparisons})


def write_sets(folder: Path, images: int) -> None:
    """Write both sets and results for them."""
    rng = np.random.default_rng(0)
    places = {n: folder / n for n in ("iiw", "results", "saw/saw_images_512", "saw/saw_pixel_labels", "saw/saw_splits")}
    for place in places.values():
        place.mkdir(parents=True)

    def write_surface(path: Path) -> None:
        write_image(path, surface(rng))

    for k in range(images):
        files: dict[Path, Callable[[Path], Any]] = {
            places["iiw"] / f"{k}.png": write_surface,
            places["results"] / f"{k}-r.png": write_surface,
            places["results"] / f"{k}-s.png": write_surface,
            places["saw/saw_images_512"] / f"{k}.png": write_surface,
            places["saw/saw_pixel_labels"] / f"{k}.npy": lambda path: np.save(path, labels(rng)),
            places["iiw"] / f"{k}.json": lambda path: path.write_text(judgements(rng)),
        }
        for path, make in files.items():
            if k < DIFFERENT:
                make(path)
            else:
                path.hardlink_to(path.with_name(path.name.replace(str(k), str(k % DIFFERENT), 1)))
    np.save(places["saw/saw_splits"] / "test_ids.npy", np.arange(images))


def labels(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return labels (h, w): blocks of all kinds."""
    blocks = rng.choice(np.array([0, 1, 2, 100], np.uint8), (12, 18))
    grown: NDArray[np.uint8] = np.kron(blocks, np.ones((32, 32), np.uint8))[: SIZE[0], : SIZE[1]]
    return grown


def measured(call: Callable[[], Any]) -> dict[str, float | None]:
    """Return the seconds of one call, those of this process's processor, and the memory it takes."""
    took: list[tuple[float, float]] = []

    def timed_call() -> None:
        start = time.perf_counter(), time.process_time()
        call()
        took.append((time.perf_counter() - start[0], time.process_time() - start[1]))

    memory = peak_memory_mb(timed_call, torch.device("cpu"))
    return {"seconds": took[0][0], "processor_seconds": took[0][1], "peak_mb": memory}


def main(json: Path | None = None, images: int = 1000, processes: int = 1) -> None:
    """Measure.

    Args:
        json: Where to write the results.
        images: In each set.
        processes: Images that are worked on at the same time; with several, the memory is that of the first alone.
    """
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_sets(folder, images)
        chosen: list[Benchmark] = [IiwBenchmark(folder / "iiw", 1), SawBenchmark(folder / "saw")]
        for benchmark in chosen:

            def run(benchmark: Benchmark = benchmark) -> None:
                results = run_benchmark(benchmark, {"results": str(folder / "results")}, processes=processes)
                write_report(folder / f"{benchmark.name}-report", benchmark, results, Heading("", ""))
                assert len(results["results"].outcomes) == images, "not all were scored"

            what = f"{benchmark.name}, {images} images, from files to report, {processes} process(es)"
            rows.append({"what": what, **measured(run)})
    report("evaluate", rows, torch.device("cpu"), json)


if __name__ == "__main__":
    tyro.cli(main)
