"""The commands `evaluate` and `benchmark-set`, as people run them."""

from __future__ import annotations

import json
import re
import shlex
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.tiny_world import write_world
from tests.predict.weights import write_weights
from tests.test_cli import run
from unlit.holding import held


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world"), ("a", "b"))


def record(out: Path) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    stated: dict[str, dict[str, dict[str, dict[str, float]]]] = json.loads((out / "report.json").read_text())
    return stated


def test_a_set_is_made_and_methods_are_scored_on_it(
    world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for kind, split, key in (("iiw", "all", "whdr@0.1/gamma"), ("saw", "test", "ap/paper")):
        data, out = tmp_path / kind, tmp_path / f"{kind}-report"
        assert run("benchmark-set", kind, "--data", world, "--out", data) == 0
        methods = ("--method", "retinex-color", "--method", "flat=constant-reflectance")
        assert run("evaluate", kind, "--data", data, *methods, "--split", split, "--out", out) == 0
        assert set(record(out)["methods"]) == {"retinex-color", "flat"}
        assert 0 <= record(out)["methods"]["flat"]["scores"][key] <= 1
        assert "Not comparable" in (out / "report.md").read_text()
        assert f"report: {out / 'report.md'}" in capfd.readouterr().err.replace("\n", "")


def test_two_evaluations_do_not_write_to_one_folder(
    world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("evaluate", "worlds", "--data", world, "--method", "retinex-color", "--split", "train", "--quiet")
    with held(tmp_path / "out", "a folder", "at work"):
        assert run(*words, "--out", tmp_path / "out") == 2
    assert "another process is evaluating here" in capfd.readouterr().err
    assert not list((tmp_path / "out").iterdir())
    assert run(*words, "--out", tmp_path / "out") == 0


def test_the_command_in_the_report_can_be_run_again(world: Path, tmp_path: Path) -> None:
    words = ("evaluate", "worlds", "--data", world, "--method", "retinex-color", "--split", "train", "--quiet")
    assert run(*words, "--out", tmp_path / "one") == 0
    command = shlex.split(str(record(tmp_path / "one")["command"]))
    assert command[0] == "unlit"
    command[-1] = str(tmp_path / "two")
    assert run(*command[1:], "--quiet") == 0
    assert record(tmp_path / "one")["methods"] == record(tmp_path / "two")["methods"]


def test_frames_that_do_not_say_how_they_are_encoded_need_to_be_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    surface = rng.uniform(0.2, 1, (24, 30, 3))
    (tmp_path / "views" / "a").mkdir(parents=True)
    for k in range(3):
        words = np.rint(65535 * surface * rng.uniform(0.5, 1, (24, 30, 1))).astype(np.uint16)
        write_plain_png(tmp_path / "views" / "a" / f"{k}.png", words)
    given = ["evaluate", "sequences", "--data", tmp_path / "views", "--method", "constant-shading", "--quiet"]
    assert run(*given, "--out", tmp_path / "no") == 1
    assert "16-bit" in capfd.readouterr().err
    assert run(*given, "--input-encoding", "linear", "--out", tmp_path / "yes") == 0
    assert record(tmp_path / "yes")["methods"]["constant-shading"]["scores"]["consistency"] == pytest.approx(1)
    assert "--input-encoding linear" in str(record(tmp_path / "yes")["command"])


def write_plain_png(path: Path, words: np.ndarray) -> None:
    """A 16-bit RGB PNG without anything that tells its encoding."""
    h, w, _ = words.shape
    rows = np.pad(words.astype(">u2").view(np.uint8).reshape(h, 6 * w), ((0, 0), (1, 0)))  # each with filter 0
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", w, h, 16, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes())),
        (b"IEND", b""),
    ]
    parts = (struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d)) for kind, d in chunks)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def test_a_network_is_a_method(world: Path, tmp_path: Path) -> None:
    weights = write_weights(tmp_path / "net.safetensors")
    out = tmp_path / "out"
    assert (
        run("evaluate", "worlds", "--data", world, "--method", weights, "--device", "cpu", "--out", out, "--quiet") == 0
    )
    entry = record(out)["methods"]["net.safetensors"]
    assert entry["skipped"] == {}
    assert len(entry["images"]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["iiw", "--data", "nowhere", "--method", "bell"], "nowhere: is not a folder"),
        (["iiw", "--data", "WORLD", "--method", "retinex-color"], "has nothing for iiw"),
        (["worlds", "--data", "WORLD", "--method", "no-such"], "no-such: is no method"),
        (["worlds", "--data", "WORLD", "--method", "bell", "--split", "validation"], "only 1 test, 1 train"),
        (["saw", "--data", "WORLD", "--method", "retinex-color", "--largest-ratio", "1"], "largest ratio"),
        (["saw", "--data", "WORLD", "--method", "retinex-color"], "saw_splits"),
    ],
)
def test_wrong_input_gets_one_line_and_exit_code_2(
    words: list[str], said: str, world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [str(world) if word == "WORLD" else word for word in words]
    assert run("evaluate", *given, "--out", tmp_path / "out") == 2
    message = capfd.readouterr().err.strip()
    assert said in message
    assert len(message.splitlines()) == 1
    assert not (tmp_path / "out").exists()


OWN = {
    "iiw": {"--split", "--resize"},
    "saw": {"--split", "--resize", "--largest-ratio"},
    "mit": {"--split"},
    "worlds": {"--split"},
    "sequences": {"--input-encoding"},
}
"""The options that not all benchmarks have."""


@pytest.mark.parametrize("benchmark", OWN)
def test_each_benchmark_has_help_with_its_own_options(benchmark: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", benchmark, "--help") == 0
    shown = set(re.findall(r"--[a-z-]+", capfd.readouterr().out))
    assert shown >= {"--data", "--out", "--method", "--resume"}
    assert shown & {option for options in OWN.values() for option in options} == OWN[benchmark]


@pytest.mark.parametrize(
    "words",
    [["worlds", "--split", "val"], ["worlds", "--resize"], ["mit", "--input-encoding", "srgb"], ["no-such"], []],
)
def test_options_of_other_benchmarks_are_wrong_usage(words: list[str], world: Path, tmp_path: Path) -> None:
    assert run("evaluate", *words, "--data", world, "--method", "bell", "--out", tmp_path / "out") == 2
    assert not (tmp_path / "out").exists()


def test_a_method_that_scored_nothing_is_a_failure_with_its_reason(
    world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    words = ("evaluate", "worlds", "--data", world, "--method", tmp_path / "empty", "--quiet")
    assert run(*words, "--out", tmp_path / "out") == 1
    assert "no result for a" in capfd.readouterr().err
    assert len(record(tmp_path / "out")["methods"]["empty"]["skipped"]) == 2


def test_a_folder_that_is_full_is_left_alone_unless_forced(
    world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept.txt").touch()
    words = ("evaluate", "worlds", "--data", world, "--method", "constant-shading", "--quiet", "--out", tmp_path)
    assert run(*words) == 2
    assert "--force" in capfd.readouterr().err
    assert run(*words, "--force") == 0
    assert (tmp_path / "report.md").is_file()


def test_skipped_images_are_said_even_to_those_who_want_no_progress(
    world: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("benchmark-set", "iiw", "--data", world, "--out", tmp_path / "iiw") == 0
    (tmp_path / "iiw" / "2.json").unlink()
    capfd.readouterr()
    words = ("evaluate", "iiw", "--data", tmp_path / "iiw", "--split", "all", "--method", "constant-shading")
    assert run(*words, "--out", tmp_path / "report", "--quiet") == 0
    said = capfd.readouterr().err.strip()
    assert said.startswith("unlit: constant-shading: 1 skipped, named in the report; first: ")
    assert "2.json: is missing" in said
    assert "\n" not in said
