"""Names that OpenImageIO can open for what has none: a file in memory to encode into, a file whose name is no text.

Libraries encode into memory first since on a full disk libpng's writer says nothing and libjpeg ends the process.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from unlit.image_io.image import ImageError


@contextmanager
def scratch_file(max_size: int) -> Iterator[tuple[IO[bytes], str]]:
    """Yield an empty file and the name under which it can be written, up to `max_size` bytes; gone afterwards.

    It lies in memory on Linux, elsewhere among the system's temporary files. OSError where it could not hold so much.
    """
    if sys.platform == "linux":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit != resource.RLIM_INFINITY and limit < max_size:  # it holds for files in memory too
            raise OSError(None, f"files may grow to {limit} bytes only, by ulimit -f")
        with os.fdopen(os.memfd_create("picture"), "rb") as file:
            yield file, f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "picture")
            with path.open("x+b") as file:
                yield file, str(path)


@contextmanager
def text_name(path: Path) -> Iterator[str]:
    """Yield a name of the existing file `path` that is text, as its own need not be."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        if sys.platform != "linux":
            raise ImageError(path, "has a name that is not UTF-8", "rename it") from error
        with path.open("rb") as file:
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        yield str(path)
