"""Files that are whole or not there, whatever happens to the process or to the power.

The order is always the same: write under a hidden name, force it to the disk, rename, force the folder to the disk. A
rename is all or nothing, but the disk may do it before it has the content, or forget it, unless it is made to wait.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

_SUFFIX = ".unlit-tmp"


def temporary_name(path: Path) -> Path:
    """Return a new hidden name beside `path`, which `clear_leftovers` knows as such."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX}")


def write_durably(path: Path, content: bytes) -> None:
    """Write a new file, and return when the disk has it."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # some disks find only then that they are full


def sync_folder(folder: Path) -> None:
    """Return when the disk has the names in `folder`: a file's own content does not include its name."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_durably(path: Path, content: bytes) -> None:
    """Write the file `path`, new or in the place of another; OSError names it, and leaves the other as it was."""
    temporary = temporary_name(path)
    try:
        write_durably(temporary, content)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):  # it has become `path`, or could not be made
            temporary.unlink()


def discard_folder(folder: Path) -> None:
    """Remove `folder`: first its name, at once, then its files, so that no half of it can be taken for the whole."""
    hidden = temporary_name(folder)
    folder.rename(hidden)
    # What cannot be removed now (a network disk that still holds a file open) is left for `clear_leftovers`.
    shutil.rmtree(hidden, ignore_errors=True)


def clear_leftovers(folder: Path) -> None:
    """Remove what processes that were killed have left under hidden names. Nobody else may be writing there."""
    for path in folder.glob(f".*{_SUFFIX}"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
