from __future__ import annotations

import inspect
import json
import math
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from tests.train.test_checkpoint import files_up_to
from unlit.losses.energy import LossTerms
from unlit.model.decomposition import Decomposition
from unlit.train.journal import Journal, NullJournal, numbers
from unlit.train.rate import Rate, time_left

ROOT = Path(__file__).parents[2]


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1e9  # as a time stamp: a rate that divides by it would be far too small

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def without_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests do not depend on whether it is installed."""
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)


def trained(journal: Journal, clock: Clock, steps: range) -> None:
    """Record steps of a second each, counted from 1."""
    for step in steps:
        clock.now += 1
        journal.advance(step, frames=8)
        terms = {"reconstruction": 1 / step, "total": 2 / step}
        journal.record(step, epoch=step // 10, terms=terms, learning_rate=5e-4, skipped=0)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "metrics.jsonl").read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def decomposition(m: int, h: int, w: int) -> Decomposition:
    generator = torch.Generator().manual_seed(0)
    return Decomposition(*(torch.randn(shape, generator=generator) for shape in ((m, 3, h, w), (m, 1, h, w), (m, 3))))


def test_each_step_is_a_line_with_all_that_is_asked_of_it(tmp_path: Path, clock: Clock) -> None:
    with Journal(tmp_path / "new" / "run", steps=3, quiet=True, clock=clock) as journal:
        trained(journal, clock, range(1, 4))
        found = lines_of(tmp_path / "new" / "run")  # there at once, not when the journal is closed
    names = "step epoch reconstruction total learning_rate frames_per_second memory_mb seconds skipped"
    assert [list(line) for line in found] == [names.split()] * 3
    assert [line["step"] for line in found] == [1, 2, 3]
    assert [line["total"] for line in found] == [2.0, 1.0, 2 / 3]
    assert [line["seconds"] for line in found] == [1.0, 2.0, 3.0]
    assert [line["frames_per_second"] for line in found] == [None, 8.0, 8.0]
    assert all(10 < line["memory_mb"] < 1e6 for line in found)


def test_numbers_that_json_does_not_have_are_null(tmp_path: Path) -> None:
    journal = Journal(tmp_path, steps=1, quiet=True)
    terms = {"a": math.nan, "b": math.inf, "c": -math.inf, "total": 1.0}
    journal.record(1, epoch=0, terms=terms, learning_rate=1e-4)
    journal.record_scores(1, {"whdr": math.nan, "ap": 0.5})
    first, second = lines_of(tmp_path)
    assert (first["a"], first["b"], first["c"], first["total"]) == (None, None, None, 1.0)
    assert second == {"step": 1, "whdr": None, "ap": 0.5}


def test_a_resumed_run_leaves_the_lines_of_an_uninterrupted_one(tmp_path: Path, clock: Clock) -> None:
    whole = Journal(tmp_path / "whole", steps=9, quiet=True, clock=clock)
    trained(whole, clock, range(1, 10))

    trained(Journal(tmp_path / "parts", steps=9, quiet=True, clock=clock), clock, range(1, 8))
    with (tmp_path / "parts" / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 5, "tor')
    clock.now += 1000  # it was off for a while
    again = Journal(tmp_path / "parts", steps=9, quiet=True, clock=clock)
    again.resume_at(5)
    assert [line["step"] for line in lines_of(tmp_path / "parts")] == [1, 2, 3, 4, 5]
    trained(again, clock, range(6, 10))

    def kept(folder: Path) -> list[dict[str, Any]]:  # speed and memory are this process's own
        return [
            {k: v for k, v in line.items() if k not in ("frames_per_second", "memory_mb")} for line in lines_of(folder)
        ]

    assert kept(tmp_path / "parts") == kept(tmp_path / "whole")
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["metrics.jsonl"]


@pytest.mark.parametrize("junk", [b"\0" * 20, b'{"step": 2', b"[1]\n", b'{"step": "2"}\n', b"{}\n", b"\xff\n", b"\n\n"])
def test_what_a_stopped_machine_left_is_dropped(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1}\n' + junk)
    journal = Journal(tmp_path, steps=3, quiet=True)
    journal.resume_at(3)
    journal.record_scores(2, {"a": 1})
    assert lines_of(tmp_path) == [{"step": 1}, {"step": 2, "a": 1}]


def test_resuming_at_the_start_empties_the_file(tmp_path: Path, clock: Clock) -> None:
    Journal(tmp_path, steps=3, quiet=True).resume_at(0)
    journal = Journal(tmp_path, steps=3, quiet=True, clock=clock)
    trained(journal, clock, range(1, 4))
    journal.resume_at(0)
    assert lines_of(tmp_path) == []


def test_failing_to_rewrite_loses_no_line(tmp_path: Path, clock: Clock) -> None:
    journal = Journal(tmp_path, steps=9, quiet=True, clock=clock)
    trained(journal, clock, range(1, 10))
    with files_up_to(100), pytest.raises(OSError, match="File too large") as error:
        journal.resume_at(8)
    assert error.value.filename == str(tmp_path / "metrics.jsonl")
    assert len(lines_of(tmp_path)) == 9
    with files_up_to(100), pytest.raises(OSError, match="File too large") as error:
        trained(journal, clock, range(10, 11))
    assert error.value.filename == str(tmp_path / "metrics.jsonl")


def test_sync_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    journal = Journal(tmp_path, steps=1, quiet=True)
    journal.record_scores(1, {"a": 1})
    journal.sync()
    assert synced == [(tmp_path / "metrics.jsonl").stat().st_ino]


def test_messages_are_shown_and_kept_with_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Journal(tmp_path, steps=1).say("left out: [bold]gården")
    Journal(tmp_path, steps=1, quiet=True).say("not shown, \udc80")
    assert capsys.readouterr() == ("", "left out: [bold]gården\n")
    stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d"
    text = (tmp_path / "log.txt").read_text(encoding="utf-8")
    assert re.fullmatch(rf"{stamp}  left out: \[bold\]gården\n{stamp}  not shown, \\udc80\n", text)


def test_a_full_disk_does_not_silence_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal(tmp_path, steps=1)
    with files_up_to(10):
        journal.say("a message of more than ten letters")
        journal.sheet(1, torch.rand(1, 3, 30, 30), decomposition(1, 30, 30))
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "a message of more than ten letters"
    assert shown[1].startswith("no sheet: ")
    assert "step-00000001.png" in shown[1]
    assert list((tmp_path / "sheets").iterdir()) == []


def test_sheets_are_due_every_so_often_and_at_the_end(tmp_path: Path) -> None:
    journal = Journal(tmp_path, steps=25, quiet=True, sheet_every=10)
    assert [step for step in range(1, 26) if journal.sheet_is_due(step)] == [10, 20, 25]
    journal = Journal(tmp_path, steps=25, quiet=True, sheet_every=0)
    assert not any(journal.sheet_is_due(step) for step in range(1, 26))
    journal.sheet(20, torch.rand(2, 3, 8, 8), decomposition(2, 8, 8))
    assert (tmp_path / "sheets" / "step-00000020.png").stat().st_size > 100


def test_terms_become_numbers_by_name() -> None:
    values = torch.arange(1.0, 7.0).requires_grad_()
    found = numbers(LossTerms(*values))
    assert found == {
        "reconstruction": 1.0,
        "consistency": 2.0,
        "reflectance": 3.0,
        "shading": 4.0,
        "scale": 5.0,
        "total": 6.0,
    }


def test_lines_come_every_half_minute_and_at_the_end(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Journal(tmp_path, steps=100, clock=clock) as journal:
        trained(journal, clock, range(1, 71))
    shown = capsys.readouterr().err.splitlines()
    # The total is the last one recorded, the one of the step before.
    assert shown == [
        f"step 30/100  total {2 / 29:.4g}  8.0 frames/s  1:10 left",
        f"step 60/100  total {2 / 59:.4g}  8.0 frames/s  0:40 left",
        f"step 70/100  total {2 / 69:.4g}  8.0 frames/s  0:30 left",
    ]


def test_the_end_is_not_shown_twice(tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Journal(tmp_path, steps=60, clock=clock) as journal:
        trained(journal, clock, range(1, 61))
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["30/60", "60/60"]


def test_a_high_speed_is_shown_in_plain_digits(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Journal(tmp_path, steps=9, clock=clock) as journal:
        journal.advance(1, frames=12345)
        clock.now += 1
        journal.advance(2, frames=12345)
    assert capsys.readouterr().err == "step 2/9  12345 frames/s  0:07 left\n"


def test_quiet_shows_nothing(tmp_path: Path, clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    with Journal(tmp_path, steps=100, quiet=True, clock=clock) as journal:
        trained(journal, clock, range(1, 71))
        journal.say("hush")
    assert capfd.readouterr() == ("", "")


ON_A_TERMINAL = """
import sys
if "{without}":
    sys.modules["{without}"] = None
from pathlib import Path
from unlit.train.journal import Journal
with Journal(Path(sys.argv[1]), steps=5) as journal:
    journal.say("before [bold]")
    for step in range(1, 6):
        journal.advance(step, frames=8)
        journal.say("at " + str(step))
"""


@pytest.mark.parametrize("without", ["", "rich"])
def test_a_terminal_has_a_bar_and_one_without_rich_has_lines(tmp_path: Path, without: str) -> None:
    ours, theirs = os.openpty()
    code = ON_A_TERMINAL.replace("{without}", without)
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    subprocess.run([sys.executable, "-c", code, tmp_path], stderr=theirs, check=True, env=environment, timeout=100)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 1 << 16):
            shown += piece
    except OSError:  # how a terminal ends whose other side is closed
        pass
    os.close(ours)
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.decode())
    assert "before [bold]" in text
    assert all(f"at {step}" in text for step in range(1, 6))
    assert re.search(r"step 5/5  \S+ frames/s  0:00 left", text)
    assert ("━" in text) == (not without)


class FakeWriter:
    """Keeps what TensorBoard is given."""

    made: ClassVar[list[FakeWriter]] = []

    def __init__(self, folder: str, purge_step: int | None) -> None:
        self.folder, self.purge_step, self.is_closed = folder, purge_step, False
        self.scalars: list[tuple[str, float, int]] = []
        self.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeWriter]]:
    module = types.SimpleNamespace(SummaryWriter=FakeWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    FakeWriter.made.clear()
    yield FakeWriter.made
    FakeWriter.made.clear()


def test_tensorboard_is_given_the_numbers_where_it_is_installed(tmp_path: Path, writers: list[FakeWriter]) -> None:
    with Journal(tmp_path, steps=9, quiet=True) as journal:
        journal.record_scores(1, {"whdr": 0.25})
        journal.record_scores(2, {"whdr": 0.5})
    assert len(writers) == 1
    assert writers[0].scalars == [("whdr", 0.25, 1), ("whdr", 0.5, 2)]
    assert (writers[0].folder, writers[0].purge_step, writers[0].is_closed) == (
        str(tmp_path / "tensorboard"),
        None,
        True,
    )
    with Journal(tmp_path, steps=9, quiet=True) as journal:
        journal.resume_at(1)
        journal.record(2, epoch=0, terms={"total": 1.0}, learning_rate=0.5)
    assert writers[1].purge_step == 2
    names = [name for name, _, _ in writers[1].scalars]
    assert names == ["epoch", "total", "learning_rate", "memory_mb", "seconds", "skipped"], "no speed yet"


def test_a_broken_tensorboard_does_not_stop_training(
    tmp_path: Path, writers: list[FakeWriter], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.modules["torch.utils.tensorboard"], "SummaryWriter", None)
    journal = Journal(tmp_path, steps=9)
    for step in (1, 2):
        journal.record_scores(step, {"a": 1.0, "b": 2.0})
    assert len(lines_of(tmp_path)) == 2
    assert capsys.readouterr().err.count("going on without TensorBoard, which is broken") == 1


def test_the_journal_of_the_other_processes_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with NullJournal() as journal:
        journal.resume_at(3)
        trained(journal, Clock(), range(4, 6))
        journal.record_scores(4, {"a": 1})
        assert journal.sheet_is_due(10) is False
        journal.sheet(4, torch.rand(1, 3, 4, 4), decomposition(1, 4, 4))
        journal.say("hush")
        journal.sync()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    for name, method in inspect.getmembers(Journal, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.signature(vars(NullJournal)[name]) == inspect.signature(method), name


def test_a_rate_is_what_was_done_over_the_time_it_took(clock: Clock) -> None:
    rate = Rate(window=10, clock=clock)
    assert rate.value() is None
    rate.add(1000)
    assert rate.value() is None, "nobody knows how long the first ones took"
    rate.add(1000)
    assert rate.value() is None, "no time has passed"
    clock.now += 2
    rate.add(6)
    assert rate.value() == 503.0
    for _ in range(100):
        clock.now += 0.5
        rate.add(2)
    assert rate.value() == 4.0, "what was before the window is forgotten"


def test_a_rate_of_work_slower_than_the_window_is_the_last_one(clock: Clock) -> None:
    rate = Rate(window=10, clock=clock)
    for count in (1, 2, 100, 300):
        rate.add(count)
        clock.now += 100
    assert rate.value() == 3.0


def test_a_rate_remembers_no_more_than_its_window(clock: Clock) -> None:
    rate = Rate(window=10, clock=clock)
    for _ in range(1000):
        clock.now += 1
        rate.add(1)
    assert rate.value() == 1.0
    assert len(rate._done) <= 12


@pytest.mark.parametrize(
    ("remaining", "rate", "text"),
    [(10, None, "?"), (10, 0.0, "?"), (0, 3.0, "0:00"), (200, 1.0, "3:20"), (7400, 1.0, "2:03:20"), (119.6, 1, "2:00")],
)
def test_the_time_left_is_short_to_read(remaining: float, rate: float | None, text: str) -> None:
    assert time_left(remaining, rate) == text
