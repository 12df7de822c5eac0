"""The network for other programs: an ONNX file, checked against the original by running it.

Shapes: m images of h x w pixels, both multiples of what `multiple_of` says. The file takes any number of images
`images_srgb` (m, 3, h, w), sRGB-encoded in [0, 1], and gives `log_reflectance` (m, 3, h, w), `log_shading` (m, 1, h, w)
and `light_color` (m, 3), natural logs of linear light. Carrying to full size and the exact product are not part of it:
`unlit.predict` has them.
"""

from __future__ import annotations

import io
import json
import logging
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unlit import __version__
from unlit.model.compact import CELL, CompactNet
from unlit.model.unet import STRIDE
from unlit.predict.network import Network
from unlit.quadratic.network import QuadraticNet
from unlit.train.durable import replace_durably

OUTPUTS = ("log_reflectance", "log_shading", "light_color")
OPSET = 18
TOLERANCE = 1e-3
"""Of logs, between the network and the file: other libraries sum in other orders."""

_INSTALL = "install what is missing by: pip install 'unlit[onnx]'"


def multiple_of(module: nn.Module) -> int:
    """Return what the sides of images must be multiples of: nothing is continued or cut in the file."""
    return CELL if isinstance(module, CompactNet) else STRIDE


class _Outputs(nn.Module):
    """The network with its answer as a tuple, which is what the format knows."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, images_srgb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        said = self.module(images_srgb)
        return said.log_reflectance, said.log_shading, said.light_color


def export_onnx(network: Network, path: Path, *, force: bool = False) -> float:
    """Write the network to `path`, and return the largest difference that ONNX Runtime finds to it.

    ValueError where a library is missing, or the file exists and `force` does not say to overwrite it; RuntimeError
    where the file does not say what the network says, and then it is not written.
    """
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it")
    if path.exists() and not force:
        raise ValueError(f"{path} exists already; choose another name, or say --force")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is not a folder; create it first")
    if isinstance(network.module, QuadraticNet):
        raise ValueError(
            f"{network.name}: is a quadratic, which is solved and not computed; ONNX can hold networks only"
        )
    module = _Outputs(network.module.to("cpu", torch.float32)).eval()
    content = _exported(module, {"unlit": __version__, "weights": network.name, "sha256": network.sha256})
    difference = max(_difference(module, content, count, size) for count, size in ((1, (1.1, 1.1)), (3, (2.1, 1.1))))
    if not difference <= TOLERANCE:
        raise RuntimeError(f"{path} would differ from the network by {difference:.2g}, more than {TOLERANCE}")
    replace_durably(path, content)
    return difference


def _side(size: float, multiple: int) -> int:
    """Return a side of about 128 times `size`."""
    return multiple * math.ceil(128 * size / multiple)


def _exported(module: _Outputs, card: dict[str, str]) -> bytes:
    try:
        import onnx  # noqa: F401  # torch asks for both only when it is half done
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ValueError(f"ONNX needs {error.name}, which is not installed; {_INSTALL}") from error
    multiple = multiple_of(module.module)
    free = {0: torch.export.Dim("m", min=1)}
    free |= {k: multiple * torch.export.Dim(side, min=1) for k, side in ((2, "h"), (3, "w"))}
    # The exporter tells of its steps and of changes in its own libraries; neither is the user's concern.
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), _silenced("torch.onnx", "onnxscript", "onnx_ir"):
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            module,
            # Two images: the exporter takes a 1 for a constant.
            (torch.rand(2, 3, _side(2.1, multiple), _side(3.1, multiple)),),
            dynamo=True,
            opset_version=OPSET,
            input_names=["images_srgb"],
            output_names=list(OUTPUTS),
            dynamic_shapes={"images_srgb": free},
            verbose=False,
        )
    proto = program.model_proto
    for key, text in {**card, "multiple": str(multiple), "encoding": "srgb", "logs": "natural, linear light"}.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, text
    content: bytes = proto.SerializeToString()
    return content


@contextmanager
def _silenced(*names: str) -> Iterator[None]:
    """Let loggers tell of errors alone meanwhile."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _difference(module: _Outputs, content: bytes, count: int, size: tuple[float, float]) -> float:
    """Return the largest difference over all outputs, for `count` random images of about 128 times `size`."""
    generator = torch.Generator().manual_seed(0)
    h, w = (_side(side, multiple_of(module.module)) for side in size)
    images = torch.rand(count, 3, h, w, generator=generator)
    with torch.inference_mode():
        ours = module(images)
    theirs = run_onnx(content, images.numpy())
    return max(float(np.abs(a.numpy() - b).max()) for a, b in zip(ours, theirs, strict=True))


def run_onnx(content: bytes, images_srgb: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Return the outputs of an exported network under ONNX Runtime, on the CPU."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ValueError(f"the check needs onnxruntime, which is not installed; {_INSTALL}") from error
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found: list[NDArray[np.float32]] = session.run(list(OUTPUTS), {"images_srgb": images_srgb})
    return found


def onnx_card(content: bytes) -> str:
    """Return what an exported network says of itself, as JSON."""
    import onnx

    model = onnx.load_model_from_string(content)
    return json.dumps({entry.key: entry.value for entry in model.metadata_props}, indent=1)
