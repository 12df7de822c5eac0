"""Checkpoints of a run: saved so that the last one is always whole, found again, the best one kept.

A folder holds `step-00001200/` and its like, and `best.json`. One run writes to it at a time. A checkpoint is written
under a hidden name and renamed when all of it is on the disk, so whoever is killed at whatever moment leaves the ones
before it as they were; what it left under hidden names goes with the next save.

A second checkpoint of one step is renamed to `step-00001200.new`, then the first is removed, then the second takes its
name: at every moment at least one of them is there and whole. Readers prefer the `.new` one.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

from unlit.train.checkpoint_files import (
    Checkpoint,
    NewerCheckpointError,
    is_intact,
    load_checkpoint,
    read_manifest,
    write_files,
)
from unlit.train.durable import clear_leftovers, discard_folder, replace_durably, sync_folder, temporary_name
from unlit.train.weights import CheckpointError, check_same_tensors, load_weights, read_bytes, save_weights

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "best_checkpoint",
    "check_same_tensors",
    "latest_checkpoint",
    "load_checkpoint",
    "load_weights",
    "mark_best",
    "save_checkpoint",
    "save_weights",
]

_NAME = re.compile(r"step-(\d{8,})(\.new)?")
_BEST = "best.json"


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, keep: int) -> Path:
    """Write `folder/step-<step>`, then remove older ones until `keep` are left; return its path.

    The one that `best.json` names is kept besides. A checkpoint of the same step that holds the same, byte for byte,
    stays; one that does not is replaced. OSError (a full disk, say) names the file and leaves all that was there.
    """
    if keep < 1 or checkpoint.step < 0:
        raise ValueError(f"keep must be at least 1 and step at least 0, not {keep} and {checkpoint.step}")
    path = folder / f"step-{checkpoint.step:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    _settle(folder)
    temporary = temporary_name(path)
    try:
        digest = write_files(temporary, checkpoint, called=path)
        if not is_intact(path, digest):
            temporary.rename(path.with_name(f"{path.name}.new") if path.exists() else path)
            sync_folder(folder)  # before any other is removed: the disk must not do the second thing first
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _settle(folder)
    _remove_older(folder, checkpoint.step, keep)
    return path


def latest_checkpoint(folder: Path, warn: Callable[[str], object] = warnings.warn) -> Path | None:
    """Return the newest checkpoint whose manifest and file sizes are right, or None.

    `warn` is told, in one line each, of newer ones that are damaged. One that a newer unlit wrote is not damaged:
    it raises CheckpointError rather than let training go on from before it.
    """
    for path in _newest_first(folder):
        try:
            read_manifest(path)
        except NewerCheckpointError:
            raise
        except CheckpointError as error:
            warn(f"left out: {error}")
        else:
            return path
    return None


def mark_best(folder: Path, step: int, score: float | None = None) -> None:
    """Let `best.json` name the checkpoint of `step`, which is there already; it is not removed while it is the best."""
    if _of_step(folder, step) is None:
        raise CheckpointError(folder, f"has no checkpoint of step {step}", "save it before it is marked as the best")
    finite = score is not None and math.isfinite(score)
    replace_durably(folder / _BEST, json.dumps({"step": step, "score": score if finite else None}).encode())


def best_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint that `best.json` names, or None where nothing was marked or it is gone."""
    step = _best_step(folder)
    return None if step is None else _of_step(folder, step)


def _best_step(folder: Path) -> int | None:
    path = folder / _BEST
    if not path.exists():
        return None
    remedy = "delete it: the next best score writes it anew"
    try:
        best = json.loads(read_bytes(path, remedy))
    except ValueError as error:
        raise CheckpointError(path, "is damaged (not JSON)", remedy) from error
    if not (isinstance(best, dict) and type(best.get("step")) is int):
        raise CheckpointError(path, "is damaged (it names no step)", remedy)
    return int(best["step"])


def _newest_first(folder: Path) -> list[Path]:
    found = [path for path in folder.glob("step-*") if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: (_step(path), path.suffix == ".new"), reverse=True)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-").removesuffix(".new"))


def _of_step(folder: Path, step: int) -> Path | None:
    return next((path for path in _newest_first(folder) if _step(path) == step), None)


def _settle(folder: Path) -> None:
    """Finish what a killed process left: hidden leftovers, and replacements that have not taken their names."""
    clear_leftovers(folder)
    for new in (path for path in _newest_first(folder) if path.suffix == ".new"):
        old = new.with_suffix("")
        if old.exists():
            discard_folder(old)
        new.rename(old)
        sync_folder(folder)


def _remove_older(folder: Path, step: int, keep: int) -> None:
    """Keep the newest `keep` that are whole, up to `step`, and the best; later ones are not this run's to judge."""
    try:
        best = best_checkpoint(folder)
    except CheckpointError:
        return  # nobody knows which is the best: remove none
    kept = 0
    for path in _newest_first(folder):
        if _step(path) > step:
            continue
        if kept < keep and _is_whole(path):
            kept += 1
        elif path != best:
            discard_folder(path)


def _is_whole(path: Path) -> bool:
    try:
        read_manifest(path)
    except NewerCheckpointError:
        return True
    except CheckpointError:
        return False
    return True
