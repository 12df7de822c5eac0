"""Commands that make datasets: prepare, pack, worlds.

Nothing heavy is imported here, only inside the commands, so that `--help` is instant.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from unlit.prepare.settings import PrepareSettings

_PREPARE = PrepareSettings()


def prepare(
    sources: Annotated[tuple[Path, ...], tyro.conf.Positional],
    out: Path,
    without: tuple[str, ...] = (),
    validation: float = 0.0,
    test: float = 0.0,
    force: bool = False,
    workers: int | None = None,
    quiet: bool = False,
    settings: Annotated[PrepareSettings, tyro.conf.arg(name="")] = _PREPARE,
) -> None:
    """Turn videos and folders of pictures into masked sequences to train on, and report what was done.

    Args:
        sources: Videos, folders of pictures of one view, folders of such folders, or text files that list them. With
            none, the masks of the dataset are put together anew by --without.
        out: The dataset's folder; made if missing. What is in it and has not changed is not done again.
        without: Kinds of masks that are made but do not count: saturated, dark, border, moving, sky, by-hand, ...
        validation: The share of cameras that are for validation; a camera is never on both sides.
        test: The share of cameras that are for testing.
        force: Prepare again what is done already.
        workers: Processes; as many as there are cores unless given.
        quiet: Show no progress.
        settings: What is taken for one view, and which frames are kept.
    """
    from unlit.prepare.collection import prepare as prepare_all
    from unlit.prepare.listener import Shown

    with Shown(quiet=quiet) as listener:
        result = prepare_all(
            sources,
            out,
            settings,
            listener,
            without=without,
            validation=validation,
            test=test,
            force=force,
            workers=workers,
        )
    for problem in result.problems:
        print(f"unlit: {problem}", file=sys.stderr)
    if not quiet:
        print(f"{result.sequences} sequences in {out}; report: {result.report}", file=sys.stderr)
    if result.problems:
        sys.exit(2)


def pack(dataset: Annotated[Path, tyro.conf.Positional], out: Path, shard_megabytes: int = 1024) -> None:
    """Pack a prepared dataset into WebDataset shards, for reading over a network or from many processes.

    Sequences of each split go into a folder of their own: OUT/train, OUT/validation, OUT/test.

    Args:
        dataset: A prepared dataset.
        out: Folder for the shards; must not exist or be empty.
        shard_megabytes: About how large a shard grows. A sequence is never split.
    """
    from unlit.prepare.packing import pack_dataset

    packed = pack_dataset(dataset, out, shard_bytes=shard_megabytes * 2**20)
    for split, (sequences, shards) in packed.items():
        print(f"{split}: {sequences} sequences in {shards} shards: {out / split}", file=sys.stderr)


def worlds(
    out: Path,
    scenes: int,
    seed: int = 0,
    size: str = "384x256",
    samples: int = 256,
    split: Literal["train", "validation", "test"] = "train",
    device: str = "auto",
    quiet: bool = False,
) -> None:
    """Render scenes whose reflectance and shading are known into a dataset; goes on where it was stopped.

    Args:
        out: Folder of the dataset; made if missing.
        scenes: How many.
        seed: Number of the first scene; the next have the numbers after it.
        size: Width and height of the pictures, in pixels.
        samples: Rays a pixel for each light; fewer are quicker and noisier.
        split: What they are for. The scenes of different splits never meet, whatever their seeds.
        device: Where to render: auto, cpu, cuda, cuda:1.
        quiet: Show no progress.
    """
    from unlit.worlds.command import render_worlds

    render_worlds(out, scenes, seed, size, samples, split, device, quiet=quiet)
