"""The folder that worlds are written to: what is there, who may write, and the list of it.

`dataset.json` is there before the first scene is, and says how scenes are rendered: whatever ends a run, another can
only go on as it began.
"""

from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path
from typing import Any, get_args

from unlit.data.dataset import VERSION, Split

LIST = "dataset.json"
Stated = dict[str, int]
"""Height, width and samples of the scenes."""


def check_folder(out: Path) -> None:
    """Refuse, before anything is made, a place that holds something else."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is not a folder; choose another place for the worlds")
    if out.is_dir() and not (out / LIST).is_file() and any(not _is_own(p.name) for p in out.iterdir()):
        raise ValueError(f"{out} holds other things; choose an empty folder for the worlds")


def _is_own(name: str) -> bool:
    return name.startswith(("world-", ".world-", "..world-", f".{LIST}."))


def known_worlds(out: Path, stated: Stated) -> dict[str, Split]:
    """Return the scenes that the list names, and their splits; refuse to mix what was rendered otherwise."""
    file = out / LIST
    if not file.is_file():
        if any(out.glob("world-*")):
            raise ValueError(f"{out} holds worlds, and no {LIST} says how they were rendered; choose another folder")
        return {}
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        known = {str(entry["name"]): entry["split"] for entry in content["sequences"]}
        said = {"edition": 1, **content["worlds"]}  # lists of the first edition do not name it
        before = {name: said[name] for name in stated}
        if not set(known.values()) <= set(get_args(Split)):
            raise ValueError("a split that is none")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file} is damaged or of something else ({error}); choose another folder") from error
    if before != stated:
        was = f"{before['width']}x{before['height']} with {before['samples']} samples"
        was += f", edition {before['edition']} of the scenes" if before["edition"] != stated["edition"] else ""
        raise ValueError(f"{out} holds worlds of {was}; go on with the same, or choose another folder")
    return {name: split for name, split in known.items() if (out / name / "sequence.json").is_file()}


def write_list(out: Path, known: dict[str, Split], stated: Stated) -> None:
    """Write dataset.json, whole or not at all."""
    entries = [{"name": name, "folder": name, "split": known[name]} for name in sorted(known)]
    content = {"version": VERSION, "worlds": stated, "sequences": entries}
    temporary = out / f".{LIST}.{secrets.token_hex(4)}"
    try:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        temporary.replace(out / LIST)
    finally:
        temporary.unlink(missing_ok=True)


def clear_leftovers(out: Path) -> None:
    """Remove what a run that was killed left unfinished. Only for who holds the folder."""
    for pattern in (".world-*", "..world-*"):  # a scene, and the frames of a scene
        for unfinished in out.glob(pattern):
            shutil.rmtree(unfinished, ignore_errors=True)
    for unlisted in out.glob(f".{LIST}.*"):
        unlisted.unlink(missing_ok=True)
