"""A trained network, read once: where it runs, in which numbers, and what it says of images.

Shapes: m images, h x w pixels. A forward pass changes nothing in the network, so that threads may share one.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from unlit.config import ModelSettings
from unlit.model.decomposition import Decomposition
from unlit.train.learner import network_of
from unlit.train.weights import CheckpointError, file_of, fitted, load_weights

if TYPE_CHECKING:
    import os

Precision = Literal["auto", "float32", "bfloat16"]

DEFAULT_WEIGHTS = Path(__file__).parents[1] / "weights" / "default.safetensors"
"""The model that comes with the package; its card lies beside it."""

_REMEDY = "give the weights that a training of this version has written"


class Network:
    """Weights on a device. `name` and `sha256` say which they are."""

    def __init__(
        self,
        weights: str | os.PathLike[str] | None = None,
        *,
        device: str = "auto",
        precision: Precision = "auto",
        compiled: bool = False,
    ) -> None:
        path = DEFAULT_WEIGHTS if weights is None else file_of(Path(weights))
        if weights is None and not path.exists():
            raise CheckpointError(path, "does not exist: this copy has no default model", "name a file of weights")
        self.name = "default" if weights is None else path.name
        self.device = chosen_device(device)
        self.precision = chosen_precision(precision, self.device)
        self.module = _loaded(path).to(self.device)
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # left out of torch's types
        self.sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        # Compiled at the first image of each size, which takes a minute or more: for very many images of few sizes. For
        # any size at once (`dynamic`) torch 2.13 fails at what is left of a side divided by 64. Beyond its limit, eight
        # sizes, it computes as if nothing were compiled.
        self._forward = torch.compile(self.module, dynamic=False) if compiled else self.module

    def decomposed(self, images_srgb: Tensor) -> Decomposition:
        """Return what the network says of encoded images (m, 3, h, w) in [0, 1], on their device, in float32."""
        placed = images_srgb.to(self.device, non_blocking=True)
        if self.device.type != "cpu":  # which is quicker at what comes before the first layer if colors lie apart
            placed = placed.contiguous(memory_format=torch.channels_last)
        few_digits = torch.autocast(self.device.type, torch.bfloat16)
        with torch.inference_mode(), few_digits if self.precision == "bfloat16" else nullcontext():
            said: Decomposition = self._forward(placed)
            return said.at_least_float32()


def chosen_device(name: str) -> torch.device:
    """Return the device called `name`; "auto" is a CUDA device where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built for the device
        raise ValueError(f"there is no device {name!r} here; use auto or cpu") from error
    return device


def chosen_precision(precision: Precision, device: torch.device) -> Precision:
    """Return "bfloat16" or "float32": the quicker one for "auto".

    Only processors that multiply bfloat16 themselves gain by it (docs/trials-predict.md); the others would convert
    every number to and fro. Logs, their sums and all that follows the network are float32 either way.
    """
    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"
    return "bfloat16" if device.type == "cpu" and _multiplies_bfloat16() else "float32"


def _multiplies_bfloat16() -> bool:
    """Return whether this CPU has instructions for products of bfloat16 (AVX-512 BF16, AMX)."""
    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # not public in torch, so each may be missing
    return any(bool(getattr(torch.cpu, name, bool)()) for name in tests)


def _loaded(path: Path) -> nn.Module:
    """Return the network of a file of weights, ready for use only, not for training."""
    tensors, card = load_weights(path)
    try:
        # Of the config only the network counts here: fields of the training may come and go.
        settings = ModelSettings(**json.loads(card["config"])["model"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(path, "does not say which network it belongs to", _REMEDY) from error
    with torch.device("meta"):  # no random numbers in place of weights that come from the file
        module = network_of(settings)
    module.load_state_dict(fitted(path, tensors, module.state_dict()), assign=True)
    return fused(module.eval().requires_grad_(False))


def fused(module: nn.Module) -> nn.Module:
    """Return `module` with each normalisation that follows a convolution made part of that convolution's weights."""
    for inner in module.modules():
        if isinstance(inner, nn.Sequential):
            for k in range(len(inner) - 1):
                first, second = inner[k], inner[k + 1]
                if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                    inner[k], inner[k + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
    return module
