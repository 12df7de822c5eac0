"""A prepared sequence on disk: frames, masks kind by kind and together, and `sequence.json`, how it was made.

`masks/0001.png` is what counts (255 = valid): what no kind leaves out, but for kinds that are switched off. Beside it
lies every kind for itself, `masks/moving/0001.png`, or `masks/sky.png` where it is the same in all frames (255 = valid
too), so that kinds can be switched later without the source: `relay_masks`.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlit.image_io import read_image, write_image
from unlit.image_io.writing import write_encoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Masks = Mapping[str, NDArray[np.bool_]]

VERSION = 1
"""Of `sequence.json` and `dataset.json`, as the readers in unlit.data know it."""
_TEMPORARY = ".unlit-tmp"


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Yield a new folder, which becomes `folder` when the block ends, and not before; one that is there goes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{_TEMPORARY}")
    old = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}{_TEMPORARY}")
    try:
        temporary.mkdir()
        yield temporary
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def clear_leftovers(folder: Path) -> None:
    """Remove what a run that was killed left. Nobody else may be writing there."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file that is whole or not there."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_TEMPORARY}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, stated: Any) -> None:
    """Write a JSON file that is whole or not there."""
    write_text(path, json.dumps(stated, indent=1, ensure_ascii=False) + "\n")


def write_frames(folder: Path, frames: Sequence[NDArray[Any]], threads: int = 1) -> list[str]:
    """Write frames, (h, w, 3), as they are in memory: bytes and words as sRGB-encoded PNG, floats as linear EXR."""
    (folder / "frames").mkdir()
    suffix = "exr" if frames[0].dtype == np.float32 else "png"
    files = [f"frames/{k:04}.{suffix}" for k in range(1, len(frames) + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(_write_frame, [folder / file for file in files], frames))
    return files


def _write_frame(path: Path, pixels: NDArray[Any]) -> None:
    if pixels.dtype == np.float32:
        write_image(path, pixels, encoding="linear", bits=32)
        return
    write_encoded(path, pixels, encoding="srgb")


def write_masks(folder: Path, masks: Masks, without: Iterable[str], threads: int = 1) -> list[dict[str, Any]]:
    """Write what each kind leaves out, (m, h, w), and all together but for `without`; return the frames' entries."""
    (folder / "masks").mkdir()
    m = len(next(iter(masks.values())))
    kinds: list[dict[str, str]] = [{} for _ in range(m)]
    written: list[tuple[Path, NDArray[np.bool_]]] = []
    for kind, left_out in masks.items():
        if not left_out.any():
            continue
        if m > 1 and (left_out == left_out[0]).all():
            written.append((folder / "masks" / f"{kind}.png", left_out[0]))
            for entry in kinds:
                entry[kind] = f"masks/{kind}.png"
            continue
        (folder / "masks" / kind).mkdir()
        for k in np.flatnonzero(left_out.any((1, 2))).tolist():
            kinds[k][kind] = f"masks/{kind}/{k + 1:04}.png"
            written.append((folder / kinds[k][kind], left_out[k]))
    together = union(masks, without)
    written += [(folder / f"masks/{k + 1:04}.png", together[k]) for k in range(m)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(_write_mask, *zip(*written, strict=True)))
    return [{"mask": f"masks/{k + 1:04}.png", "kinds": kinds[k]} for k in range(m)]


def union(masks: Masks, without: Iterable[str]) -> NDArray[np.bool_]:
    """Return what any kind leaves out, (m, h, w), but for those in `without`."""
    total = np.zeros_like(next(iter(masks.values())))
    for kind, left_out in masks.items():
        if kind not in without:
            total |= left_out
    return total


def _write_mask(path: Path, left_out: NDArray[np.bool_]) -> None:
    write_image(path, (~left_out).astype(np.float32), encoding="linear", bits=8)


def relay_masks(folder: Path, without: Iterable[str]) -> bool:
    """Put a prepared sequence's masks together anew, but for the kinds in `without`; return whether that was due."""
    path = folder / "sequence.json"
    stated = json.loads(path.read_text(encoding="utf-8"))
    without = sorted(set(without) & set(stated["masks"]["kinds"]))
    if stated["masks"]["without"] == without:
        return False
    for entry in stated["frames"]:
        left_out = np.zeros((stated["size"]["height"], stated["size"]["width"]), bool)
        for kind, file in entry["kinds"].items():
            if kind not in without:
                left_out |= read_image(folder / file, encoding="linear").pixels.max(-1) < 0.5
        _write_mask(folder / entry["mask"], left_out)
    stated["masks"]["without"] = without
    write_json(path, stated)
    return True
