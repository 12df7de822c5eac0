"""Textures that people make: brick, cloth, checks, stripes, writing, paint, prints.

Shapes: n places. The four numbers of `params`, from 0 to 1, bend each texture; unless said otherwise the first is the
softness of its edges.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unlit.worlds.noise import cells, fractal, hashed, laid, smooth_step, value_noise
from unlit.worlds.pictures import LEVELS, SIDE, pictures_on
from unlit.worlds.places import Places, mix, picked, soft


def checks(places: Places) -> Tensor:
    """A board; params: -, -, share of squares that take a third color."""
    square = places.uv.floor().long()
    odd = (square.sum(1) % 2).float()
    third = hashed(square, places.seed) < 0.4 * (places.params[:, 2] - 0.5)
    return torch.where(third[:, None], places.colors[:, 2], mix(places, odd))


def stripes(places: Places) -> Tensor:
    """Bands; params: softness, width of the band, share of bands in other colors, bending."""
    bend = 1.5 * places.params[:, 3].square() * fractal(places.flat * 0.5, places.seed, 3)
    along = places.uv[:, 0] + bend * 3
    band, within = along.floor(), along - along.floor()
    distance = (within - 0.5).abs()
    inside = 1 - soft(places, distance, 0.1 + 0.3 * places.params[:, 1], 0.2)
    number = hashed(band.long()[:, None], places.seed)
    color = torch.where((number < places.params[:, 2])[:, None], picked(places, number * 7 % 1), places.colors[:, 1])
    return places.colors[:, 0] + inside[:, None] * (color - places.colors[:, 0])


def spots(places: Places) -> Tensor:
    """Dots; params: softness, size, share in other colors, disorder."""
    square = places.uv.floor()
    place = square.long()
    moved = torch.stack([hashed(place, places.seed, k) - 0.5 for k in (1, 2)], 1) * (0.6 * places.params[:, 3:])
    radius = (0.1 + 0.3 * places.params[:, 1]) * (1 - 0.6 * places.params[:, 3] * hashed(place, places.seed, 3))
    distance = (places.uv - square - 0.5 - moved).norm(dim=1)
    inside = 1 - soft(places, distance, radius, 0.15)
    number = hashed(place, places.seed, 4)
    color = torch.where((number < places.params[:, 2])[:, None], picked(places, number * 7 % 1), places.colors[:, 1])
    return places.colors[:, 0] + inside[:, None] * (color - places.colors[:, 0])


def layout(uv: Tensor, params: Tensor) -> tuple[Tensor, Tensor]:
    """Return joints and stones of brickwork or tiles; params: -, shift, width of joints, length of stones."""
    shift = torch.where(params[:, 1] < 0.4, 0.0, 0.5)
    return laid(uv, shift, torch.where(params[:, 1] < 0.4, 1.0, 1.5 + 2 * params[:, 3]))


def joint(params: Tensor) -> Tensor:
    """Return half the width of a joint, in heights of a row."""
    return 0.012 + 0.09 * params[:, 2].square()


def brick(places: Places) -> Tensor:
    """Stones c0 ... c2 with joints c3, as in `layout`; the first param is how much stones differ."""
    edge, stone = layout(places.uv, places.params)
    rough = 0.03 * value_noise(places.flat * 9, places.seed) * places.params[:, 3]
    number = hashed(stone, places.seed)
    stones = mix(places, number * places.params[:, 0])
    other = hashed(stone, places.seed, 1) < 0.3 * places.params[:, 0]
    stones = torch.where(other[:, None], places.colors[:, 2], stones)
    mortar = 1 - smooth_step(edge - rough, joint(places.params), joint(places.params) + 0.02)
    return stones + mortar[:, None] * (places.colors[:, 3] - stones)


def weave(places: Places) -> Tensor:
    """Threads over and under; params: -, -, unevenness."""
    over = (places.uv.floor().sum(1) % 2 < 0.5).float()
    x, y = ((places.uv[:, k] - places.uv[:, k].floor() - 0.5).abs() * 2 for k in (0, 1))
    thread = places.uv[:, 0].floor() * over + places.uv[:, 1].floor() * (1 - over)
    number = hashed(torch.stack([thread, over], 1).long(), places.seed)
    tone = over * (1 - 0.5 * y) + (1 - over) * 0.5 * x
    return mix(places, (tone + places.params[:, 2] * (number - 0.5)).clamp(0, 1))


def text(places: Places) -> Tensor:
    """Lines of signs, each of four strokes; params: -, weight of strokes, share in the third color, raggedness."""
    row = places.uv[:, 1].floor()
    line = hashed(row.long()[:, None], places.seed, 1)
    along = places.uv[:, 0] * 1.9 + 40 * line
    column = along.floor()
    sign = torch.stack([column, row], 1).long()
    x, y = along - column, (places.uv[:, 1] - row - 0.2) / 0.6
    distance = torch.full_like(x, 9.0)
    for stroke in range(4):
        ends = [(hashed(sign, places.seed, 10 * stroke + k) * 2.999).floor() / 2 for k in range(4)]
        start, end = (torch.stack([0.12 + 0.76 * ends[k], ends[k + 1]], 1) for k in (0, 2))
        distance = torch.minimum(distance, _to_segment(torch.stack([x, y], 1), start, end))
    ink = 1 - smooth_step(distance, 0.06 + 0.1 * places.params[:, 1], 0.1 + 0.1 * places.params[:, 1])
    # Words end at blanks; some lines end early, and some are empty.
    word = hashed(sign, places.seed, 90) > 0.16
    within = hashed(torch.stack([(column / 24).floor(), row], 1).long(), places.seed, 91) > 0.4 * places.params[:, 3]
    ink = ink * (word & within & (line > 0.08))
    color = torch.where((line < 0.5 * places.params[:, 2])[:, None], places.colors[:, 2], places.colors[:, 1])
    return places.colors[:, 0] + ink[:, None] * (color - places.colors[:, 0])


def _to_segment(p: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Return distances (n,) of points from segments."""
    along = end - start
    t = ((p - start) * along).sum(1) / along.square().sum(1).clamp_min(1e-6)
    distance: Tensor = (p - start - t.clamp(0, 1)[:, None] * along).norm(dim=1)
    return distance


def strokes(places: Places) -> Tensor:
    """Long dabs of paint, three layers; params: -, length, share covered, -."""
    color = mix(places, (0.5 + 2 * fractal(places.flat, places.seed, 3)).clamp(0, 1))
    for layer in range(3):
        angle = 6.28 * value_noise(places.flat * 0.25, places.seed + layer)
        cos, sin = angle.cos(), angle.sin()
        u = (cos * places.uv[:, 0] + sin * places.uv[:, 1]) / (1 + 4 * places.params[:, 1])
        v = (cos * places.uv[:, 1] - sin * places.uv[:, 0]) * 2
        _, _, dab = cells(torch.stack([u, v], 1) + 5.3 * layer, places.seed + 13 * layer)
        number = hashed(dab, places.seed, layer)
        covered = number < 0.2 + 0.5 * places.params[:, 2]
        color = torch.where(covered[:, None], picked(places, number * 11 % 1), color)
    return color


def picture(places: Places) -> Tensor:
    """A print of one of `pictures`, mirrored at its edges; params: which, how much of its own colors, flip."""
    printed = pictures_on(places.uv.device)
    count = printed.shape[1]
    number = (places.params[:, 0] * count).long().clamp(0, count - 1)
    level = (places.width * SIDE).clamp_min(1).log2().round().long().clamp(0, LEVELS - 1)
    folded = 1 - (places.uv.remainder(2.0) - 1).abs()
    x, y = (folded.clamp(0, 1) * (SIDE - 1)).unbind(1)
    y = torch.where(places.params[:, 2] < 0.8, SIDE - 1 - y, y)
    column, row = x.long().clamp(0, SIDE - 2), y.long().clamp(0, SIDE - 2)
    fx, fy = (x - column)[:, None], (y - row)[:, None]

    def pixel(dy: int, dx: int) -> Tensor:
        return printed[level, number, :, row + dy, column + dx]

    upper = pixel(0, 0) * (1 - fx) + pixel(0, 1) * fx
    lower = pixel(1, 0) * (1 - fx) + pixel(1, 1) * fx
    color = upper * (1 - fy) + lower * fy
    toned = mix(places, color.mean(1).sqrt())
    return torch.where((places.params[:, 1] < 0.7)[:, None], color, toned)


def plaid(places: Places) -> Tensor:
    """Crossing bands that mix where they cross; params: softness, width."""
    amounts = []
    for k in (0, 1):
        within = places.uv[:, k].remainder(1.0)
        wide = 1 - soft(places, (within - 0.5).abs(), 0.1 + 0.25 * places.params[:, 1], 0.2)
        thin = ((within - 0.05).abs() < 0.03 * places.params[:, 2]).float()
        amounts.append((0.5 * wide + 0.5 * thin)[:, None])
    warp = places.colors[:, 0] + amounts[0] * (places.colors[:, 1] - places.colors[:, 0])
    return warp + amounts[1] * (places.colors[:, 2] - warp)


def blocks(places: Places) -> Tensor:
    """Rectangles of many sizes in four colors; params: -, width of lines, how many are split."""
    uv, color, edge = places.uv, places.colors[:, 0], torch.full_like(places.uv[:, 0], 9.0)
    done = torch.zeros_like(edge, dtype=torch.bool)
    for depth in range(3):
        square = uv.floor()
        place = square.long() + 71 * depth
        number = hashed(place, places.seed, depth)
        inside = (uv - square - 0.5).abs().amax(1)
        edge = torch.where(done, edge, (0.5 - inside) / 2**depth)
        paint = picked(places, hashed(place, places.seed, 9 + depth))
        shade = 0.75 + 0.4 * hashed(place, places.seed, 19)
        color = torch.where(done[:, None], color, paint * shade[:, None])
        done = done | (number > 0.3 + 0.5 * places.params[:, 2])
        uv = uv * torch.where(number > 0.4, 2.0, 1.0)[:, None] + torch.stack([number, number * 0], 1).floor()
        uv = uv * uv.new_tensor([1.0, 2.0]) if depth == 0 else uv
    line = (edge < 0.03 * places.params[:, 1]) & (places.params[:, 1] > 0.5)
    return torch.where(line[:, None], places.colors[:, 3], color)


def lines(places: Places) -> Tensor:
    """Drawn lines of three colors that wander, begin and end; params: -, thickness, share drawn, waviness."""
    color = places.colors[:, 0]
    half = 0.012 + 0.05 * places.params[:, 1]
    for layer in range(3):
        where = places.flat * (1 + 0.5 * layer + places.params[:, 3:] * 1.5) + 7.9 * layer
        field, gate = (value_noise(where * factor, places.seed + layer + 40) for factor in (1.0, 0.43))
        # Value noise has slopes of about one: its contour at a half is a line of about this thickness.
        drawn = (1 - smooth_step((field - 0.5).abs(), half, half + 0.02)) * (gate < 0.3 + 0.5 * places.params[:, 2])
        color = color + drawn[:, None] * (places.colors[:, layer + 1] - color)
    return color


def windows(places: Places) -> Tensor:
    """Rows of panes c1, some c3, with frames c2 in a wall c0; params: -, width, height, distance."""
    pane, outside = panes(places.uv, places.params)
    glass = torch.where((hashed(pane, places.seed) < 0.15)[:, None], places.colors[:, 3], places.colors[:, 1])
    color = torch.where((outside < 0)[:, None], glass, places.colors[:, 0])
    return torch.where(((outside >= 0) & (outside < 0.04))[:, None], places.colors[:, 2], color)


def panes(uv: Tensor, params: Tensor) -> tuple[Tensor, Tensor]:
    """Return which pane of `windows` is nearest to uv (..., n, 2), column and row, and how far outside of its glass."""
    pane, beside = _beside_panes(uv, params)
    return pane.long(), beside.amax(-1)


def sills(uv: Tensor, params: Tensor) -> Tensor:
    """Return whether places (..., n) are right below a pane of `windows`, or where its floor ends and the next begins.

    Floors end in a ledge where the first param is above a half.
    """
    pane, beside = _beside_panes(uv, params)
    above = uv[..., 1] - pane[..., 1]
    is_sill = (beside[..., 0] < 0.06) & (beside[..., 1] > 0) & (beside[..., 1] < 0.08) & (above < 0.5)
    return is_sill | ((params[:, 0] > 0.5) & ((above < 0.05) | (above > 0.95)))


def _beside_panes(uv: Tensor, params: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest pane (..., n, 2), and how far beside its glass, and above or below it, a place is."""
    place = torch.stack([uv[..., 0] / (0.5 + 0.9 * params[:, 3]), uv[..., 1]], -1)
    pane = place.floor()
    return pane, (place - pane - 0.5).abs() - (0.15 + 0.28 * params[:, 1:3])
