"""Scenes in their order, whoever renders them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal

import pytest
import torch

from unlit.data.dataset import Item
from unlit.data.sequence import SequenceError
from unlit.worlds.dataset import open_worlds
from unlit.worlds.shelf import Rendering, Shelf

SEEDS = range(230, 246)
"""Sixteen: fewer are not shared out. Of 237 next to nothing can be seen."""


def shelf(processes: int) -> Shelf:
    return Shelf(SEEDS, Rendering("train", (24, 32), 2, "cpu"), processes)


def read(source: Shelf, number: int) -> Item | str:
    try:
        return source.read(number)
    except SequenceError as error:
        return str(error)


def equal(one: Item | str, other: Item | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    tensors = []
    for item in (one, other):
        assert item.truth is not None
        assert item.one_light
        t = item.truth
        tensors.append([item.sequence.frames, item.sequence.mask, t.reflectance, t.shading, t.shading_valid])
    same = all(a is not None and b is not None and torch.equal(a, b) for a, b in zip(*tensors, strict=True))
    names = [(item.sequence.name, item.sequence.frame_names) for item in (one, other)]
    return same and names[0] == names[1]


def children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}


def test_several_processes_render_what_one_does_in_its_order() -> None:
    alone, together = shelf(0), shelf(2)
    before = children()
    for number in SEEDS:
        assert equal(read(together, number), read(alone, number)), number
        if number == SEEDS[3]:
            assert len(children() - before) == 2
    assert isinstance(read(alone, 237), str), "the range has a scene that is left out"


def test_whoever_asks_out_of_order_gets_the_right_scene() -> None:
    source = shelf(2)
    for number in (234, 235, 231):
        assert equal(read(source, number), read(shelf(0), number)), number


def test_processes_end_with_the_shelf() -> None:
    before = children()
    source = shelf(2)
    source.read(SEEDS[0])
    assert children() - before
    del source
    assert children() == before


def test_a_process_that_is_killed_is_an_error_and_not_a_wait_forever() -> None:
    before = children()
    source = shelf(2)
    source.read(SEEDS[0])
    for pid in children() - before:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"has ended \(-9\).*data\.workers"):
        [read(source, number) for number in SEEDS[1:]]
    assert children() == before


def test_few_scenes_and_copies_are_rendered_by_the_process_that_asks() -> None:
    before = children()
    few = open_worlds("worlds:230:4:32x24:2", processes=4)
    few.sources[0].read()
    assert children() == before
    copied = pickle.loads(pickle.dumps(shelf(2)))
    copied.read(SEEDS[0])
    assert children() == before
