"""A smaller network than the paper's: residual blocks from half size downwards, one decoder for everything.

Shapes: m images, h x w pixels. The 2 x 2 pixels of a place enter as channels of one, and leave so: nothing is computed
at full size, where most of the work would be; `fine` networks have a level for that size too. Residual blocks of 3 x 3
convolutions at six sizes, each half of the one before; the decoder adds the encoder's map of each size to what comes
from below. Besides the image the network sees the log of it, in which light is a sum. Its last layer starts at zero,
and both logs are added to half of the image's own: so an untrained network splits every image evenly, and what it
learns is how far a pixel leans to either side.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, interpolate, pixel_shuffle, pixel_unshuffle

from unlit.color import floored_log, srgb_to_linear
from unlit.model.attention import Attention
from unlit.model.cue import THRESHOLDS, retinex_cues
from unlit.model.decomposition import Decomposition
from unlit.model.unet import padded

CHANNELS = (32, 48, 96, 128, 160, 160)
"""Of the maps, half the size first."""

BLOCKS = (1, 1, 1, 2, 2, 3)
"""Residual blocks of the encoder at each size, and of the decoder but for the smallest: more where they cost less."""

DEEP_BLOCKS = (1, 1, 2, 3, 3, 4)
"""The same, of deeper networks."""

FAR = ((3, "encoder"), (4, "decoder"), (3, "decoder"))
"""Where places look at all others (`model/attention.py`): at the end of which rows. There are few places then: a photo
of 384 x 256 has 384 at a sixteenth of its size, 96 at half of that."""

FINE_CHANNELS = 24
"""Of the maps of full size, where there are any."""

CELL = 4
"""Sides of the image are made multiples of this: 2 x 2 pixels are a place of the largest map, four such places one of a
cue. Maps of odd sides are no trouble. To continue pictures to multiples of 64, at which all maps would be even, costs a
seventh of the time at 4:3, and what it adds to them is like nothing that was trained on."""

LOG_SHARE = 0.2
"""Logs reach from 0 to −9; this brings them to about the range of the image."""


class CompactNet(nn.Module):
    """sRGB-encoded images (m, 3, h, w) in [0, 1] to their decomposition, of the same size.

    Sides that are no multiples of 4 are continued by their own edge pixels and cut back. With `gray_shading` there is
    no light color: it stays zero. `width` scales the number of channels. With `fine` there are maps of full size too,
    for half as much work again; with `cue` the network sees two guesses of the shading beside the image
    (`model/cue.py`); with `deep` it has more blocks: two fifths more parameters, a fifth more time on a CPU. With
    `attention` far places are compared.
    """

    def __init__(
        self,
        *,
        gray_shading: bool = False,
        width: float = 1.0,
        fine: bool = False,
        cue: bool = False,
        deep: bool = False,
        attention: bool = False,
    ) -> None:
        super().__init__()
        sizes: tuple[int, ...] = (FINE_CHANNELS, *CHANNELS) if fine else CHANNELS
        blocks = (*((1,) if fine else ()), *(DEEP_BLOCKS if deep else BLOCKS))
        channels = [max(4, 4 * round(width * c / 4)) for c in sizes]
        self.gray_shading, self._cell, self._cue = gray_shading, 1 if fine else 2, cue
        self.stem = nn.Conv2d(self._cell**2 * 6 + len(THRESHOLDS) * cue, channels[0], 3, padding=1)
        far = [(k + fine, part) for k, part in FAR] if attention else []
        each = list(enumerate(zip(channels, blocks, strict=True)))
        self.encoder = nn.ModuleList(_row(c, n, (k, "encoder") in far) for k, (c, n) in each)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairwise(channels))
        self.up = nn.ModuleList(nn.Conv2d(b, a, 1) for a, b in pairwise(channels))
        self.decoder = nn.ModuleList(_row(c, n, (k, "decoder") in far) for k, (c, n) in each[:-1])
        self.head = nn.Conv2d(channels[0], self._cell**2 * 4, 3, padding=1)
        self.color_head = None if gray_shading else nn.Linear(channels[-1], 3)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]  # it has one

    if TYPE_CHECKING:  # torch's own says that a call gives anything

        def __call__(self, images_srgb: Tensor) -> Decomposition:
            """See `forward`."""

    def forward(self, images_srgb: Tensor) -> Decomposition:
        """Return logs of linear reflectance and shading, and the light's color, for images (m, 3, h, w)."""
        if images_srgb.ndim != 4 or images_srgb.shape[1] != 3 or 0 in images_srgb.shape:
            raise ValueError(f"images must be (m, 3, h, w), none of them zero, not {tuple(images_srgb.shape)}")
        h, w = images_srgb.shape[-2:]
        light = srgb_to_linear(images_srgb)
        log_image = floored_log(light)
        seen = pixel_unshuffle(padded(torch.cat([images_srgb, LOG_SHARE * log_image], 1), CELL), self._cell)
        if self._cue:
            # At half of the maps' size: broad light is what layers cannot see, and so it takes a fraction of the time.
            cues = interpolate(retinex_cues(avg_pool2d(padded(light, CELL), 2 * self._cell)), scale_factor=2.0)
            seen = torch.cat([seen, LOG_SHARE * cues.to(seen.dtype)], 1)
        x = self.stem(seen)
        maps: list[Tensor] = []
        for k, row in enumerate(self.encoder):
            x = row(self.down[k - 1](x) if k else x)
            maps.append(x)
        color = images_srgb.new_zeros(images_srgb.shape[0], 3)
        if self.color_head is not None:
            color = self.color_head(x.mean((2, 3)))
        for k in reversed(range(len(self.decoder))):
            # Nearest: the gradient of bilinear enlargement adds up in any order, and no run would repeat another. Twice
            # the size, less the last row or column of what was odd.
            x = self.decoder[k](maps[k] + interpolate(self.up[k](x), maps[k].shape[-2:], mode="nearest"))
        leaning = pixel_shuffle(self.head(x), self._cell)[..., :h, :w]
        log_reflectance = 0.5 * log_image + leaning[:, :3]
        log_shading = 0.5 * log_image.mean(1, keepdim=True) + leaning[:, 3:]
        return Decomposition(log_reflectance, log_shading, color)


def _row(channels: int, blocks: int, looks_far: bool) -> nn.Sequential:
    return nn.Sequential(*(_Residual(channels) for _ in range(blocks)), *([Attention(channels)] if looks_far else []))


class _Residual(nn.Module):
    """x plus two normalised 3 x 3 convolutions of it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),  # a new tensor each time would cost 2 % of the network's time on a CPU
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.layers(x)
        return out
