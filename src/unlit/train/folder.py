"""The folder of a run: whose it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unlit.config import Config, ConfigError, config_from_json, differences


def check_folder(run: Path, config: Config, *, resume: bool) -> None:
    """Refuse a folder that is somebody else's, or a run that began with another config."""
    file = run / "config.json"
    if file.is_file():
        if not resume:
            raise ConfigError(f"{run}: has a run in it; say --resume to go on with it, or choose another folder")
        begun = config_from_json(file.read_text(encoding="utf-8"), file)
        # The journal may change; and passes may, since the checkpoint says how many there must be over all processes.
        # Captured passes do what others do, in more memory: who has too little of it goes on without. So it is with
        # processes that read or render.
        train = replace(begun.train, passes=config.train.passes, capture=config.train.capture)
        data = replace(begun.data, workers=config.data.workers)
        begun = replace(begun, journal=config.journal, train=train, data=data)
        different = differences(begun, config)
        if different:
            raise ConfigError(f"{run}: began with another config ({'; '.join(different[:3])}); resume it unchanged")
    elif run.is_dir() and any(not path.name.startswith(".") for path in run.iterdir()):
        raise ConfigError(f"{run}: is not empty, and no run is in it; choose another folder")
