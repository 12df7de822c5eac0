"""Folders of results, which must not have two writers at once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def held(folder: Path, whose: str, doing: str) -> Iterator[None]:
    """Make a folder and hold it; ValueError where that cannot be.

    `whose` and `doing` say what for: "the folder of worlds", "rendering". The system lets go of it whatever becomes of
    this process, and nothing is left in it; a folder that was made here for what then failed is taken away.
    """
    was_there = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ValueError(f"{folder}: cannot be {whose} ({error.strerror}); choose another place") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{folder}: another process is {doing} here; wait for it, or choose another place"
            ) from None
        yield
    except BaseException:
        if not was_there:
            with suppress(OSError):  # something has been written to it
                folder.rmdir()
        raise
    finally:
        os.close(handle)
