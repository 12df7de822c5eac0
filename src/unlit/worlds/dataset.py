"""Worlds as training knows them: items with truth, as a dataset that is rendered when it is read.

Shapes: k lights, h x w pixels. An item has one frame for each light alone, and the shading of each: so sums of frames
are frames whose shading is known, and training mixes them (`data/batch.py`).

Scenes for training, validation and testing come from ranges of numbers that never meet: `SPLIT_STARTS`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import torch

from unlit.data.dataset import Dataset, Item, Split
from unlit.worlds.item import world_name
from unlit.worlds.scene import EDITION
from unlit.worlds.shelf import Rendering, Shelf

PREFIX = "worlds:"
SIZE = (256, 384)
"""Height and width unless said otherwise: the paper's landscape size."""
SAMPLES = 256

SPLIT_STARTS: dict[Split, int] = {"train": 0, "validation": 2_000_000_000, "test": 3_000_000_000}
"""The scene of seed s for a split is that of number start + s. Each range has a thousand million numbers."""
LAST_SEED = 999_999_999
MOST_SAMPLES = 1_000_000
"""A pixel: hours for a scene. The renderer counts its rays in 32 bits, and the rays of a pixel are several a sample."""

VALIDATION_SHARE = 50
"""One scene for validation for every so many for training, in datasets that are rendered when read."""

_BYTES_A_PIXEL = 12_000
"""Of memory while a scene is rendered, about: eight lights at twice the size, textures, and what is between."""


def seeds_of(split: Split, first: int, count: int) -> range:
    """Return the numbers of `count` scenes from seed `first` on, of a split."""
    if count < 1:
        raise ValueError(f"{count} scenes are none; ask for at least 1")
    if first < 0 or first + count - 1 > LAST_SEED:
        raise ValueError(f"seeds {first} to {first + count - 1} are out of range; give 0 to {LAST_SEED}")
    return range(SPLIT_STARTS[split] + first, SPLIT_STARTS[split] + first + count)


def check_samples(samples: int) -> None:
    """Refuse numbers of samples that make no picture."""
    if not 1 <= samples <= MOST_SAMPLES:
        raise ValueError(f"{samples} samples a pixel cannot be; give 1 to {MOST_SAMPLES}, better 64 to 256")


def parsed_size(text: str) -> tuple[int, int]:
    """Return (h, w) of a size written as 384x256, width first."""
    found = re.fullmatch(r"(\d{1,9})x(\d{1,9})", text)
    if found is None:
        raise ValueError(f"size {text!r} is not WIDTHxHEIGHT; write it as 384x256")
    w, h = int(found[1]), int(found[2])
    if min(h, w) < 16 or max(h, w) > 4096:
        raise ValueError(f"size {text} cannot be rendered; give sides of 16 to 4096 pixels")
    return h, w


def check_memory(size: tuple[int, int], device: torch.device) -> None:
    """Refuse sizes whose scenes would not fit into memory."""
    needed, free = _needed_and_free(size, device)
    if needed > free:
        wanted = f"{size[1]}x{size[0]} needs about {needed / 1e9:.1f} GB and {free / 1e9:.1f} are free"
        raise ValueError(f"too little memory: {wanted}; give a smaller size")


def fitting_processes(processes: int, size: tuple[int, int], device: torch.device) -> int:
    """Return how many of `processes` have room to render at once, and leave half of the memory to the training."""
    needed, free = _needed_and_free(size, device)
    return min(processes, free // (2 * needed))


def _needed_and_free(size: tuple[int, int], device: torch.device) -> tuple[int, int]:
    """Return the bytes that rendering a scene needs, about, and those that can be had."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _free_memory()
    return _BYTES_A_PIXEL * size[0] * size[1], free


def _free_memory(file: Path = Path("/proc/meminfo")) -> int:
    """Return the bytes that can be had: what files fill only for now counts too, where the system tells."""
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB$", file.read_text(encoding="ascii"), re.MULTILINE)
    except (OSError, ValueError):
        found = None
    if found is not None:
        return 1024 * int(found[1])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class WorldSource:
    """A scene that is rendered when it is read."""

    number: int
    shelf: Shelf = field(compare=False, repr=False)

    @property
    def split(self) -> Split:
        """What it is for."""
        return self.shelf.rendering.split

    @property
    def name(self) -> str:
        """With all that it depends on: a run is resumed with the pictures that it began with."""
        h, w = self.shelf.rendering.size
        return f"{world_name(self.number)}-{w}x{h}-{self.shelf.rendering.samples}-e{EDITION}"

    def read(self) -> Item:
        """Render it; SequenceError where next to nothing can be seen in it."""
        return self.shelf.read(self.number)


def open_worlds(text: str, device: str = "cpu", processes: int = 0, *, half: bool = False) -> Dataset:
    """Return the dataset `worlds:SEED:COUNT[:WIDTHxHEIGHT[:SAMPLES]]`, rendered on `device` when it is read.

    COUNT scenes for training and a fiftieth as many for validation, one at least. With two `processes` or more these
    render, as far as memory allows; whoever asks for them must be a program that can be imported (`if __name__ ==
    "__main__"`). With `half` they send 16-bit floats.
    """
    parts = text.removeprefix(PREFIX).split(":")
    numbers = [p for k, p in enumerate(parts) if k != 2]
    if (
        not text.startswith(PREFIX)
        or not 2 <= len(parts) <= 4
        or not all(re.fullmatch(r"\d{1,12}", p) for p in numbers)
    ):
        raise ValueError(f"{text!r} names no worlds; write worlds:SEED:COUNT, or worlds:SEED:COUNT:384x256:256")
    first, count = int(parts[0]), int(parts[1])
    size = parsed_size(parts[2]) if len(parts) > 2 else SIZE
    samples = int(parts[3]) if len(parts) > 3 else SAMPLES
    check_samples(samples)
    check_memory(size, torch.device(device))
    processes = fitting_processes(processes, size, torch.device(device))
    wanted: list[tuple[Split, int]] = [("train", count), ("validation", max(1, count // VALIDATION_SHARE))]
    sources: list[WorldSource] = []
    for split, scenes in wanted:
        shelf = Shelf(seeds_of(split, first, scenes), Rendering(split, size, samples, device, half), processes)
        sources += [WorldSource(number, shelf) for number in shelf.seeds]
    return Dataset(tuple(sources), place=text)
