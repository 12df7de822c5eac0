"""What a run says before and after its journal is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from unlit.train.journal import Journal
from unlit.train.messages import Messages


@pytest.mark.parametrize("shown", [True, False])
def test_early_messages_are_shown_where_wanted_and_always_kept(
    shown: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    messages = Messages(shown=shown)
    messages.say("one")
    messages.say("two")
    assert capfd.readouterr().err == ("one\ntwo\n" if shown else "")
    with Journal(tmp_path, steps=1, quiet=True) as journal:
        messages.open(journal, "three")
        messages.say("four")
    log = (tmp_path / "log.txt").read_text()
    assert [log.index(word) for word in ("one", "two", "three", "four")] == sorted(
        log.index(word) for word in ("one", "two", "three", "four")
    )
    assert log.count("one") == 1
