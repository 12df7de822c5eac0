"""The command line: one typed function for each command, which is where its options come from.

Nothing heavy is imported here, only inside the commands, so that `--help` is instant. Messages go to stderr, results
to files. Exit codes: 0 done, 2 wrong usage or input, 1 failure.
"""

from __future__ import annotations

import atexit
import os
import select
import sys
from collections.abc import Callable
from collections.abc import Sequence as Arguments
from typing import NoReturn

import tyro

from unlit import __version__
from unlit.commands.datasets import pack, prepare, worlds
from unlit.commands.evaluation import benchmark_set, evaluate
from unlit.commands.photos import compare, decompose, export
from unlit.commands.sequences import sequence
from unlit.commands.training import train


def _listed_only(command: Callable[..., None]) -> Callable[[], None]:
    """Return something without options by a command's name: it has its own way of reading them."""

    def listed() -> None:
        raise AssertionError("never called")

    listed.__name__, listed.__doc__ = command.__name__, command.__doc__
    return listed


def main(arguments: Arguments[str] | None = None) -> None:
    """Run the command line; without `arguments` the process's own, which `decompose` then ends when it is done."""
    is_process = arguments is None
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if list(arguments) == ["--version"]:
        print(f"unlit {__version__}")
        return
    app = tyro.extras.SubcommandApp()
    app.command(decompose)
    app.command(sequence)
    app.command(compare)
    app.command(export)
    app.command(prepare)
    app.command(pack)
    app.command(worlds)
    app.command(_listed_only(train))
    app.command(_listed_only(evaluate))
    app.command(benchmark_set)
    try:
        reader = {"train": train, "evaluate": evaluate}.get("".join(arguments[:1]))
        if reader:
            reader(arguments[1:])
            return
        app.cli(prog="unlit", description="unlit sees surfaces without their light.", args=arguments)
    except ValueError as error:  # what the user gave is wrong; the message says what, and the remedy
        from unlit.image_io import FailedImageError

        is_failure = isinstance(error, FailedImageError)  # but for a lack of room
        print(f"unlit: failed: {error}" if is_failure else f"unlit: {error}", file=sys.stderr)
        sys.exit(1 if is_failure else 2)
    except KeyboardInterrupt as error:  # a command may say what is kept
        print(": ".join(filter(None, ("unlit: interrupted", str(error)))), file=sys.stderr)
        sys.exit(1)
    except (OSError, MemoryError, RuntimeError) as error:  # torch's lack of memory is a RuntimeError
        if isinstance(error, BrokenPipeError) and _has_no_reader():
            os._exit(1)  # anything gentler would flush once more, and complain
        reason = (str(error) or type(error).__name__).splitlines()[0]
        print(f"unlit: failed: {reason}", file=sys.stderr)
        sys.exit(1)
    if is_process and arguments[:1] == ["decompose"]:
        _leave()


def _has_no_reader() -> bool:
    """Return whether the standard output leads nowhere any more: to `head`, say, which has seen enough."""
    if sys.stdout is None or not hasattr(select, "poll"):  # which Windows lacks
        return False
    asked = select.poll()
    try:
        asked.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # no file, or a closed one
        return False
    return any(event & select.POLLERR for _, event in asked.poll(0))


def _leave() -> NoReturn:
    """End the process, all being done: to free torch's objects one by one takes 0.3 s, a tenth of a large photograph's.

    Whoever asked to be called at the end is; threads are not waited for, of which none is left.
    """
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # one that was closed from the start is None
        stream.flush()
    os._exit(0)
