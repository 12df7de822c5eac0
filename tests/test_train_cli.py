"""`unlit train`: a recipe, a dataset and a folder become a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.train.world import metrics, tiny_dataset
from unlit import cli
from unlit.data.dataset import Dataset
from unlit.predict.network import DEFAULT_WEIGHTS
from unlit.recipes import RECIPES
from unlit.train.checkpoint import load_weights
from unlit.train.result import Result
from unlit.worlds.dataset import open_worlds


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("tiny") / "data", 2, m=2, h=32, w=36)


def run(*arguments: object) -> int:
    """The exit code of the command line."""
    try:
        cli.main([str(argument) for argument in arguments])
    except SystemExit as ending:
        return int(ending.code or 0)
    return 0


def trained(data: Path, run_folder: Path, *options: object) -> int:
    return run("train", "smoke", "--data", data, "--run", run_folder, "--device", "cpu", *options)


def test_a_recipe_with_other_values_becomes_a_run(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = ["--train.steps", "2", "--train.learning-rate", "1e-3", "--augment.zoom", "0.9", "1.1"]
    options += ["--augment.no-flip", "--energy.shading", "1", "--energy.pairwise.shading-scales", "2"]
    options += ["--data.window", "16", "--recipe", "mine"]
    assert trained(data, tmp_path / "run", *options) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["train"]["steps"] == 2
    assert config["train"]["learning_rate"] == 1e-3
    assert config["augment"]["zoom"] == [0.9, 1.1]
    assert config["energy"]["shading"] == 1
    assert config["energy"]["pairwise"]["shading_scales"] == 2
    assert config["data"]["window"] == 16
    assert config["augment"]["flip"] is False
    assert config["recipe"] == "mine"
    assert config["train"]["sequences"] == 2  # as the recipe has it
    assert [line["step"] for line in metrics(tmp_path / "run")] == [1, 2]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert f"2 steps; weights: {tmp_path / 'run' / 'weights.safetensors'}" in captured.err
    assert (tmp_path / "run" / "weights.safetensors").is_file()


def test_quiet_says_nothing_and_a_run_in_use_is_not_overwritten_but_resumed(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert trained(data, tmp_path / "run", "--train.steps", 1, "--quiet") == 0
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
    before = (tmp_path / "run" / "weights.safetensors").read_bytes()
    assert trained(data, tmp_path / "run", "--train.steps", 1, "--quiet") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert str(tmp_path / "run") in line
    assert "--resume" in line
    assert trained(data, tmp_path / "run", "--train.steps", 1, "--quiet", "--resume") == 0
    assert (tmp_path / "run" / "weights.safetensors").read_bytes() == before
    assert trained(data, tmp_path / "run", "--train.steps", 2, "--quiet", "--resume") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "train.steps: 1, 2" in line


def test_wrong_input_gets_one_line_and_exit_code_2(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "dataset.json").write_text("{")
    cases: list[tuple[Path, Path, tuple[object, ...], str]] = [
        (tmp_path / "nowhere", tmp_path / "run", (), "nowhere: is not a folder"),
        (tmp_path / "empty", tmp_path / "run", (), "empty: has no sequences"),
        (tmp_path / "damaged", tmp_path / "run", (), "dataset.json: is damaged"),
        (data, tmp_path / "full", (), "full: is not empty"),
        (data, tmp_path / "run", ("--augment.hue", 0.5), "augment.hue needs gray light"),
    ]
    for place, run_folder, options, said in cases:
        assert trained(place, run_folder, "--train.steps", 1, *options) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert line.startswith("unlit: ")
        assert said in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("device", ["nonsense", "cuda:x", ""])
def test_a_device_that_is_none_ends_with_a_line_that_names_it(
    device: str, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert trained(data, tmp_path / "run", "--device", device) in (1, 2)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("unlit: ")
    assert device in line
    assert "device" in line.lower()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--nonsense", "3"],
        ["--train.nonsense", "3"],
        ["--train.steps", "many"],
        ["--train.steps", "0"],
        ["--train.steps"],
        ["--train.betas", "0.9"],
        ["--train.precision", "float16"],
        ["more"],
    ],
    ids=" ".join,
)
def test_options_that_are_unknown_or_cannot_be_are_exit_code_2_and_named(
    options: list[str], data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert trained(data, tmp_path / "run", *options) == 2
    captured = capfd.readouterr()
    assert options[0].lstrip("-") in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not (tmp_path / "run").exists()


def test_a_recipe_a_dataset_and_a_run_are_needed(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (["train"], ["train", "nonsense"], ["train", "smoke"], ["train", "smoke", "--data", str(data)]):
        assert run(*arguments) == 2
        assert "Traceback" not in capfd.readouterr().err


def test_help_lists_the_recipes_and_every_field(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    assert "unlit train RECIPE" in capfd.readouterr().out
    assert run("train", "--help") == 0
    listed = capfd.readouterr().out
    assert all(name in listed for name in RECIPES)
    assert run("train", "mit", "--help") == 0
    fields = capfd.readouterr().out
    for option in ("--data", "--run", "--resume", "--device", "--quiet", "--train.steps", "--energy.pairwise.scales"):
        assert option in fields
    assert f"(default: {RECIPES['mit']().train.steps})" in fields  # the recipe's own value


def test_help_needs_no_torch() -> None:
    code = """
import sys
from unlit import cli
for arguments in (["--help"], ["train", "--help"], ["train", "smoke", "--help"]):
    try:
        cli.main(arguments)
    except SystemExit as ending:
        assert not ending.code
assert "torch" not in sys.modules
"""
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "usage: unlit train smoke" in answer.stdout


def test_a_run_that_was_asked_to_stop_says_how_to_go_on(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from unlit.train import loop

    tend = loop.Run._tend

    def asked(self: loop.Run, *arguments: object, stopping: bool) -> bool:
        return tend(self, *arguments, stopping=stopping or self.step == 1)  # type: ignore[arg-type]  # as they came

    with monkeypatch.context() as patch:
        patch.setattr(loop.Run, "_tend", asked)
        assert trained(data, tmp_path / "run", "--train.steps", 2, "--quiet") == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line == "unlit: stopped at step 1 of 2; go on with --resume"
    assert trained(data, tmp_path / "run", "--train.steps", 2, "--quiet", "--resume") == 0
    assert [line["step"] for line in metrics(tmp_path / "run")] == [1, 2]


def test_scenes_that_are_rendered_first_are_announced(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert trained(Path("worlds:0:2:32x32:2"), tmp_path / "run", "--train.steps", "1") == 0
    assert capfd.readouterr().err.startswith("rendering 3 scenes before the first step; on a CPU")  # one for validation


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, bool]]:
    """The device, processes and `half` with which worlds are opened, on eight processors; nothing is trained."""
    found: list[tuple[str, int, bool]] = []

    def opened(text: str, device: str, count: int, *, half: bool) -> Dataset:
        found.append((device, count, half))
        return open_worlds(text, device)

    monkeypatch.setattr("unlit.processes.usable_processors", lambda: 8)
    monkeypatch.setattr("unlit.worlds.dataset.open_worlds", opened)
    monkeypatch.setattr("unlit.train.loop.fit", lambda *_, **__: Result(1, 1, tmp_path, 0, 0))
    return found


@pytest.mark.parametrize(
    ("environment", "options", "processes", "said"),
    [
        ({}, ("--data.workers", 5), 5, "rendering 51 scenes"),
        ({}, ("--data.workers", 20), 8, "rendering 51 scenes"),
        ({"LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": "0"}, ("--data.workers", 5), 2, "rendering 51 scenes"),
        ({}, ("--data.workers", 5, "--data.held", 10), 5, "rendering 11 scenes"),
        ({}, ("--data.workers", 5, "--data.held", 90), 5, "rendering 51 scenes"),
    ],
)
def test_as_many_processes_render_as_are_asked_for_and_there_are_processors(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    asked: list[tuple[str, int, bool]],
    environment: dict[str, str],
    options: tuple[object, ...],
    processes: int,
    said: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert trained(Path("worlds:0:50:32x32:2"), tmp_path / "run", "--train.steps", "1", *options) == 0
    assert asked == [("cpu", processes, False)]
    assert said in capfd.readouterr().err


@pytest.mark.parametrize(("option", "half"), [("--data.half", True), ("--data.no-half", False)])
def test_scenes_are_sent_as_16_bit_floats_where_they_are_kept_so(
    tmp_path: Path, asked: list[tuple[str, int, bool]], option: str, half: bool
) -> None:
    assert trained(Path("worlds:0:50:32x32:2"), tmp_path / "run", "--data.workers", 5, option) == 0
    assert asked == [("cpu", 5, half)]


def test_the_network_of_the_package_learns_more_from_anybody_s_frames(data: Path, tmp_path: Path) -> None:
    options = [
        "--model.network",
        "compact",
        "--model.width",
        "1",
        "--model.cue",
        "--model.deep",
        "--model.attention",
        "--start",
        "default",
        "--train.steps",
        "1",
        "--quiet",
    ]
    assert trained(data, tmp_path / "run", *options, "--train.learning-rate", "1e-30") == 0
    expected, _ = load_weights(DEFAULT_WEIGHTS)
    found, _ = load_weights(tmp_path / "run" / "weights.safetensors")
    assert torch.equal(found["head.weight"], expected["head.weight"].float())


def test_statistics_that_stay_need_weights_that_have_some(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert trained(data, tmp_path / "run", "--train.fixed-statistics") == 2
    assert "train.fixed_statistics needs weights that have some: give --start" in capfd.readouterr().err
