"""Recipes: whole configs by name."""

from __future__ import annotations

import inspect

import pytest

from unlit.config import Config, config_from_json, config_to_json, differences
from unlit.recipes import RECIPES, release, summary

PROMISED = {
    "paper",
    "release",
    "mit",
    "mit-network",
    "per-image-reconstruction",
    "local-reflectance",
    "gray-shading",
    "single-scale-shading",
    "no-normalized-median",
    "default",
    "smoke",
    "direct",
    "direct-shi",
}


def changed(one: Config, other: Config) -> dict[str, str]:
    """What differs between two configs, but for their names."""
    lines = (line.partition(": ") for line in differences(one, other))
    return {name: values for name, _, values in lines if name != "recipe"}


def test_every_recipe_of_the_design_can_be_had_by_name() -> None:
    assert set(RECIPES) >= PROMISED


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_bears_its_name_and_is_read_back_from_its_file(name: str) -> None:
    config = RECIPES[name]()
    assert config.recipe == name
    assert config_from_json(config_to_json(config)) == config
    assert RECIPES[name]() == config


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_its_command_and_has_a_line_for_the_help(name: str) -> None:
    text = inspect.getdoc(RECIPES[name]) or ""
    assert f"unlit train {name} --data" in text
    assert " --run " in text
    assert summary(name) == text.splitlines()[0]
    assert len(summary(name)) > 20


ABLATIONS = {
    "per-image-reconstruction": {"energy.all_pairs": "True, False"},
    "local-reflectance": {"energy.pairwise.reflectance": "dense, local"},
    # One thing in two places: the network has no light color, and the energy counts none.
    "gray-shading": {"energy.colored_light": "True, False", "model.gray_shading": "False, True"},
    "single-scale-shading": {"energy.pairwise.shading_scales": "4, 1"},
    "no-normalized-median": {"energy.pairwise.normalized_median": "True, False"},
}


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_differs_from_the_release_in_one_thing(name: str) -> None:
    assert changed(release(), RECIPES[name]()) == ABLATIONS[name]


def test_the_paper_differs_from_the_release_in_the_factor_that_it_prints() -> None:
    assert changed(RECIPES["paper"](), release()) == {"energy.pairwise.shading_factor": "paper, release"}


def test_the_release_has_the_constants_and_the_schedule_of_the_paper() -> None:
    config = release()
    energy, train = config.energy, config.train
    assert (energy.consistency, energy.reflectance, energy.shading, energy.scale) == (1, 2, 0.5, 0.05)
    assert (train.learning_rate, train.betas, train.epochs, train.sequences) == (5e-4, (0.9, 0.999), 24, 1)
    assert [24 * share for share in train.halve_at] == [8, 16]
    assert (config.model.width, config.data.window, config.augment.rotation) == (1, None, 5)
    assert not config.supervised.any
    assert config.solved.weight == 0


def test_objects_of_the_mit_set_are_lit_by_gray_lamps_that_mix_and_learned_without_truth() -> None:
    config = RECIPES["mit-network"]()
    assert config.model.gray_shading
    assert not config.energy.colored_light
    assert config.augment.mixtures > 0
    assert config.data.masked_input
    assert not config.supervised.any


def test_the_quadratic_learns_from_the_sequences_that_the_network_learns_from() -> None:
    config, network = RECIPES["mit"](), RECIPES["mit-network"]()
    assert config.model.network == "quadratic"
    assert (config.energy, config.solved.steps) == (network.energy, network.solved.steps)
    assert not config.supervised.any


@pytest.mark.parametrize("name", ["direct", "direct-shi"])
def test_direct_recipes_learn_from_the_truth_and_from_no_other_frame(name: str) -> None:
    config = RECIPES[name]()
    assert config.supervised.truth > 0
    assert (config.energy.consistency, config.energy.reflectance, config.energy.shading) == (0, 0, 0)
    assert config.energy.reconstruction == 0 or not config.energy.all_pairs


def test_direct_intrinsics_compares_otherwise_than_shi() -> None:
    direct, shi = RECIPES["direct"](), RECIPES["direct-shi"]()
    assert direct.supervised.direct
    assert not shi.supervised.direct
    assert shi.energy.reconstruction > 0
