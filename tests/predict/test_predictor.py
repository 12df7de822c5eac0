from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import unlit
from tests.predict.weights import write_weights
from unlit.color import linear_to_srgb
from unlit.image_io import write_image
from unlit.image_io.icc import srgb_profile
from unlit.model.decomposition import Decomposition
from unlit.predict.exact import COLOR_SHARE
from unlit.predict.network import DEFAULT_WEIGHTS, chosen_device, chosen_precision
from unlit.predict.photo import PhotoDecomposition
from unlit.predict.predictor import Predictor
from unlit.predict.small import small_size
from unlit.predict.source import opened
from unlit.train.weights import CheckpointError, load_weights, save_weights


def assert_exact(found: PhotoDecomposition) -> None:
    product = found.recompose()
    assert product.dtype == np.float32
    # Below the smallest normal number of float32 there are no five digits to compare.
    assert (np.abs(product - found.image) <= 1e-5 * np.abs(found.image) + 1e-37).all()


@settings(max_examples=60, deadline=None)
@given(
    h=st.integers(1, 40),
    w=st.integers(1, 40),
    kind=st.sampled_from(["noise", "gray", "black", "white", "dark", "bright", "negative", "one channel", "dots"]),
    seed=st.integers(0, 9),
)
def test_the_product_is_the_photograph(predictor: Predictor, h: int, w: int, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    image = rng.uniform(0, 1, (h, w, 3)).astype(np.float32)
    if kind == "gray":
        image[:] = image[..., :1]
    elif kind in ("black", "white"):
        image[:] = kind == "white"
    elif kind == "one channel":
        image[..., 1:] = 0
    elif kind == "dots":
        image *= rng.random((h, w, 1)) < 0.2
    else:
        image = image * {"dark": 1e-6, "bright": 1e6, "noise": 1}.get(kind, 1) - np.float32(kind == "negative") / 2
    found = predictor.decompose(image, encoding="linear")
    assert found.image.shape == found.reflectance.shape == found.shading.shape == (h, w, 3)
    assert np.array_equal(found.image, image)
    assert_exact(found)
    assert (found.shading > 0).all()
    assert found.reflectance.max() <= 1 + 1e-5
    if kind in ("gray", "black", "white"):
        assert np.array_equal(found.light_color, np.ones(3))
        assert np.array_equal(found.reflectance, found.reflectance[..., :1].repeat(3, -1))


@pytest.mark.parametrize("size", [(1, 1), (1, 1000), (777, 1), (33, 1999), (501, 335)])
def test_odd_sizes_come_back_as_they_were(predictor: Predictor, size: tuple[int, int]) -> None:
    image = np.random.default_rng(0).uniform(0, 1, (*size, 3)).astype(np.float32)
    found = predictor.decompose(image, encoding="linear")
    assert found.shading.shape == (*size, 3)
    assert_exact(found)


def test_black_specks_in_the_dark_are_the_lights(predictor: Predictor) -> None:
    draw = np.random.default_rng(3)
    image = np.full((600, 900, 3), 0.003, np.float32) * (draw.random((600, 900, 3)) < 0.8)
    image[:200] = 0.6
    found = predictor.decompose(image.astype(np.float32), encoding="linear")
    assert found.around is not None
    assert found.around.shape == (*small_size(600, 900, predictor.size), 3)
    black = image[400:] == 0
    assert float((found.reflectance[400:][black] > 0).mean()) > 0.95
    assert_exact(found)
    assert predictor.decompose(image, encoding="linear", exact=False).around is None


def test_however_dim_a_picture_is_its_reflectance_is_the_same(predictor: Predictor, image: NDArray[np.float32]) -> None:
    dim, dimmer = (predictor.decompose(image * np.float32(2.0**-k), encoding="linear") for k in (3, 9))
    np.testing.assert_allclose(dimmer.reflectance, dim.reflectance, rtol=1e-3)
    np.testing.assert_allclose(dimmer.shading * 64, dim.shading, rtol=1e-3, atol=1e-30)  # nothing is as dim as can be
    assert_exact(dimmer)


def test_the_color_of_the_light_has_no_brightness(predictor: Predictor, image: NDArray[np.float32]) -> None:
    color = predictor.decompose(image, encoding="linear").light_color
    assert color.dtype == np.float32
    assert np.log(color).sum() == pytest.approx(0, abs=1e-5)
    assert np.ptp(color) > 1e-3


def test_without_exactness_the_parts_are_the_network_s_own(predictor: Predictor, image: NDArray[np.float32]) -> None:
    raw = predictor.decompose(image, encoding="linear", exact=False)
    assert not raw.is_exact
    with torch.inference_mode():
        said = predictor.network.decomposed(torch.from_numpy(linear_to_srgb(image)).permute(2, 0, 1)[None])
    expected = said.recompose()[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(raw.recompose(), expected, rtol=1e-3)
    assert np.abs(np.log(expected[20:-20] / image[20:-20].clip(1e-4))).max() > 0.1  # which is not the photograph


def test_paths_pil_images_and_arrays_are_one_photograph(
    predictor: Predictor, image: NDArray[np.float32], tmp_path: Path
) -> None:
    write_image(tmp_path / "a.png", image)
    words = np.rint(255 * linear_to_srgb(image)).astype(np.uint8)
    ways = [
        predictor.decompose(tmp_path / "a.png"),
        predictor.decompose(str(tmp_path / "a.png")),
        predictor.decompose(PIL.Image.fromarray(words)),
        predictor.decompose(words),
        predictor.decompose((words / 255).astype(np.float32), encoding="srgb"),
        predictor.decompose(257 * words.astype(np.uint16), encoding="srgb"),
    ]
    for found in ways[1:]:
        np.testing.assert_allclose(found.image, ways[0].image, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(found.shading, ways[0].shading, rtol=1e-3)


def test_large_arrays_are_not_copied(predictor: Predictor, image: NDArray[np.float32]) -> None:
    assert np.shares_memory(predictor.decompose(image, encoding="linear").image, image)


def test_the_profile_of_a_pil_image_counts(predictor: Predictor, image: NDArray[np.float32]) -> None:
    words = np.rint(255 * image).astype(np.uint8)
    picture = PIL.Image.fromarray(words)
    picture.info["icc_profile"] = srgb_profile("linear", gray=False)
    np.testing.assert_allclose(predictor.decompose(picture).image, words / 255, atol=1e-3)
    assert np.abs(predictor.decompose(picture, encoding="srgb").image - words / 255).mean() > 0.05
    picture.info["icc_profile"] = b"nonsense"
    with pytest.raises(ValueError, match="PIL image has"):
        predictor.decompose(picture)


def test_gray_and_alpha_are_kept(predictor: Predictor, image: NDArray[np.float32]) -> None:
    gray = predictor.decompose(image[..., 0], encoding="linear")
    assert gray.alpha is None
    assert gray.image.shape == image.shape
    opacity = np.linspace(0, 1, image[..., 0].size, dtype=np.float32).reshape(image.shape[:2])
    found = predictor.decompose(np.dstack([image, opacity]), encoding="linear")
    assert found.alpha is not None
    np.testing.assert_array_equal(found.alpha, opacity)
    assert_exact(found)


def test_what_is_under_full_transparency_does_not_matter(predictor: Predictor, image: NDArray[np.float32]) -> None:
    opacity = np.ones(image.shape[:2], np.float32)
    opacity[:, :20] = 0
    other = image.copy()
    other[:, :20] = 0.9
    one, two = (predictor.decompose(np.dstack([a, opacity]), encoding="linear") for a in (image, other))
    np.testing.assert_allclose(one.shading[:, 30:], two.shading[:, 30:], rtol=1e-4)


@pytest.mark.parametrize(
    ("source", "encoding", "said"),
    [
        (np.full((4, 4, 3), np.nan, np.float32), "linear", "NaN"),
        (np.full((4, 4, 3), np.inf, np.float32), "linear", "infinite"),
        (np.full((4, 4, 3), 1e35, np.float32), "linear", "1e30"),
        (np.zeros((4, 4, 3), np.float32), None, "encoding="),
        (np.zeros((4, 4, 3), np.float32), "gamma", "gamma"),
        (np.zeros((4, 4, 3), np.int64), "linear", "int64"),
        (np.zeros((4, 4, 2), np.float32), "linear", "shape"),
        (np.zeros((0, 4, 3), np.float32), "linear", "shape"),
        (17, None, "int"),
        ("missing.jpg", None, "missing.jpg"),
        ("missing.dng", None, "missing.dng"),
    ],
)
def test_what_is_no_photograph_is_refused(predictor: Predictor, source: Any, encoding: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        predictor.decompose(source, encoding=encoding)


def test_threads_may_share_a_predictor(predictor: Predictor) -> None:
    images = [np.random.default_rng(k).uniform(0, 1, (30 + k, 40, 3)).astype(np.float32) for k in range(12)]
    alone = [predictor.decompose(image, encoding="linear").gray_shading for image in images]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda image: predictor.decompose(image, encoding="linear").gray_shading, images))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_a_batch_says_what_its_pictures_say_alone(predictor: Predictor) -> None:
    from unlit.predict.small import small_picture

    shapes = [(30, 40), (20, 20), (30, 40)]
    smalls = [small_picture(np.random.default_rng(k).random((*s, 3), np.float32)) for k, s in enumerate(shapes)]
    for small, together in zip(smalls, predictor.said(smalls), strict=True):
        alone = predictor.said([small])[0]
        torch.testing.assert_close(together.log_shading, alone.log_shading, atol=0.03, rtol=0)  # bfloat16
        torch.testing.assert_close(together.light_color, alone.light_color, atol=0.03, rtol=0)


def test_bfloat16_changes_little(weights: Path, image: NDArray[np.float32]) -> None:
    few, many = (Predictor(weights, device="cpu", precision=p) for p in ("bfloat16", "float32"))
    one, other = (p.decompose(image, encoding="linear") for p in (few, many))
    assert np.abs(np.log(one.gray_shading / other.gray_shading)).max() < 0.05
    assert not np.array_equal(one.gray_shading, other.gray_shading)  # so that the test would notice a lost option


def test_fusing_normalisation_changes_nothing(tmp_path: Path) -> None:
    from unlit.config import ModelSettings
    from unlit.predict.network import fused
    from unlit.train.learner import network_of

    torch.manual_seed(0)
    network = network_of(ModelSettings(network="compact", width=0.25))
    torch.nn.init.normal_(network.get_submodule("head").get_parameter("weight"), 0, 0.1)
    seen = torch.rand(2, 3, 64, 64)
    for _ in range(20):
        network(seen)  # so that running means are something
    network.eval()
    with torch.no_grad():
        before = network(seen)
        after = fused(network)(seen)
    torch.testing.assert_close(before.log_shading, after.log_shading, atol=1e-4, rtol=1e-4)


def test_weights_that_have_diverged_are_named(tmp_path: Path, weights: Path, image: NDArray[np.float32]) -> None:
    tensors, card = load_weights(weights)
    wild = {name: 1e30 * value if value.is_floating_point() else value for name, value in tensors.items()}
    save_weights(tmp_path / "wild.safetensors", wild, card)
    with pytest.raises(ValueError, match=r"wild.safetensors: the network says what is no number; give other weights"):
        Predictor(tmp_path / "wild.safetensors", precision="float32").decompose(image, encoding="linear")


def test_weights_without_a_network_and_of_another_are_refused(tmp_path: Path, weights: Path) -> None:
    tensors, card = load_weights(weights)
    save_weights(tmp_path / "bare.safetensors", tensors, {})
    with pytest.raises(CheckpointError, match="which network"):
        Predictor(tmp_path / "bare.safetensors")
    tensors.pop(next(iter(tensors)))
    save_weights(tmp_path / "less.safetensors", tensors, card)
    with pytest.raises(CheckpointError, match="another network"):
        Predictor(tmp_path / "less.safetensors")
    with pytest.raises(CheckpointError, match="does not exist"):
        Predictor(tmp_path / "missing.safetensors")


def test_the_folder_of_a_run_stands_for_its_weights(tmp_path: Path) -> None:
    write_weights(tmp_path / "weights.safetensors")
    assert Predictor(tmp_path, device="cpu").network.name == "weights.safetensors"


def test_options_out_of_reach_are_refused(weights: Path) -> None:
    with pytest.raises(ValueError, match="size"):
        Predictor(weights, size=8)
    with pytest.raises(ValueError, match="share"):
        Predictor(weights, share=1.5)
    with pytest.raises(ValueError, match="no device 'abacus'"):
        Predictor(weights, device="abacus")


def test_auto_is_a_device_that_is_here() -> None:
    device = chosen_device("auto")
    assert device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert chosen_precision("float32", device) == "float32"
    assert chosen_precision("auto", torch.device("cpu")) in ("float32", "bfloat16")


def test_the_default_model_is_at_hand_and_small() -> None:
    assert DEFAULT_WEIGHTS.stat().st_size <= 16e6
    image = np.random.default_rng(0).uniform(0, 1, (40, 60, 3)).astype(np.float32)
    found = unlit.decompose(image, encoding="linear")
    assert_exact(found)
    assert found.weights == "default"


def test_a_decomposition_shows_itself_in_a_line(predictor: Predictor) -> None:
    found = predictor.decompose(np.full((20, 30, 3), 0.5, np.float32), encoding="linear")
    assert repr(found).startswith("PhotoDecomposition(30 x 20 pixels, exact, weights '")
    assert len(repr(found)) < 120


def test_part_of_the_light_s_color_is_given_back_to_the_surface(tmp_path: Path) -> None:
    predictor = Predictor(write_weights(tmp_path / "w.safetensors"), device="cpu", precision="float32")
    image = np.random.default_rng(0).random((24, 36, 3), np.float32)
    photo = opened(image, "linear")
    small = predictor.small(photo)
    said = predictor.said([small])[0]
    color = torch.tensor([[0.6, 0.0, -0.3]])
    said = Decomposition(said.log_reflectance, said.log_shading, color)
    colored = predictor.finished(photo, small, said)
    mean = color.mean()
    np.testing.assert_allclose(np.log(colored.light_color), COLOR_SHARE * (color - mean)[0].numpy(), atol=1e-6)
    np.testing.assert_allclose(colored.recompose(), image, rtol=1e-5)
    raw = predictor.finished(photo, small, said, exact=False)
    np.testing.assert_allclose(raw.reflectance, said.reflectance[0].permute(1, 2, 0).numpy(), rtol=1e-4)
    np.testing.assert_allclose(raw.shading, said.log_light.exp()[0].permute(1, 2, 0).numpy(), rtol=1e-4)


def test_the_light_takes_up_what_lightness_is_corrected_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor(write_weights(tmp_path / "weights.safetensors"), device="cpu", share=0.0)
    image = np.full((32, 32, 3), 0.2, np.float32)
    shadings = []
    for step in (0.0, -1.0):
        monkeypatch.setattr("unlit.predict.predictor.lightness_correction", lambda logs, by=step: by + 0 * logs[:1])
        shadings.append(predictor.decompose(image, encoding="linear").gray_shading)
    np.testing.assert_allclose(np.log(shadings[1] / shadings[0]), 1.0, atol=1e-3)


def test_each_size_is_compiled_for_itself(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any size at once torch 2.13 fails, at the third."""
    asked = []

    def noted(module: object, **how: object) -> object:
        asked.append(how)
        return module

    monkeypatch.setattr(torch, "compile", noted)
    Predictor(weights, device="cpu", compiled=True)
    Predictor(weights, device="cpu")
    assert asked == [{"dynamic": False}]
