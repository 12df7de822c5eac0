"""The folder of a run: whose it is, and that one process at a time trains in it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from unlit.config import Config, ConfigError, config_from_json, differences

LOCK = ".lock"


def check_folder(run: Path, config: Config, *, resume: bool) -> None:
    """Refuse a folder that is somebody else's, or a run that began with another config."""
    file = run / "config.json"
    if file.is_file():
        if not resume:
            raise ConfigError(f"{run}: has a run in it; say --resume to go on with it, or choose another folder")
        begun = config_from_json(file.read_text(encoding="utf-8"), file)
        # The journal may change; and passes may, since the checkpoint says how many there must be over all processes.
        # Captured passes do what others do, in more memory: who has too little of it goes on without.
        train = replace(begun.train, passes=config.train.passes, capture=config.train.capture)
        begun = replace(begun, journal=config.journal, train=train)
        different = differences(begun, config)
        if different:
            raise ConfigError(f"{run}: began with another config ({'; '.join(different[:3])}); resume it unchanged")
    elif run.is_dir() and any(not path.name.startswith(".") for path in run.iterdir()):
        raise ConfigError(f"{run}: is not empty, and no run is in it; choose another folder")
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{run}: cannot be the run's folder ({error.strerror}); choose another place") from error


@contextmanager
def taken_back(folder: Path) -> Iterator[None]:
    """Remove a folder that was made within, where that fails before anything was written to it."""
    was_there = folder.exists()
    try:
        yield
    except BaseException:
        if not was_there and folder.is_dir() and all(path.name == LOCK for path in folder.iterdir()):
            (folder / LOCK).unlink(missing_ok=True)
            folder.rmdir()
        raise


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder that must not have two writers. The system lets go of it whatever becomes of this process."""
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(f"{folder}: another process is training here; wait for it, or choose another") from error
        yield
