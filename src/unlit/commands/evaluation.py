"""Commands that measure: evaluate, benchmark-set.

Nothing heavy is imported here, only inside the commands, so that `--help` is instant.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from unlit.commands.place import check_place


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
        encoding: Of all results in folders; arrays need it, of pictures it is believed first (gamma: a power of 1/2.2).
        input_encoding: How the frames of sequences are encoded, where their files do not say.
        resize: Take results of another size, resized bilinearly (iiw and saw); they are counted in the report.
        largest_ratio: Where SAW's thresholds end; later work has 64.
        device: For networks: auto, cpu, cuda.
        processes: Images that are worked on at the same time.
        force: Write into a folder that has something in it already.
        quiet: Show no progress.
    """
    check_place(out, data, force=force)
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
        if result.outcomes and result.skipped:  # said even to those who want no progress: scores are of fewer images
            first = next(iter(result.skipped.values()))
            print(f"unlit: {name}: {len(result.skipped)} skipped, named in the report; first: {first}", file=sys.stderr)
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
        print(f"unlit: left out {name}: {reason.removeprefix(f'{name}: ')}", file=sys.stderr)
    print(f"a set in the layout of {kind.upper()}: {out}", file=sys.stderr)
