"""The command line: one typed function for each command, which is where its options come from.

Nothing heavy is imported here, only inside the commands, so that `--help` is instant. Messages go to stderr, results
to files. Exit codes: 0 done, 2 wrong usage or input, 1 failure.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from collections.abc import Sequence as Arguments
from pathlib import Path
from typing import Annotated, Literal

import tyro

from unlit import __version__
from unlit.config import Config
from unlit.prepare.settings import PrepareSettings


def sequence(
    folder: Annotated[Path, tyro.conf.Positional],
    out: Path,
    format: Literal["png", "tiff", "exr"] = "png",  # noqa: A002  # the promised option
    encoding: Literal["srgb", "linear"] | None = None,
    pattern: str = "*",
    steps: int = 100,
    size: int = 384,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Split the frames of one fixed view into one reflectance and a shading for each frame.

    No network is involved: the paper's energy is minimised for this sequence alone.

    Args:
        folder: Frames of one fixed view under changing light, or a saved sequence.
        out: Folder for the pictures; made if missing.
        format: PNG is for looking at (16 bits, sRGB-encoded); TIFF and EXR hold the exact linear values.
        encoding: How the frames are encoded, where their files do not say.
        pattern: Which of the folder's pictures are frames, e.g. "light*".
        steps: Steps of the minimisation; fewer are quicker and coarser.
        size: The longer side, in pixels, at which the energy is minimised.
        force: Write into a folder that has something in it already.
        quiet: Show no progress.
    """
    _check_out(out, folder, force=force)
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, TimeRemainingColumn

    from unlit.data.sequence import load_sequence
    from unlit.sequence.decompose import decompose_sequence

    console = Console(stderr=True, quiet=quiet)
    with Progress(*Progress.get_default_columns()[:3], TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(escape(folder.name), total=steps)
        frames = load_sequence(folder, encoding=encoding, pattern=pattern)
        result = decompose_sequence(
            frames, steps=steps, size=size, progress=lambda done, _: bar.update(task, completed=done)
        )
    result.save(out, format=format)
    place = out / f"{result.name}.reflectance.{format}"
    if frames.dropped:
        console.print(f"left out, wholly masked: {', '.join(frames.dropped)}", soft_wrap=True, markup=False)
    console.print(f"{len(result.shadings)} frames; reflectance: {place}", soft_wrap=True, markup=False, highlight=False)


def decompose(
    sources: Annotated[tuple[Path, ...], tyro.conf.Positional],
    out: Path,
    format: Literal["png", "tiff", "exr", "npz"] = "png",  # noqa: A002  # the promised option
    encoding: Literal["srgb", "linear"] | None = None,
    linear: bool = False,
    bits: Literal[8, 16, 32] | None = None,
    layers: bool = False,
    preview: bool = False,
    input_encoding: Literal["srgb", "linear"] | None = None,
    exact: bool = True,
    weights: Path | None = None,
    device: str = "auto",
    size: int = 384,
    detail: int | None = None,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    compiled: bool = False,
    recursive: bool = False,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Split photographs and videos into reflectance and shading.

    Args:
        sources: Photographs, videos, or folders of them.
        out: Folder for the results; made if missing.
        format: PNG is for looking at; TIFF, EXR and NPZ hold the exact linear values. Videos become videos.
        encoding: Of what is written: sRGB for PNG, linear for the others, unless given.
        linear: The same as --encoding linear.
        bits: Bits a channel of what is written: PNG 8 or 16, TIFF 32, 16 or 8, EXR 32 or 16; the first unless given.
        layers: Put photograph, reflectance and shading into one EXR file.
        preview: Write a small JPEG, too, with the three side by side.
        input_encoding: How the photographs are encoded, where their files do not say.
        exact: Reflectance times shading is the photograph; without, both are the network's own.
        weights: A file of weights or the folder of a training run, instead of the default model.
        device: Where the network runs: auto, cpu, cuda, cuda:1.
        size: The longer side, in pixels, at which the network sees a 3:2 photograph.
        detail: A larger size for a second look, from which fine detail is taken.
        precision: Of the network's products; auto takes bfloat16 where the hardware is quick at it.
        compiled: Let torch compile the network; for many photographs of one size.
        recursive: Look into folders inside of folders.
        force: Overwrite results that exist.
        quiet: Show no progress.
    """
    if linear and encoding == "srgb":
        raise ValueError("--linear and --encoding srgb contradict each other; give one of them")
    from unlit.predict.command import Options, decompose_sources

    options = Options(
        format=format,
        encoding="linear" if linear else encoding,
        bits=bits,
        layers=layers,
        preview=preview,
        input_encoding=input_encoding,
        exact=exact,
        weights=weights,
        device=device,
        size=size,
        detail=detail,
        precision=precision,
        compiled=compiled,
        force=force,
        quiet=quiet,
    )
    code = decompose_sources(sources, out, options, recursive=recursive)
    if code:
        sys.exit(code)


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


def compare(
    photo: Annotated[Path, tyro.conf.Positional],
    out: Path,
    method: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = (),
    device: str = "auto",
    force: bool = False,
) -> None:
    """Split one photograph by several methods, and put the results on one sheet.

    Args:
        photo: The photograph.
        out: The sheet, a picture file such as sheet.png.
        method: "default", a file of weights, or a baseline (retinex-color, bell, ...); repeat it for each.
        device: Where networks run: auto, cpu, cuda, cuda:1.
        force: Overwrite a sheet that exists.
    """
    if out.exists() and not force:
        raise ValueError(f"{out} exists already; choose another name, or say --force")
    from unlit.image_io import write_image
    from unlit.predict import compare as comparing

    out.parent.mkdir(parents=True, exist_ok=True)
    write_image(out, comparing.compare(photo, method, device=device), encoding="srgb", bits=8)
    print(f"sheet: {out}", file=sys.stderr)


def export(
    out: Path,
    format: Literal["onnx"] = "onnx",  # noqa: A002  # the promised option
    weights: Path | None = None,
    force: bool = False,
) -> None:
    """Write the network as a file for other programs, and check that it says the same there.

    Args:
        out: The file, such as unlit.onnx.
        format: ONNX, checked under ONNX Runtime.
        weights: A file of weights or the folder of a training run, instead of the default model.
        force: Overwrite a file that exists.
    """
    from unlit.predict.export import export_onnx
    from unlit.predict.network import Network

    difference = export_onnx(Network(weights, device="cpu"), out, force=force)
    print(f"{out}: differs from the network by {difference:.1g} at most (logs)", file=sys.stderr)


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
        device: str = "auto",
        quiet: bool = False,
        config: Annotated[Config, tyro.conf.arg(name="")] = default,
    ) -> None:
        _train(config, data, run, resume=resume, device=device, quiet=quiet)

    command.__doc__ = f"""{description}

    Args:
        data: A prepared dataset, a folder of shards, the MIT set, or a folder of folders of frames; or
            worlds:SEED:COUNT for scenes that are rendered when the run begins.
        run: Folder for the config, metrics, picture sheets, checkpoints and, at the end, the weights.
        resume: Go on with the run that is in the folder.
        device: Where to train: auto, cpu, cuda, cuda:1.
        quiet: Show no progress.
        config: The recipe.
    """
    return command


def _train(config: Config, data: Path, run: Path, *, resume: bool, device: str, quiet: bool) -> None:
    from unlit.data.dataset import open_dataset
    from unlit.train.loop import fit

    settings = config.data
    if str(data).startswith("worlds:"):
        from unlit.worlds.command import chosen_device
        from unlit.worlds.dataset import open_worlds

        dataset = open_worlds(str(data), chosen_device(device))
    else:
        dataset = open_dataset(
            data, with_truth=config.supervised.any, encoding=settings.encoding, one_light=settings.one_light
        )
    result = fit(config, dataset, run, resume=resume, device=device, quiet=quiet)
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


def evaluate(
    benchmark: Annotated[Literal["iiw", "saw", "mit", "worlds", "sequences"], tyro.conf.Positional],
    data: Path,
    out: Path,
    method: tyro.conf.UseAppendAction[list[str]],
    split: str | None = None,
    encoding: Literal["srgb", "linear", "gamma"] | None = None,
    input_encoding: Literal["srgb", "linear"] | None = None,
    resize: bool = False,
    largest_ratio: float = 8.0,
    device: str = "auto",
    processes: int = 1,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Score methods by a benchmark and write a report: docs/evaluation.md.

    Args:
        benchmark: IIW, SAW and MIT as distributed; worlds: a dataset with truth; sequences: fixed views without truth.
        data: The folder that the set lies in.
        out: Folder for the report; made if missing.
        method: A baseline, `default`, weights, or a folder of results; NAME=METHOD names it. May be given again.
        split: Which images; without it the usual ones.
        encoding: Of results in folders, where their files do not say (gamma: a power of 1/2.2).
        input_encoding: How the frames of sequences are encoded, where their files do not say.
        resize: Take results of another size, resized bilinearly (iiw and saw); they are counted in the report.
        largest_ratio: Where SAW's thresholds end; later work has 64.
        device: For networks: auto, cpu, cuda.
        processes: Images that are worked on at the same time.
        force: Write into a folder that has something in it already.
        quiet: Show no progress.
    """
    _check_out(out, data, force=force)
    from rich.console import Console
    from rich.progress import Progress, TimeRemainingColumn

    from unlit.evaluate.methods import named_methods
    from unlit.evaluate.opening import open_benchmark
    from unlit.evaluate.report import Heading, commit, write_report
    from unlit.evaluate.running import RunSettings, run_benchmark
    from unlit.evaluate.sets import made_here

    chosen = open_benchmark(benchmark, data, split, largest_ratio=largest_ratio, input_encoding=input_encoding)
    settings = RunSettings(encoding, device, resize)
    console = Console(stderr=True, quiet=quiet)
    with Progress(*Progress.get_default_columns()[:3], TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(benchmark)
        results = run_benchmark(
            chosen, named_methods(method), settings, processes=processes,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip
    stated = {"--split": split, "--encoding": encoding, "--input-encoding": input_encoding}
    command = _evaluate_command(benchmark, data, out, method, stated, resize=resize, ratio=largest_ratio)
    heading = Heading(command, commit(), made_here(data))
    write_report(out, chosen, results, heading)
    for name, result in results.items():
        said = f"{name}: {len(result.outcomes)} scored, {len(result.skipped)} skipped"
        console.print(said, soft_wrap=True, markup=False, highlight=False)
    console.print(f"report: {out / 'report.md'}", soft_wrap=True, markup=False, highlight=False)
    empty = [name for name, result in results.items() if not result.outcomes]
    if empty:
        reason = next(iter(results[empty[0]].skipped.values()))
        print(f"unlit: {empty[0]} was scored on nothing; the first reason: {reason}", file=sys.stderr)
        sys.exit(1)


def _evaluate_command(
    benchmark: str,
    data: Path,
    out: Path,
    method: list[str],
    stated: dict[str, str | None],
    *,
    resize: bool,
    ratio: float,
) -> str:
    """Return the command that gives the same scores again; what does not change them is left out."""
    words = ["unlit", "evaluate", benchmark, "--data", str(data)]
    words += [word for one in method for word in ("--method", one)]
    words += [word for name, value in stated.items() if value for word in (name, value)]
    words += ["--resize"] if resize else []
    words += ["--largest-ratio", str(ratio)] if ratio != 8 else []
    return shlex.join([*words, "--out", str(out)])


def benchmark_set(
    kind: Annotated[Literal["iiw", "saw"], tyro.conf.Positional], data: Path, out: Path, seed: int = 0
) -> None:
    """Make a small set in the layout of IIW or SAW from scenes whose answer is known.

    It is for trying the evaluation without the originals; its figures compare with nothing published.

    Args:
        kind: The layout.
        data: A prepared dataset with true reflectance and shading, such as `unlit worlds` writes.
        out: A new folder for the set.
        seed: Of the points that are compared and of the confusion.
    """
    from unlit.evaluate.sets import write_set

    for name, reason in write_set(kind, data, out, seed=seed).items():
        print(f"unlit: left out {name}: {reason}", file=sys.stderr)


def _check_out(out: Path, folder: Path, *, force: bool) -> None:
    """Refuse, before any work, a place where results cannot or should not go."""
    if out.resolve() == folder.resolve():
        raise ValueError(f"{out} holds the frames, and results there would be taken for frames; choose another folder")
    existing = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ValueError(f"{existing} is not a folder; choose another place for the results")
    if not os.access(existing, os.W_OK):
        raise ValueError(f"{existing} may not be written to; choose another place for the results")
    if existing == out and any(out.iterdir()) and not force:
        raise ValueError(f"{out} is not empty; choose another folder, or say --force")


def prepare(
    sources: Annotated[tuple[Path, ...], tyro.conf.Positional],
    out: Path,
    without: tuple[str, ...] = (),
    validation: float = 0.0,
    test: float = 0.0,
    force: bool = False,
    workers: int | None = None,
    quiet: bool = False,
    settings: Annotated[PrepareSettings, tyro.conf.arg(name="")] = PrepareSettings(),
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


def _listed_only(command: Callable[..., None]) -> Callable[[], None]:
    """Return something without options by a command's name: it has its own way of reading them."""

    def listed() -> None:
        raise AssertionError("never called")

    listed.__name__, listed.__doc__ = command.__name__, command.__doc__
    return listed


def main(arguments: Arguments[str] | None = None) -> None:
    """Run the command line."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if list(arguments) == ["--version"]:
        print(f"unlit {__version__}")
        return
    app = tyro.extras.SubcommandApp()
    app.command(decompose)
    app.command(sequence)
    app.command(compare)
    app.command(export)
    app.command(prepare)
    app.command(pack)
    app.command(worlds)
    app.command(_listed_only(train))
    app.command(evaluate)
    app.command(benchmark_set)
    try:
        if arguments[:1] == ["train"]:
            train(arguments[1:])
            return
        app.cli(prog="unlit", description="unlit sees surfaces without their light.", args=arguments)
    except ValueError as error:  # what the user gave is wrong; the message says what, and the remedy
        print(f"unlit: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("unlit: interrupted", file=sys.stderr)
        sys.exit(1)
    except (OSError, MemoryError, RuntimeError) as error:  # torch's lack of memory is a RuntimeError
        reason = (str(error) or type(error).__name__).splitlines()[0]
        print(f"unlit: failed: {reason}", file=sys.stderr)
        sys.exit(1)
