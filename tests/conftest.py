import os
import signal
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell's background jobs ignore Ctrl-C, and so would all processes that the tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real pictures, which are not shipped: UNLIT_DATA, or shared/data beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("UNLIT_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"needs real pictures, and {folder} does not exist: set UNLIT_DATA to the folder that has them")
    return folder
