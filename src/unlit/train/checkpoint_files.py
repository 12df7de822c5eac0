"""The files of one checkpoint, a folder: tensors as safetensors, all else as JSON, digests of everything.

`checkpoint.json` holds version, step, state, the optimizer's groups, size and SHA-256 of each file beside it, and a
SHA-256 of itself. It is written last, and nothing is a checkpoint without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unlit.train.durable import sync_folder, write_durably
from unlit.train.weights import CheckpointError, packed, read_bytes, unpacked

VERSION = 1
"""Of the files' layout. A reader refuses what is newer than itself."""

MANIFEST = "checkpoint.json"
_MODEL, _OPTIMIZER, _EMA = "model.safetensors", "optimizer.safetensors", "ema.safetensors"
_KEYS = {"version", "step", "state", "param_groups", "files"}
_REMEDY = "delete this checkpoint's folder and resume: training goes on from the one before it"


class NewerCheckpointError(CheckpointError):
    """A checkpoint is whole, for all that this version can tell, but a newer one wrote it."""


@dataclass(frozen=True)
class Checkpoint:
    """All that training needs to go on as if it had never stopped."""

    step: int
    """Steps that were taken."""
    model: dict[str, Tensor]
    """The network's `state_dict()`."""
    optimizer: dict[str, Any]
    """Adam's `state_dict()`: tensors for each parameter's index, and groups of plain numbers."""
    ema: dict[str, Tensor] | None
    """The running mean of the weights, where there is one."""
    state: dict[str, Any]
    """Counters, best score, random state: strings, numbers, booleans, None, lists, and dicts with string keys."""


def write_files(folder: Path, checkpoint: Checkpoint, called: Path) -> str:
    """Write the files into the new folder `folder`, on the disk when this returns; return the manifest's digest.

    Errors name the files by `called`, the folder's name to be.
    """
    manifest: dict[str, Any] = {"version": VERSION, "step": checkpoint.step, "state": checkpoint.state}
    manifest |= {"param_groups": _plain_groups(checkpoint.optimizer), "files": {}}
    _check_plain(called / MANIFEST, manifest, "")
    name = ""
    try:
        folder.mkdir()
        for name, tensors in _tensors(called, checkpoint).items():
            content = packed(called / name, tensors)
            manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            write_durably(folder / name, content)
        name = MANIFEST
        digest = _digest(manifest)
        write_durably(folder / name, json.dumps(manifest | {"sha256": digest}, indent=1).encode())
        sync_folder(folder)
    except OSError as error:
        reason = f"{error.strerror}; this checkpoint was not written, those before it are whole"
        raise OSError(error.errno, reason, str(called / name)) from error
    return digest


def read_manifest(path: Path) -> dict[str, Any]:
    """Return what `checkpoint.json` says, having checked it against itself, and the files' sizes against it."""
    file = path / MANIFEST
    content = read_bytes(file, _REMEDY)
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(file, "is damaged (not JSON)", _REMEDY) from error
    version = manifest.get("version") if isinstance(manifest, dict) else None
    if isinstance(version, int) and version > VERSION:
        wrong = f"is of version {version}, and this unlit reads up to {VERSION}"
        raise NewerCheckpointError(file, wrong, "update unlit")
    digest = manifest.pop("sha256", None) if isinstance(manifest, dict) else None
    if digest is None or set(manifest) != _KEYS or digest != _digest(manifest):
        raise CheckpointError(file, "is damaged (its content does not fit its digest)", _REMEDY)
    for name in _names(path, manifest):
        size = (path / name).stat().st_size if (path / name).is_file() else None
        if size != (expected := manifest["files"][name]["bytes"]):
            wrong = "does not exist" if size is None else f"is damaged ({size} bytes, not {expected})"
            raise CheckpointError(path / name, wrong, _REMEDY)
    return manifest  # type: ignore[no-any-return]  # json knows no types


def load_checkpoint(path: Path, device: str | torch.device = "cpu") -> Checkpoint:
    """Return the checkpoint in the folder `path`, every byte of it checked against its digest.

    Tensors go to `device`, but for the optimizer's, which its own `load_state_dict` puts where it wants them.
    """
    manifest = read_manifest(path)
    tensors = {name: unpacked(path / name, content, _REMEDY) for name, content in _contents(path, manifest)}
    model, ema = (_moved(tensors[name], device) if name in tensors else None for name in (_MODEL, _EMA))
    optimizer = {
        "state": _by_parameter(path / _OPTIMIZER, tensors[_OPTIMIZER]),
        "param_groups": [_group(group) for group in manifest["param_groups"]],
    }
    return Checkpoint(manifest["step"], model or {}, optimizer, ema, manifest["state"])


def is_intact(path: Path, digest: str) -> bool:
    """Whether the checkpoint in `path` has this digest and every byte of it is as it was written."""
    try:
        manifest = read_manifest(path)
        for _ in _contents(path, manifest):
            pass
    except CheckpointError:
        return False
    return _digest(manifest) == digest


def _tensors(called: Path, checkpoint: Checkpoint) -> dict[str, Mapping[str, Tensor]]:
    """Return what goes into each file of tensors."""
    state = checkpoint.optimizer["state"]
    flat = {f"{index}.{name}": value for index, values in state.items() for name, value in values.items()}
    if not all(isinstance(index, int) for index in state):
        raise CheckpointError(called / _OPTIMIZER, "cannot hold such a state", "give an optimizer's state_dict()")
    files: dict[str, Mapping[str, Tensor]] = {_MODEL: checkpoint.model, _OPTIMIZER: flat}
    return files if checkpoint.ema is None else files | {_EMA: checkpoint.ema}


def _by_parameter(path: Path, flat: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in flat.items():
        index, _, name = key.partition(".")
        if not (index.isdecimal() and name):
            raise CheckpointError(path, f"holds {key!r}, which is not of an optimizer", _REMEDY)
        state.setdefault(int(index), {})[name] = tensor
    return state


def _plain_groups(optimizer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the groups as JSON has them: it has no tuples, and `betas` is the one that Adam has."""
    return [{k: list(v) if k == "betas" else v for k, v in group.items()} for group in optimizer["param_groups"]]


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if key == "betas" else value for key, value in group.items()}


def _names(path: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Return the files of tensors; only these names are ever looked for, whatever the manifest says."""
    names = [name for name in (_MODEL, _OPTIMIZER, _EMA) if name in manifest["files"]]
    if names[:2] != [_MODEL, _OPTIMIZER]:
        raise CheckpointError(path / MANIFEST, "lists no model or no optimizer", _REMEDY)
    return names


def _contents(path: Path, manifest: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """Return each file's content, read once: what was checked is what is used."""
    contents = [(name, read_bytes(path / name, _REMEDY)) for name in _names(path, manifest)]
    for name, content in contents:
        if hashlib.sha256(content).hexdigest() != manifest["files"][name]["sha256"]:
            raise CheckpointError(path / name, "is damaged (its content does not fit its digest)", _REMEDY)
    return contents


def _moved(tensors: Mapping[str, Tensor], device: str | torch.device) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def _digest(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the manifest's content, however its text was laid out."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _check_plain(path: Path, value: Any, place: str) -> None:
    """Refuse what JSON would change without a word: tuples to lists, other keys to strings."""
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        for key, item in value.items():
            _check_plain(path, item, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for k, item in enumerate(value):
            _check_plain(path, item, f"{place}[{k}]")
    elif not (value is None or isinstance(value, bool | int | float | str)):
        wrong = f"cannot hold {place}, a {type(value).__name__}, as it is"
        raise CheckpointError(path, wrong, "give numbers, strings, lists, and dicts with string keys")
