"""CUDA source compiled at run time by NVRTC, the compiler that PyTorch brings, and launched on PyTorch's stream.

`torch.cuda._compile_kernel` does this too, but only where a whole CUDA toolkit is installed, whose headers it asks for.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path

import torch
from torch import Tensor


class CompilationError(RuntimeError):
    """A kernel could not be compiled or loaded here."""


class Kernel:
    """A compiled kernel, loaded on one device."""

    def __init__(self, function: ctypes.c_void_p, device: torch.device) -> None:
        self._function = function
        self._device = device

    def __call__(self, blocks: int, threads: int, shared_bytes: int, *tensors: Tensor) -> None:
        """Launch on the current stream. Every argument is a tensor of the device; the kernel gets a pointer to it."""
        for tensor in tensors:
            if tensor.device != self._device or not tensor.is_contiguous():
                raise ValueError(f"a kernel on {self._device} cannot read a tensor that is elsewhere or not contiguous")
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]
        arguments = (ctypes.c_void_p * len(pointers))(*(ctypes.addressof(pointer) for pointer in pointers))
        with torch.cuda.device(self._device):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            result = _driver().cuLaunchKernel(
                self._function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, arguments, None
            )
        _check_driver(result, "launch")


def load_kernels(source: str, names: tuple[str, ...], device: torch.device) -> dict[str, Kernel]:
    """Return the kernels `names` (extern "C") of CUDA `source`, compiled for `device` and loaded on it."""
    major, minor = torch.cuda.get_device_capability(device)
    binary = compiled(source, f"sm_{major}{minor}")
    module = ctypes.c_void_p()
    kernels = {}
    with torch.cuda.device(device):
        torch.cuda.current_stream().synchronize()  # the driver needs PyTorch's context, which its first use makes
        _check_driver(_driver().cuModuleLoadData(ctypes.byref(module), binary), "load")
        for name in names:
            function = ctypes.c_void_p()
            _check_driver(_driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode()), f"find {name}")
            kernels[name] = Kernel(function, device)
    return kernels


def compiled(source: str, architecture: str) -> bytes:
    """Return CUDA `source` as machine code for an architecture such as "sm_90"; needs no GPU."""
    nvrtc = _nvrtc()
    program = ctypes.c_void_p()
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"unlit.cu", 0, None, None)
    _check(made == 0, "NVRTC does not start")
    options = [f"--gpu-architecture={architecture}".encode(), b"--use_fast_math", b"--std=c++17"]
    try:
        result = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        _check(result == 0, "NVRTC refuses the source:\n" + _text(nvrtc, program))
        size = ctypes.c_size_t()
        _check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0, "NVRTC gives no machine code")
        binary = ctypes.create_string_buffer(size.value)
        _check(nvrtc.nvrtcGetCUBIN(program, binary) == 0, "NVRTC gives no machine code")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary.raw


def _text(nvrtc: ctypes.CDLL, program: ctypes.c_void_p) -> str:
    """What the compiler said."""
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, text)
    return text.value.decode(errors="replace")


@cache
def _nvrtc() -> ctypes.CDLL:
    """The first of the libraries that has NVRTC. PyTorch's own link to it knows where PyTorch's copy is."""
    own = Path(torch.__file__).parent / "lib"
    packages = [Path(folder) / "nvidia" for folder in sys.path if folder]
    found = [own / "libcaffe2_nvrtc.so", *own.glob("libnvrtc*.so*")]
    found += [path for folder in packages for path in sorted(folder.glob("*/lib/libnvrtc.so.*"))]
    names = [str(path) for path in found if "builtins" not in path.name]
    for name in [*names, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]:
        try:
            library = ctypes.CDLL(name)
            library.nvrtcCompileProgram  # noqa: B018  # asks whether it is there
        except (OSError, AttributeError):
            continue
        return library
    raise CompilationError("NVRTC is not installed: install PyTorch with CUDA, which brings it")


@cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as error:
        raise CompilationError(f"the CUDA driver is not installed: {error}") from error


def _check_driver(result: int, what: str) -> None:
    if result == 0:
        return
    text = ctypes.c_char_p()
    _driver().cuGetErrorString(result, ctypes.byref(text))
    raise CompilationError(f"the CUDA driver could not {what}: {(text.value or b'unknown error').decode()}")


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise CompilationError(message)
