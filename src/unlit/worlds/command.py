"""The command that renders worlds: options checked, progress shown."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from unlit.data.dataset import Split
from unlit.worlds.dataset import parsed_size
from unlit.worlds.writing import write_worlds


def chosen_device(name: str) -> str:
    """Return the device that a name means; auto is a GPU where there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device {name!r} is none; give auto, cpu, cuda or cuda:1") from None
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name} cannot render; give auto, cpu, cuda or cuda:1")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {name} is not here; give cpu, or auto")
    return name


def render_worlds(
    out: Path, scenes: int, seed: int, size: str, samples: int, split: Split, device: str, *, quiet: bool
) -> None:
    """Render scenes into the dataset `out`; ValueError where an option is wrong."""
    from rich.console import Console
    from rich.progress import Progress, TimeRemainingColumn

    console = Console(stderr=True, quiet=quiet)
    bar = Progress(*Progress.get_default_columns()[:3], TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task("worlds", total=scenes)

    def show(done: int, text: str) -> None:
        bar.start()  # not before: until the first scene, errors have the terminal
        bar.update(task, completed=done, description=text)

    try:
        left_out = write_worlds(
            out,
            scenes=scenes,
            seed=seed,
            size=parsed_size(size),
            samples=samples,
            split=split,
            device=chosen_device(device),
            progress=show,
        )
    finally:
        bar.stop()
    for reason in left_out:
        print(f"unlit: left out {reason}", file=sys.stderr)
    if len(left_out) == scenes:
        print(f"unlit: nothing was rendered that can be seen; take another seed than {seed}", file=sys.stderr)
        sys.exit(1)
    said = f"{scenes - len(left_out)} scenes: {out}; look at {out / 'sheet.jpg'}"
    console.print(said, soft_wrap=True, markup=False, highlight=False)
