"""Several processes as one: who is there, and what they must agree on. `torchrun` starts them.

Each process sees its own sequences; DistributedDataParallel averages the gradients, so that N processes of one pass do
what one process of N passes does. Running means of the normalisation are the first process's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed


@dataclass(frozen=True)
class Team:
    """This process among `world`."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over all processes of `values`."""
        if self.world == 1:
            return values
        values = values.clone()
        distributed.all_reduce(values)
        return values

    def any(self, flag: bool) -> bool:
        """Return whether `flag` is set in any process: so that all of them leave at the same step."""
        if self.world == 1:
            return flag
        value = torch.tensor(float(flag), device=self.device)
        distributed.all_reduce(value, distributed.ReduceOp.MAX)
        return bool(value.item())

    def wait(self) -> None:
        """Return when all processes are here."""
        if self.world > 1:
            distributed.barrier()


@contextmanager
def joined_team(device: str = "auto") -> Iterator[Team]:
    """Join the processes that `torchrun` started, or be alone; `device` "auto" is a GPU of one's own where there is."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank, local = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    chosen = _device(device, local)
    if world == 1:
        yield Team(chosen)
        return
    distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield Team(chosen, rank, world)
    finally:
        distributed.destroy_process_group()


def _device(name: str, local: int) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device {name!r} is none that torch knows; say auto, cpu, cuda or cuda:1") from error
    if device.type != "cuda":
        return device
    if not torch.cuda.is_available():
        raise ValueError(f"device {name!r}: torch finds no CUDA device here; say --device cpu")
    if name == "cuda":
        if local >= torch.cuda.device_count():
            raise ValueError(f"{local + 1} processes for {torch.cuda.device_count()} GPU(s); start fewer")
        device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    return device
