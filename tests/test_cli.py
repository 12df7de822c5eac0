from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import unlit
from unlit import cli
from unlit.commands import sequences
from unlit.image_io import reading
from unlit.sequence import decompose, solve


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four frames of one surface under falling light."""
    g = torch.Generator().manual_seed(0)
    surface = 0.2 + 0.6 * torch.rand(16, 20, 3, generator=g)
    (tmp_path / "view").mkdir()
    for k in range(4):
        unlit.write_image(tmp_path / "view" / f"frame{k}.png", (surface * (1 - 0.2 * k)).numpy(), bits=16)
    return tmp_path / "view"


def run(*arguments: object) -> int:
    """The exit code of the command line."""
    try:
        cli.main([str(argument) for argument in arguments])
    except SystemExit as ending:
        return int(ending.code or 0)
    return 0


def test_a_folder_becomes_files_that_multiply_to_its_frames(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("sequence", folder, "--out", out, "--steps", 5, "--quiet") == 0
    names = {"view.reflectance.png", "view.unlit.json", *(f"frame{k}.shading.png" for k in range(4))}
    assert {path.name for path in out.iterdir()} == names
    scales = json.loads((out / "view.unlit.json").read_text())["files"]

    def read(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return unlit.read_image(out / name).pixels * np.float32(scales[name]["scale"])

    for k in range(4):
        product = read("view.reflectance.png") * read(f"frame{k}.shading.png")
        right = np.isclose(product, unlit.read_image(folder / f"frame{k}.png").pixels, rtol=2e-3, atol=1e-4)
        assert right.mean() > 0.99  # the brightest thousandth may be cut off


@pytest.mark.parametrize("suffix", ["exr", "tiff"])
def test_exr_and_tiff_keep_the_values_themselves(suffix: str, folder: Path, tmp_path: Path) -> None:
    assert run("sequence", folder, "--out", tmp_path / "out", "--steps", 3, "--format", suffix, "--quiet") == 0
    reflectance = unlit.read_image(tmp_path / "out" / f"view.reflectance.{suffix}").pixels
    shading = unlit.read_image(tmp_path / "out" / f"frame2.shading.{suffix}").pixels
    np.testing.assert_allclose(reflectance * shading, unlit.read_image(folder / "frame2.png").pixels, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sequence", "missing", "--out", "x"], "missing"),
        (["sequence", "FOLDER", "--out", "FOLDER", "--force"], "holds the frames"),
        (["sequence", "FOLDER", "--out", "FULL"], "--force"),
        (["sequence", "FOLDER", "--out", "FOLDER/frame0.png"], "not a folder"),
        (["sequence", "FOLDER", "--out", "FOLDER/frame0.png/x", "--force"], "not a folder"),
        (["sequence", "FOLDER", "--out", "x", "--steps", "0"], "steps"),
        (["sequence", "FOLDER", "--out", "x", "--pattern", "nothing*"], "nothing*"),
    ],
)
def test_wrong_input_gets_one_line_and_exit_code_2(
    arguments: list[str], said: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    places = {"FOLDER": str(folder), "x": str(tmp_path / "x"), "FULL": str(tmp_path / "full")}
    words = [places.get(word, word.replace("FOLDER", str(folder))) for word in arguments]
    assert run(*words) == 2
    message = capfd.readouterr().err.strip()
    assert said in message
    assert len(message.splitlines()) == 1


def test_wrong_usage_is_exit_code_2(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("sequence") == 2
    assert run("no-such-command") == 2
    assert run() == 2
    capfd.readouterr()


def test_help_and_version_answer(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert unlit.__version__ in capfd.readouterr().out
    assert run("--help") == 0
    assert "sequence" in capfd.readouterr().out


def test_quiet_says_nothing_and_python_m_unlit_is_the_command(folder: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "unlit",
        "sequence",
        str(folder),
        "--out",
        str(tmp_path / "o"),
        "--steps",
        "2",
        "--quiet",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == answer.stderr == ""


def test_the_command_line_has_the_defaults_of_the_function_it_calls() -> None:
    options = inspect.signature(sequences.sequence).parameters
    function = inspect.signature(decompose.decompose_sequence).parameters
    for name in ("steps", "size", "encoding", "pattern"):
        assert options[name].default == function[name].default
    assert (
        options["format"].default
        == inspect.signature(decompose.SequenceDecomposition.save).parameters["format"].default
    )
    assert options["steps"].default == solve.STEPS


def test_names_that_look_like_markup_are_printed_as_they_are(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o[/b][bold]x"
    assert run("sequence", folder, "--out", out, "--steps", 1) == 0
    assert "o[/b][bold]x" in capfd.readouterr().err.replace("\n", "")


def test_frames_of_one_stem_are_refused_since_one_would_overwrite_the_other(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    unlit.write_image(folder / "frame0.tif", unlit.read_image(folder / "frame0.png").pixels)
    assert run("sequence", folder, "--out", tmp_path / "x") == 2
    assert "'frame0'" in capfd.readouterr().err


@pytest.mark.parametrize(
    "words", [["sequence", "FOLDER"], ["compare", "FOLDER/frame0.png", "--method", "retinex-color"]], ids=lambda w: w[0]
)
def test_a_lack_of_memory_is_a_failure_and_no_wrong_input(
    words: list[str], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(reading, "_raw_values", fail)
    place = tmp_path / ("out" if words[0] == "sequence" else "out.png")
    assert run(*(word.replace("FOLDER", str(folder)) for word in words), "--out", place) == 1
    assert "unlit: failed: " in capfd.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_failure_worth_a_word() -> None:
    """As `unlit train release --help | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "from unlit.cli import main; main()", "train", "release", "--help"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_another_broken_pipe_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(cli, "train", fail)
    assert run("train") == 1
    assert "failed" in capsys.readouterr().err
