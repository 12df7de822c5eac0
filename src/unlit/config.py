"""A whole training config: frozen dataclasses, strictly read and fully written.

Nothing here loads torch, so that the command line can show every field at once. Recipes: `recipes.py`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from unlit.data.settings import AugmentSettings, DataSettings
from unlit.losses.settings import EnergySettings
from unlit.losses.solved_settings import SolvedSettings
from unlit.losses.supervised_settings import SupervisedSettings

VERSION = 1
"""Of config.json. A field that is added later with a default keeps it; one that changes its meaning raises it."""

T = TypeVar("T")


class ConfigError(ValueError):
    """A config cannot be used: which field, what is wrong with it, and what to do."""


def _check(what: bool, message: str) -> None:
    if not what:
        raise ConfigError(message)


@dataclass(frozen=True)
class ModelSettings:
    """The network."""

    network: Literal["unet", "compact", "quadratic"] = "unet"
    """The paper's, a smaller one, or a quadratic of few parameters (docs/training.md, "The MIT objects")."""
    width: float = 1.0
    """Scales the number of channels; 1 is the network's own."""
    gray_shading: bool = False
    """No light color."""
    fine: bool = False
    """Let the compact network have maps of full size too: better where training pictures are few and small."""
    cue: bool = False
    """Show the compact network, beside the image, what color retinex makes of it."""
    deep: bool = False
    """Let the compact network have more blocks, mostly where maps are small."""
    attention: bool = False
    """Let the compact network compare places that are far apart, on its small maps."""
    anchored: bool = False
    """Let the paper's network add to half of the image's log, as the compact one always does."""

    def __post_init__(self) -> None:
        _check(0 < self.width <= 8, f"model.width must be above 0 and at most 8, not {self.width}")
        of_compact = [(name, "compact") for name in ("fine", "cue", "deep", "attention")]
        for name, network in (*of_compact, ("anchored", "unet")):
            wrong = f"model.{name} is for model.network {network}, not {self.network}; set one of them otherwise"
            _check(self.network == network or not getattr(self, name), wrong)
        quadratic = self.network == "quadratic"
        _check(not quadratic or self.width == 1, "model.width is for networks, not quadratic; leave it at 1")
        _check(not quadratic or self.gray_shading, "model.network quadratic has gray light: set model.gray_shading")


@dataclass(frozen=True)
class TrainSettings:
    """How long and how fast to learn."""

    steps: int | None = None
    """Steps in all; None: as many as `epochs` take."""
    epochs: int = 24
    """Visits to each sequence, where `steps` is None. 24 is the paper's."""
    sequences: int = 1
    """Sequences of one size that the network sees together. 1 is the paper's."""
    passes: int = 1
    """So often does each process run forward and backward before a step; gradients are averaged."""
    learning_rate: float = 5e-4
    halve_at: tuple[float, ...] = (1 / 3, 2 / 3)
    """The rate is halved when these shares of the steps are done; the paper: after 8 and 16 of 24 epochs."""
    warm_up: int = 0
    """Steps over which the rate rises from nothing."""
    cosine: bool = False
    """Let the rate fall to nothing along a cosine instead."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's."""
    weight_decay: float = 0.0
    clip: float = 1.0
    """Longer gradients are cut to this length; 0: never."""
    fixed_statistics: bool = False
    """Normalise by the statistics that the weights came with, not by each batch's own: for small steps from weights
    that are good already (`--start`), on batches of few windows."""
    average: float = 0.0
    """Decay of the moving average of weights, such as 0.999; 0: none."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the network. auto: bfloat16 on a CUDA device that has it, else float32. Losses are float32 always."""
    compile: bool = False
    """Compile the network: a minute at the start, then a step of the paper's takes half the time on an H200."""
    capture: bool = True
    """On one GPU hand each pass over as a whole (CUDA graphs): the device then waits less for the host."""
    deterministic: bool = True
    """On a GPU compute the same way each time, so that a resumed run repeats to the last bit; without it cuDNN tries
    out which way is the fastest."""
    seed: int = 0
    patience: int = 20
    """So many bad steps in a row (a gradient that is no number) end the run; single ones are skipped and counted."""

    def __post_init__(self) -> None:
        for name in ("epochs", "sequences", "passes", "patience"):
            _check(getattr(self, name) >= 1, f"train.{name} must be at least 1, not {getattr(self, name)}")
        _check(self.steps is None or self.steps >= 1, f"train.steps must be at least 1, not {self.steps}")
        _check(0 < self.learning_rate < math.inf, f"train.learning_rate must be positive, not {self.learning_rate}")
        _check(0 <= self.average < 1, f"train.average must be from 0 to below 1, not {self.average}")
        _check(0 <= self.clip < math.inf, f"train.clip must not be negative, not {self.clip}")
        _check(0 <= self.weight_decay < math.inf, f"train.weight_decay must not be negative, not {self.weight_decay}")
        _check(all(0 <= b < 1 for b in self.betas), f"train.betas must be from 0 to below 1, not {self.betas}")
        halve_at = f"train.halve_at must be shares between 0 and 1, not {self.halve_at}"
        _check(all(0 < share < 1 for share in self.halve_at), halve_at)
        _check(self.warm_up >= 0, f"train.warm_up must not be negative, not {self.warm_up}")
        _check(0 <= self.seed < 2**63, f"train.seed must be from 0 to 2^63, not {self.seed}")


@dataclass(frozen=True)
class JournalSettings:
    """What a run leaves behind, and how often. These may change when a run is resumed; all else stays."""

    log_every: int = 20
    """Steps between two lines of metrics.jsonl."""
    sheet_every: int = 500
    """Steps between two picture sheets; 0: none."""
    checkpoint_every: int = 500
    """Steps between two checkpoints; 0: one at the end alone."""
    validate_every: int = 500
    """Steps between two looks at the validation sequences, where there are any; 0: at the end alone."""
    keep: int = 2
    """Checkpoints kept, beside the best."""

    def __post_init__(self) -> None:
        _check(self.log_every >= 1, f"journal.log_every must be at least 1, not {self.log_every}")
        _check(self.keep >= 1, f"journal.keep must be at least 1, not {self.keep}")
        for name in ("sheet_every", "checkpoint_every", "validate_every"):
            _check(getattr(self, name) >= 0, f"journal.{name} must not be negative, not {getattr(self, name)}")


@dataclass(frozen=True)
class Config:
    """All that a training run depends on, except the data."""

    recipe: str = "paper"
    """A name for it: that of the recipe, unless changed."""
    data: DataSettings = field(default_factory=DataSettings)
    augment: AugmentSettings = field(default_factory=AugmentSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    energy: EnergySettings = field(default_factory=EnergySettings)
    solved: SolvedSettings = field(default_factory=SolvedSettings)
    supervised: SupervisedSettings = field(default_factory=SupervisedSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    journal: JournalSettings = field(default_factory=JournalSettings)

    def __post_init__(self) -> None:
        gray = self.model.gray_shading or not self.energy.colored_light
        both = self.solved.weight > 0 and self.supervised.any
        _check(not both, "solved.weight and supervised terms cannot go together: both say what the reflectance is")
        if self.data.held is not None:
            self._check_held(self.data.held)
        _check(gray or self.augment.hue == 0, "augment.hue needs gray light: set model.gray_shading, or hue to 0")
        if self.model.network == "quadratic":
            self._check_quadratic()

    def _check_held(self, held: int) -> None:
        _check(self.train.steps is not None, "data.held needs to know when a run ends: set train.steps")
        _check(self.solved.weight == 0, "data.held solves no sequences: set solved.weight to 0")
        least = self.train.sequences
        _check(
            held >= least, f"data.held must be at least train.sequences, {least}, or each would come twice: not {held}"
        )

    def _check_quadratic(self) -> None:
        """Refuse what the quadratic does not know rather than leave it out without a word."""
        _check(self.solved.weight > 0, "model.network quadratic learns from solved sequences: set solved.weight to 1")
        _check(not self.energy.colored_light, "model.network quadratic has gray light: set energy.no-colored-light")
        plain = AugmentSettings()
        varied = [f.name for f in dataclasses.fields(plain) if getattr(self.augment, f.name) != getattr(plain, f.name)]
        _check(
            not varied, f"model.network quadratic sees pictures as they are; leave augment.{''.join(varied[:1])} out"
        )
        for name in ("sequences", "passes", "fixed_statistics", "average", "compile"):
            is_plain = getattr(self.train, name) == getattr(TrainSettings(), name)
            _check(is_plain, f"train.{name} is for networks; model.network quadratic sees all sequences in each step")


def config_to_json(config: Config) -> str:
    """Return every field of `config` as JSON."""
    return json.dumps({"version": VERSION, **dataclasses.asdict(config)}, indent=1) + "\n"


def config_from_json(text: str, source: str | Path = "config") -> Config:
    """Return the config that `text` holds. What is unknown or of a wrong type is refused, by name."""
    try:
        stated = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{source}: is not JSON ({error}); write it anew by starting a run") from error
    _check(isinstance(stated, dict), f"{source}: is not an object of fields; write it anew by starting a run")
    version = stated.pop("version", None)
    if type(version) is not int or version != VERSION:
        raise ConfigError(
            f"{source}: has version {version!r}, and only {VERSION} is known; use the unlit that wrote it"
        )
    try:
        return _built(Config, stated, "")
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from error


def differences(one: Config, other: Config) -> list[str]:
    """Return `field: value, value` for every field in which two configs differ."""
    flat, flat_other = (_flattened(dataclasses.asdict(c)) for c in (one, other))
    return [f"{name}: {value}, {flat_other[name]}" for name, value in flat.items() if value != flat_other[name]]


def _flattened(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flattened(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def _built(kind: type[T], stated: Any, prefix: str) -> T:
    """Return a dataclass from JSON's values; fields that are missing have their defaults."""
    _check(isinstance(stated, dict), f"{prefix.rstrip('.') or 'config'} must be an object of fields, not {stated!r}")
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(stated) - set(hints))
    _check(not unknown, f"unknown field {prefix}{unknown[0] if unknown else ''}; remove it, or update unlit")
    return kind(**{name: _converted(hints[name], value, prefix + name) for name, value in stated.items()})


def _converted(hint: Any, value: Any, name: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _built(hint, value, name + ".")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        _check(value in arguments, f"{name} must be one of {', '.join(map(str, arguments))}, not {value!r}")
        return value
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _converted(next(a for a in arguments if a is not type(None)), value, name)
    if origin is tuple:
        length = None if arguments[-1] is Ellipsis else len(arguments)
        fits = isinstance(value, list) and length in (None, len(value))
        _check(fits, f"{name} must be a list{f' of {length}' if length else ''}, not {value!r}")
        return tuple(_converted(arguments[0], v, name) for v in value)
    if hint is float and type(value) is int and abs(value) <= sys.float_info.max:
        return float(value)
    _check(type(value) is hint, f"{name} must be {getattr(hint, '__name__', hint)}, not {value!r}")
    return value
