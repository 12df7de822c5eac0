"""The paper's network: one encoder, two decoders with skip connections, and a head for the light's color (Sec. 3).

Shapes: m images, h x w pixels. Seven levels of 4 x 4 convolutions of stride 2 take the image down by 128; decoders of
the same depth bring log-reflectance (3 channels) and gray log-shading (1 channel) back to its size. Layers, channels
and initial weights are those of the authors' release; only that one predicts logs of gamma-encoded values, and adds a
number to each channel before it is normalised, which takes it out again: here there is none, and a step is 7 % quicker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from unlit.color import floored_log, srgb_to_linear
from unlit.model.decomposition import Decomposition
from unlit.model.last_layer import LastLayer

CHANNELS = (64, 128, 256, 512, 512, 512, 512)
"""Of the encoder's maps, outermost first."""

STRIDE = 2 ** len(CHANNELS)
"""Sides of the image must be multiples of this inside the network."""

INITIAL_SPREAD = 0.02
"""Standard deviation of the first weights (the release; as in pix2pix, which the network is a variant of)."""


class UNet(nn.Module):
    """sRGB-encoded images (m, 3, h, w) in [0, 1] to their decomposition, of the same size.

    Other sizes than multiples of 128 are padded by their own edge pixels and cut back. With `gray_shading` there is no
    light color (the paper's ablation, and its setting for the MIT objects): it stays zero. `width` scales the number
    of channels; 1 is the paper's. With `anchored` both logs are added to half of the image's own, so that the network
    says only how far a pixel leans to either side, and fine detail need not pass through it; the paper's is not.
    """

    def __init__(self, *, gray_shading: bool = False, width: float = 1.0, anchored: bool = False) -> None:
        super().__init__()
        self.anchored = anchored
        channels = [max(1, round(width * c)) for c in CHANNELS]
        self.gray_shading = gray_shading
        self.encoder = nn.ModuleList(_down(i, channels) for i in range(len(channels)))
        self.reflectance_decoder = nn.ModuleList(_up(i, channels, 3) for i in range(len(channels)))
        self.shading_decoder = nn.ModuleList(_up(i, channels, 1) for i in range(len(channels)))
        self.color_head = None if gray_shading else _color_head(channels[-1])
        self.apply(_initialize)

    if TYPE_CHECKING:  # torch's own says that a call gives anything

        def __call__(self, images_srgb: Tensor) -> Decomposition:
            """See `forward`."""

    def forward(self, images_srgb: Tensor) -> Decomposition:
        """Return logs of linear reflectance and shading, and the light's color, for images (m, 3, h, w)."""
        if images_srgb.ndim != 4 or images_srgb.shape[1] != 3 or 0 in images_srgb.shape:
            raise ValueError(f"images must be (m, 3, h, w), none of them zero, not {tuple(images_srgb.shape)}")
        h, w = images_srgb.shape[-2:]
        x = padded(images_srgb, STRIDE)
        maps: list[Tensor] = []
        for level in self.encoder:
            x = level(x)
            maps.append(x)
        log_reflectance = _cut(_decoded(self.reflectance_decoder, maps), h, w)
        log_shading = _cut(_decoded(self.shading_decoder, maps), h, w)
        if self.anchored:
            half = 0.5 * floored_log(srgb_to_linear(images_srgb))
            log_reflectance = log_reflectance + half
            log_shading = log_shading + half.mean(1, keepdim=True)
        if self.color_head is None:
            color = log_reflectance.new_zeros(images_srgb.shape[0], 3)
        else:
            color = self.color_head(maps[-1])
        return Decomposition(log_reflectance, log_shading, color)


def padded(images: Tensor, multiple: int) -> Tensor:
    """Return images (m, c, h, w) continued by their last row and column to sides that are multiples of `multiple`."""
    h, w = images.shape[-2:]
    down, right = -h % multiple, -w % multiple
    if not (down or right):
        return images
    return nn.functional.pad(images, (0, right, 0, down), mode="replicate")


def _cut(images: Tensor, h: int, w: int) -> Tensor:
    """Return the first h x w pixels; what is of that size already is left alone, or its gradient would be copied."""
    return images if tuple(images.shape[-2:]) == (h, w) else images[..., :h, :w]


def _decoded(decoder: nn.ModuleList, maps: list[Tensor]) -> Tensor:
    """Return the decoder's image; each level sees the one inside it beside the encoder's map of its size."""
    x: Tensor = decoder[-1](maps[-1])
    for level, skip in zip(reversed(decoder[:-1]), reversed(maps[:-1]), strict=True):
        x = level(torch.cat([x, skip], dim=1))
    return x


def _down(i: int, channels: list[int]) -> nn.Sequential:
    """Return level i of the encoder: halve the size. The first and the innermost are not normalised."""
    layers: list[nn.Module] = [nn.LeakyReLU(0.2)] if i else []
    is_normalised = 0 < i < len(channels) - 1
    layers.append(nn.Conv2d(channels[i - 1] if i else 3, channels[i], 4, stride=2, padding=1, bias=not is_normalised))
    if is_normalised:
        layers.append(nn.BatchNorm2d(channels[i]))
    return nn.Sequential(*layers)


def _up(i: int, channels: list[int], out_channels: int) -> nn.Sequential:
    """Return level i of a decoder: double the size. The outermost ends bare, on logs."""
    incoming = channels[i] * (1 if i == len(channels) - 1 else 2)
    if i == 0:
        return nn.Sequential(nn.ReLU(), LastLayer(incoming, out_channels))
    up = nn.ConvTranspose2d(incoming, channels[i - 1], 4, stride=2, padding=1, bias=False)
    return nn.Sequential(nn.ReLU(), up, nn.BatchNorm2d(channels[i - 1]))


def _color_head(channels: int) -> nn.Sequential:
    """Return the innermost map's mean to a color (m, 3).

    The release has a 3 x 3 convolution on the one pixel that is left; only its middle ever sees data. It is kept so
    that the count of parameters is the paper's.
    """
    inner = max(1, channels // 2)
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(1),
        nn.ReLU(),
        nn.Conv2d(channels, inner, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(inner, 3),
    )


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, INITIAL_SPREAD)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, INITIAL_SPREAD)
        nn.init.zeros_(cast(Tensor, module.bias))
