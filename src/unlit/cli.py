"""The command line: one typed function for each command, which is where its options come from.

Nothing heavy is imported here, only inside the commands, so that `--help` is instant. Messages go to stderr, results
to files. Exit codes: 0 done, 2 wrong usage or input, 1 failure.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence as Arguments
from pathlib import Path
from typing import Annotated, Literal

import tyro

from unlit import __version__


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
        format: PNG and TIFF are sRGB-encoded with 16 bits, EXR is linear.
        encoding: How the frames are encoded, where their files do not say.
        pattern: Which of the folder's pictures are frames, e.g. "light*".
        steps: Steps of the minimisation; fewer are quicker and coarser.
        size: The longer side, in pixels, at which the energy is minimised.
        force: Write into a folder that has something in it already.
        quiet: Show no progress.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())) and not force:
        raise ValueError(f"{out} exists and is not empty; choose another folder, or say --force")
    from rich.console import Console
    from rich.progress import Progress, TimeRemainingColumn

    from unlit.sequence.decompose import decompose_sequence

    console = Console(stderr=True, quiet=quiet)
    with Progress(*Progress.get_default_columns()[:3], TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(f"{folder.name}", total=steps)
        result = decompose_sequence(
            folder,
            steps=steps,
            size=size,
            encoding=encoding,
            pattern=pattern,
            progress=lambda done, _: bar.update(task, completed=done),
        )
    result.save(out, format=format)
    console.print(
        f"{len(result.shadings)} frames; reflectance: {out / f'{result.name}.reflectance.{format}'}", soft_wrap=True
    )


def main(arguments: Arguments[str] | None = None) -> None:
    """Run the command line."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if list(arguments) == ["--version"]:
        print(f"unlit {__version__}")
        return
    app = tyro.extras.SubcommandApp()
    app.command(sequence)
    try:
        app.cli(prog="unlit", description="unlit sees surfaces without their light.", args=arguments)
    except ValueError as error:  # what the user gave is wrong; the message says what, and the remedy
        print(f"unlit: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("unlit: interrupted", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        print(f"unlit: {error}", file=sys.stderr)
        sys.exit(1)
