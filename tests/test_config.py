"""A training config: all of it is written, nothing but it is read."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from unlit.config import (
    VERSION,
    Config,
    ConfigError,
    JournalSettings,
    ModelSettings,
    TrainSettings,
    config_from_json,
    config_to_json,
    differences,
)
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.losses.settings import EnergySettings
from unlit.losses.solved_settings import SolvedSettings
from unlit.losses.supervised_settings import SupervisedSettings
from unlit.pairwise.settings import FeatureScales, PairwiseSettings

GRAY = Config(model=ModelSettings(gray_shading=True), energy=EnergySettings(colored_light=False))
"""A config that allows every single field to change, but for those that need one of the others."""
COMPACT = dataclasses.replace(GRAY, model=dataclasses.replace(GRAY.model, network="compact"))
WINDOWS = dataclasses.replace(GRAY, data=DataSettings(window=32), train=TrainSettings(steps=5))


def leaves(kind: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted names of all fields, with their types."""
    for name, hint in typing.get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from leaves(typing.cast(type, hint), f"{prefix}{name}.")
        else:
            yield prefix + name, hint


def value_at(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part)
    return config


def changed(config: Any, name: str, value: Any) -> Any:
    """The config with another value of one field, named with dots."""
    first, _, rest = name.partition(".")
    return dataclasses.replace(config, **{first: changed(getattr(config, first), rest, value) if rest else value})


def choices(hint: Any) -> tuple[Any, ...]:
    """The values that a field of few has, perhaps besides None."""
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)
    return next((choices(part) for part in typing.get_args(hint) if choices(part)), ())


def another(value: Any, hint: Any) -> Any:
    """A value of the same type that is not `value`, and is valid for every field there is."""
    if choices(hint):
        return next(choice for choice in choices(hint) if choice != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return tuple(0.5 * part for part in value)
    if isinstance(value, float):
        return 0.5 * value or 0.25
    return {str: "another", int: (value or 0) + 1 if isinstance(value, int) else 0, type(None): 16}[type(value)]


LEAVES = dict(leaves(Config))


def stated(**changes: Any) -> str:
    """A config.json with these fields, named with __ for dots, and no others."""
    fields: dict[str, Any] = {"version": VERSION}
    for name, value in changes.items():
        *path, last = name.split("__")
        place = fields
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return json.dumps(fields)


@pytest.mark.parametrize("name", LEAVES)
def test_every_field_is_written_read_back_and_told_apart(name: str) -> None:
    of_compact = dict.fromkeys(("model.fine", "model.cue", "model.deep", "model.attention"), COMPACT)
    begun = {**of_compact, "data.held": WINDOWS}.get(name, GRAY)
    before = value_at(begun, name)
    config = changed(begun, name, another(before, LEAVES[name]))
    read = config_from_json(config_to_json(config))
    assert read == config
    assert type(value_at(read, name)) is type(value_at(config, name))
    assert differences(begun, config) == [f"{name}: {before}, {value_at(config, name)}"]


def test_no_field_is_left_out_of_the_file_and_the_file_ends_with_a_line_break() -> None:
    def flat(values: dict[str, Any], prefix: str = "") -> set[str]:
        inner = (flat(v, f"{prefix}{n}.") if isinstance(v, dict) else {prefix + n} for n, v in values.items())
        return set().union(*inner)

    text = config_to_json(Config())
    assert flat(json.loads(text)) == {"version", *LEAVES}
    assert text.endswith("}\n")


def test_configs_that_are_equal_do_not_differ() -> None:
    assert differences(Config(), Config()) == []


def test_missing_fields_have_their_defaults_as_in_a_config_of_an_older_version() -> None:
    assert config_from_json(stated()) == Config()
    older = config_from_json(stated(train__steps=7, energy__pairwise__shading_scales=2))
    assert older == changed(changed(Config(), "train.steps", 7), "energy.pairwise.shading_scales", 2)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"speed": 3}, "speed"),
        ({"train__speed": 3}, "train.speed"),
        ({"energy__pairwise__scales__depth": 1.0}, "energy.pairwise.scales.depth"),
    ],
)
def test_unknown_fields_are_refused_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^run/config.json: unknown field {name}; remove it, or update unlit$"):
        config_from_json(stated(**fields), "run/config.json")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train.epochs", True),
        ("train.epochs", 1.5),
        ("train.epochs", "24"),
        ("train.epochs", None),
        ("train.steps", False),
        ("train.steps", [3]),
        ("data.window", 16.0),
        ("model.gray_shading", 1),
        ("model.gray_shading", None),
        ("train.learning_rate", "fast"),
        ("train.learning_rate", True),
        ("train.learning_rate", None),
        ("train.betas", [0.9]),
        ("train.betas", [0.9, 0.99, 0.999]),
        ("train.betas", ["a", "b"]),
        ("train.betas", "ab"),
        ("train.halve_at", 0.5),
        ("train.halve_at", [0.5, None]),
        ("train.halve_at", {"at": 0.5}),
        ("augment.zoom", [1.0]),
        ("train.precision", "float16"),
        ("train.precision", ["auto"]),
        ("energy.pairwise.reflectance", "sparse"),
        ("energy.pairwise", None),
        ("energy", 3),
        ("train", []),
        ("recipe", 5),
    ],
)
def test_values_of_a_wrong_type_or_length_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^config.json: {name} must be .*, not "):
        config_from_json(stated(**{name.replace(".", "__"): value}), "config.json")


def test_whole_numbers_do_for_fractions_and_become_them() -> None:
    config = config_from_json(stated(train__learning_rate=1, train__betas=[0, 0], augment__zoom=[1, 2]))
    assert (config.train.learning_rate, config.train.betas, config.augment.zoom) == (1.0, (0.0, 0.0), (1.0, 2.0))
    assert all(type(value) is float for value in (config.train.learning_rate, *config.train.betas))


def test_lists_of_any_length_may_be_empty() -> None:
    assert config_from_json(stated(train__halve_at=[])).train.halve_at == ()


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_other_versions_are_refused_with_the_reason(version: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^config.json: has version {version!r}, and only {VERSION} is known"):
        config_from_json(json.dumps({"version": version}), "config.json")


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[" * 10_000, '{"version": 1} more'])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^config.json: is not JSON .*; write it anew by starting a run"):
        config_from_json(text, "config.json")


@pytest.mark.parametrize("text", ["[]", "3", "null", '"config"'])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^config.json: is not an object of fields"):
        config_from_json(text, "config.json")


def test_a_number_too_large_for_a_float_is_refused_like_any_other() -> None:
    with pytest.raises(ConfigError, match=r"^config.json: .*learning_rate"):
        config_from_json(stated(train__learning_rate=10**400), "config.json")


def test_values_that_may_not_be_are_refused_on_reading_too() -> None:
    with pytest.raises(ConfigError, match=r"^config.json: train.epochs must be at least 1, not 0"):
        config_from_json(stated(train__epochs=0), "config.json")
    with pytest.raises(ConfigError, match=r"^config.json: .*shading_scales must be from 1"):
        config_from_json(stated(energy__pairwise__shading_scales=0), "config.json")


Case = tuple[Callable[..., Any], str, Any]
NOT_NEGATIVE = (-1.0, math.nan, math.inf)
BAD: list[Case] = [
    *[(ModelSettings, "width", value) for value in (0.0, -1.0, 9.0, math.nan)],
    *[(ModelSettings, name, True) for name in ("fine", "cue", "deep", "attention")],
    (partial(ModelSettings, "compact"), "anchored", True),
    *[(TrainSettings, name, 0) for name in ("epochs", "sequences", "passes", "patience", "steps")],
    *[(TrainSettings, "learning_rate", value) for value in (0.0, *NOT_NEGATIVE)],
    *[(TrainSettings, name, value) for name in ("clip", "weight_decay") for value in NOT_NEGATIVE],
    *[(TrainSettings, "average", value) for value in (1.0, *NOT_NEGATIVE)],
    *[(TrainSettings, "betas", value) for value in ((0.9, 1.0), (-0.1, 0.9), (math.nan, 0.9))],
    *[(TrainSettings, "halve_at", (0.5, value)) for value in (0.0, 1.0, math.nan)],
    (TrainSettings, "warm_up", -1),
    (TrainSettings, "seed", -1),
    (TrainSettings, "seed", 2**63),
    (JournalSettings, "log_every", 0),
    (JournalSettings, "keep", 0),
    *[(JournalSettings, name, -1) for name in ("sheet_every", "checkpoint_every", "validate_every")],
    *[(DataSettings, name, 7) for name in ("window", "longest")],
    (DataSettings, "frames", 0),
    *[(DataSettings, "memory_gb", value) for value in (-1.0, math.nan)],
    (DataSettings, "workers", -1),
    (DataSettings, "held", 0),
    *[(AugmentSettings, "zoom", value) for value in ((0.0, 1.0), (2.0, 1.0), (1.0, math.inf), (math.nan, 1.0))],
    *[
        (AugmentSettings, n, v)
        for n in (
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
        for v in (-0.1, 1.1, math.nan)
    ],
    *[(AugmentSettings, n, v) for n in ("rotation", "exposure", "white_balance", "contrast") for v in NOT_NEGATIVE],
    (AugmentSettings, "crop", -1),
    (AugmentSettings, "most_lights", 1),
    *[
        (EnergySettings, name, value)
        for name in ("reconstruction", "consistency", "reflectance", "shading", "scale")
        for value in NOT_NEGATIVE
    ],
    *[(SolvedSettings, n, v) for n in ("weight", "emphasis", "gradient", "reconstruction") for v in NOT_NEGATIVE],
    (SolvedSettings, "steps", 0),
    (SupervisedSettings, "truth_scales", 0),
    *[
        (SupervisedSettings, name, value)
        for name in ("judgements", "shading_classes", "truth", "truth_gradient", "truth_linear", "margin", "edge")
        for value in NOT_NEGATIVE
    ],
    *[(FeatureScales, n, v) for n in ("intensity", "chromaticity", "position") for v in (0.0, *NOT_NEGATIVE)],
    (PairwiseSettings, "shading_scales", 0),
    (PairwiseSettings, "shading_scales", 17),
    (PairwiseSettings, "reflectance", "sparse"),
    (PairwiseSettings, "shading_factor", "mine"),
]


@pytest.mark.parametrize(("kind", "name", "value"), BAD)
def test_settings_that_cannot_be_are_refused_by_name(kind: Callable[..., Any], name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"\b{name}\b.* not "):
        kind(**{name: value})


def test_all_numbers_of_the_settings_are_guarded() -> None:
    """So that a field that is added later is not forgotten in the list above."""
    guarded = {(kind, name) for kind, name, _ in BAD}
    for name, hint in LEAVES.items():
        holder = type(value_at(Config(), name.rpartition(".")[0])) if "." in name else Config
        free = hint in (bool, str) or bool(choices(hint))
        assert free or (holder, name.rpartition(".")[2]) in guarded, name


def test_two_teachers_of_one_reflectance_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"solved.weight and supervised terms"):
        Config(solved=SolvedSettings(weight=1.0), supervised=SupervisedSettings(truth=1.0))
    Config(solved=SolvedSettings(weight=1.0), supervised=SupervisedSettings(margin=1.0))


def test_a_part_of_a_set_needs_windows_and_an_end_and_is_not_solved() -> None:
    with pytest.raises(ValueError, match=r"data.held is for windows: set data.window"):
        DataSettings(held=3)
    held = DataSettings(held=3, window=32)
    with pytest.raises(ConfigError, match=r"data.held needs to know when a run ends: set train.steps"):
        Config(data=held)
    with pytest.raises(ConfigError, match=r"data.held solves no sequences"):
        Config(data=held, train=TrainSettings(steps=5), solved=SolvedSettings(weight=1.0))
    with pytest.raises(ConfigError, match=r"data.held must be at least train.sequences, 4.*: not 3"):
        Config(data=held, train=TrainSettings(steps=5, sequences=4))
    Config(data=held, train=TrainSettings(steps=5, sequences=3))


def test_days_are_colored() -> None:
    with pytest.raises(ValueError, match=r"augment.hue needs gray light"):
        AugmentSettings(hue=0.5, days=0.5)


def test_other_hues_need_gray_light_whoever_makes_it_gray() -> None:
    hue = AugmentSettings(hue=0.5)
    with pytest.raises(ConfigError, match=r"augment.hue needs gray light"):
        Config(augment=hue)
    Config(augment=hue, model=ModelSettings(gray_shading=True))
    Config(augment=hue, energy=EnergySettings(colored_light=False))


def test_configs_and_recipes_do_not_import_torch() -> None:
    code = "import sys, unlit.config, unlit.recipes; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_sky_that_changed_places_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match=r"augment.metered leaves out the sky"):
        AugmentSettings(metered=0.5, exchange=0.5)
