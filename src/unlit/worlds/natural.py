"""Textures that grow, weather or flow: stone, wood, leaves, rust, clouds.

Shapes: n places. The four numbers of `params`, from 0 to 1, bend each texture; unless said otherwise the first is the
softness of its edges.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unlit.worlds.noise import cells as scattered
from unlit.worlds.noise import fractal, hashed, smooth_step
from unlit.worlds.places import Places, mix, picked, soft


def plain(places: Places) -> Tensor:
    """One color."""
    return places.colors[:, 0]


def noise(places: Places) -> Tensor:
    """Clouds of two colors; params: -, contrast."""
    field = fractal(places.solid, places.seed, 5, 0.6)
    return mix(places, (0.5 + (1 + 5 * places.params[:, 1]) * field).clamp(0, 1))


def patches(places: Places) -> Tensor:
    """Mottles with borders, of up to four colors; params: softness, share of the first color, how many colors."""
    field, other = (fractal(places.solid + shift, places.seed, 4) for shift in (0.0, 31.7))
    edge = 0.12 * (places.params[:, 1] - 0.5)
    color = mix(places, soft(places, field, edge, 0.1))
    more = soft(places, other, 0.08 + 0.3 * (1 - places.params[:, 2]), 0.1)
    return color + more[:, None] * (places.colors[:, 2] - color)


def marble(places: Places) -> Tensor:
    """Veins; params: -, thinness, turbulence."""
    bent = places.solid[:, 0] + (2 + 6 * places.params[:, 2]) * fractal(places.solid, places.seed, 5, 0.55)
    veins = (1 - (bent * math.pi).sin().abs()) ** (1 + 9 * places.params[:, 1])
    return mix(places, veins)


def wood(places: Places) -> Tensor:
    """Rings along an axis, with fine grain; params: sharpness of rings, -, grain."""
    stretched = places.solid * places.solid.new_tensor([1.0, 1.0, 0.12])
    radius = stretched[:, :2].norm(dim=1) + 0.7 * fractal(stretched * 0.6, places.seed, 3)
    ring = (radius * 3).remainder(1.0) ** (1 + 3 * places.params[:, 0])
    grain = fractal(places.solid * places.solid.new_tensor([14.0, 14.0, 0.8]), places.seed + 7, 2)
    return mix(places, (ring + (0.4 + 1.2 * places.params[:, 2]) * grain).clamp(0, 1))


def cells(places: Places) -> Tensor:
    """Fields about scattered centers; params: -, width of lines between them, how much fields differ."""
    first, second, cell = scattered(places.uv + 0.4 * fractal(places.flat * 1.5, places.seed, 2)[:, None], places.seed)
    number = hashed(cell, places.seed, 5)
    field = torch.where((places.params[:, 2] > 0.5)[:, None], picked(places, number, 3), mix(places, number))
    line = 1 - smooth_step(second - first, 0.12 * places.params[:, 1], 0.12 * places.params[:, 1] + 0.03)
    return field + (line * (places.params[:, 1] > 0.3))[:, None] * (places.colors[:, 3] - field)


def foliage(places: Places) -> Tensor:
    """Leaves over leaves, others between them; params: -, length of leaves, share in the last color."""
    color = places.colors[:, 1]
    for layer in range(3):
        uv = places.uv * (1 + 0.4 * layer) + 3.7 * layer
        square = uv.floor()
        seed, place = places.seed + 29 * layer, square.long()
        moved = torch.stack([hashed(place, seed, k) - 0.5 for k in (1, 2)], 1) * 0.5
        angle = 6.28 * hashed(place, seed, 3)
        d = uv - square - 0.5 - moved
        across = d[:, 1] * angle.cos() - d[:, 0] * angle.sin()
        along = d[:, 0] * angle.cos() + d[:, 1] * angle.sin()
        leaf = (along / 0.5).square() + (across / (0.12 + 0.3 * (1 - places.params[:, 1]))).square() < 1
        tone = hashed(place, seed, 4)
        other = hashed(place, seed, 5) < 0.3 * places.params[:, 2]
        leaves = torch.where(other[:, None], places.colors[:, 3], mix(places, tone, 0, 2))
        rib = 1 - 0.35 * (across.abs() < 0.025).float()
        color = torch.where(leaf[:, None], leaves * rib[:, None], color)
    return color


def rust(places: Places) -> Tensor:
    """Paint that gives way to what is under it; params: softness, share gone."""
    coarse, fine = fractal(places.solid, places.seed, 5, 0.6), fractal(places.solid * 5, places.seed + 3, 3)
    under = mix(places, (0.5 + 3 * fine).clamp(0, 1), 1, 2)
    gone = soft(places, coarse + 0.3 * fine, 0.12 - 0.2 * places.params[:, 1], 0.15)
    return places.colors[:, 0] + gone[:, None] * (under - places.colors[:, 0])


def speckle(places: Places) -> Tensor:
    """Grains of stone; params: -, size of grains, share of grains."""
    color = places.colors[:, 0]
    for layer in range(2):
        first, _, grain = scattered(places.uv * (1 + 1.7 * layer) + 9.1 * layer, places.seed + layer)
        number = hashed(grain, places.seed, 6 + layer)
        there = (number < 0.2 + 0.8 * places.params[:, 2]) & (first < 0.15 + 0.4 * places.params[:, 1] * number)
        color = torch.where(there[:, None], picked(places, number * 17 % 1), color)
    return color


def gradient(places: Places) -> Tensor:
    """A slow change from one color to another, as light might do it; params: -, waviness."""
    bent = places.uv[:, 0] + places.params[:, 1] * fractal(places.flat, places.seed, 2)
    return mix(places, 0.5 + 0.5 * (bent * math.pi).sin())


def coat(places: Places) -> Tensor:
    """Back and belly, as fur, fruit and glaze have them; params: softness, share of the back, waviness, lean."""
    lean = (places.params[:, 3] - 0.5) * 2
    along = places.solid[:, 2] * lean.cos() + places.solid[:, 0] * lean.sin()
    wave = (1.5 * places.params[:, 2]) * fractal(places.solid * 1.7, places.seed, 3)
    field = (along * math.pi).sin() + 2 * wave
    back = soft(places, field, 0.9 * (places.params[:, 1] - 0.5), 1.2)
    marks = soft(places, fractal(places.solid * 2.3, places.seed + 11, 2), 0.22, 0.05)
    color = mix(places, back)
    return color + (marks * (places.seed % 3 == 0))[:, None] * (places.colors[:, 2] - color)
