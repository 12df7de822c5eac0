from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unlit.image_io import write_image
from unlit.predict.files import Job
from unlit.predict.many import Batcher, Saving, _Room, decompose_files
from unlit.predict.predictor import Predictor
from unlit.predict.small import small_picture


def test_pictures_that_wait_go_through_the_network_together(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: while one pass is on its way others wait, and the next takes them all."""
    smalls = [small_picture(np.random.default_rng(k).random((30, 40, 3), np.float32)) for k in range(9)]
    alone = [predictor.said([small])[0] for small in smalls]
    counts: list[int] = []
    said = predictor.said

    def slowly(asked: Any) -> Any:
        counts.append(len(asked))
        time.sleep(0.05)
        return said(asked)

    monkeypatch.setattr(predictor, "said", slowly)
    with Batcher(predictor, batch=4, direct=False) as batcher, ThreadPoolExecutor(9) as pool:
        together = list(pool.map(batcher.said, smalls))
    assert sum(counts) == 9
    assert 1 < max(counts) <= 4
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.log_shading, other.log_shading, atol=0.03, rtol=0)  # bfloat16


def test_what_goes_wrong_in_a_batch_reaches_all_who_asked(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> Any:
        raise RuntimeError("no memory on the device")

    monkeypatch.setattr(predictor, "said", fail)
    small = small_picture(np.zeros((8, 8, 3), np.float32))
    with Batcher(predictor, direct=False) as batcher:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no memory"):
                batcher.said(small)


def test_no_more_than_the_room_is_taken_but_by_one_alone() -> None:
    room, together, most = _Room(100), 0, 0
    lock = threading.Lock()

    def work(size: int) -> None:
        nonlocal together, most
        with room.held(size):
            with lock:
                together += size
                most = max(most, together)
            time.sleep(0.002)
            with lock:
                together -= size

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [40, 60, 30, 90, 10, 50, 50, 20] * 4))
    assert 60 < most <= 100
    work(1000)
    assert most == 1000


def test_every_photograph_is_told_once_and_threads_are_as_before(predictor: Predictor, tmp_path: Path) -> None:
    jobs = []
    for k in range(6):
        path = tmp_path / f"{k}.png"
        write_image(path, np.random.default_rng(k).random((20 + k, 30, 3), np.float32))
        jobs.append(Job(path, tmp_path / "out", path.stem))
    jobs.append(Job(tmp_path / "missing.png", tmp_path / "out", "missing"))
    before, told = torch.get_num_threads(), []
    decompose_files(predictor, jobs, Saving(), lambda job, error: told.append((job.stem, type(error).__name__)))
    assert sorted(told) == sorted([(str(k), "NoneType") for k in range(6)] + [("missing", "ImageError")])
    assert torch.get_num_threads() == before
    assert len(list((tmp_path / "out").glob("*.unlit.json"))) == 6
    decompose_files(predictor, [], Saving(), lambda job, error: told.append(("nothing", "")))
    assert len(told) == 7
