"""A prepared dataset as shards, one folder for each split."""

from __future__ import annotations

import shutil
from pathlib import Path

from unlit.data.dataset import SPLITS, FolderSource, open_dataset
from unlit.data.sequence import SequenceError
from unlit.data.shard_writing import write_shards


def pack_dataset(dataset: Path, out: Path, *, shard_bytes: int) -> dict[str, tuple[int, int]]:
    """Pack the sequences of `dataset` and return, for each split that has any, how many sequences and shards there are.

    SequenceError where `dataset` is no prepared dataset, or where `out` has something in it already.
    """
    if shard_bytes < 1:
        raise SequenceError("shards must grow to at least a megabyte; raise --shard-megabytes")
    if not (dataset / "dataset.json").is_file():
        raise SequenceError(f"{dataset}: is no prepared dataset; make one with unlit prepare")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SequenceError(f"{out}: exists already; remove it or choose another name")
    packed: dict[str, tuple[int, int]] = {}
    try:
        for split in SPLITS:
            part = open_dataset(dataset).part(split)
            folders = [source.folder for source in part.sources if isinstance(source, FolderSource)]
            if folders:
                packed[split] = (len(folders), len(write_shards(folders, out / split, shard_bytes=shard_bytes)))
    except BaseException:  # interrupts too: some of the splits would pass for all
        for name in packed:
            shutil.rmtree(out / name, ignore_errors=True)
        raise
    return packed
