"""Where Triton's kernels are tested: on a CUDA device, or, slowly, by its interpreter on a CPU (TRITON_INTERPRET=1)."""

from __future__ import annotations

import os

import pytest
import torch

from unlit.pairwise.filtering import has_kernels

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"

needs_kernels = pytest.mark.skipif(
    not (has_kernels() and (INTERPRETED or torch.cuda.is_available())),
    reason="needs Triton and a CUDA device (or TRITON_INTERPRET=1)",
)
needs_cuda = pytest.mark.skipif(
    not (has_kernels() and torch.cuda.is_available()) or INTERPRETED, reason="needs Triton and a CUDA device"
)
