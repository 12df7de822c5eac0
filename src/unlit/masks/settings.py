"""Which masks are made, and how: their settings.

They stand apart from what they set so that a command line can show them without loading scipy or torch.
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("saturated", "dark", "border", "moving", "sky", "person", "animal", "vehicle", "by-hand")
"""Every kind of mask, in the order in which they are made, shown and written."""

SEMANTIC_KINDS = ("sky", "person", "animal", "vehicle")
"""The kinds that a segmenter can give."""


@dataclass(frozen=True)
class MaskSettings:
    """What of a frame is left out. Each kind can be switched by itself."""

    saturated: bool = True
    """Pixels with a channel that the camera cut off at white."""
    saturated_from: int = 250
    """0 to 255: a channel of this sRGB-encoded value or more counts as cut off."""
    dark: bool = True
    """Pixels too dark for their color to be known."""
    dark_to: int = 10
    """0 to 255: pixels none of whose sRGB-encoded channels is above this value count as dark."""
    border: bool = True
    """Where there is no picture: bars and corners that never change, and what the caller names."""
    moving: bool = True
    """What comes and goes: things that are in a few frames only. Shadows and lamps are light, and stay."""
    moving_sensitivity: float = 1.0
    """Larger finds more things, and takes more light for things; 0.5 to 2 is the useful range."""
    sky: bool = True
    """The sky, by what it does over time. One region for the whole sequence."""
    segmenter: str | None = None
    """A semantic segmenter for the package transformers (extra `masks`): a name, or a folder that has one. It finds
    people, animals and vehicles, and its sky is added to the one found by statistics."""
    segmenter_kinds: tuple[str, ...] = SEMANTIC_KINDS
    """What the segmenter is asked for: any of sky, person, animal, vehicle."""
    work_pixels: int = 110_000
    """Statistics over time are made on frames of about so many pixels; masks are brought up to full size."""

    def __post_init__(self) -> None:
        for name in ("saturated_from", "dark_to"):
            value = getattr(self, name)
            _check(0 <= value <= 255, f"masks.{name} must be from 0 to 255, not {value}")
        _check(
            self.dark_to < self.saturated_from,
            f"masks.dark_to must be below masks.saturated_from, not {self.dark_to} and {self.saturated_from}",
        )
        _check(
            0.1 <= self.moving_sensitivity <= 10,
            f"masks.moving_sensitivity must be from 0.1 to 10, not {self.moving_sensitivity}",
        )
        _check(self.work_pixels >= 1024, f"masks.work_pixels must be at least 1024, not {self.work_pixels}")
        unknown = sorted(set(self.segmenter_kinds) - set(SEMANTIC_KINDS))
        _check(
            not unknown, f"masks.segmenter_kinds: {', '.join(unknown)} is not known, use {', '.join(SEMANTIC_KINDS)}"
        )


def _check(what: bool, message: str) -> None:
    if not what:
        raise ValueError(message)
