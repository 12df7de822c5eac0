"""What a training step sees of a sequence, and how it varies: the settings of the data.

They stand apart from what they set so that a command line can show them without loading torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


def _check(what: bool, message: str) -> None:
    if not what:
        raise ValueError(message)


@dataclass(frozen=True)
class DataSettings:
    """Which part of a sequence a step sees."""

    window: int | None = None
    """None: the whole picture, resized by the paper's rule (256 x 384, 384 x 256 or 256 x 256 by aspect). A number:
    square windows of so many pixels, cut at random places."""
    longest: int = 640
    """Windows: pictures whose longer side has more pixels than this are first made smaller."""
    frames: int = 64
    """At most so many frames of a sequence in a step, drawn anew each time; 64 is the paper's longest sequence."""
    encoding: Literal["srgb", "linear"] | None = None
    """How frames are encoded whose files do not say, such as 16-bit PNG."""
    one_light: bool = False
    """Each frame of every sequence has one lamp of the same room, so that sums of frames are frames."""
    masked_input: bool = False
    """Show masked pixels to the network as black: for objects cut out by their mask."""
    memory_gb: float = 16.0
    """Sets smaller than this are kept on the training device; larger ones stream from disk."""
    held: int | None = None
    """Windows: hold so many sequences on the training device, whatever `memory_gb` says; while the run goes on, the
    others of the set come in its order and take the places of the first. None, or as many as there are: all of them."""
    half: bool = False
    """Keep frames and truth on the training device as 16-bit floats: half of the memory, an error of 1 in 2,000."""
    workers: int = 4
    """Processes that read ahead, for sets that stream from disk; or that render, for worlds. As many as there are
    processors at most; may change when a run is resumed."""

    def __post_init__(self) -> None:
        _check(self.window is None or self.window >= 8, f"data.window must be at least 8 pixels, not {self.window}")
        _check(self.longest >= 8, f"data.longest must be at least 8 pixels, not {self.longest}")
        _check(self.frames >= 1, f"data.frames must be at least 1, not {self.frames}")
        _check(self.held is None or self.held >= 1, f"data.held must be at least 1, not {self.held}")
        _check(self.held is None or self.window is not None, "data.held is for windows: set data.window too")
        _check(self.memory_gb >= 0, f"data.memory_gb must not be negative, not {self.memory_gb}")
        _check(self.workers >= 0, f"data.workers must not be negative, not {self.workers}")


@dataclass(frozen=True)
class AugmentSettings:
    """What varies between two visits to a sequence: one draw for the whole of it, unless a field says otherwise."""

    flip: bool = True
    """Mirror left and right, half of the time."""
    rotation: float = 5.0
    """Degrees: turned by up to this much, to either side."""
    crop: int = 30
    """Whole pictures: up to so many pixels of the width and of the height are cut off."""
    zoom: tuple[float, float] = (1.0, 1.0)
    """Windows: the picture is enlarged by a factor from this range."""
    untouched: float = 0.0
    """Windows: the share that is cut out pixel by pixel, neither enlarged nor turned, perhaps mirrored. Others are
    means of neighboring pixels, and so never as sharp as a photograph."""
    mixtures: float = 0.0
    """Sets with one light at a time: the share of frames that are mixtures of lights instead of single ones."""
    most_lights: int = 10
    """A mixture is of 2 to so many lights, few and many alike."""
    days: float = 0.0
    """Where `mixtures` is above 0 and frames' names end in `-sun` and `-sky`: the share of sequences whose frames are
    days, one sun or none under the sky, with the colors of both; a tenth of them lamps at dusk or night."""
    light_color: float = 0.0
    """Mixtures: the share of sequences whose lamps have colors, warm to cool, as a camera's white balance leaves it."""
    camera: float = 0.0
    """The share of sequences seen as a camera keeps them: glare, noise, tone curves that are not sRGB's, sharpening,
    JPEG, vignetting."""
    exposure: float = 0.0
    """Stops: each frame is made brighter or darker by up to this much, before clipping."""
    metered: float = 0.0
    """Sets with one light at a time: the share of sequences whose exposure is that of all but the sky, as a camera's
    that meters what it is pointed at; a sky is then often clipped. Others' is that of all that is seen."""
    white_balance: float = 0.0
    """Stops: each channel of a sequence is made stronger or weaker by up to this much."""
    permute_channels: bool = False
    """Exchange red, green and blue."""
    hue: float = 0.0
    """0 to 1: how far colors are mixed by a random matrix that leaves white white. Only gray light allows it: then
    reflectance edges stay, with other colors."""
    contrast: float = 0.0
    """All logs are multiplied by a factor between exp(−this) and exp(this): R and S keep their product."""
    paint: float = 0.0
    """The share of sequences whose surface gets a random pattern: every frame is multiplied by the same picture."""
    exchange: float = 0.0
    """The share of sequences that get the surface of another of the same step; needs gray light, and a reflectance that
    is known or was solved."""
    shade: float = 0.0
    """The share of sequences whose lights get random soft fields: each frame is multiplied by a gray one of its own."""

    def __post_init__(self) -> None:
        low, high = self.zoom
        _check(1 / 64 <= low <= high <= 64, f"augment.zoom must be from 1/64 to 64, low first, not {self.zoom}")
        shares = (
            "untouched",
            "mixtures",
            "days",
            "light_color",
            "camera",
            "metered",
            "hue",
            "paint",
            "exchange",
            "shade",
        )
        for name in shares:
            _check(0 <= getattr(self, name) <= 1, f"augment.{name} must be from 0 to 1, not {getattr(self, name)}")
        most = {"rotation": 180, "crop": 10**6, "exposure": 16, "white_balance": 16, "contrast": 3}
        for name, limit in most.items():
            value = getattr(self, name)
            _check(0 <= value <= limit, f"augment.{name} must be from 0 to {limit}, not {value}")
        colored = self.light_color or self.days
        _check(not (self.hue and colored), "augment.hue needs gray light: set it or light_color and days to 0")
        unknown = "augment.metered leaves out the sky, and after augment.exchange nobody knows it: set one of them to 0"
        _check(not (self.metered and self.exchange), unknown)
        _check(self.most_lights >= 2, f"augment.most_lights must be at least 2, not {self.most_lights}")
