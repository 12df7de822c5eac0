"""Scenes moved between devices."""

from __future__ import annotations

from dataclasses import fields

import torch

from unlit.worlds.description import Lights, Shapes


def shapes_on(shapes: Shapes, device: torch.device) -> Shapes:
    """Return shapes on a device."""
    return Shapes(*(getattr(shapes, field.name).to(device) for field in fields(shapes)))


def lights_on(lights: Lights, device: torch.device) -> Lights:
    """Return lights on a device."""
    return Lights(*(getattr(lights, field.name).to(device) for field in fields(lights)))
