"""The command for one sequence, without a network.

Nothing heavy is imported here, only inside the commands, so that `--help` is instant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from unlit.commands.place import check_place


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
    check_place(out, folder, force=force)
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, TimeRemainingColumn

    from unlit.data.sequence import load_sequence
    from unlit.image_io import FailedImageError, ImageError
    from unlit.image_io.encoding import by_option
    from unlit.sequence.decompose import decompose_sequence

    console = Console(stderr=True, quiet=quiet)
    with Progress(*Progress.get_default_columns()[:3], TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(escape(folder.name), total=steps)
        try:
            frames = load_sequence(folder, encoding=encoding, pattern=pattern)
        except FailedImageError:
            raise
        except ImageError as error:
            raise ValueError(by_option(str(error), "--encoding")) from error
        result = decompose_sequence(
            frames, steps=steps, size=size, progress=lambda done, _: bar.update(task, completed=done)
        )
    result.save(out, format=format)
    place = out / f"{result.name}.reflectance.{format}"
    if frames.dropped:
        console.print(f"left out, wholly masked: {', '.join(frames.dropped)}", soft_wrap=True, markup=False)
    console.print(f"{len(result.shadings)} frames; reflectance: {place}", soft_wrap=True, markup=False, highlight=False)
