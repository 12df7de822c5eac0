"""`unlit decompose`, `compare` and `export` as a user runs them."""

from __future__ import annotations

import inspect
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.predict.weights import write_weights
from tests.test_cli import run
from unlit.commands import photos
from unlit.image_io import read_image, write_image
from unlit.model import cue
from unlit.predict.export import OUTPUTS, _exported, _Outputs, onnx_card, run_onnx
from unlit.predict.predictor import Predictor
from unlit.predict.saving import load_parts
from unlit.video_writing import VideoWriter


@pytest.fixture
def folder(tmp_path: Path, image: NDArray[np.float32]) -> Path:
    """Three photographs of different kinds, and a file that is none."""
    (tmp_path / "in" / "more").mkdir(parents=True)
    write_image(tmp_path / "in" / "a.png", image)
    write_image(tmp_path / "in" / "b.jpg", image[:, :50])
    write_image(tmp_path / "in" / "more" / "c.exr", 3 * image)
    (tmp_path / "in" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    return tmp_path / "in"


def test_a_folder_is_done_and_a_bad_file_in_it_stops_no_other(
    folder: Path, tmp_path: Path, weights: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run("decompose", folder, "--out", out, "--weights", weights, "--recursive") == 2
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("unlit:")]
    assert len(said) == 1
    assert "broken.jpg" in said[0]
    for name, source in (("a", "a.png"), ("b", "b.jpg"), ("more/c", "more/c.exr")):
        parts = load_parts(out / f"{name}.unlit.json")
        image = read_image(folder / source).pixels
        assert parts["reflectance"].shape == image.shape
        assert np.abs(parts["reflectance"] * parts["shading"] - image).mean() < 0.03
    assert not (out / "broken.unlit.json").exists()


def test_videos_and_photographs_are_done_by_one_command(
    folder: Path, tmp_path: Path, weights: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("av", reason="needs PyAV")
    still = np.random.default_rng(0).integers(50, 200, (40, 60, 3), np.uint8)
    with VideoWriter(folder / "clip [a].mp4") as video:
        for k in range(3):
            video.write(still, k / 25)
    (folder / "bad.mp4").write_bytes(b"no video")
    (folder / "broken.jpg").unlink()
    assert run("decompose", folder, "--out", tmp_path / "out", "--weights", weights) == 2
    lines = capfd.readouterr().err.splitlines()
    said = [line for line in lines if line.startswith("unlit:")]
    assert len(said) == 1
    assert "bad.mp4" in said[0]
    assert lines[-1] == f"3 of 4 done: {tmp_path / 'out'}"
    done = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"clip [a].{end}" for end in ("reflectance.mp4", "shading.mp4", "unlit.json")} <= done
    assert {"a.unlit.json", "b.unlit.json"} <= done
    assert not any(name.startswith(("bad", ".")) for name in done)


@pytest.mark.data
def test_every_photograph_at_hand_is_given_back(predictor: Predictor, shared_data: Path) -> None:
    paths = [p for p in sorted((shared_data / "photos").iterdir()) if p.suffix in (".jpg", ".png")]
    assert paths
    for path in paths:
        found = predictor.decompose(path)
        np.testing.assert_allclose(found.recompose(), found.image, rtol=1e-5, err_msg=path.name)
        assert np.isfinite(found.shading).all()


def test_results_are_not_overwritten_unless_forced(
    folder: Path, tmp_path: Path, weights: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ("decompose", folder / "a.png", "--out", tmp_path / "out", "--weights", weights, "--quiet")
    assert run(*command) == 0
    assert capfd.readouterr().err == ""
    (tmp_path / "out" / "a.shading.png").write_bytes(b"mine")
    assert run(*command) == 2
    assert "--force" in capfd.readouterr().err
    assert (tmp_path / "out" / "a.shading.png").read_bytes() == b"mine"
    assert run(*command, "--force") == 0
    assert (tmp_path / "out" / "a.shading.png").stat().st_size > 100


def test_what_cannot_be_done_is_refused_before_torch_is_loaded(folder: Path, tmp_path: Path) -> None:
    (folder / "notes.xyz").write_text("no picture")
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.shading.png").write_bytes(b"mine")
    (out / "clip.reflectance.mp4").write_bytes(b"mine")
    (folder / "clip.mp4").write_bytes(b"a video")
    a, b = str(folder / "a.png"), str(folder / "b.jpg")
    trials = {
        "none.jpg: does not exist": ["none.jpg"],
        "notes.xyz: is not a picture": [str(folder / "notes.xyz")],
        "broken.jpg: is not a picture": [str(folder / "broken.jpg")],
        "a.shading.png: exists already": [a],
        "clip.reflectance.mp4: exists already": [str(folder / "clip.mp4"), a],
        "png cannot have 32 bits": [b, "--bits", "32"],
        "npz holds linear values alone": [b, "--format", "npz", "--encoding", "srgb"],
        "none.safetensors: does not exist": [b, "--weights", "none.safetensors"],
    }
    program = """if True:
        import json, sys
        from unlit import cli
        for words in json.loads(sys.argv[1]):
            try:
                cli.main(["decompose", *words])
            except SystemExit as ending:
                assert ending.code == 2
            print("torch" in sys.modules)
    """
    words = json.dumps([[*words, "--out", str(out)] for words in trials.values()])
    done = subprocess.run([sys.executable, "-c", program, words], capture_output=True, text=True, check=True)
    for said in trials:
        assert said in done.stderr
    assert done.stdout.split() == ["False"] * len(trials)


def test_a_second_format_stands_beside_the_first_and_both_stay_described(
    folder: Path, tmp_path: Path, weights: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ("decompose", folder / "a.png", "--out", out, "--weights", weights, "--quiet")
    assert run(*command) == 0
    first = json.loads((out / "a.unlit.json").read_text())
    assert run(*command, "--format", "exr") == 0
    both = json.loads((out / "a.unlit.json").read_text())["files"]
    assert first["files"].items() <= both.items()
    assert {name for name in both if name.endswith("exr")} == {"a.reflectance.exr", "a.shading.exr"}
    assert {path.name for path in out.iterdir()} == {*both, "a.unlit.json"}
    other = write_weights(tmp_path / "other.safetensors", spread=0.2)
    assert run(*command[:-2], other, "--quiet", "--format", "tiff") == 2
    assert "a.unlit.json: describes other results" in capfd.readouterr().err
    assert json.loads((out / "a.unlit.json").read_text())["files"] == both


@pytest.mark.parametrize("format_", ["png", "exr", "npz"])
def test_a_full_disk_is_a_failure_and_no_wrong_input(
    format_: str,
    folder: Path,
    tmp_path: Path,
    weights: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unlit.image_io.writing._copy_to_disk", full)
    monkeypatch.setattr("numpy.savez", full)
    command = ("decompose", folder / "a.png", "--out", tmp_path / "out", "--weights", weights, "--format", format_)
    assert run(*command) == 1
    said = capfd.readouterr().err
    assert "unlit: failed: " in said
    assert "No space left on device" in said
    assert run("compare", folder / "a.png", "--method", "constant-shading", "--out", tmp_path / "sheet.png") == 1


def test_options_reach_the_files(folder: Path, tmp_path: Path, weights: Path) -> None:
    out = tmp_path / "out"
    common = ("decompose", folder / "a.png", "--out", out, "--weights", weights, "--quiet", "--force")
    assert run(*common, "--format", "tiff", "--linear", "--bits", 16) == 0
    assert read_image(out / "a.reflectance.tiff").encoding == "linear"
    assert read_image(out / "a.reflectance.tiff").bits == 16
    assert run(*common, "--format", "exr", "--layers", "--preview") == 0
    assert (out / "a.unlit.exr").exists()
    assert (out / "a.preview.jpg").exists()
    assert run(*common, "--no-exact") == 0
    assert json.loads((out / "a.unlit.json").read_text())["exact"] is False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["decompose", "--out", "OUT"], "nothing to decompose"),
        (["decompose", "none.jpg", "--out", "OUT"], "none.jpg"),
        (["decompose", "A", "--out", "A"], "not a folder"),
        (["decompose", "A", "--out", "OUT", "--linear", "--encoding", "srgb"], "contradict"),
        (["decompose", "A", "--out", "OUT", "--bits", "32"], "32 bits"),
        (["decompose", "A", "--out", "OUT", "--size", "3"], "size"),
        (["decompose", "A", "--out", "OUT", "--weights", "none.safetensors"], "none.safetensors"),
        (["decompose", "A", "--out", "OUT", "--device", "abacus"], "abacus"),
        (["compare", "A", "--out", "OUT/sheet.png"], "--method"),
        (["compare", "A", "--out", "OUT/sheet.png", "--method", "magic"], "magic"),
        (["compare", "A", "--out", "A", "--method", "retinex-color"], "exists already"),
        (["export", "--out", "A"], "exists already"),
    ],
)
def test_wrong_usage_gets_one_line_and_exit_code_2(
    arguments: list[str], said: str, folder: Path, tmp_path: Path, weights: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    places = {"A": str(folder / "a.png")}
    words = [places.get(word, word.replace("OUT", str(tmp_path / "out"))) for word in arguments]
    if "--weights" not in words and words[0] != "compare":
        words += ["--weights", str(weights)]
    assert run(*words) == 2
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("unlit:")]
    assert len(lines) == 1
    assert said in lines[0]


@pytest.mark.parametrize(
    "command",
    [("decompose", "--weights", "W"), ("compare", "--method", "constant-shading"), ("sequence", "--steps", "2")],
)
def test_a_file_that_does_not_say_its_encoding_gets_the_option_that_does(
    command: tuple[str, ...], tmp_path: Path, weights: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name, *options = (str(weights) if word == "W" else word for word in command)
    (tmp_path / "in").mkdir()
    for k in range(2):
        _write_silent_png(tmp_path / "in" / f"{k}.png", 20_000 + 10_000 * k)
    source = tmp_path / "in" if name == "sequence" else tmp_path / "in" / "0.png"
    out = tmp_path / "out" / "sheet.png" if name == "compare" else tmp_path / "out"
    option = "--encoding" if name == "sequence" else "--input-encoding"
    assert run(name, source, "--out", out, *options) == 2
    assert f"say {option} srgb or {option} linear" in capfd.readouterr().err
    assert run(name, source, "--out", out, *options, option, "linear") == 0


def _write_silent_png(path: Path, value: int) -> None:
    """Write a gray PNG of 16 bits that says nothing of its encoding."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + struct.pack(">H", value) * 16) * 16
    header = struct.pack(">IIBBBBB", 16, 16, 16, 0, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)


def test_a_sheet_compares_methods(folder: Path, tmp_path: Path, weights: Path) -> None:
    sheet = tmp_path / "deep" / "sheet.png"
    methods = ("--method", "retinex-color", "--method", weights, "--method", "constant-shading")
    assert run("compare", folder / "a.png", "--out", sheet, *methods) == 0
    pixels = read_image(sheet).pixels
    assert pixels.shape[1] == 3 * 90 + 4 * 6
    rows = 26 + 3 * (26 + 60 + 6)
    assert pixels.shape[0] == rows
    first, third = pixels[52:112, 6:96], pixels[52 + 2 * 92 : 112 + 2 * 92, 6:96]
    np.testing.assert_array_equal(first, third)  # the photograph, in each row
    flat = pixels[52 + 2 * 92 : 112 + 2 * 92, 6 + 2 * 96 : 96 + 2 * 96]
    assert np.ptp(flat) < 1e-3  # shading that is constant


def test_the_default_model_has_a_name(folder: Path, tmp_path: Path) -> None:
    assert run("decompose", folder / "a.png", "--out", tmp_path / "out", "--weights", "default", "--quiet") == 0
    assert json.loads((tmp_path / "out" / "a.unlit.json").read_text())["weights"]["name"] == "default"


def test_a_sheet_is_no_linear_picture(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", folder / "a.png", "--out", tmp_path / "sheet.exr", "--method", "retinex-color") == 2
    assert "name it .png" in capsys.readouterr().err
    assert not (tmp_path / "sheet.exr").exists()


@pytest.mark.parametrize("rich", [False, True])
def test_an_exported_network_says_the_same_elsewhere(
    rich: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    monkeypatch.setattr(cue, "ROUNDS", 2)  # each is written out, so that many take long
    path = tmp_path / "little.onnx"
    weights = write_weights(tmp_path / "little.safetensors", rich=rich)
    predictor = Predictor(weights, device="cpu")
    assert run("export", "--out", path, "--weights", weights) == 0
    content = path.read_bytes()
    card = json.loads(onnx_card(content))
    assert (card["sha256"], card["multiple"]) == (predictor.network.sha256, "4")
    import torch

    for count, h, w in ((1, 128, 256), (2, 252, 124), (5, 68, 100)):  # maps of even and of odd sides
        images = torch.rand(count, 3, h, w, generator=torch.Generator().manual_seed(5))
        with torch.inference_mode():
            ours = predictor.network.module(images)
        for name, theirs in zip(OUTPUTS, run_onnx(content, images.numpy()), strict=True):
            np.testing.assert_allclose(theirs, getattr(ours, name), atol=1e-3, err_msg=f"{name}, {count} images")


def test_an_exported_network_asks_all_places_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    import torch

    monkeypatch.setattr(cue, "ROUNDS", 2)
    module = Predictor(write_weights(tmp_path / "little.safetensors", rich=True), device="cpu").network.module
    with monkeypatch.context() as few:
        few.setattr("unlit.model.attention.MANY", 4)
        content = _exported(_Outputs(module.float()).eval(), {})
    images = torch.rand(1, 3, 128, 256, generator=torch.Generator().manual_seed(5))
    with torch.inference_mode():
        ours = module(images)
    # Asked in squares, a network with random weights says what differs by 6e-5.
    np.testing.assert_allclose(run_onnx(content, images.numpy())[1], ours.log_shading, rtol=0, atol=2e-5)


def test_a_network_is_not_exported_to_where_a_folder_is(
    tmp_path: Path, weights: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("export", "--out", tmp_path, "--weights", weights, "--force") == 2
    assert "is a folder; name a file in it" in capfd.readouterr().err


def test_the_command_line_has_the_defaults_of_the_functions_it_calls() -> None:
    options = inspect.signature(photos.decompose).parameters
    predictor = inspect.signature(Predictor).parameters
    for name in ("weights", "device", "size", "detail", "precision", "compiled"):
        assert options[name].default == predictor[name].default, name
    assert options["exact"].default == inspect.signature(Predictor.decompose).parameters["exact"].default


def test_a_process_that_is_done_leaves_at_once_but_calls_whom_it_must_and_says_all(
    tmp_path: Path, weights: Path, image: NDArray[np.float32]
) -> None:
    write_image(tmp_path / "a.png", image)
    program = "import atexit; atexit.register(print, 'called'); from unlit.cli import main; main(); print('stayed')"
    words: list[str | Path] = ["decompose", tmp_path / "a.png", "--out", tmp_path / "out", "--weights", weights]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout == "called\n"
    assert (tmp_path / "out" / "a.unlit.json").exists()
    assert done.stderr.endswith("a.unlit.json says what was written\n")


def test_a_process_without_standard_streams_is_done_as_any_other(
    tmp_path: Path, weights: Path, image: NDArray[np.float32]
) -> None:
    write_image(tmp_path / "a.png", image)
    program = "import sys; sys.stdout = sys.stderr = None; from unlit.cli import main; main()"  # as a closed one is
    words: list[str | Path] = ["decompose", tmp_path / "a.png", "--out", tmp_path / "out", "--weights", weights]
    assert subprocess.run([sys.executable, "-c", program, *words], check=False).returncode == 0
    assert (tmp_path / "out" / "a.unlit.json").exists()


def test_whoever_is_interrupted_while_torch_is_imported_leaves_no_thread_that_imports_it(
    tmp_path: Path, image: NDArray[np.float32]
) -> None:
    write_image(tmp_path / "a.png", image)
    program = """
import sys, threading
class Interrupted:
    def find_spec(self, name, *_):
        if name == "torch" and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from unlit.cli import main
try:
    main()
finally:
    for thread in threading.enumerate():
        thread is threading.main_thread() or thread.join()
    print("torch" in sys.modules)
"""
    words: list[str | Path] = ["decompose", tmp_path / "a.png", "--out", tmp_path / "out"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "False\n", "unlit: interrupted\n")
