"""Commands that measure: evaluate, benchmark-set.

Every benchmark is a command of its own, so that its help has its own options. Nothing heavy is imported here, only
inside the commands, so that `--help` is instant.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from collections.abc import Sequence as Arguments
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from unlit.commands.place import check_place

if TYPE_CHECKING:
    from rich.console import Console

    from unlit.evaluate.opening import Name
    from unlit.evaluate.running import MethodResult


@dataclass(frozen=True)
class Options:
    """What all benchmarks have in common."""

    data: Path
    """The folder that the set lies in."""
    out: Path
    """Folder for the report; made if missing."""
    method: tyro.conf.UseAppendAction[list[str]]
    """A baseline, `default`, weights, or a folder of results; NAME=METHOD names it. May be given again."""
    encoding: Literal["srgb", "linear", "gamma"] | None = None
    """Of all results in folders; arrays need it, of pictures it is believed first (gamma: a power of 1/2.2)."""
    device: str = "auto"
    """For networks: auto, cpu, cuda."""
    processes: int = 1
    """Images that are worked on at the same time."""
    resume: bool = False
    """Go on with the run that was interrupted in the folder for the report."""
    force: bool = False
    """Write into a folder that has something in it already."""
    quiet: bool = False
    """Show no progress."""


_Stated = Annotated[Options, tyro.conf.arg(name="")]


def evaluate(arguments: Arguments[str]) -> None:
    """Score methods by a benchmark: `unlit evaluate BENCHMARK --data SET --method METHOD --out REPORT`.

    The benchmarks, their scores and what a report holds: docs/evaluation.md.
    """
    tyro.extras.subcommand_cli_from_dict(
        {"iiw": _iiw, "saw": _saw, "mit": _mit, "worlds": _worlds, "sequences": _sequences},
        prog="unlit evaluate",
        description="Score methods by a benchmark and write a report: docs/evaluation.md.",
        args=list(arguments),
    )


def _iiw(options: _Stated, split: Literal["test", "all"] = "test", resize: bool = False) -> None:
    """Score reflectance by people's judgements, WHDR: Intrinsic Images in the Wild as distributed.

    Args:
        options: What all benchmarks have in common.
        split: Every fifth image, or all.
        resize: Take results of another size, resized bilinearly; they are counted in the report.
    """
    _evaluate("iiw", options, split=split, resize=resize)


def _saw(
    options: _Stated,
    split: Literal["test", "val", "train"] = "test",
    resize: bool = False,
    largest_ratio: float = 8.0,
) -> None:
    """Score shading by pixels that people call smooth, AP: Shading Annotations in the Wild as distributed.

    Args:
        options: What all benchmarks have in common.
        split: Which list of photographs.
        resize: Take results of another size, resized bilinearly; they are counted in the report.
        largest_ratio: Where the thresholds end; later work has 64.
    """
    _evaluate("saw", options, split=split, resize=resize, largest_ratio=largest_ratio)


def _mit(options: _Stated, split: Literal["all", "train", "test"] = "all") -> None:
    """Score both parts against the truth, MSE, LMSE and DSSIM: the MIT Intrinsic Images as distributed.

    Args:
        options: What all benchmarks have in common.
        split: All objects that are there, or the ten of a split of Barron & Malik.
    """
    _evaluate("mit", options, split=split)


def _worlds(options: _Stated, split: Literal["all", "train", "validation", "test"] = "all") -> None:
    """Score both parts against the truth, MSE, LMSE, DSSIM and WHDR: a dataset with truth, as `unlit worlds` makes.

    Args:
        options: What all benchmarks have in common.
        split: Which of the dataset's sequences.
    """
    _evaluate("worlds", options, split=split)


def _sequences(options: _Stated, input_encoding: Literal["srgb", "linear"] | None = None) -> None:
    """Score how steady reflectance is over time, consistency and contrast: fixed views without truth.

    Args:
        options: What all benchmarks have in common.
        input_encoding: How the frames are encoded, where their files do not say.
    """
    _evaluate("sequences", options, input_encoding=input_encoding)


def _evaluate(
    name: Name,
    options: Options,
    *,
    split: str | None = None,
    input_encoding: Literal["srgb", "linear"] | None = None,
    resize: bool = False,
    largest_ratio: float = 8.0,
) -> None:
    """Run a benchmark, write its report, and say what came of each method."""
    from rich.console import Console
    from rich.progress import Progress, TimeRemainingColumn

    from unlit.evaluate.methods import named_methods
    from unlit.evaluate.opening import open_benchmark
    from unlit.evaluate.report import Heading, commit, write_report
    from unlit.evaluate.running import RunSettings, run_benchmark
    from unlit.evaluate.sets import made_here
    from unlit.evaluate.unfinished import Unfinished, check_unfinished
    from unlit.holding import held

    check_unfinished(options.out, resume=options.resume, force=options.force)
    check_place(options.out, options.data, force=options.force or options.resume)
    chosen = open_benchmark(name, options.data, split, largest_ratio=largest_ratio, input_encoding=input_encoding)
    console = Console(stderr=True, quiet=options.quiet)
    methods, settings = named_methods(options.method), RunSettings(options.encoding, options.device, resize)
    with held(options.out, "the folder of a report", "evaluating"):
        unfinished = Unfinished(options.out, chosen, methods, settings, resume=options.resume)
        with Progress(
            *Progress.get_default_columns()[:3], TimeRemainingColumn(), console=console, transient=True
        ) as bar:
            task = bar.add_task(name)
            try:
                results = run_benchmark(
                    chosen, methods, settings, processes=options.processes, unfinished=unfinished,
                    progress=lambda done, total: bar.update(task, completed=done, total=total),
                )  # fmt: skip
            except KeyboardInterrupt as error:
                kept = f"{unfinished.kept} images are kept; go on with --resume" if unfinished.kept else ""
                raise KeyboardInterrupt(kept) from error
        stated = {"--split": split, "--encoding": options.encoding, "--input-encoding": input_encoding}
        stated["--largest-ratio"] = str(largest_ratio) if largest_ratio != 8 else None
        command = _command(name, options, stated, resize=resize)
        write_report(options.out, chosen, results, Heading(command, commit(), made_here(options.data)))
        unfinished.remove()
    _say(results, options.out, console)


def _say(results: Mapping[str, MethodResult], out: Path, console: Console) -> None:
    """Say how many images each method was scored on; one that was scored on none is a failure."""
    for name, result in results.items():
        said = f"{name}: {len(result.outcomes)} scored, {len(result.skipped)} skipped"
        console.print(said, soft_wrap=True, markup=False, highlight=False)
        if result.outcomes and result.skipped:  # said even to those who want no progress: scores are of fewer images
            first = next(iter(result.skipped.values()))
            print(f"unlit: {name}: {len(result.skipped)} skipped, named in the report; first: {first}", file=sys.stderr)
    console.print(f"report: {out / 'report.md'}", soft_wrap=True, markup=False, highlight=False)
    empty = [name for name, result in results.items() if not result.outcomes]
    if empty:
        reason = next(iter(results[empty[0]].skipped.values()))
        print(f"unlit: {empty[0]} was scored on nothing; the first reason: {reason}", file=sys.stderr)
        sys.exit(1)


def _command(name: str, options: Options, stated: Mapping[str, str | None], *, resize: bool) -> str:
    """Return the command that gives the same scores again; what does not change them is left out."""
    words = ["unlit", "evaluate", name, "--data", str(options.data)]
    words += [word for one in options.method for word in ("--method", one)]
    words += [word for option, value in stated.items() if value for word in (option, value)]
    words += ["--resize"] if resize else []
    return shlex.join([*words, "--out", str(options.out)])


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
        print(f"unlit: left out {name}: {reason.removeprefix(f'{name}: ')}", file=sys.stderr)
    print(f"a set in the layout of {kind.upper()}: {out}", file=sys.stderr)
