"""The renderer's fast form: the source in `kernel/`, compiled when it is first needed.

Shapes: h x w pixels, k lights, r rays. On a GPU the compiler is NVRTC, which PyTorch brings; on a CPU it is the
machine's C++ compiler, if it has one. What it computes is what `path.py` does, with the same random numbers.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unlit.worlds.description import Lights, Shapes
from unlit.worlds.nvrtc import CompilationError, Kernel, load_kernels
from unlit.worlds.render_packing import Packed, on_device, packed, packed_heights, packed_shapes, sizes

PARTS = tuple(
    Path(__file__).parent / "kernel" / f"{name}.cu" for name in ("numbers", "shapes", "lights", "shadows", "pixel")
)
"""Of the source, each using those before it."""
NAMES = ("unlit_irradiance", "unlit_hits")
MOST_LIGHTS = 16
"""More are rendered in several launches."""
MOST_SHAPES = 320
"""More do not fit beside the lists into the 48 KB that the threads of a block share, nor into a CPU's arrays."""
BLOCK = 128
LANES = 32
FAR = 3.0e38
"""What the kernel says for infinite."""
COMPILER_FLAGS = (
    "-O3", "-fno-math-errno", "-fno-trapping-math", "-fassociative-math", "-freciprocal-math", "-fno-signed-zeros",
    "-ffinite-math-only", "-shared", "-fPIC", "-x", "c++",
)  # fmt: skip
"""A GPU's fast mathematics too, one by one: `-ffast-math` would have the whole process round small numbers to zero."""
MACHINE_FLAGS = ("-march=native",)
"""For this machine's own processor, where the compiler knows it."""


def kernel_source() -> str:
    """Return the whole source; compilers name the part and its line."""
    known = f"#define MOST_LIGHTS {MOST_LIGHTS}\n#define MOST_SHAPES {MOST_SHAPES}\n"
    return known + "".join(f'#line 1 "{part.name}"\n{part.read_text(encoding="utf-8")}' for part in PARTS)


def is_available(device: torch.device) -> bool:
    """Return whether the fast form can run on a device."""
    try:
        _cuda_kernels(device) if device.type == "cuda" else _library()
    except CompilationError:
        return False
    return device.type in ("cuda", "cpu")


def _check_count(shapes: Shapes) -> None:
    if len(shapes.kind) > MOST_SHAPES:
        raise ValueError(f"{len(shapes.kind)} shapes, and the fast form takes {MOST_SHAPES}: take form='auto'")


def kernel_irradiance(
    shapes: Shapes,
    lights: Lights,
    points: Tensor,
    normals: Tensor,
    shaded: Tensor,
    mask: Tensor,
    samples: int,
    paths: int,
    bounces: int,
    seed: int,
) -> Tensor:
    """Return irradiance / π (k, 3, h, w), as `path.reference_irradiance` does."""
    _check_count(shapes)
    h, w = mask.shape
    device = points.device
    scene = packed(shapes, lights)
    vectors = [vector.reshape(3, h * w).float().contiguous() for vector in (points, normals, shaded)]
    inputs = [*vectors, mask.reshape(-1).to(torch.uint8).contiguous()]
    result = torch.zeros(len(lights.kind), 3, h * w, device=device)
    for first in range(0, len(lights.kind), MOST_LIGHTS):
        part = scene.lights_between(first, first + MOST_LIGHTS)
        arrays = [*vars(part).values(), sizes(part, h * w, samples, paths, bounces, seed, first)]
        tensors = [*on_device(arrays, device), *inputs, result[first : first + MOST_LIGHTS]]
        if device.type == "cuda":
            _cuda_kernels(device)[NAMES[0]](-(-h * w // (BLOCK // LANES)), BLOCK, _shared_bytes(part), *tensors)
        else:
            _run_on_cpu(_library().unlit_irradiance, tensors, h * w, lists=2 * len(scene.shapes))
    return result.reshape(-1, 3, h, w)


@dataclass(frozen=True)
class Met:
    """What rays meet."""

    distance: Tensor
    """(r,), infinite where there is nothing."""
    index: Tensor
    """(r,) int64: the shape, −1 for none."""
    vectors: Tensor
    """(4, 3, r): position and normal (towards the ray's origin) in the world, then both in the shape's own space."""


def kernel_hits(shapes: Shapes, origin: Tensor, direction: Tensor) -> Met:
    """Return what rays (3, r) meet first, as `intersection.nearest` and what follows it in `render.py` do."""
    _check_count(shapes)
    device, rays = origin.device, origin.shape[1]
    table, heights = packed_shapes(shapes), packed_heights(shapes)
    numbers = np.array([len(table), 0, heights.shape[-1], 0, rays], np.int32)
    distance = torch.empty(rays, device=device)
    index = torch.empty(rays, dtype=torch.int32, device=device)
    vectors = torch.zeros(4, 3, rays, device=device)
    inputs = on_device([table, heights, numbers], device)
    tensors = [*inputs, origin.float().contiguous(), direction.float().contiguous(), distance, index, vectors]
    if device.type == "cuda":
        _cuda_kernels(device)[NAMES[1]](-(-rays // BLOCK), BLOCK, table.nbytes, *tensors)
    else:
        _run_on_cpu(_library().unlit_hits, tensors, rays)
    return Met(torch.where(distance < FAR, distance, torch.inf), index.long(), vectors)


def _shared_bytes(scene: Packed) -> int:
    """The memory that a block's threads share: shapes, lights, casters, and two lists for each warp."""
    n, k = len(scene.shapes), len(scene.lights)
    return 4 * (scene.shapes.size + scene.lights.size) + 2 * (k * (n + 1) + 2 * n * (BLOCK // LANES))


@cache
def _cuda_kernels(device: torch.device) -> dict[str, Kernel]:
    return load_kernels(kernel_source(), NAMES, device)


def _run_on_cpu(function: ctypes._NamedFuncPointer, arrays: list[Tensor], count: int, lists: int = 0) -> None:
    """Run a function of the library over `count` pixels or rays, on as many threads as torch has."""
    threads = torch.get_num_threads()
    pointers = [ctypes.c_void_p(array.data_ptr()) for array in arrays]

    def band(first: int) -> None:
        own = torch.empty(lists, dtype=torch.int16)
        more = [ctypes.c_void_p(own.data_ptr())] if lists else []
        function(*pointers, *more, ctypes.c_int(first), ctypes.c_int(min(first + step, count)))

    # Many short bands, since some parts of a picture cost more than others.
    step = max(count // (8 * threads), 1)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(band, range(0, count, step)))


@cache
def _library() -> ctypes.CDLL:
    """The source as a library of this machine, compiled once and kept in the user's cache."""
    compiler = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    if compiler is None:
        raise CompilationError("no C++ compiler was found: install g++ or clang++")
    flags, taken_for_given = target(compiler)
    stated = kernel_source() + " ".join((compiler, *COMPILER_FLAGS, *flags, taken_for_given))
    name = f"render-{hashlib.sha256(stated.encode()).hexdigest()[:16]}.so"
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return ctypes.CDLL(str(_built([compiler, *COMPILER_FLAGS, *flags], folder / name)))
        except OSError:  # a cache that cannot be written, or holds libraries of another machine
            continue
    raise CompilationError("the compiled renderer cannot be written or loaded: set XDG_CACHE_HOME to a folder that can")


def _folders() -> Iterator[Path]:
    """Yield the user's cache; then a new folder, made only if it is asked for."""
    yield Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "unlit"
    yield Path(tempfile.mkdtemp())


def target(compiler: str) -> tuple[tuple[str, ...], str]:
    """Return the flags for this machine's processor, where the compiler knows it, and all that it then takes for given.

    The latter tells machines and compilers apart whose libraries differ: several may share a cache.
    """
    for flags in (MACHINE_FLAGS, ()):
        command = [compiler, *flags, "-dM", "-E", "-x", "c++", os.devnull]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode == 0:
            return flags, answer.stdout
    return (), ""


def _built(command: list[str], file: Path) -> Path:
    if not file.exists():
        with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
            made = Path(scratch) / file.name
            command = [*command, "-", "-o", str(made), "-lm"]
            answer = subprocess.run(command, input=kernel_source(), capture_output=True, text=True)
            if answer.returncode:
                raise CompilationError(f"{command[0]} refuses the renderer:\n{answer.stderr}")
            made.replace(file)  # whole or not at all, whoever else compiles
    return file
