"""Named tensors as safetensors: bit for bit, no pickle. A file of weights is for use outside training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from unlit.train.durable import replace_durably

if TYPE_CHECKING:
    import os


class CheckpointError(ValueError):
    """A checkpoint or a file of weights is of no use: one line that names the file, what is wrong, and the remedy."""

    def __init__(self, path: Path, wrong: str, remedy: str) -> None:
        super().__init__(f"{path}: {wrong}; {remedy}")


def save_weights(path: Path, model_state: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write one safetensors file, whole or not at all. The same content gives the same bytes."""
    _check_metadata(path, metadata)
    _check_tensors(path, model_state)
    content = _saved(path, model_state)
    # safetensors writes metadata in an order that changes from one process to the next: it is put in here, sorted.
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps({"__metadata__": dict(sorted(metadata.items())), **_header(content)}).encode()
    header += b" " * (-len(header) % 8)  # tensors begin at a multiple of 8, by the format
    replace_durably(path, len(header).to_bytes(8, "little") + header + content[start:])


def load_weights(
    path: str | os.PathLike[str], device: str | torch.device = "cpu"
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors, sorted by name, and the metadata of a safetensors file."""
    path = Path(path)
    content = read_bytes(path, remedy := "check the name, or get the file anew")
    tensors = _loaded(path, content, remedy)
    metadata = _header(content).get("__metadata__", {})
    return {name: tensors[name].to(device) for name in sorted(tensors)}, metadata


def packed(path: Path, tensors: Mapping[str, Tensor]) -> bytes:
    """Return `tensors` as the content of the file `path`, with their order and the layout of each in memory.

    Fused optimizers want their state to lie in memory as the parameters do, channels last for instance.
    """
    _check_tensors(path, tensors)
    layout = {"order": list(tensors), "strides": {name: _strides(tensor) for name, tensor in tensors.items()}}
    # A single entry: the order of several would change from one process to the next, and the bytes with it.
    return _saved(path, tensors, {"unlit": json.dumps(layout)})


def unpacked(path: Path, content: bytes, remedy: str) -> dict[str, Tensor]:
    """Return what `packed` was given, on the CPU."""
    tensors = _loaded(path, content, remedy)
    try:
        layout = json.loads(_header(content)["__metadata__"]["unlit"])
        return {name: _laid_out(tensors.pop(name), layout["strides"][name]) for name in layout["order"]}
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(path, "does not hold the tensors of a checkpoint", remedy) from error


def check_same_tensors(path: Path, found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuse the tensors of another network: names, shapes and types must be those `expected`."""
    for name in [*expected, *(name for name in found if name not in expected)]:
        ours, theirs = (
            f"{t.dtype} {tuple(t.shape)}".removeprefix("torch.") if t is not None else "nothing"
            for t in (expected.get(name), found.get(name))
        )
        if ours != theirs:
            raise CheckpointError(
                path,
                f"is of another network ({name} is {theirs}, not {ours})",
                "use the config and the version that it was made with",
            )


def fitted(path: Path, found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights in the types that a network has, having refused those of another network.

    Weights may be kept in fewer digits than they are used in.
    """
    cast = {name: t.to(expected[name].dtype) if name in expected else t for name, t in found.items()}
    check_same_tensors(path, cast, expected)
    return cast


def file_of(path: Path) -> Path:
    """Return the file of weights that `path` names: itself, or that in the folder of a training run."""
    return path / "weights.safetensors" if path.is_dir() else path


def read_bytes(path: Path, remedy: str) -> bytes:
    """Return what the file holds; CheckpointError where it is missing."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        wrong = "is a folder" if isinstance(error, IsADirectoryError) else "does not exist"
        raise CheckpointError(path, wrong, remedy) from error


def _saved(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    try:
        return save(_savable(tensors), metadata)
    except (KeyError, SafetensorError) as error:  # a type of number that the format does not have
        raise CheckpointError(path, f"cannot hold such tensors ({error})", "give real or integer tensors") from error


def _savable(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors as safetensors wants them: on the CPU, contiguous, none sharing its memory with another."""
    result: dict[str, Tensor] = {}
    seen = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        memory = plain.untyped_storage().data_ptr()
        # Tied weights are written twice, and come back as equal tensors, which is what load_state_dict takes.
        result[name] = plain.clone() if memory in seen else plain
        seen.add(memory)
    return result


def _strides(tensor: Tensor) -> tuple[int, ...]:
    """Return the strides of a dense tensor, or those of a dense copy of a sparse view."""
    return torch.empty_like(tensor, device="meta").stride()


def _laid_out(tensor: Tensor, strides: list[int]) -> Tensor:
    if tensor.stride() == tuple(strides):
        return tensor
    return torch.empty_strided(tuple(tensor.shape), strides, dtype=tensor.dtype).copy_(tensor)


def _loaded(path: Path, content: bytes, remedy: str) -> dict[str, Tensor]:
    try:
        return load(content)
    except SafetensorError as error:
        raise CheckpointError(path, f"is damaged, or not a safetensors file ({error})", remedy) from error


def _header(content: bytes) -> dict[str, Any]:
    """Return the header of a safetensors file: eight bytes give the length of the JSON that follows."""
    header: dict[str, Any] = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return header


def _check_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise CheckpointError(path, f"cannot hold {name}, a {type(tensor).__name__}", "give tensors only")


def _check_metadata(path: Path, metadata: Mapping[str, str]) -> None:
    for key, value in metadata.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise CheckpointError(path, f"cannot hold the metadata {key!r}: {value!r}", "give strings")
