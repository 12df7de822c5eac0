"""A transposed convolution to few channels, in a form that a GPU computes quickly.

Shapes: m images, c channels in and d out, h x w pixels in and 2h x 2w out. cuDNN gives every layer at least 64 channels
to compute, so one of 1 or 3 at the full size costs as much as one of 64. Here every pixel is first multiplied by all
16 weights of the kernel, an ordinary product of matrices at the small size, to 16 d channels; then windows of 4 x 4
pixels, which overlap by half, are added up. Compiled, that is one pass, and so is its gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

KERNEL = 4
"""Pixels of a side of the kernel; windows lie half of that apart."""


class LastLayer(nn.ConvTranspose2d):
    """`nn.ConvTranspose2d` of kernel 4, stride 2, padding 1: its parameters, its names, its values."""

    bias: nn.Parameter

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, KERNEL, stride=2, padding=1)

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Return (m, d, 2h, 2w) for x (m, c, h, w). `output_size` is torch's; nobody here gives one."""
        # Not compiled, adding windows takes several passes. A CPU would gain too (docs/trials-speed.md), but there
        # results and exported files stay as they are.
        if x.is_cuda and torch.compiler.is_compiling():
            return self.overlapped(x)
        return super().forward(x, output_size)

    def overlapped(self, x: Tensor) -> Tensor:
        """Return the same as a sum of windows."""
        # As a convolution, so that it is rounded as one where few digits are asked for. Channels: row, column, d.
        weight = self.weight.permute(2, 3, 1, 0).reshape(-1, self.in_channels, 1, 1)
        windows = conv2d(x, weight).permute(0, 2, 3, 1).unflatten(-1, (KERNEL, KERNEL, -1))
        image: Tensor = _Overlap.apply(windows)  # type: ignore[no-untyped-call]  # torch's
        image = image + self.bias.to(image.dtype)
        return image.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)


class _Overlap(torch.autograd.Function):
    """Windows (m, h, w, 4, 4, d) to the image (m, 2h, 2w, d) that is their sum, less the pixel around it.

    The gradient would come by itself, but in several passes: torch does not know that it is the windows of an image.
    """

    @staticmethod
    def forward(ctx: Any, windows: Tensor) -> Tensor:
        whole = added(added(windows, 1, 3), 2, 4)
        m, rows, columns, _, _, d = whole.shape
        return whole.transpose(2, 3).reshape(m, 2 * rows, 2 * columns, d)[:, 1:-1, 1:-1]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        around = pad(grads[0], (0, 0, 1, 1, 1, 1))
        return around.unfold(1, KERNEL, 2).unfold(2, KERNEL, 2).permute(0, 1, 2, 4, 5, 3)


def added(windows: Tensor, axis: int, within: int) -> Tensor:
    """Return the sum along one axis of windows whose pixels lie along `within`, by pairs of pixels: one pair more.

    The second half of a window lies on the first half of the next.
    """
    first, second = windows.split(KERNEL // 2, within)
    rest = [0, 0] * (windows.ndim - 1 - axis)
    return pad(first, [*rest, 0, 1]) + pad(second, [*rest, 1, 0])
