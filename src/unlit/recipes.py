"""Recipes: functions that return whole training configs. A variant calls another and changes what differs.

Each says the command, the time and hardware, and the numbers to expect; `unlit train RECIPE --help` shows every field.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace

from unlit.config import Config, JournalSettings, ModelSettings, TrainSettings
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.losses.settings import EnergySettings
from unlit.losses.solved_settings import SolvedSettings
from unlit.losses.supervised_settings import SupervisedSettings
from unlit.pairwise.settings import FeatureScales, PairwiseSettings


def paper() -> Config:
    """Train by the equations as they are printed, with the schedule of the paper.

    unlit train paper --data DATASET --run RUN
    """
    pairwise = PairwiseSettings(shading_factor="paper")
    return Config(recipe="paper", energy=EnergySettings(pairwise=pairwise))


def release() -> Config:
    """Train with the constants of the authors' release.

    unlit train release --data DATASET --run RUN

    One H200, compiled: 1,330 frames/s, so the paper's 5,088 steps of 31 frames take 2 minutes.
    """
    return Config(recipe="release")


def mit() -> Config:
    """Learn on the MIT objects without their ground truth: few parameters, whose minimum is each picture's answer.

    unlit train mit --data mit-intrinsic --run RUN

    For captures with one light at a time. Before training, each object's lights are asked for its reflectance
    (`quadratic/targets.py`); the weights of a quadratic in log reflectance then learn to find it in one picture
    (`quadratic/weights.py`). Two CPU cores: 8 minutes; one H200 with 16: 4. Objects left out, five folds, means of R
    and S: MSE .0138, LMSE .0194, DSSIM .1060 (docs/training.md).
    """
    return Config(
        recipe="mit",
        model=ModelSettings(network="quadratic", gray_shading=True),
        energy=_of_objects(),
        solved=SolvedSettings(weight=1.0),
        train=TrainSettings(steps=16, learning_rate=0.1, cosine=True, betas=(0.9, 0.95), weight_decay=0.003, clip=3.0),
        journal=JournalSettings(log_every=1, checkpoint_every=4, sheet_every=0),
    )


def mit_network() -> Config:
    """Train a network on the MIT objects without their ground truth: gray shading, mixed lights, solved sequences.

    unlit train mit-network --data mit-intrinsic --run RUN

    Before training, the energy of each object's ten lights is minimised for that object alone; the network then learns
    to find the same reflectance in single frames (`losses/solved.py`). One H200: two minutes. Objects left out, five
    folds, means of R and S: MSE .0216, LMSE .0239, DSSIM .140; three networks averaged with Zhao's method .0147, .0200,
    .1117 (docs/training.md). Many more steps learn the objects by heart.
    """
    return Config(
        recipe="mit-network",
        data=DataSettings(window=192, frames=4, masked_input=True),
        augment=AugmentSettings(rotation=180.0, zoom=(0.5, 1.2), mixtures=0.85, exposure=1.0, contrast=0.2),
        model=ModelSettings(network="compact", gray_shading=True, fine=True),
        energy=_of_objects(),
        solved=SolvedSettings(weight=1.0, gradient=0.1),
        train=TrainSettings(steps=1200, sequences=6, learning_rate=2e-3, cosine=True, warm_up=100, average=0.998),
        journal=JournalSettings(checkpoint_every=1000, sheet_every=1000),
    )


def _of_objects() -> EnergySettings:
    """Return the energy that single objects under gray lamps are solved by."""
    pairwise = PairwiseSettings(scales=FeatureScales(intensity=0.06))
    return EnergySettings(shading=6.0, colored_light=False, pairwise=pairwise)


def per_image_reconstruction() -> Config:
    """Ablation: explain each frame by its own reflectance alone.

    unlit train per-image-reconstruction --data DATASET --run RUN
    """
    return _ablation("per-image-reconstruction", EnergySettings(all_pairs=False))


def local_reflectance() -> Config:
    """Ablation: reflectance smoothness among neighbors of one frame only, instead of all pixels of all frames.

    unlit train local-reflectance --data DATASET --run RUN
    """
    return _ablation("local-reflectance", EnergySettings(pairwise=PairwiseSettings(reflectance="local")))


def gray_shading() -> Config:
    """Ablation: light without color.

    unlit train gray-shading --data DATASET --run RUN
    """
    config = _ablation("gray-shading", EnergySettings(colored_light=False))
    return replace(config, model=replace(config.model, gray_shading=True))


def single_scale_shading() -> Config:
    """Ablation: compare neighboring shadings at the finest scale only.

    unlit train single-scale-shading --data DATASET --run RUN
    """
    return _ablation("single-scale-shading", EnergySettings(pairwise=PairwiseSettings(shading_scales=1)))


def no_normalized_median() -> Config:
    """Ablation: leave the normalised median out of the shading's weights.

    unlit train no-normalized-median --data DATASET --run RUN
    """
    return _ablation("no-normalized-median", EnergySettings(pairwise=PairwiseSettings(normalized_median=False)))


def _ablation(name: str, energy: EnergySettings) -> Config:
    return replace(release(), recipe=name, energy=energy)  # the energy's defaults are the release's


def default() -> Config:
    """Train the network that comes with the package: rendered worlds and their truth, lights mixed without end.

    unlit train default --data worlds:0:4000:384x256:128 --run RUN

    One H200: 30 ms a step; 4,000 scenes take five minutes by thirteen processes that render. The network of the package
    is a mean of such a run's result and of short trainings after it; docs/training.md has how, and its scores.
    """
    return Config(
        recipe="default",
        data=DataSettings(window=256, frames=2, memory_gb=100, half=True, workers=13),
        augment=AugmentSettings(
            rotation=8.0,
            zoom=(0.55, 1.3),
            untouched=0.5,
            mixtures=0.65,
            days=0.7,
            light_color=0.35,
            camera=0.65,
            shade=0.15,
            exposure=1.2,
            contrast=0.1,
        ),
        model=ModelSettings(network="compact", cue=True, deep=True, attention=True),
        energy=EnergySettings(reconstruction=0.0, consistency=0.3, reflectance=0.0, shading=0.0, scale=0.0),
        supervised=SupervisedSettings(truth=1.0, truth_gradient=0.8, truth_linear=2.0),
        train=TrainSettings(
            steps=27000, sequences=24, learning_rate=2e-3, cosine=True, warm_up=300, average=0.9995, deterministic=False
        ),
        journal=JournalSettings(checkpoint_every=2000, sheet_every=1000, validate_every=2000),
    )


def direct() -> Config:
    """Train on ground truth alone, as DI (Narihira et al. 2015) does: log errors, half scale-invariant, and gradients.

    unlit train direct --data DATASET --run RUN, where the sequences have truth
    """
    config = release()
    return replace(
        config,
        recipe="direct",
        energy=replace(config.energy, consistency=0.0, reflectance=0.0, shading=0.0, scale=0.0, reconstruction=0.0),
        supervised=SupervisedSettings(truth=1.0, truth_gradient=1.0, direct=True),
        augment=replace(config.augment, rotation=0.0),
    )


def direct_shi() -> Config:
    """Train on ground truth as Shi et al. (2017) do: scale-invariant errors of R and S, and that R · S is the image.

    unlit train direct-shi --data DATASET --run RUN, where the sequences have truth
    """
    config = direct()
    return replace(
        config,
        recipe="direct-shi",
        energy=replace(config.energy, reconstruction=1.0, all_pairs=False),
        supervised=SupervisedSettings(truth=1.0, truth_gradient=0.0),
    )


def smoke() -> Config:
    """See that everything works: seconds on a CPU, on any set.

    unlit train smoke --data DATASET --run RUN
    """
    return Config(
        recipe="smoke",
        data=DataSettings(window=32, longest=64, frames=3),
        augment=AugmentSettings(zoom=(0.8, 1.25), mixtures=0.5, exposure=0.5),
        model=ModelSettings(width=1 / 32),
        train=TrainSettings(steps=20, sequences=2, average=0.9),
        journal=JournalSettings(log_every=1, sheet_every=10, checkpoint_every=5, validate_every=10),
    )


_ALL: tuple[Callable[[], Config], ...] = (
    paper, release, mit, mit_network, per_image_reconstruction, local_reflectance, gray_shading, single_scale_shading,
    no_normalized_median, default, direct, direct_shi, smoke,
)  # fmt: skip

RECIPES: dict[str, Callable[[], Config]] = {function.__name__.replace("_", "-"): function for function in _ALL}
"""By the names that the command line knows."""


def summary(name: str) -> str:
    """Return the first line of a recipe's description."""
    return (inspect.getdoc(RECIPES[name]) or "").splitlines()[0]
