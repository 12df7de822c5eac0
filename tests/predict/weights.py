"""Weights of a little network for tests, which lean to neither side as an untrained one does, nor to one alone."""

from __future__ import annotations

from pathlib import Path

import torch

from unlit.config import Config, ModelSettings, config_to_json
from unlit.train.learner import network_of
from unlit.train.weights import save_weights


def write_weights(
    path: Path, *, spread: float = 0.05, gray_shading: bool = False, half: bool = True, rich: bool = False
) -> Path:
    """Write the weights of a network whose last layer is random; `spread` says how far it leans.

    A `rich` network has all that there is: maps of full size, cues, more blocks, attention that says something.
    """
    more = dict.fromkeys(("fine", "cue", "deep", "attention"), rich)
    settings = ModelSettings(network="compact", width=0.25, gray_shading=gray_shading, **more)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = network_of(settings)
        torch.nn.init.normal_(network.get_submodule("head").get_parameter("weight"), 0, spread)
        for name, parameter in network.named_parameters():
            if name.endswith(".said.weight"):
                torch.nn.init.normal_(parameter, 0, 0.3)
    state = {k: v.half() if half and v.is_floating_point() else v for k, v in network.state_dict().items()}
    save_weights(path, state, {"config": config_to_json(Config(recipe="test", model=settings))})
    return path
