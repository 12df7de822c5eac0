from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.predict.weights import write_weights
from unlit.color import linear_to_srgb
from unlit.evaluate.benchmark import Part, Picture, Split, checked_split
from unlit.evaluate.methods import (
    BaselineMethod,
    NetworkMethod,
    SequenceBaselineMethod,
    SolvedMethod,
    method_of,
    named_methods,
)
from unlit.evaluate.results_folder import ResultsFolder
from unlit.image_io import ImageError, write_image

PICTURE = Picture("12", np.full((6, 8, 3), 0.5, np.float32))


@pytest.fixture
def light() -> np.ndarray:
    return np.random.default_rng(0).random((6, 8, 3), dtype=np.float32)


def close(split: Split, light: np.ndarray, accuracy: float = 1e-6) -> None:
    assert split.reflectance is not None
    assert split.shading is not None
    np.testing.assert_allclose(split.reflectance, light, atol=accuracy)
    np.testing.assert_allclose(split.shading, light, atol=accuracy)


def test_every_format_is_read_in_linear_light(tmp_path: Path, light: np.ndarray) -> None:
    def folder(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    png, exr, npy, npz = (folder(name) for name in ("png", "exr", "npy", "npz"))
    for part in "rs":
        write_image(png / f"12-{part}.png", light)
        write_image(exr / f"12-{part}.exr", light)
        np.save(npy / f"12-{part}.npy", light)
        np.savez(npz / f"12-{part}.npz", reflectance=light, shading=light)
    close(ResultsFolder(png)(PICTURE), light, 0.005)
    close(ResultsFolder(exr)(PICTURE), light)
    close(ResultsFolder(npy, "linear")(PICTURE), light)
    close(ResultsFolder(npz, "linear")(PICTURE), light)


def test_the_stated_encoding_is_undone(tmp_path: Path, light: np.ndarray) -> None:
    for part in "rs":
        np.save(tmp_path / f"12-{part}.npy", linear_to_srgb(light))
    close(ResultsFolder(tmp_path, "srgb")(PICTURE), light)
    (tmp_path / "results.json").write_text('{"encoding": "srgb"}')
    close(ResultsFolder(tmp_path)(PICTURE), light)
    for part in "rs":
        np.save(tmp_path / f"12-{part}.npy", light ** (1 / 2.2))
    close(ResultsFolder(tmp_path, "gamma")(PICTURE), light)
    for part in "rs":
        (tmp_path / f"12-{part}.npy").unlink()
        # A PNG whose numbers are of a power of 1/2.2, whatever it says of itself.
        write_image(tmp_path / f"12-{part}.png", light ** (1 / 2.2), encoding="linear", bits=16)
    close(ResultsFolder(tmp_path, "gamma")(PICTURE), light, 1e-3)


def test_an_array_that_says_nothing_of_its_encoding_is_refused(tmp_path: Path, light: np.ndarray) -> None:
    np.save(tmp_path / "12-r.npy", light)
    with pytest.raises(ValueError, match=r"12-r\.npy.*--encoding"):
        ResultsFolder(tmp_path)(PICTURE)
    (tmp_path / "results.json").write_text('{"encoding": "log"}')
    with pytest.raises(ValueError, match=r"results\.json"):
        ResultsFolder(tmp_path)(PICTURE)


def test_whole_numbers_are_shares_of_their_largest(tmp_path: Path) -> None:
    np.save(tmp_path / "12-r.npy", np.full((6, 8, 3), 51, np.uint8))
    found = ResultsFolder(tmp_path, "linear")(PICTURE)
    assert found.reflectance is not None
    np.testing.assert_allclose(found.reflectance, 0.2)
    assert found.shading is None
    np.save(tmp_path / "12-r.npy", np.full((6, 8, 3), 51, np.int32))
    with pytest.raises(ValueError, match="int32"):
        ResultsFolder(tmp_path, "linear")(PICTURE)


def test_files_that_unlit_wrote_get_their_scale_back(tmp_path: Path, light: np.ndarray) -> None:
    for part in ("reflectance", "shading"):
        write_image(tmp_path / f"12.{part}.png", light / 4, bits=16)
    files = {f"12.{part}.png": {"scale": 4} for part in ("reflectance", "shading")}
    (tmp_path / "12.unlit.json").write_text(json.dumps({"files": files}))
    close(ResultsFolder(tmp_path)(PICTURE), light, 1e-3)


def test_results_of_frames_lie_in_a_folder_of_their_sequence(tmp_path: Path, light: np.ndarray) -> None:
    (tmp_path / "view").mkdir()
    write_image(tmp_path / "view" / "0001-r.exr", light)
    found = ResultsFolder(tmp_path)(Picture("view/0001", PICTURE.image))
    np.testing.assert_array_equal(np.asarray(found.reflectance), light)


def test_missing_and_truncated_results_are_named(tmp_path: Path, light: np.ndarray) -> None:
    with pytest.raises(ValueError, match="no result for 12"):
        ResultsFolder(tmp_path)(PICTURE)
    write_image(tmp_path / "12-r.png", light)
    content = (tmp_path / "12-r.png").read_bytes()
    (tmp_path / "12-r.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(ImageError, match=r"12-r\.png"):
        ResultsFolder(tmp_path)(PICTURE)


def test_results_are_checked_before_they_are_scored(light: np.ndarray) -> None:
    both: tuple[Part, ...] = ("reflectance", "shading")
    bad = light.copy()
    bad[1, 2, 0] = np.nan
    for split, said in [
        (Split(light, None), "no shading"),
        (Split(light[:3], light), "8 x 3 pixels, the picture 8 x 6.*--resize"),
        (Split(bad, light), "reflectance has values that are NaN"),
        (Split(light, np.where(bad > 0.5, np.inf, 1.0)), "shading has values"),
        (Split(1e200 * light.astype(np.float64), light), "reflectance has values that .* beyond 1e\\+30"),
        (Split(light.astype(int), light), "int64"),
        (Split(light[..., :2], light), "2 channels"),
        (Split(light[0, 0], light), "shape"),
    ]:
        with pytest.raises(ValueError, match=rf"12: .*{said}"):
            checked_split(split, PICTURE, both, resize=False)
    masked = Picture("12", PICTURE.image, np.isfinite(bad).all(axis=-1))
    assert checked_split(Split(bad, light), masked, both, resize=False).shading is not None
    gray = checked_split(Split(light[..., :1], light[..., 0]), PICTURE, both, resize=False)
    assert gray.reflectance is not None
    assert gray.reflectance.shape == (6, 8, 3)
    small = checked_split(Split(light[:3], None), PICTURE, ("reflectance",), resize=True)
    assert small.reflectance is not None
    assert small.reflectance.shape == (6, 8, 3)
    with pytest.raises(ValueError, match="NaN"):
        checked_split(Split(bad[:3], None), PICTURE, ("reflectance",), resize=True)


def test_methods_are_known_by_what_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "run").mkdir()
    for file in ("run/weights.safetensors", "model.safetensors"):
        (tmp_path / file).touch()
    assert method_of("retinex-color") == BaselineMethod("retinex-color")
    assert method_of("weiss") == SequenceBaselineMethod("weiss")
    assert method_of("sequence") == SolvedMethod()
    assert method_of("default", device="cpu") == NetworkMethod(None, "cpu")
    weights = tmp_path / "run" / "weights.safetensors"
    assert method_of(str(tmp_path / "run"), device="cpu") == NetworkMethod(weights, "cpu")
    assert method_of(str(tmp_path / "model.safetensors")) == NetworkMethod(tmp_path / "model.safetensors", "auto")
    assert method_of(str(tmp_path / "results"), encoding="srgb") == ResultsFolder(tmp_path / "results", "srgb")
    (tmp_path / "results" / "results.json").write_text('{"encoding": "gamma"}')
    assert method_of(str(tmp_path / "results"), encoding="gamma") == ResultsFolder(tmp_path / "results", "gamma")
    with pytest.raises(ValueError, match=r"results\.json: says gamma, and --encoding srgb; leave one"):
        method_of(str(tmp_path / "results"), encoding="srgb")
    with pytest.raises(ValueError, match=r"nothing: is no method.*retinex-color"):
        method_of("nothing")
    with pytest.raises(ValueError, match="is no method"):
        method_of("x" * 5000)


def test_methods_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b" / "a").mkdir(parents=True)
    a, other = str(tmp_path / "a"), str(tmp_path / "b" / "a")
    assert named_methods(["retinex-color", a, f"mine={other}"]) == {
        "retinex-color": "retinex-color",
        "a": a,
        "mine": other,
    }
    (tmp_path / "a=b").mkdir()
    assert named_methods([f"mine={tmp_path / 'a=b'}"]) == {"mine": str(tmp_path / "a=b")}
    assert named_methods([str(tmp_path / "a=b")]) == {"a=b": str(tmp_path / "a=b")}
    with pytest.raises(ValueError, match=r"called xxx.*300 letters; give at most"):
        named_methods([f"{'x' * 300}=bell"])
    with pytest.raises(ValueError, match="two methods are called a"):
        named_methods([a, other])
    with pytest.raises(ValueError, match="no method"):
        named_methods([])


def test_a_method_of_sequences_refuses_a_single_picture() -> None:
    for name in ("weiss", "sequence"):
        with pytest.raises(ValueError, match=f"12: .*{name} needs a sequence"):
            method_of(name)(PICTURE)


def test_a_baseline_gives_parts_whose_product_is_the_picture(light: np.ndarray) -> None:
    frames = np.stack([light, 0.5 * light, 0.8 * light])
    picture = Picture("12", light, np.ones((6, 8), bool), frames)
    for name in ("retinex-color", "constant-shading", "weiss"):
        split = method_of(name)(picture)
        assert split.reflectance is not None
        assert split.shading is not None
        np.testing.assert_allclose(split.reflectance * split.shading, light, atol=1e-5)


def test_a_network_is_shown_the_whole_picture_whatever_its_mask(tmp_path: Path) -> None:
    weights = write_weights(tmp_path / "weights.safetensors")
    image = np.random.default_rng(0).random((24, 30, 3), np.float32)
    mask = np.zeros((24, 30), np.bool_)
    mask[:, :10] = True
    masked, whole = (NetworkMethod(weights, "cpu")(Picture("one", image, m, image[None])) for m in (mask, None))
    assert masked.shading is not None
    assert whole.shading is not None
    np.testing.assert_array_equal(masked.shading, whole.shading)
