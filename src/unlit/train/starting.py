"""Weights that another run has left, for a run to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from unlit.config import Config, ConfigError, config_from_json, config_to_json
from unlit.train.weights import CheckpointError, fitted, load_weights


def starting_weights(
    path: Path, expected: Mapping[str, Tensor], config: Config, device: torch.device
) -> dict[str, Tensor]:
    """Return a file's weights for a network whose state is `expected`; of another network they are refused by name."""
    found, card = load_weights(path, device)
    try:
        return fitted(path, found, expected)
    except CheckpointError as error:
        raise _other_model(path, card, config) or error from None


def card_of(config: Config, step: int) -> dict[str, str]:
    """Return what a file of weights says of itself."""
    return {"format": "unlit", "config": config_to_json(config), "step": str(step)}


def _other_model(path: Path, card: Mapping[str, str], config: Config) -> CheckpointError | None:
    """Return by which fields of the config weights are of another network, where their card says so."""
    try:
        theirs = asdict(config_from_json(card.get("config", ""), path).model)
    except ConfigError:
        return None
    ours = asdict(config.model)
    different = [f"model.{name}: {theirs[name]}, {value}" for name, value in ours.items() if value != theirs[name]]
    wrong = f"was trained with another network (its and this run's {'; '.join(different)})"
    return CheckpointError(path, wrong, "set these fields as it has them, or begin without it") if different else None
