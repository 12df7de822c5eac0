"""The parameters, and the weights that they give to the terms of one picture's sum.

Shapes: h x w pixels, n of them valid; g groupings; f features; pairs come in four kinds (`pairs.py`). With i the log of
the channels' mean and r that of the reflectance, so that s = i − r is the log-shading, the sum to minimise is

    Σ over pairs  W (Δr − a Δi)²                             a: the share of a step that is paint; W: how sure that is
  + Σ over groupings and groups  V (r − the group's mean)²   the mean is weighted by V
  + M Σ over pixels  (s − s')²                               s': a weak guess; both less their means

    a = .01 + .99 σ(A · x),   log W = m + h tanh((4.6 (σ(−A · x) − ½) + B · x) / h),   log V = C · y,   s' = D · z

x are the features of a pair, y of a pixel, z the guesses (`features.py`). A and B are given for each span, C for each
grouping: 81 numbers with M. Small color steps are shading, and that is sure; large ones are paint, which is less sure:
so W falls with a.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unlit.baselines.splitting import View
from unlit.quadratic.features import (
    GUESSES,
    PAIR_FEATURES,
    PIXEL_FEATURES,
    chromaticities,
    guesses,
    pair_features,
    pixel_features,
)
from unlit.quadratic.groups import GROUPINGS, Groups, by_texture
from unlit.quadratic.pairs import KINDS, SPANS, Floats, Mask, both

BOUNDS = ((2.3, 3.0), (-3.0, 2.5))
"""m and h of log W, for each span: without bounds conjugate gradients take hundreds of rounds."""
LEAST_PAINT = 0.01
"""Of a: so much of every step is paint."""
SURER = 4.6
"""By so much log W falls as a goes from 0 to 1: a hundredfold, as in Zhao's method."""
MOST_ALIKE, LEAST_ALIKE = 4.0, -12.0
"""Of log V."""
GROUP_STARTS = (0.15, 0.15, 0.02, 0.005, 0.005, 0.005, 0.005, 0.005)
"""V before training: Zhao's λ of .3 in two halves, and traces of the other groupings."""
ANCHOR_START = -7.0
"""log M before training: hardly anything."""


@dataclass(frozen=True)
class Scene:
    """What the sum knows of one picture, cropped to its mask."""

    view: View
    log_gray: Floats
    """(h, w)."""
    pairs: tuple[Tensor, ...]
    """Features (f, ...) of the pairs of each kind."""
    both: tuple[Mask, ...]
    """Where both pixels of a pair are valid."""
    groups: tuple[Groups, ...]
    """For each grouping, the group of each valid pixel."""
    pixels: Tensor
    """Features (f, n)."""
    guesses: Tensor
    """(4, n), of mean 0."""

    @property
    def valid(self) -> Mask:
        """(h, w)."""
        return self.view.valid


def plain_scene_of(view: View) -> tuple[Scene, dict[int, Floats]]:
    """Return what is known of a view before any reflectance is, and its chromaticities."""
    chroma = chromaticities(view)
    scene = Scene(
        view,
        view.log_gray,
        tuple(torch.from_numpy(features) for features in pair_features(view, chroma)),
        tuple(both(view.valid)),
        tuple(by_texture(chroma, view.valid)),
        torch.from_numpy(pixel_features(view, chroma)),
        torch.from_numpy(guesses(view)),
    )
    return scene, chroma


@dataclass(frozen=True)
class Terms:
    """The weights of one scene's sum."""

    paint: tuple[Tensor, ...]
    """a, for the pairs of each kind."""
    sure: tuple[Tensor, ...]
    """W; 0 where a pixel of the pair is not valid."""
    alike: Tensor
    """V (g, n)."""
    anchor: Tensor
    """M, a scalar."""
    guess: Tensor
    """s' (n,)."""

    @property
    def flat(self) -> tuple[Tensor, ...]:
        """All of them, one after the other."""
        return (*self.paint, *self.sure, self.alike, self.anchor, self.guess)


def terms_of(flat: tuple[Tensor, ...]) -> Terms:
    """Return what `Terms.flat` was made of."""
    count = len(KINDS)
    return Terms(flat[:count], flat[count : 2 * count], *flat[2 * count :])


class Weights(nn.Module):
    """A, B, C, D and M. They begin as Zhao's method, with a soft threshold."""

    def __init__(self, groupings: int = GROUPINGS) -> None:
        super().__init__()
        self.paint = nn.ParameterList([torch.zeros(PAIR_FEATURES) for _ in SPANS])
        self.sure = nn.ParameterList([torch.zeros(PAIR_FEATURES) for _ in SPANS])
        self.group = nn.Parameter(torch.zeros(groupings, PIXEL_FEATURES))
        self.anchor = nn.Parameter(torch.tensor([ANCHOR_START, *[0.0] * GUESSES]))
        with torch.no_grad():
            # Over one pixel the color step itself tells; over four, that of the slightly blurred picture.
            self.paint[0][1] = 6.0
            self.paint[1][0], self.paint[1][3] = -1.0, 4.0
            self.group[:, 0] = torch.tensor(GROUP_STARTS[:groupings]).log()

    def forward(self, scene: Scene) -> Terms:
        """Return the weights of a scene's sum, in the numbers that the parameters have."""
        dtype = self.group.dtype
        paint, sure = [], []
        for k, (features, usable) in enumerate(zip(scene.pairs, scene.both, strict=True)):
            by_span = k // 2
            x = features.to(dtype)
            leaning = torch.tensordot(self.paint[by_span], x, 1)
            paint.append(LEAST_PAINT + (1 - LEAST_PAINT) * torch.sigmoid(leaning))
            middle, reach = BOUNDS[by_span]
            free = SURER * (torch.sigmoid(-leaning) - 0.5) + torch.tensordot(self.sure[by_span], x, 1)
            sure.append((middle + reach * torch.tanh(free / reach)).exp() * torch.from_numpy(usable))
        alike = (self.group @ scene.pixels.to(dtype)).clamp(LEAST_ALIKE, MOST_ALIKE).exp()
        return Terms(tuple(paint), tuple(sure), alike, self.anchor[0].exp(), self.anchor[1:] @ scene.guesses.to(dtype))
