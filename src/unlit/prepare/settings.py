"""What is taken for one view, and which of its frames are kept: the settings of `unlit prepare`.

They stand apart from what they set so that a command line can show them without loading scipy or OpenImageIO.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from unlit.masks.settings import MaskSettings


def _check(what: bool, message: str) -> None:
    if not what:
        raise ValueError(message)


@dataclass(frozen=True)
class PrepareSettings:
    """How sources become sequences. A change of any field prepares a source anew."""

    min_frames: int = 5
    """A sequence has at least so many frames, each under another light."""
    max_frames: int = 64
    """And at most so many: those whose lights differ most."""
    min_difference: float = 0.05
    """Frames whose light differs by less are near-duplicates: a root mean square of logs, so about 5 percent."""
    max_shift: float = 0.03
    """A view that moved by no more than this share of the longer side is moved back; beyond, it is another view."""
    max_turn: float = 1.0
    """Degrees: likewise for turns."""
    max_zoom: float = 1.02
    """Likewise for zooms: a factor."""
    max_megapixels: float = 1.0
    """Larger frames are made smaller, in linear light."""
    order: Literal["name", "time"] = "name"
    """Pictures in a folder come in the order of their names, numbers as numbers, or of the times in their EXIF data."""
    every: int = 1
    """Look at every so many-th frame of a video only."""
    encoding: Literal["srgb", "linear"] | None = None
    """How pictures are encoded whose files do not say, such as 16-bit PNG."""
    by_hand: str | None = None
    """Masks drawn by hand over the frames as they are in the source: a folder of PNG files (255 = valid), LabelMe or
    COCO files, or one such file; a folder inside it that is called like a source is for that source alone."""
    masks: MaskSettings = field(default_factory=MaskSettings)
    """What of the frames is left out."""

    def __post_init__(self) -> None:
        _check(self.min_frames >= 2, f"min-frames must be at least 2, not {self.min_frames}")
        _check(
            self.max_frames >= self.min_frames,
            f"max-frames must be at least min-frames, {self.min_frames}, not {self.max_frames}",
        )
        _check(0 <= self.min_difference <= 10, f"min-difference must be from 0 to 10, not {self.min_difference}")
        _check(0 <= self.max_shift <= 0.2, f"max-shift must be from 0 to 0.2, not {self.max_shift}")
        _check(0 <= self.max_turn <= 10, f"max-turn must be from 0 to 10 degrees, not {self.max_turn}")
        _check(1 <= self.max_zoom <= 1.2, f"max-zoom must be from 1 to 1.2, not {self.max_zoom}")
        _check(self.max_megapixels > 0, f"max-megapixels must be above 0, not {self.max_megapixels}")
        _check(self.every >= 1, f"every must be at least 1, not {self.every}")
