"""Batches in an order that depends on the seed alone, whoever reads them and wherever one begins."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.world import tiny_dataset, tiny_sequence
from unlit.data.batch import Batch
from unlit.data.dataset import Dataset, Item, MemorySource, Skipped, dataset_of, open_dataset
from unlit.data.loader import Loader, Plan
from unlit.data.sequence import SequenceError
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.data.truth import Truth

CPU = torch.device("cpu")
WINDOW = DataSettings(window=8)
AUGMENT = AugmentSettings(zoom=(0.8, 1.25), mixtures=0.5, exposure=0.5, white_balance=0.3, paint=0.5)
WIDE, TALL = (256, 384), (384, 256)


def in_memory(count: int = 5) -> Dataset:
    return dataset_of([tiny_sequence(k, m=3, h=12 + k, w=16) for k in range(count)])


def loader(dataset: Dataset | None = None, data: DataSettings = WINDOW, **options: Any) -> Loader:
    chosen = {"augment": AUGMENT, "sequences": 2, "seed": 3, "device": CPU, "say": lambda _: None, **options}
    augment = chosen.pop("augment")
    return Loader(dataset or in_memory(), data, augment, **chosen)


def assert_same(one: list[Batch], other: list[Batch]) -> None:
    assert [batch.names for batch in one] == [batch.names for batch in other]
    for first, second in zip(one, other, strict=True):
        assert torch.equal(first.frames, second.frames)
        assert torch.equal(first.mask, second.mask)


# The plan ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sequences", [1, 2, 3, 20])
def test_every_sequence_comes_once_an_epoch_but_for_what_fills_the_last_batches(sequences: int) -> None:
    plan = Plan((WIDE,) * 7 + (TALL,) * 4, sequences, seed=1)
    for epoch in range(3):
        batches = [plan.batch(epoch * plan.per_epoch + k) for k in range(plan.per_epoch)]
        counts = Counter(k for batch in batches for k in batch)
        assert set(counts) == set(range(11))
        assert all(len(batch) == sequences for batch in batches)
        assert sum(counts.values()) - 11 == -7 % sequences + -4 % sequences
    if sequences == 1:
        assert plan.per_epoch == 11


def test_sizes_are_never_mixed_in_a_batch() -> None:
    sizes = (WIDE, TALL, WIDE, (256, 256), TALL, WIDE, TALL, WIDE)
    plan = Plan(sizes, 3, seed=0)
    for number in range(5 * plan.per_epoch):
        assert len({sizes[k] for k in plan.batch(number)}) == 1


def test_sizes_come_in_a_mixed_order() -> None:
    sizes = (WIDE,) * 8 + (TALL,) * 8
    plan = Plan(sizes, 2, seed=0)
    order = [sizes[plan.batch(k)[0]] for k in range(plan.per_epoch)]
    assert order not in ([WIDE] * 4 + [TALL] * 4, [TALL] * 4 + [WIDE] * 4)


def test_a_plan_repeats_with_its_seed_and_differs_between_epochs_and_seeds() -> None:
    def epoch(number: int, seed: int = 0) -> list[list[int]]:
        plan = Plan((WIDE,) * 12, 2, seed)
        return [plan.batch(number * plan.per_epoch + k) for k in range(plan.per_epoch)]

    assert epoch(4) == epoch(4)
    assert epoch(4, seed=1) == epoch(4, seed=1)
    assert len({str(one) for one in (epoch(0), epoch(1), epoch(2), epoch(0, seed=1))}) == 4


# Batches -------------------------------------------------------------------------------------------------------------


def test_windows_of_all_sequences_go_together_whatever_their_sizes() -> None:
    whole = loader(sequences=5)
    assert whole.plan.per_epoch == 1
    batch = next(whole.batches(0, 1, 1))
    assert sorted(batch.names) == [f"place{k}" for k in range(5)]
    assert batch.frames.shape == (5, 3, 3, 8, 8)


def test_whole_pictures_go_with_those_of_their_size() -> None:
    shapes = [(20, 40), (40, 20), (21, 40)]
    dataset = dataset_of([tiny_sequence(k, m=2, h=h, w=w) for k, (h, w) in enumerate(shapes)])
    whole = loader(dataset, DataSettings())
    assert whole.plan.sizes == (WIDE, TALL, WIDE)
    for batch in islice(whole.batches(0, 1, 1), 2):
        assert set(batch.names) in ({"place0", "place2"}, {"place1"})
        assert batch.frames.shape[3:] == (TALL if "place1" in batch.names else WIDE)


def test_one_sequence_is_changed_otherwise_at_every_visit_and_in_a_batch() -> None:
    single = loader(in_memory(1), sequences=2)
    first, second = islice(single.batches(0, 1, 1), 2)
    seen = [*first.frames, *second.frames]
    assert all(not torch.equal(seen[i], seen[j]) for i in range(4) for j in range(i))


@pytest.mark.parametrize(("ranks", "passes"), [(2, 1), (2, 3), (3, 2)])
def test_several_processes_see_what_one_with_as_many_passes_sees(ranks: int, passes: int) -> None:
    steps, each = 3, ranks * passes
    alone = list(islice(loader().batches(0, each, each), steps * each))
    parts = [list(islice(loader().batches(r * passes, each, passes), steps * passes)) for r in range(ranks)]
    together = [batch for s in range(steps) for part in parts for batch in part[s * passes : (s + 1) * passes]]
    assert_same(together, alone)


def test_starting_in_the_middle_equals_skipping() -> None:
    one = loader()
    whole = list(islice(one.batches(0, 2, 2), 14))
    assert_same(list(islice(loader().batches(8, 2, 2), 6)), whole[8:])
    assert_same(list(islice(one.batches(8, 2, 2), 6)), whole[8:])  # the loader itself remembers nothing


def test_another_seed_gives_other_batches() -> None:
    one, other = (next(loader(in_memory(1), sequences=1, seed=seed).batches(0, 1, 1)) for seed in (0, 1))
    assert not torch.equal(one.frames, other.frames)


def test_without_augmentation_every_visit_sees_the_same() -> None:
    plain = loader(in_memory(1), DataSettings(window=8, longest=8), augment=None, sequences=1)
    first, second = islice(plain.batches(0, 1, 1), 2)
    assert_same([first], [second])


def test_what_is_prepared_for_an_item_reaches_the_batch() -> None:
    def prepare(item: Item) -> Item:
        reflectance = item.sequence.frames.amax(0)
        return Item(item.sequence, Truth(reflectance=reflectance), item.one_light)

    batch = next(loader(prepare=prepare).batches(0, 1, 1))
    assert all(truth is not None and truth.reflectance is not None for truth in batch.truths)


# Disks ---------------------------------------------------------------------------------------------------------------


def streaming(data: Path, say: Any = lambda _: None, **settings: Any) -> Loader:
    chosen = DataSettings(window=8, memory_gb=0.0, workers=0, **settings)
    return loader(open_dataset(data), chosen, say=say)


def test_a_set_that_is_too_large_streams_the_same_batches_and_says_so(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "data", 4, m=3, h=12, w=16)
    said: list[str] = []
    kept, streamed = loader(open_dataset(data)), streaming(data, said.append)
    assert (kept.on_device, streamed.on_device) == (True, False)
    assert any("stream from disk" in line for line in said)
    assert_same(list(islice(streamed.batches(3, 4, 2), 5)), list(islice(kept.batches(3, 4, 2), 5)))


def test_a_set_that_must_be_solved_beforehand_has_to_fit(tmp_path: Path) -> None:
    with pytest.raises(SequenceError, match=r"memory: has more than 0 GB .*data.memory_gb"):
        loader(in_memory(), DataSettings(window=8, memory_gb=0.0), prepare=lambda item: item)


def break_frames(folder: Path) -> None:
    for frame in (folder / "frames").iterdir():
        frame.write_bytes(b"")


def test_what_cannot_be_used_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "data", 3, m=3, h=12, w=16)
    break_frames(data / "place1")
    (data / "place2" / "frames" / "0002.png").write_bytes(b"")
    said: list[str] = []
    dataset = open_dataset(data)
    dataset = Dataset(dataset.sources, (Skipped("shards", "unlit-000001.tar is damaged"),), dataset.place)
    some = loader(dataset, say=said.append)
    assert some.names == ["place0", "place2"]
    assert [skipped.name for skipped in some.skipped] == ["shards", "place1", "place2: 0002"]
    assert len(said) == 3
    assert "unlit-000001.tar is damaged" in said[0]
    assert "place1" in said[1]
    assert "0002" in said[2]
    assert {name for batch in islice(some.batches(0, 1, 1), 4) for name in batch.names} == {"place0", "place2"}


def test_a_file_that_breaks_later_is_replaced_by_another_and_named(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "data", 3, m=3, h=12, w=16)
    said: list[str] = []
    some = streaming(data, said.append)
    break_frames(data / "place1")
    batches = list(islice(some.batches(0, 1, 1), some.plan.per_epoch))
    assert {name for batch in batches for name in batch.names} == {"place0", "place2"}
    assert all(len(batch.names) == 2 for batch in batches)
    assert {skipped.name for skipped in some.skipped} == {"place1"}
    assert any("skipped place1" in line for line in said)


def test_as_long_as_one_file_can_be_read_training_goes_on(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "data", 4, m=3, h=12, w=16)
    some = loader(open_dataset(data), DataSettings(window=8, memory_gb=0.0, workers=0), sequences=4)
    for k in (0, 1, 2):
        break_frames(data / f"place{k}")
    assert next(some.batches(0, 1, 1)).names == ("place3",) * 4


def test_when_no_file_can_be_read_any_more_training_ends(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "data", 2, m=3, h=12, w=16)
    some = streaming(data)
    for k in range(2):
        break_frames(data / f"place{k}")
    with pytest.raises(SequenceError, match=r"no sequence can be read any more; the last: .*\.png"):
        next(some.batches(0, 1, 1))


def test_a_set_without_anything_usable_is_refused_with_the_first_reason(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path / "data", 2, m=3, h=12, w=16)
    for k in range(2):
        break_frames(data / f"place{k}")
    with pytest.raises(SequenceError, match=r"data: no sequence of 2 can be used \(the first: .*0001.png") as caught:
        loader(open_dataset(data))
    assert "\n" not in str(caught.value)
    with pytest.raises(SequenceError, match=r"memory: no sequence of 0 can be used$"):
        loader(Dataset(()))


# Memory --------------------------------------------------------------------------------------------------------------


def with_truth() -> Dataset:
    items = []
    for k in range(4):
        sequence = tiny_sequence(k, m=3, h=12, w=16)
        surface = sequence.frames.amax(0)
        truth = Truth(surface, sequence.frames / surface, torch.ones(3, dtype=torch.bool))
        items.append(MemorySource(Item(sequence, truth, one_light=True)))
    return Dataset(tuple(items))


def test_half_of_the_memory_gives_nearly_the_same_batches() -> None:
    whole, half = (loader(with_truth(), DataSettings(window=8, half=h)) for h in (False, True))
    assert half._store is not None
    kept = half._store[0].item
    assert kept.sequence.frames.dtype == torch.float16
    assert kept.truth is not None
    assert kept.truth.shading is not None
    assert kept.truth.shading.dtype == torch.float16
    for one, other in zip(*(islice(each.batches(0, 1, 1), 6) for each in (whole, half)), strict=True):
        assert other.frames.dtype == torch.float32
        assert one.names == other.names
        agree = one.mask == other.mask  # but for what lies at the edge of white
        assert float(agree.float().mean()) > 0.98
        torch.testing.assert_close(one.frames, other.frames, rtol=3e-3, atol=1e-4)
        for true, rounded in zip(one.truths, other.truths, strict=True):
            assert true is not None
            assert rounded is not None
            torch.testing.assert_close(true.reflectance, rounded.reflectance, rtol=3e-3, atol=1e-4)
            torch.testing.assert_close(true.shading, rounded.shading, rtol=5e-3, atol=1e-4)


def test_more_fits_in_the_same_memory_when_it_is_kept_in_half() -> None:
    sequence = tiny_sequence(0, m=3, h=12, w=16)
    gigabytes = 3 * sequence.frames.nbytes / 1e9  # of four
    for half in (False, True):
        settings = DataSettings(window=8, half=half, memory_gb=gigabytes, workers=0)
        assert loader(with_truth(), settings).on_device is half


def test_part_of_a_set_at_a_time_is_read_from_any_batch_on_as_from_the_first() -> None:
    def part() -> Loader:
        return loader(in_memory(9), DataSettings(window=8, held=3), run=12)

    whole = list(islice(part().batches(0, 1, 1), 12))
    assert_same(whole[5:], list(islice(part().batches(5, 1, 1), 7)))
    assert_same(whole[1::2], list(islice(part().batches(1, 2, 1), 6)))
    assert len({name for batch in whole for name in batch.names}) > 6
    assert part().where == "(on the device 3 at a time)"


def test_a_set_that_fits_is_kept_as_ever_and_a_part_needs_a_run() -> None:
    as_ever = list(islice(loader().batches(0, 1, 1), 6))
    for held, run in ((5, 12), (3, None)):
        fits = loader(data=DataSettings(window=8, held=held), run=run)
        assert_same(as_ever, list(islice(fits.batches(0, 1, 1), 6)))


def test_what_cannot_be_used_of_a_part_is_named_when_its_turn_comes() -> None:
    class Broken:
        name, split = "broken", "train"

        def read(self) -> Item:
            raise SequenceError("broken: is damaged; copy it again")

    sources = list(in_memory(6).sources)
    sources[4] = Broken()  # type: ignore[call-overload]  # a source by its shape
    refused = (Skipped("torn", "is torn"),)
    some = loader(Dataset(tuple(sources), refused), DataSettings(window=8, held=2), run=5)
    batches = some.batches(0, 1, 1)
    assert [skipped.name for skipped in some.skipped] == ["torn"]
    seen = [next(batches).names for _ in range(5)]
    assert [skipped.name for skipped in some.skipped] == ["torn", "broken"]
    assert all(len(names) == 2 for names in seen)
