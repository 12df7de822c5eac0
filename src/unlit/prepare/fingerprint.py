"""Whether a source was prepared already: a hash of its files and of the settings."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

from unlit.prepare.settings import PrepareSettings
from unlit.prepare.source import Source, hand_place

METHOD = 1
"""Raised whenever the same source and settings would give other sequences than before."""


def fingerprint(source: Source, settings: PrepareSettings) -> str:
    """Return a hash of the names, sizes and times of a source's files and hand-drawn masks, the settings, the method.

    The files' content is not read: an hour of video would take a minute. OSError where a file cannot be asked.
    """
    stamps = []
    for path in source.files:
        stated = path.stat()
        stamps.append([os.fsencode(path.name).hex(), stated.st_size, stated.st_mtime_ns])
    if settings.by_hand is not None:
        place = hand_place(source, settings.by_hand)
        drawn = [] if place is None else _files(place)
        stamps += [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in drawn]
    content = json.dumps([METHOD, stamps, asdict(settings)], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _files(place: Path) -> list[Path]:
    """Return a file, or those of a folder; folders inside it are for other sources."""
    return [place] if place.is_file() else sorted(path for path in place.iterdir() if path.is_file())
