"""What building the lattice does for every point and simplex, on a CUDA device, in Triton.

Shapes: n points, d features, s simplices. tests/pairwise/test_kernels.py holds each equal to its plain form in
`construction.py`; both work on rows that are packed in one word, the usual case.
"""

from __future__ import annotations

from functools import cache
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from unlit.pairwise.construction import axis_steps
from unlit.pairwise.embedding import lift_matrix
from unlit.pairwise.packing import Packing

POINTS = 128
"""Points a program locates."""

BLOCK = 64
"""Simplices a program walks around; each takes a row of registers."""


@triton.jit(do_not_specialize=["n"])
@no_type_check  # of tuples that grow
def _locate(
    features, group, group_stride, lift, places, codes, weights, n, base,
    d: tl.constexpr, padded: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """`embedding.located` and the packing of its answer; each lane has a point, and all of its coordinates."""
    point = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = point < n
    feature = ()
    for i in tl.static_range(d):
        feature += (tl.load(features + point * d + i, inside, 0.0).to(tl.float64),)
    cell, offset = (), ()
    excess = tl.zeros([block], tl.int32)
    for j in tl.static_range(d + 1):
        x = tl.zeros([block], tl.float64)
        for i in tl.static_range(d):
            x += feature[i] * tl.load(lift + i * padded + j)
        near = tl.floor(x / (d + 1) + 0.5)
        cell += (near,)
        offset += (x - near * (d + 1),)
        excess += near.to(tl.int32)

    code = tl.load(group + point * group_stride, inside, 0).to(tl.int64) * tl.load(places + 2 * padded) - base
    ranks, offsets = (), ()
    for j in tl.static_range(d + 1):
        rank = excess
        for i in tl.static_range(d + 1):
            if i < j:
                rank += (offset[i] >= offset[j]).to(tl.int32)
            if i > j:
                rank += (offset[i] > offset[j]).to(tl.int32)
        wrap = (rank < 0).to(tl.int32) - (rank > d).to(tl.int32)
        rank += wrap * (d + 1)
        ranks += (rank,)
        offsets += (offset[j] - wrap * (d + 1),)
        code += (cell[j].to(tl.int64) + wrap) * tl.load(places + j)
        code += rank.to(tl.int64) * tl.load(places + padded + j)
    tl.store(codes + point, code, inside)

    own = weights + point * (d + 1)
    first = tl.zeros([block], tl.float64)
    before = first
    for r in tl.static_range(d + 1):
        after = tl.zeros([block], tl.float64)
        for j in tl.static_range(d + 1):
            after = tl.where(ranks[j] == r, offsets[j], after)
        if r == 0:
            first = after
        else:
            tl.store(own + (d + 1 - r), ((before - after) * (1 / (d + 1))).to(weights.dtype.element_ty), inside)
        before = after
    tl.store(own, (1 + (before - first) * (1 / (d + 1))).to(weights.dtype.element_ty), inside)


def located(features: Tensor, group: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """Return each point's simplex, packed in one word (1, n), and its weights, as `construction._located` does."""
    n, d = features.shape
    padded = triton.next_power_of_2(d + 1)
    values = packing.place_values
    # Of the cells, of the ranks, of the group.
    places = [*_filled(values[1 : d + 1], padded), *_filled(values[d + 1 :], padded), values[0]]
    codes = torch.empty(1, n, dtype=torch.int64, device=features.device)
    weights = features.new_empty(n, d + 1)
    grid = (triton.cdiv(n, POINTS),)
    _locate[grid](
        features.contiguous(), group, group.stride(0), _lift(d, padded, features.device),
        torch.tensor(places).to(features.device),
        codes, weights, n, packing.base(0), d=d, padded=padded, block=POINTS,
    )  # fmt: skip
    return codes, weights


@cache
def _lift(d: int, padded: int, device: torch.device) -> Tensor:
    """Return `lift_matrix` on a device: to bring it there makes the device wait, and it never changes."""
    return torch.nn.functional.pad(lift_matrix(d), (0, padded - d - 1)).to(device)


@triton.jit
def _walk(
    simplices, tables, corners, s, base, group_place, group_digits, group_low, vertex_group_place,
    d: tl.constexpr, padded: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """The corners of simplices: their columns are unpacked, and each corner is a step from the one before."""
    simplex = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = simplex < s
    column = tl.arange(0, padded)
    code = tl.load(simplices + simplex, inside, 0)
    group = (code // group_place) % group_digits + group_low
    table = tables + column
    cell = (code[:, None] // tl.load(table)[None, :]) % tl.load(table + padded)[None, :]
    cell += tl.load(table + 2 * padded)[None, :]
    rank = (code[:, None] // tl.load(table + 3 * padded)[None, :]) % (d + 1)
    rank = tl.where((column < d)[None, :], rank, 0)
    last = d * (d + 1) // 2 - tl.sum(rank, 1)  # the ranks are 0 to d in some order
    rank = tl.where((column == d)[None, :], last[:, None], tl.where((column > d)[None, :], -1, rank))
    step = tl.load(table + 5 * padded)[None, :]
    word = group * vertex_group_place + tl.sum(cell * tl.load(table + 4 * padded)[None, :], 1) - base
    tl.store(corners + simplex, word, inside)
    for color in tl.static_range(1, d + 1):
        word += tl.sum(tl.where(rank == d + 1 - color, step, 0), 1)
        tl.store(corners + color * s + simplex, word, inside)


def corners(simplices: Tensor, simplex_packing: Packing, packing: Packing) -> Tensor:
    """Return the corners (1, (d + 1) s) of simplices (1, s), as `construction._corners` does."""
    d, s = len(packing.lows) - 1, simplices.shape[1]
    padded = triton.next_power_of_2(d + 1)
    places, digits, lows = simplex_packing.place_values, simplex_packing.digits, simplex_packing.lows
    rows = [
        _filled(places[1 : d + 1], padded, 1),
        _filled(digits[1 : d + 1], padded, 1),
        _filled(lows[1 : d + 1], padded),
        _filled(places[d + 1 :], padded, 1),
        _filled([(d + 1) * value for value in packing.place_values[1:]], padded),
        _filled(packing.steps(axis_steps(d))[0], padded),
    ]
    tables = torch.tensor(rows).to(simplices.device)
    result = torch.empty(1, (d + 1) * s, dtype=torch.int64, device=simplices.device)
    _walk[(triton.cdiv(s, BLOCK),)](
        simplices, tables, result, s, packing.base(0), places[0], digits[0], lows[0], packing.place_values[0],
        d=d, padded=padded, block=BLOCK,
    )  # fmt: skip
    return result


def _filled(values: list[int], length: int, value: int = 0) -> list[int]:
    return values + [value] * (length - len(values))
