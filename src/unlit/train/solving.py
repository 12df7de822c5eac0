"""Sequences solved before training, each by its own energy; kept in the run's folder for when it is resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from unlit.config import Config
from unlit.data.dataset import Item
from unlit.data.truth import Truth
from unlit.sequence.solve import solved_sequence
from unlit.train.weights import load_weights, save_weights

FILE = "solved.safetensors"


class Solver:
    """Finds the reflectance (3, h, w) of sequences, once for each name."""

    def __init__(self, config: Config, run: Path, device: torch.device, say: Callable[[str], object]) -> None:
        self._config, self._file, self._device, self._say = config, run / FILE, device, say
        self.found: dict[str, Tensor] = load_weights(self._file, device)[0] if self._file.is_file() else {}

    def know(self, found: Mapping[str, Tensor]) -> None:
        """Take what was found before."""
        self.found |= {name: reflectance.to(self._device) for name, reflectance in found.items()}

    def solve(self, item: Item) -> Item:
        """Return the item with what its own energy says in the place of any truth."""
        return replace(item, truth=Truth(reflectance=self.found_of(item)))

    def found_of(self, item: Item) -> Tensor:
        """Return what is known of the item's reflectance, having found it where that is new."""
        name = item.sequence.name
        if name not in self.found:
            self._say(f"solving {name}")
            self.found[name] = self.reflectance(item)
        return self.found[name]

    def reflectance(self, item: Item) -> Tensor:
        """Return the reflectance of least energy (3, h, w), black where no frame is valid."""
        frames, mask = item.sequence.frames.to(self._device), item.sequence.mask.to(self._device)
        solved = solved_sequence(frames, mask, self._config.energy, self._config.solved.steps)
        return solved.log_reflectance[0].exp() * mask.any(0)

    def keep(self) -> None:
        """Write what was found, unless it is there."""
        if self.found and not self._file.is_file():
            save_weights(self._file, self.found, {})
