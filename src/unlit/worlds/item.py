"""A rendered world as training knows it: a sequence of its lights, one at a time, with all of its truth."""

from __future__ import annotations

import torch

from unlit.data.dataset import Item, Split
from unlit.data.sequence import Sequence, SequenceError
from unlit.data.truth import Truth
from unlit.worlds.bases import World
from unlit.worlds.compose import levelled, usable_lights

_LEAST_SEEN = 0.05
"""Share of the picture that must be matt surface."""


def world_name(number: int) -> str:
    """Return what the scene of a number is called."""
    return f"world-{number:010d}"


def world_item(world: World, split: Split) -> Item:
    """Return a world as an item; SequenceError where next to nothing can be seen in it.

    For training the sky is valid too. Where something is measured only surfaces are: what a sky reflects is agreed
    upon, not true.
    """
    lights = usable_lights(world)
    name = world_name(world.scene.seed)
    seen = float(world.basis.mask.float().mean())
    if len(lights) < 2 or seen < _LEAST_SEEN:
        raise SequenceError(f"{name}: {len(lights)} lights reach what is seen, {seen:.0%} of the picture; skip it")
    frames, shading = levelled(world, lights)
    k = len(lights)
    mask = world.with_sky if split == "train" else world.basis.mask
    truth = Truth(world.basis.reflectance * mask, shading * mask, torch.ones(k, dtype=torch.bool, device=frames.device))
    names = tuple(f"{n + 1:02}-{world.scene.roles[n]}" for n in lights.tolist())
    return Item(Sequence(frames, mask.expand(k, -1, -1, -1).contiguous(), name, names), truth, one_light=True)
