"""Worlds on disk: a prepared dataset that appears scene by scene, and can be gone on with.

Each scene is a folder with one frame for each light alone (16-bit PNG), the true reflectance and the shading of each
frame (EXR, 16-bit floats), at a size of its own, whole or not at all.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from unlit.data.dataset import Item, Split
from unlit.data.sequence import Sequence, SequenceError, load_sequence, save_sequence
from unlit.holding import held
from unlit.image_io import ImageError, write_image
from unlit.worlds.bases import bases
from unlit.worlds.dataset import check_memory, check_samples, seeds_of
from unlit.worlds.folder import check_folder, clear_leftovers, known_worlds, write_list
from unlit.worlds.item import world_item, world_name
from unlit.worlds.scene import EDITION

Progress = Callable[[int, str], object]
"""Called with how many scenes are done, and a word on the last."""

_LIST_EVERY = 50
"""Scenes between two writings of dataset.json, which grows with every scene."""
_BRIGHT, _WHITE = 0.995, 0.95
"""All but the brightest two hundredth of a frame's valid values stay below white."""
_SHEET, _THUMB = 100, (64, 96)


def write_worlds(
    out: Path,
    *,
    scenes: int,
    seed: int,
    size: tuple[int, int],
    samples: int,
    split: Split = "train",
    device: str = "cpu",
    progress: Progress = lambda done, text: None,
) -> list[str]:
    """Render scenes from `seed` on into the dataset `out`; return those left out, with the reason.

    Scenes that are there are not rendered again. Whatever ends it, `dataset.json` names what is there.
    """
    seeds = seeds_of(split, seed, scenes)
    check_samples(samples)
    check_memory(size, torch.device(device))
    check_folder(out)
    stated = {"height": size[0], "width": size[1], "samples": samples, "edition": EDITION}
    # Two writers would throw away each other's unfinished scenes.
    with held(out, "the folder of worlds", "rendering"):
        known = known_worlds(out, stated)
        clear_leftovers(out)
        there = _finished(out, seeds)
        known |= dict.fromkeys(there, split)
        write_list(out, known, stated)
        progress(len(there), f"{len(there)} are there")
        left_out: list[str] = []
        missing = (n for n in seeds if world_name(n) not in there)
        try:
            for done, world in enumerate(bases(missing, size, samples, device), len(there) + 1):
                try:
                    _write(out, world_item(world, split))
                    known[world_name(world.scene.seed)] = split
                except SequenceError as error:
                    left_out.append(str(error))
                except ImageError as error:  # a full disk, say: nothing that the user wrote is wrong
                    raise OSError(str(error)) from error
                progress(done, world.scene.place)
                if done % _LIST_EVERY == 0:
                    write_list(out, known, stated)
        finally:
            write_list(out, known, stated)
        write_contact_sheet(out, sorted(known))
    return left_out


def _finished(out: Path, seeds: range) -> set[str]:
    """Return the names of the scenes of these numbers that are there; not asked one by one, since they may be many."""
    found = {p.parent.name for p in out.glob("world-*/sequence.json")}
    numbers = {name: int(name[6:]) for name in found if name[6:].isdecimal()}
    return {name for name, number in numbers.items() if number in seeds and name == world_name(number)}


def _write(out: Path, item: Item) -> None:
    """Write one scene: under a hidden name first, so that what has its name is whole."""
    sequence, truth = item.sequence, item.truth
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    scale = _exposures(sequence)
    frames = (sequence.frames * scale).clamp(0, 1).cpu()
    temporary = out / f".{sequence.name}.{secrets.token_hex(4)}"
    if (out / sequence.name).exists():
        raise SequenceError(f"{out / sequence.name}: is there and not whole; remove it and run again")
    try:
        save_sequence(Sequence(frames, sequence.mask.cpu(), sequence.name, sequence.frame_names), temporary)
        described = json.loads((temporary / "sequence.json").read_text(encoding="utf-8"))
        described["one_light"] = True
        (temporary / "sequence.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
        (temporary / "truth" / "shading").mkdir(parents=True)
        _write_half(temporary / "truth" / "reflectance.exr", truth.reflectance)
        for k, shading in enumerate(truth.shading * scale):
            _write_half(temporary / "truth" / "shading" / f"{k + 1:04}.exr", shading)
        temporary.rename(out / sequence.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _exposures(sequence: Sequence) -> torch.Tensor:
    """Return factors (k, 1, 1, 1) that leave nearly all valid values of a frame below white."""
    bright = [
        torch.quantile(frame.amax(0)[mask[0]].float(), _BRIGHT)
        for frame, mask in zip(sequence.frames, sequence.mask, strict=True)
    ]
    return (_WHITE / torch.stack(bright).clamp_min(1e-6)).reshape(-1, 1, 1, 1)


def _write_half(path: Path, light: torch.Tensor) -> None:
    write_image(path, light.permute(1, 2, 0).cpu().numpy(), encoding="linear", bits=16)


def write_contact_sheet(out: Path, names: list[str]) -> None:
    """Write `sheet.jpg`: a frame of up to 100 scenes, each with two of its lights together."""
    chosen = [names[k] for k in np.linspace(0, len(names) - 1, min(_SHEET, len(names))).astype(int)] if names else []
    if not chosen:
        return
    columns = max(1, round(len(chosen) ** 0.5))
    rows = -(-len(chosen) // columns)
    sheet: NDArray[np.float32] = np.zeros((rows * _THUMB[0], columns * _THUMB[1], 3), np.float32)
    for k, name in enumerate(chosen):
        top, left = k // columns * _THUMB[0], k % columns * _THUMB[1]
        sheet[top : top + _THUMB[0], left : left + _THUMB[1]] = _thumbnail(out / name)
    write_image(out / "sheet.jpg", sheet, encoding="srgb")


def _thumbnail(folder: Path) -> NDArray[np.float32]:
    """Return a scene under two of its lights (h, w, 3)."""
    frames = load_sequence(folder).frames
    chosen = frames[[0, len(frames) // 2]].mean(0, keepdim=True)
    small = interpolate(chosen, _THUMB, mode="area")[0]
    small = small / torch.quantile(small.amax(0), 0.97).clamp_min(1e-6) * 0.9
    pixels: NDArray[np.float32] = small.clamp(0, 1).permute(1, 2, 0).numpy()
    return pixels
