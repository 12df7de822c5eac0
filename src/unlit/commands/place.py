"""Where results may go."""

from __future__ import annotations

import os
from pathlib import Path


def check_place(out: Path, folder: Path, *, force: bool) -> None:
    """Refuse, before any work, a place where results cannot or should not go."""
    if out.resolve() == folder.resolve():
        raise ValueError(f"{out} holds the frames, and results there would be taken for frames; choose another folder")
    existing = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise ValueError(f"{existing} is not a folder; choose another place for the results")
    if not os.access(existing, os.W_OK):
        raise ValueError(f"{existing} may not be written to; choose another place for the results")
    if existing == out and any(out.iterdir()) and not force:
        raise ValueError(f"{out} is not empty; choose another folder, or say --force")
