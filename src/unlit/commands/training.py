"""The command that trains: every recipe is a command of its own, and every field of it an option.

Nothing heavy is imported here, only inside the commands, so that `--help` is instant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from collections.abc import Sequence as Arguments
from pathlib import Path
from typing import Annotated

import tyro

from unlit.config import Config


def train(arguments: Arguments[str]) -> None:
    """Train a network on sequences: `unlit train RECIPE --data DATASET --run RUN`.

    A recipe is a whole config, and every field of it is an option: so the recipes are commands of their own.
    """
    from unlit.recipes import RECIPES, summary

    commands = {name: _training(recipe, summary(name)) for name, recipe in RECIPES.items()}
    tyro.extras.subcommand_cli_from_dict(
        commands, prog="unlit train", description="Train a network on sequences, by a recipe.", args=list(arguments)
    )


def _training(recipe: Callable[[], Config], description: str) -> Callable[..., None]:
    """Return the command that trains by `recipe`; its options are the config's fields."""
    default = recipe()

    def command(
        data: Path,
        run: Path,
        resume: bool = False,
        start: Path | None = None,
        device: str = "auto",
        quiet: bool = False,
        config: Annotated[Config, tyro.conf.arg(name="")] = default,
    ) -> None:
        _train(config, data, run, resume=resume, start=start, device=device, quiet=quiet)

    command.__doc__ = f"""{description}

    Args:
        data: A prepared dataset, a folder of shards, the MIT set, or a folder of folders of frames; or
            worlds:SEED:COUNT (or worlds:SEED:COUNT:WIDTHxHEIGHT:SAMPLES) for scenes that are rendered when the run
            begins, or while it goes on (data.held).
        run: Folder for the config, metrics, picture sheets, checkpoints and, at the end, the weights.
        resume: Go on with the run that is in the folder; begin it where there is none yet.
        start: Weights to begin with, of the same network, the folder of a run, or `default` for the network of the
            package: to learn more from other data, or with another rate. Needed only once: --resume goes on from what
            the run itself has kept.
        device: Where to train: auto, cpu, cuda, cuda:1.
        quiet: Show no progress.
        config: The recipe.
    """
    return command


def _train(
    config: Config, data: Path, run: Path, *, resume: bool, start: Path | None, device: str, quiet: bool
) -> None:
    from unlit.data.dataset import open_dataset
    from unlit.train.loop import fit

    if start == Path("default") and not start.exists():
        from unlit.predict.network import DEFAULT_WEIGHTS

        start = DEFAULT_WEIGHTS
    settings = config.data
    if str(data).startswith("worlds:"):
        from unlit.processes import usable_processors
        from unlit.worlds.command import chosen_device
        from unlit.worlds.dataset import open_worlds

        where = chosen_device(device)
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        if where == "cuda" and ranks > 1:  # processes that render would take the first, whoever starts them
            where = f"cuda:{os.environ['LOCAL_RANK']}"
        processes = min(settings.workers, usable_processors() // ranks)
        dataset = open_worlds(str(data), where, processes, half=settings.half)
        if not quiet and os.environ.get("RANK", "0") == "0":
            slow = "; on a CPU a minute each at 384x256:256, a second at 96x64:16" if where == "cpu" else ""
            training, others = (len(dataset.part(split).sources) for split in ("train", "validation"))
            first = min(settings.held or training, training) + others
            print(f"rendering {first} scenes before the first step{slow}", file=sys.stderr)
    else:
        dataset = open_dataset(
            data, with_truth=config.supervised.any, encoding=settings.encoding, one_light=settings.one_light,
            with_picture=config.model.network == "quadratic",
        )  # fmt: skip
    result = fit(config, dataset, run, resume=resume, start=start, device=device, quiet=quiet)
    if os.environ.get("RANK", "0") != "0":
        return
    if not result.is_complete:
        message = f"stopped at step {result.step} of {result.steps}; go on with --resume"
        print(f"unlit: {message}", file=sys.stderr)
        sys.exit(1)
    if 2 * result.skipped_steps > result.steps:
        message = f"{result.skipped_steps} of {result.steps} steps had a gradient that is no number and were skipped"
        print(f"unlit: {message}; lower train.learning_rate, or look for broken frames", file=sys.stderr)
        sys.exit(1)
    if not quiet:
        print(f"{result.steps} steps; weights: {run / 'weights.safetensors'}", file=sys.stderr)
