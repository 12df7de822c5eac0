from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.prepare.clips import clip, write_folder

SCRIPT = """
import sys
from pathlib import Path
from unlit.prepare.collection import prepare
from unlit.prepare.settings import PrepareSettings

class Listener:
    def begin(self, names, skipped): pass
    def finish(self, name, outcome): pass
    def update(self, name, done, total, what): Path(sys.argv[1], f"begun-{name}").touch()

if __name__ == "__main__":
    prepare([Path(p) for p in sys.argv[3:]], Path(sys.argv[2]), PrepareSettings(), Listener(), workers=2)
"""


def test_ctrl_c_ends_workers_in_the_midst_of_their_work(tmp_path: Path) -> None:
    """As a terminal does it: the signal reaches the process and its workers alike."""
    places = [write_folder(tmp_path / name, clip(8, (96, 128)) * 40) for name in ("a", "b")]
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "script.py", tmp_path, tmp_path / "set", *places]
    process = subprocess.Popen(list(map(str, command)), start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("begun-*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert len(list(tmp_path.glob("begun-*"))) == 2, "the signal came while both were at work"
    assert process.returncode != 0
    sequences = tmp_path / "set" / "sequences"
    assert not [path for path in (sequences.iterdir() if sequences.exists() else ()) if path.name.startswith(".")]
