"""Scenes in their order, whoever renders them."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from unlit.data.dataset import Item, Split
from unlit.data.loader import in_half
from unlit.data.sequence import SequenceError
from unlit.worlds import dataset
from unlit.worlds.dataset import WorldSource, fitting_processes, open_worlds
from unlit.worlds.scene import scene
from unlit.worlds.shelf import Rendering, Shelf, _arrays, _item, _Worker

SEEDS = range(230, 246)
"""Sixteen: fewer are not shared out. Of 237 next to nothing can be seen."""


def shelf(processes: int, *, half: bool = False) -> Shelf:
    return Shelf(SEEDS, Rendering("train", (24, 32), 2, "cpu", half), processes)


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
    for number in SEEDS:
        assert equal(read(together, number), read(alone, number)), number
        if number == SEEDS[0]:  # one of them may be done with all of its own already
            assert len({worker._process.pid for worker in _workers(together)} - {os.getpid()}) == 2
    assert isinstance(read(alone, 237), str), "the range has a scene that is left out"


def test_scenes_sent_as_16_bit_floats_are_those_that_were_not_once_both_are_kept_so() -> None:
    alone, together = shelf(0), shelf(2, half=True)
    for number in SEEDS[:4]:
        made, arrived = alone.read(number), together.read(number)
        assert equal(in_half(arrived), in_half(made)), number
        assert not equal(arrived, made), f"{number} was not sent so"


def test_16_bit_floats_are_what_is_sent_and_only_if_they_are_asked_for() -> None:
    item = shelf(0).read(SEEDS[0])
    for half, wanted in ((False, np.float32), (True, np.float16)):
        sent = _arrays(item, half=half)
        assert {sent[name].dtype for name in ("frames", "reflectance", "shading")} == {np.dtype(wanted)}


def test_without_half_scenes_arrive_exactly_as_rendered() -> None:
    item = shelf(0).read(SEEDS[0])
    assert equal(_item(_arrays(item, half=False)), item)


@pytest.mark.parametrize("half", [False, True])
def test_what_arrives_is_of_32_bits_and_its_mask_is_bool_however_it_was_sent(half: bool) -> None:
    arrived = _item(_arrays(shelf(0).read(SEEDS[0]), half=half))
    truth = arrived.truth
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    pictures = (arrived.sequence.frames, truth.reflectance, truth.shading)
    assert [picture.dtype for picture in pictures] == [torch.float32] * 3
    assert arrived.sequence.mask.dtype == torch.bool


def test_light_beyond_the_largest_16_bit_float_arrives_as_that() -> None:
    item = shelf(0).read(SEEDS[0])
    assert item.truth is not None
    assert item.truth.shading is not None
    bright = replace(
        item,
        sequence=replace(item.sequence, frames=1e7 * item.sequence.frames),
        truth=replace(item.truth, shading=1e7 * item.truth.shading),
    )
    arrived = _item(_arrays(bright, half=True))
    assert arrived.truth is not None
    assert arrived.truth.shading is not None
    assert float(arrived.sequence.frames.amax()) == float(arrived.truth.shading.amax()) == 65504


def test_worlds_of_a_dataset_are_sent_as_it_was_told() -> None:
    for half in (False, True):
        sources = open_worlds("worlds:230:2:32x24:2", half=half).sources
        assert {source.split for source in sources} == {"train", "validation"}
        for source in sources:
            assert isinstance(source, WorldSource)
            assert source.shelf.rendering.half is half


def test_whoever_asks_out_of_order_gets_the_right_scene() -> None:
    source = shelf(2)
    for number in (234, 235, 231):
        assert equal(read(source, number), read(shelf(0), number)), number


def test_processes_end_with_the_shelf_or_with_its_last_scene() -> None:
    before = children()
    source = shelf(2)
    source.read(SEEDS[0])
    assert children() - before
    del source
    assert children() == before
    whole = shelf(2)
    for number in SEEDS:
        read(whole, number)
    assert children() == before


def test_signals_that_all_processes_get_are_for_the_one_that_reads() -> None:
    """So that a run which is told to end can go on until it has saved, from the renderers' first moment on."""
    before = children()
    source = shelf(2)
    found = [read(source, SEEDS[0])]
    for pid in children() - before:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
    found += [read(source, number) for number in SEEDS[1:]]
    assert len(found) == len(SEEDS)


@pytest.mark.parametrize("part", [None, b"", b"begun"], ids=["at any moment", "before a scene", "in the midst of one"])
def test_a_process_that_is_killed_is_an_error_and_no_scene_left_out(part: bytes | None) -> None:
    before = children()
    source = shelf(2)
    source.read(SEEDS[0])
    if part is None:
        for pid in children() - before:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match=r"has ended \(exit code -9\).*Lower data\.workers"):
            [read(source, number) for number in SEEDS[1:]]
    else:
        worker = _workers(source)[1]
        mine, theirs = multiprocessing.Pipe(duplex=False)
        worker._process.kill()
        worker._pipe = mine
        if part:  # the length of a message comes first
            os.write(theirs.fileno(), (1000).to_bytes(4, "big") + part)
        theirs.close()
        with pytest.raises(RuntimeError, match=r"has ended"):
            worker._take()
    del source


def test_after_a_failure_the_scene_can_be_asked_for_again() -> None:
    before = children()
    source = shelf(2)
    source.read(SEEDS[0])
    for pid in children() - before:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeError):
        [read(source, number) for number in SEEDS[1:]]
    assert children() == before
    assert equal(read(source, SEEDS[4]), read(shelf(0), SEEDS[4]))


def _workers(source: Shelf) -> list[_Worker]:
    found: list[_Worker] = inspect.getgeneratorlocals(source._made)["workers"]  # type: ignore[arg-type]
    return found


def test_a_reader_that_is_killed_leaves_nobody_behind(tmp_path: Path) -> None:
    script = tmp_path / "reader.py"
    script.write_text(
        "import multiprocessing, os, signal\n"
        "from unlit.worlds.shelf import Rendering, Shelf\n"
        "if __name__ == '__main__':\n"
        "    source = Shelf(range(16), Rendering('train', (24, 32), 2, 'cpu'), 2)\n"
        "    source.read(0)\n"
        "    print(*(child.pid for child in multiprocessing.active_children()), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    assert "Traceback" not in done.stderr
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids)


def test_a_program_ends_though_its_renderers_hear_no_signal(tmp_path: Path) -> None:
    script = tmp_path / "reader.py"
    script.write_text(
        "from unlit.worlds.shelf import Rendering, Shelf\n"
        "if __name__ == '__main__':\n"
        "    source = Shelf(range(16), Rendering('train', (24, 32), 2, 'cpu'), 2)\n"
        "    source.read(0)\n"
        "    import unlit\n"
        "    unlit.source = source  # held until after the end\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_scenes_for_validation_have_no_sky() -> None:
    number = next(k for k in range(2_000_000_000, 2_000_000_100) if scene(k).place == "vista")
    masks = []
    for split in get_args(Split)[:2]:
        masks.append(Shelf(range(number, number + 1), Rendering(split, (24, 32), 2, "cpu")).read(number).sequence.mask)
    assert masks[1].sum() < masks[0].sum()


def test_few_scenes_and_copies_are_rendered_by_the_process_that_asks() -> None:
    before = children()
    few = open_worlds("worlds:230:4:32x24:2", processes=4)
    few.sources[0].read()
    assert children() == before
    copied = pickle.loads(pickle.dumps(shelf(2)))
    copied.read(SEEDS[0])
    assert children() == before


def test_no_more_processes_than_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    one = dataset._BYTES_A_PIXEL * 100 * 200
    monkeypatch.setattr(dataset, "_free_memory", lambda: 7 * one)
    cpu = torch.device("cpu")
    assert [fitting_processes(count, (100, 200), cpu) for count in (0, 2, 3, 13)] == [0, 2, 3, 3]
