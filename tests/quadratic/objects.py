"""Small objects under one light at a time, from a seed, whose reflectance is known: a painted ball before nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unlit.data.dataset import Dataset, Item, MemorySource
from unlit.data.sequence import Sequence
from unlit.image_io import write_image

Floats = NDArray[np.float64]


class Ball(NamedTuple):
    """A matte ball with square patches of paint. Gray light, no shadows but its own."""

    reflectance: Floats
    """(h, w, 3), linear."""
    normals: Floats
    """(h, w, 3)."""
    mask: NDArray[np.bool_]
    """(h, w)."""

    def lit(self, light: Floats) -> NDArray[np.float32]:
        """The ball (h, w, 3) under a light from a direction (3,)."""
        shading = np.maximum(self.normals @ light, 0.0)[..., None]
        return np.where(self.mask[..., None], self.reflectance * shading, 0.0).astype(np.float32)


def ball(seed: int = 0, side: int = 40) -> Ball:
    rng = np.random.default_rng(seed)
    y, x = (np.mgrid[:side, :side] + 0.5) * 2.4 / side - 1.2
    mask = x**2 + y**2 < 1
    z = np.sqrt(np.maximum(1 - x**2 - y**2, 0.0))
    paints = rng.uniform(0.5, 1.0, (4, 3)) * np.array([1.0, 0.6, 0.35, 0.2])[:, None]
    cells = rng.integers(len(paints), size=(4, 4))
    at = np.clip(((np.stack([y, x]) + 1.2) / 2.4 * 4).astype(int), 0, 3)
    return Ball(paints[cells[at[0], at[1]]], np.stack([x, -y, z], -1), mask)


def lights(count: int, seed: int = 0) -> Floats:
    """Directions (m, 3) around the viewer's, of about the same strength."""
    rng = np.random.default_rng(seed)
    around = np.linspace(0, 2 * np.pi, count, endpoint=False) + rng.uniform(0, 0.3, count)
    return np.stack([0.5 * np.cos(around), 0.5 * np.sin(around), np.full(count, 0.8)], -1)


def lit_sequence(seed: int = 0, count: int = 6, side: int = 40) -> Sequence:
    thing = ball(seed, side)
    frames = np.stack([thing.lit(light) for light in lights(count, seed)]).transpose(0, 3, 1, 2)
    mask = np.broadcast_to(thing.mask, (count, 1, side, side)).copy()
    return Sequence(torch.from_numpy(np.ascontiguousarray(frames)), torch.from_numpy(mask), f"ball{seed}")


def picture_of(seed: int, side: int = 40) -> NDArray[np.float32]:
    return ball(seed, side).lit(np.array([0.3, 0.5, 0.7]))


def objects(count: int = 2, lights_each: int = 6, side: int = 40) -> Dataset:
    """A dataset in memory, with a picture in ordinary light."""
    items = []
    for k in range(count):
        picture = torch.from_numpy(np.ascontiguousarray(picture_of(k, side).transpose(2, 0, 1)))
        items.append(Item(lit_sequence(k, lights_each, side), None, True, picture))
    return Dataset(tuple(MemorySource(item) for item in items))


def write_objects(folder: Path, count: int = 2, lights_each: int = 5, side: int = 40) -> Path:
    """Objects in the layout of the MIT set."""
    for k in range(count):
        thing, place = ball(k, side), folder / f"ball{k}"
        place.mkdir(parents=True)
        shading = np.maximum(thing.normals @ np.array([0.3, 0.5, 0.7]), 0.0)
        pictures: dict[str, NDArray[Any]] = {
            f"light{n:02}": thing.lit(light) for n, light in enumerate(lights(lights_each, k), 1)
        }
        pictures |= {"diffuse": picture_of(k, side), "mask": thing.mask[..., None].repeat(3, 2)}
        pictures |= {"reflectance": thing.reflectance, "shading": shading[..., None].repeat(3, 2)}
        for name, pixels in pictures.items():
            write_image(place / f"{name}.png", pixels.astype(np.float32), encoding="linear", bits=16)
    return folder
