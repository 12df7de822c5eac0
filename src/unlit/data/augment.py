"""Other views of a sequence that are as true as the first: all its frames are changed as one.

Shapes: m frames, k lights, h x w pixels; frames are linear. Nothing here needs ground truth: each change keeps
`I = R · S` with one reflectance for all frames. What is drawn comes from NumPy's generators, on the CPU, so that a seed
gives the same draw on every device, and no draw waits for one.

A place in the new picture is taken from a place in the old: `theta` (2, 3) maps the new picture's coordinates to the
old one's, both from -1 to 1 between the outer edges, as torch's `affine_grid` has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import affine_grid, avg_pool2d, grid_sample, interpolate

from unlit.data.settings import AugmentSettings

MIXTURE_MEAN = 0.2
"""Mean intensity over the valid pixels to which frames of single lamps are exposed: lamps have no common exposure."""

SATURATED = 1.0
"""From here on a pixel is clipped, and its color is unknown."""


def seeded(*numbers: int) -> Generator:
    """Return a generator that depends on all of the numbers, and on nothing else: so any draw can be repeated."""
    return np.random.default_rng(numbers)


# Where ---------------------------------------------------------------------------------------------------------------


def drawn_view(draw: Generator, size: tuple[int, int], settings: AugmentSettings) -> Tensor:
    """Return theta for the whole picture of `size` (h, w): perhaps mirrored, a little turned and cropped."""
    h, w = size
    height = 1 - draw.uniform(0, min(settings.crop, h - 1)) / h
    width = 1 - draw.uniform(0, min(settings.crop, w - 1)) / w
    center = (draw.uniform(width - 1, 1 - width), draw.uniform(height - 1, 1 - height))
    return _theta(draw, size, (width, height), center, settings)


def drawn_window(
    draw: Generator, size: tuple[int, int], window: int, places: Tensor, settings: AugmentSettings
) -> Tensor:
    """Return theta for a square window of a picture of `size` (h, w) around one of `places` (n, 2): row and column.

    The window's middle moves from that place towards the picture's, as far as the window would leave it; but not so far
    that the place could leave the window when it is turned.
    """
    h, w = size
    untouched = bool(settings.untouched) and draw.random() < settings.untouched
    zoom = 1.0 if untouched else math.exp(draw.uniform(*np.log(settings.zoom)))
    width, height = window / zoom / w, window / zoom / h
    y, x = places[int(draw.integers(len(places)))].tolist() if len(places) else (h / 2, w / 2)
    center = [(2 * place + 1) / side - 1 for place, side in ((x, w), (y, h))]
    middle = []
    for c, share in zip(center, (width, height), strict=True):
        room, most = max(0.0, 1 - share), share / math.sqrt(2) if settings.rotation else share
        middle.append(c + min(max(min(max(c, -room), room) - c, -most), most))
    if untouched:
        settings = replace(settings, rotation=0.0)
        middle = [_on_pixels(c, side, window) for c, side in zip(middle, (w, h), strict=True)]
    return _theta(draw, size, (width, height), (middle[0], middle[1]), settings)


def _on_pixels(middle: float, side: int, window: int) -> float:
    """Return the middle nearest by with which a window's edges lie between pixels of a picture's side."""
    start = round((middle + 1) * side / 2 - window / 2)
    return (2 * start + window) / side - 1


def _theta(
    draw: Generator,
    size: tuple[int, int],
    share: tuple[float, float],
    center: tuple[float, float],
    settings: AugmentSettings,
) -> Tensor:
    """Return the map: scale to `share` of (w, h), mirror, turn, move. The turn is one of pixels, which are square."""
    h, w = size
    angle = math.radians(draw.uniform(-settings.rotation, settings.rotation))
    mirror = -1.0 if settings.flip and draw.random() < 0.5 else 1.0
    cos, sin, aspect = math.cos(angle), math.sin(angle), w / h
    return torch.tensor(
        [
            [mirror * share[0] * cos, -share[1] * sin / aspect, center[0]],
            [mirror * share[0] * sin * aspect, share[1] * cos, center[1]],
        ],
        dtype=torch.float32,
    )


def halvings(theta: Tensor, old: tuple[int, int], new: tuple[int, int]) -> int:
    """Return how often a picture of size `old` (h, w) is halved before it is seen through `theta` at size `new`.

    Pictures that shrink are first averaged, or fine texture would turn into noise.
    """
    h, w = old
    (a, b, _), (c, d, _) = theta.tolist()
    # Old pixels a new one, along both axes of the new picture.
    step = min(math.hypot(a * w, c * h) / new[1], math.hypot(b * w, d * h) / new[0])
    count = 0
    while step > math.sqrt(2) and min(h, w) > 1:
        h, w, step, count = (h + 1) // 2, (w + 1) // 2, step / 2, count + 1
    return count


def halved(images: Tensor) -> Tensor:
    """Return the means of 2 x 2 pixels; an odd side is first stretched by one, so that edges stay edges."""
    h, w = images.shape[-2:]
    if h % 2 or w % 2:
        images = interpolate(images, (h + h % 2, w + w % 2), mode="bilinear", align_corners=False)
    return avg_pool2d(images, 2)


def warped(images: Tensor, theta: Tensor, size: tuple[int, int]) -> Tensor:
    """Return images (m, c, h, w) seen through `theta` (on the CPU) as pictures of `size`; zero beyond the edges."""
    for _ in range(halvings(theta, (images.shape[-2], images.shape[-1]), size)):
        images = halved(images)
    grid = affine_grid(theta.to(images.device, images.dtype)[None], [1, 1, *size], align_corners=False)
    return grid_sample(images, grid.expand(len(images), -1, -1, -1), align_corners=False, padding_mode="zeros")


def warped_mask(mask: Tensor, theta: Tensor, size: tuple[int, int]) -> Tensor:
    """Return mask (m, 1, h, w) through `theta`: True where nothing masked, and nothing beyond the edge, has a share."""
    return warped(mask.float(), theta, size) > 1 - 1e-5  # rounding; a pixel among 10^5 would count


# Light ---------------------------------------------------------------------------------------------------------------


def drawn_mixtures(draw: Generator, lights: int, count: int, settings: AugmentSettings) -> NDArray[np.float32]:
    """Return weights (count, k), not negative, of `lights` lamps for each of `count` frames.

    A frame is one lamp, or with the probability `settings.mixtures` 2 to `most_lights` of them. The single ones of a
    sequence differ where there are enough.
    """
    weights = np.zeros((count, lights), np.float32)
    order = np.tile(draw.permutation(lights), 1 + count // lights)
    most = min(settings.most_lights, lights)
    for i in range(count):
        if most < 2 or draw.random() >= settings.mixtures:
            weights[i, order[i]] = 1
            continue
        among = min(most, math.floor(math.exp(draw.uniform(math.log(2), math.log(most + 1)))))
        # Squares of uniform numbers: some lamps lead, some only fill, as in a room.
        weights[i, draw.permutation(lights)[:among]] = draw.random(among) ** 2 + 0.02
    return weights


def exposed(frames: Tensor, mask: Tensor, mean: float = MIXTURE_MEAN) -> Tensor:
    """Return frames (..., 3, h, w) scaled so that the mean of the valid pixels is `mean`; black ones stay."""
    valid = mask.to(frames.dtype)
    share = valid.mean((-3, -2, -1), keepdim=True)
    level = (frames * valid).mean((-3, -2, -1), keepdim=True) / share.clamp_min(1e-9)
    return torch.where(level > 0, frames * (mean / level.clamp_min(1e-12)), frames)


def drawn_stops(draw: Generator, count: int, stops: float) -> NDArray[np.float32]:
    """Return `count` factors from 2^-stops to 2^stops."""
    return np.exp2(draw.uniform(-stops, stops, count)).astype(np.float32)


def drawn_colors(draw: Generator, settings: AugmentSettings) -> NDArray[np.float32]:
    """Return a matrix (3, 3), not negative, that turns a frame's colors into others: white balance, channels, hue."""
    matrix = np.eye(3)
    if settings.permute_channels:
        matrix = matrix[draw.permutation(3)]
    if settings.hue:
        # Rows that sum to one leave white white.
        amount = settings.hue * draw.random()
        matrix = (1 - amount) * matrix + amount * draw.dirichlet(np.ones(3), 3)
    return (drawn_stops(draw, 3, settings.white_balance)[:, None] * matrix).astype(np.float32)


# Patterns ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """A layer of paint: cells around points, each of one color, with bent borders."""

    points: NDArray[np.float32]
    """(n, 2) in [0, 1]."""
    logs: NDArray[np.float32]
    """(n, 3) log colors."""
    bend: NDArray[np.float32]
    """(1, 2, 9, 9): how far places are moved before the nearest point is looked for."""


def drawn_paint(draw: Generator) -> tuple[Cells, ...]:
    """Return a pattern for a surface: a coarse and a fine layer of cells, whose sharp edges are as paint's and print's.

    Half of the patterns are gray, since gray paint is what looks most like shading.
    """
    layers = []
    gray = draw.random() < 0.5
    for most, strength in ((12, 0.5), (160, 0.3)):
        cells = math.floor(math.exp(draw.uniform(math.log(2), math.log(most + 1))))
        logs = np.repeat(strength * draw.standard_normal((cells, 1)), 3, 1)
        if not gray:
            logs = logs + 0.6 * strength * draw.standard_normal((cells, 3))
        bend = draw.uniform(0, 0.08) * draw.standard_normal((1, 2, 9, 9))
        points = draw.random((cells, 2))
        layers.append(Cells(*(part.astype(np.float32) for part in (points, logs, bend))))
    return tuple(layers)


def painted(layers: tuple[Cells, ...], size: tuple[int, int], device: torch.device) -> Tensor:
    """Return the pattern (3, h, w), positive."""
    return torch.stack([_layer(cells, size, device) for cells in layers]).sum(0).exp()


def _layer(cells: Cells, size: tuple[int, int], device: torch.device) -> Tensor:
    """Return (3, h, w): the log color of the nearest point."""
    h, w = size
    points, logs, bend = (torch.from_numpy(a).to(device) for a in (cells.points, cells.logs, cells.bend))
    y = (torch.arange(h, device=device) + 0.5) / h
    x = (torch.arange(w, device=device) + 0.5) / w
    moved_y, moved_x = interpolate(bend, size, mode="bicubic", align_corners=False)[0].unbind()
    distance = (y[:, None] + moved_y - points[:, 0, None, None]).square()
    distance += (x + moved_x - points[:, 1, None, None]).square()
    return logs[distance.argmin(0)].permute(2, 0, 1)


def drawn_shade(draw: Generator, count: int) -> NDArray[np.float32]:
    """Return coarse logs (count, 1, n, n) of soft gray fields for the lights of `count` frames."""
    coarse = int(draw.integers(3, 7))
    return (draw.uniform(0.1, 0.6) * draw.standard_normal((count, 1, coarse, coarse))).astype(np.float32)


def shaded(coarse: NDArray[np.float32], size: tuple[int, int], device: torch.device) -> Tensor:
    """Return the fields (count, 1, h, w), positive."""
    return interpolate(torch.from_numpy(coarse).to(device), size, mode="bicubic", align_corners=False).exp()
