"""A prepared dataset with truth, small and quick: painted plates under lights that cast shadows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from unlit.data.sequence import Sequence, save_sequence
from unlit.image_io import write_image

SIZE = (48, 60)


def write_world(folder: Path, names: tuple[str, ...] = ("one", "two", "three"), *, one_light: bool = True) -> Path:
    """Write sequences of four lights each, with their true reflectance and shadings, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(names):
        reflectance, shadings = parts(k)
        frames = torch.from_numpy(reflectance * shadings).permute(0, 3, 1, 2).contiguous()
        mask = torch.ones((len(frames), 1, *SIZE), dtype=torch.bool)
        mask[:, :, :2] = False
        save_sequence(Sequence(frames, mask, name), folder / name, frame_format="exr")
        stated = json.loads((folder / name / "sequence.json").read_text())
        (folder / name / "sequence.json").write_text(json.dumps({**stated, "one_light": one_light}))
        (folder / name / "truth" / "shading").mkdir(parents=True)
        write_image(folder / name / "truth" / "reflectance.exr", reflectance)
        for j, shading in enumerate(shadings, 1):
            write_image(folder / name / "truth" / "shading" / f"{j:04}.exr", shading)
    splits = ["test" if k == 0 else "train" for k in range(len(names))]
    entries = [{"name": n, "folder": n, "split": s} for n, s in zip(names, splits, strict=True)]
    (folder / "dataset.json").write_text(json.dumps({"version": 1, "sequences": entries}))
    return folder


def parts(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return reflectance (h, w, 3) and four shadings (4, h, w, 3): patches, a fold, and a shadow that moves."""
    rng = np.random.default_rng(seed)
    patches = rng.uniform(0.05, 0.9, (4, 5, 3))
    reflectance = np.kron(patches, np.ones((12, 12, 1))).astype(np.float32)
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    fold = np.where(x < 30, 1.0, 0.35)
    shadings = []
    for k in range(4):
        shadow = np.where(y < 10 + 9 * k, 0.15, 1.0)
        shadings.append(fold * shadow * (1 + 0.004 * y))
    return reflectance, np.repeat(np.array(shadings, np.float32)[..., None], 3, axis=-1)
