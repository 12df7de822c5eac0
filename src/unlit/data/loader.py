"""Batches for every step of a training run, in an order that depends on a seed alone.

A visit is one look at one sequence; visits are numbered through the whole run. Which sequence a visit sees, and every
draw that it makes, follow from the seed and its number: so a run can go on at any step, on any number of processes, as
if it had never stopped.

Small sets are kept on the training device. Large ones are read by worker processes, ahead of the step that needs them;
or some of them are kept, and others take their places while the run goes on (`data/sliding.py`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from unlit.data.augment import seeded
from unlit.data.batch import UNCHANGED, Batch, batch_of
from unlit.data.dataset import Dataset, Item, Skipped, Source, stated_size
from unlit.data.sequence import Sequence, SequenceError
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.data.sizing import places_of, read_usable, training_size
from unlit.data.sliding import Sliding
from unlit.processes import usable_processors

_ORDER, _VISIT = 1, 2
"""First numbers of the seeds for the order of an epoch and for the draws of a visit."""

Say = Callable[[str], object]


@dataclass(frozen=True)
class Plan:
    """Which sequences each batch has: all of them once an epoch, those of one size together."""

    sizes: tuple[tuple[int, int], ...]
    """Of every sequence, (h, w); all equal where windows are cut."""
    sequences: int
    """In a batch."""
    seed: int
    _epochs: dict[int, list[list[int]]] = field(default_factory=dict, repr=False, compare=False)
    """The batches of the epoch that was asked for last: drawing them anew for each batch would take the step's time."""

    @cached_property
    def per_epoch(self) -> int:
        """The number of batches in which every sequence comes at least once."""
        return sum(-(-len(bucket) // self.sequences) for bucket in self.buckets())

    def batch(self, number: int) -> list[int]:
        """Return the sequences of a batch; those of an epoch's last may have come already."""
        epoch, place = divmod(number, self.per_epoch)
        if epoch not in self._epochs:
            self._epochs.clear()
            self._epochs[epoch] = self._epoch(epoch)
        return self._epochs[epoch][place]

    def _epoch(self, epoch: int) -> list[list[int]]:
        """Return all batches of an epoch in their order."""
        draw = seeded(self.seed, _ORDER, epoch)
        batches = []
        for bucket in self.buckets():
            order = draw.permutation(len(bucket)).tolist()
            order += draw.integers(len(bucket), size=-len(bucket) % self.sequences).tolist()
            members = [bucket[k] for k in order]
            batches += [members[i : i + self.sequences] for i in range(0, len(members), self.sequences)]
        return [batches[k] for k in draw.permutation(len(batches)).tolist()]

    def buckets(self) -> list[list[int]]:
        """Return the sequences of each size."""
        by_size: dict[tuple[int, int], list[int]] = {}
        for k, size in enumerate(self.sizes):
            by_size.setdefault(size, []).append(k)
        return list(by_size.values())


@dataclass(frozen=True)
class Visits:
    """The items of one batch as they were read, with the number of its first visit; and what had to be left out.

    Without items: nothing can be read any more.
    """

    items: list[Item]
    first: int
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class Kept:
    """An item on the training device."""

    item: Item
    places: Tensor
    """(n, 2), on the CPU: rows and columns where it is valid."""


class Loader:
    """Gives batches of a dataset, on a device. Iterate over `batches`."""

    def __init__(
        self,
        dataset: Dataset,
        data: DataSettings,
        augment: AugmentSettings | None,
        *,
        sequences: int,
        seed: int,
        device: torch.device,
        say: Say,
        prepare: Callable[[Item], Item] | None = None,
        run: int | None = None,
    ) -> None:
        """Look through a dataset. `prepare` adds to each item, on the device, what training needs besides.

        `run` is how many batches the whole run has, where `data.held` asks to know.
        """
        self.data, self.augment, self.device = data, augment or UNCHANGED, device
        self._seed, self._say, self._prepare = seed, say, prepare
        self.skipped: list[Skipped] = []
        self._store: dict[int, Kept] | None = {}
        self._sliding: Sliding[Kept] | None = None
        self._sources: list[Source] = []
        self._sizes: list[tuple[int, int]] = []
        if run is not None and data.held is not None and data.held < len(dataset.sources):
            self._slide(dataset, data.held, run, sequences)
        else:
            self._look_through(dataset)
        if not self._sources:
            first = f" (the first: {self.skipped[0].reason})" if self.skipped else ""
            raise SequenceError(f"{dataset.place}: no sequence of {len(dataset.sources)} can be used{first}")
        one_size = [(data.window, data.window)] * len(self._sources) if data.window else self._sizes
        self.plan = Plan(tuple(one_size), sequences, seed)

    @property
    def with_truth(self) -> int:
        """How many of the sequences are known to have truth, of those that are on the device."""
        return sum(kept.item.truth is not None for kept in (self._store or {}).values())

    @property
    def names(self) -> list[str]:
        """Of the sequences that are used."""
        return [source.name for source in self._sources]

    @property
    def on_device(self) -> bool:
        """Whether the set is kept on the device; else it streams, or part of it is kept."""
        return self._store is not None

    @property
    def slides(self) -> bool:
        """Whether part of the set is kept, and others take their places while a run goes on."""
        return self._sliding is not None

    @property
    def where(self) -> str:
        """Where the sequences are, in words."""
        if self._sliding is not None:
            return f"(on the device {self.data.held} at a time)"
        return "on the device" if self.on_device else "streaming from disk"

    def _slide(self, dataset: Dataset, held: int, run: int, sequences: int) -> None:
        """Keep part of the set at a time. What cannot be used shows when it is read."""
        for skipped in dataset.skipped:
            self._skip(skipped)
        self._store, self._sources = None, list(dataset.sources)
        self._sliding = Sliding(
            self._sources, self._read_and_keep, held=held, batches=run, sequences=sequences, seed=self._seed
        )

    def _read_and_keep(self, source: Source) -> Kept | None:
        item = self._usable(source)
        return None if item is None else self._kept(item)

    def _usable(self, source: Source) -> Item | None:
        """Read a sequence; say what of it cannot be used."""
        item = read_usable(source, self.data)
        if isinstance(item, Skipped):
            self._skip(item)
            return None
        if item.sequence.dropped:
            self._skip(dropped_frames(item))
        return item

    def _kept(self, item: Item) -> Kept:
        """Return the item as the device keeps it."""
        on_device = moved(item, self.device)
        prepared = self._prepare(on_device) if self._prepare else on_device
        return Kept(in_half(prepared) if self.data.half else prepared, places_of(item))

    def _look_through(self, dataset: Dataset) -> None:
        """Read every sequence of a small set once: keep what can be used, and name what cannot."""
        for skipped in dataset.skipped:
            self._skip(skipped)
        held = 0.0
        for source in dataset.sources:
            size = None if self._store is not None else stated_size(source)
            if size is not None:
                # Reading all of a large set would take long; what is wrong with it shows at its first visit.
                self._sources.append(source)
                self._sizes.append(training_size(*size, self.data))
                continue
            item = self._usable(source)
            if item is None:
                continue
            held += item.sequence.frames.nbytes / (1 + self.data.half) + item.sequence.mask.nbytes
            if held > self.data.memory_gb * 1e9 and self._store is not None:
                if self._prepare:
                    raise SequenceError(
                        f"{dataset.place}: has more than {self.data.memory_gb:g} GB of frames, too many to be solved "
                        "beforehand; raise data.memory_gb, or set solved.weight to 0"
                    )
                self._say(f"more than {self.data.memory_gb:g} GB of frames: they stream from disk")
                self._store = None
            number = len(self._sources)
            self._sources.append(source)
            self._sizes.append((item.sequence.frames.shape[2], item.sequence.frames.shape[3]))
            if self._store is not None:
                self._store[number] = self._kept(item)

    def _skip(self, skipped: Skipped) -> None:
        if skipped in self.skipped:
            return  # streaming comes by again every epoch
        self.skipped.append(skipped)
        self._say(f"skipped {skipped.name}: {skipped.reason}")

    def batches(self, first: int, stride: int, block: int) -> Iterator[Batch]:
        """Yield batches without end: `block` in a row from batch number `first`, then those `stride` further on."""
        numbers = (start + k for start in _counting(first, stride) for k in range(block))
        if self._sliding is not None or self._store is not None:
            for number in numbers:
                yield self._kept_batch(number)
        else:
            for visits in self._streamed(first, stride, block):
                for skipped in visits.skipped:
                    self._skip(skipped)
                if not visits.items:
                    raise SequenceError(f"no sequence can be read any more; the last: {visits.skipped[-1].reason}")
                yield self._batch(visits, [places_of(item) for item in visits.items])

    def _kept_batch(self, number: int) -> Batch:
        """Return a batch of sequences that are on the device; it holds none of them when the next is asked for."""
        if self._sliding is not None:
            kept = self._sliding.batch(number)
        else:
            assert self._store is not None
            kept = [self._store[k] for k in self.plan.batch(number)]
        visits = Visits([each.item for each in kept], number * self.plan.sequences)
        return self._batch(visits, [each.places for each in kept])

    def _batch(self, visits: Visits, places: list[Tensor]) -> Batch:
        draws = [seeded(self._seed, _VISIT, visits.first + k) for k in range(len(visits.items))]
        return batch_of(visits.items, draws, places, self.data, self.augment, self.device)

    def _streamed(self, first: int, stride: int, block: int) -> Iterator[Visits]:
        workers = min(self.data.workers, usable_processors())
        loader = DataLoader(
            _Reading(tuple(self._sources), self.plan, self.data),
            sampler=_Numbers(first, stride, block),
            batch_size=None,
            num_workers=workers,
            prefetch_factor=2 if workers else None,
            multiprocessing_context="spawn" if workers else None,  # a fork would copy CUDA's state
            persistent_workers=False,
            worker_init_fn=_ignore_signals,
        )
        yield from loader


def moved(item: Item, device: torch.device) -> Item:
    """Return the item on a device."""
    sequence = item.sequence
    on_device = replace(sequence, frames=sequence.frames.to(device), mask=sequence.mask.to(device))
    return replace(item, sequence=on_device, truth=None if item.truth is None else item.truth.to(device))


class HalfSequence(Sequence):
    """A sequence whose frames are kept as 16-bit floats; what it was made of has been checked."""

    def __post_init__(self) -> None:
        """Check nothing: looking at the frames would make the device wait."""


def in_half(item: Item) -> Item:
    """Return the item with its pictures as 16-bit floats, which `placed` makes 32-bit ones of again."""

    def few_digits(values: Tensor | None) -> Tensor | None:
        return None if values is None else values.clamp(max=torch.finfo(torch.float16).max).half()

    fields = vars(item.sequence) | {"frames": few_digits(item.sequence.frames)}
    truth = item.truth
    if truth is not None:
        truth = replace(truth, reflectance=few_digits(truth.reflectance), shading=few_digits(truth.shading))
    return replace(item, sequence=HalfSequence(**fields), truth=truth)


def _counting(first: int, stride: int) -> Iterator[int]:
    while True:
        yield first
        first += stride


def _ignore_signals(_: int) -> None:
    """Let whoever stops the whole group stop the run, which saves and then ends its workers itself."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


class _Numbers(torch.utils.data.Sampler[int]):
    """The numbers of the batches to read, in order."""

    def __init__(self, first: int, stride: int, block: int) -> None:
        self._first, self._stride, self._block = first, stride, block

    def __iter__(self) -> Iterator[int]:
        return (start + k for start in _counting(self._first, self._stride) for k in range(self._block))


class _Reading(TorchDataset[Visits]):
    """Reads the items of a batch, in a worker process."""

    def __init__(self, sources: tuple[Source, ...], plan: Plan, data: DataSettings) -> None:
        self._sources, self._plan, self._data = sources, plan, data

    def __getitem__(self, number: int) -> Visits:
        """Return a batch of the plan; where no sequence of its size can be read any more, one of another size."""
        skipped: list[Skipped] = []
        items = self._readable(self._plan.batch(number), skipped)
        for bucket in self._plan.buckets():
            if items:
                break
            items = self._readable([bucket[k % len(bucket)] for k in range(self._plan.sequences)], skipped)
        for item in items:
            if item.sequence.dropped:
                skipped.append(dropped_frames(item))
        return Visits(items, number * self._plan.sequences, tuple(skipped))

    def _readable(self, chosen: list[int], skipped: list[Skipped]) -> list[Item]:
        """Return the chosen items, others of their size in the place of those that cannot be read; [] where none can.

        They could be read when the run began, or were not looked at then.
        """
        items: list[Item] = []
        for k in chosen:
            same = [i for i, size in enumerate(self._plan.sizes) if size == self._plan.sizes[k]]
            start = same.index(k)
            for candidate in (*same[start:], *same[:start]):
                item = read_usable(self._sources[candidate], self._data)
                if not isinstance(item, Skipped):
                    items.append(item)
                    break
                skipped.append(item)
            else:
                return []
        return items


def dropped_frames(item: Item) -> Skipped:
    """Return the frames of an item that are not used: not the sequence, but they are counted all the same."""
    names = ", ".join(item.sequence.dropped)
    return Skipped(f"{item.sequence.name}: {names}", "wholly masked, or cannot be read")
