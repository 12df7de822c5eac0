"""What a run must not be surprised by: being asked to stop, and computing otherwise than before."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch


@contextmanager
def asked_to_stop() -> Iterator[list[int]]:
    """Collect SIGTERM and the first Ctrl-C instead of dying of them: the loop saves, then leaves."""
    asked: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        asked.append(number)
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a second one means it

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:  # not the main thread: signals are somebody else's
        yield asked
        return
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def repeatable(exactly: bool) -> Iterator[None]:
    """Let cuDNN compute the same way each time, or a resumed run would not repeat to the last bit; else the fastest."""
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = exactly, not exactly
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before
