"""Each method's own idea, and its scores on real objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from skimage.color import rgb2lab

from tests.baselines.pictures import patches, scale_free_error, slope
from tests.reference import fields as reference
from unlit.baselines.bell import BellSettings, bell
from unlit.baselines.garces import garces, lab_colors, regions_of
from unlit.baselines.poisson import Steps
from unlit.baselines.registry import BASELINES, SEQUENCE_BASELINES
from unlit.baselines.weiss import weiss, weiss_retinex
from unlit.baselines.zhao import minimum, texture_groups, zhao
from unlit.color import linear_to_srgb
from unlit.evaluate.mit import load_mit_truth, mean_scores, mit_scores
from unlit.image_io import read_image

Array = NDArray[Any]
COLORS = [(0.8, 0.3, 0.2), (0.2, 0.7, 0.3), (0.4, 0.4, 1.0)]


def moving_shadow(m: int = 7, h: int = 24, w: int = 42) -> Array:
    """Shadings (m, h, w) of a flat light with a bar of shadow that lies elsewhere in every frame."""
    x = np.arange(w)
    bars = [np.where((x >= k * w // m) & (x < (k + 1) * w // m), 0.3, 0.9) for k in range(m)]
    return np.broadcast_to(np.array(bars)[:, None], (m, h, w))


def test_weiss_sees_through_a_moving_shadow_that_retinex_cannot() -> None:
    truth, light = patches(COLORS, 24, 42), moving_shadow()
    frames = truth * light[..., None]
    mask = np.ones((24, 42), bool)
    for method in (weiss, weiss_retinex):
        reflectance, shading = method(frames, mask, frames[3])
        assert scale_free_error(reflectance, truth) < 1e-5
        assert scale_free_error(shading, light[3][..., None] * np.ones(3)) < 1e-5
    assert scale_free_error(BASELINES["retinex-color"](frames[3], mask)[0], truth) > 0.3


def test_weiss_takes_the_median_and_not_the_mean() -> None:
    frames = np.full((5, 6, 8, 3), 0.5)
    frames[0, :, 4:] = 0.05  # one frame of five has an edge
    reflectance, _ = weiss(frames, np.ones((6, 8), bool), frames[0])
    assert np.ptp(reflectance) < 1e-6
    frames[:3, :, 4:] = 0.05  # three have
    reflectance, _ = weiss(frames, np.ones((6, 8), bool), frames[0])
    assert reflectance[0, 0, 0] / reflectance[0, 7, 0] == pytest.approx(10, rel=1e-4)


def test_with_a_threshold_small_medians_are_shading() -> None:
    frames = np.repeat((0.9 * slope()[..., None] * np.ones(3))[None], 4, axis=0)
    mask = np.ones(frames.shape[1:3], bool)
    assert np.ptp(weiss_retinex(frames, mask, frames[0])[0]) < 1e-5
    assert np.ptp(weiss(frames, mask, frames[0])[0]) > 0.3


def test_frames_of_another_size_or_broken_are_refused() -> None:
    image, mask = np.ones((4, 5, 3)), np.ones((4, 5), bool)
    broken = np.ones((3, 4, 5, 3))
    broken[1, 2, 2] = np.nan
    for frames, said in [(np.ones((3, 5, 4, 3)), "frames have shape"), (broken, "frames have values")]:
        with pytest.raises(ValueError, match=said):
            weiss(frames, mask, image)


@settings(deadline=None, max_examples=20)
@given(h=st.integers(1, 8), w=st.integers(1, 8), texture=st.floats(0.1, 5), seed=st.integers(0, 1000))
def test_zhao_finds_the_minimum_of_its_sum(h: int, w: int, texture: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    valid = rng.random((h, w)) < 0.8
    valid[0, 0] = True
    log_gray, groups = rng.normal(size=(h, w)), rng.integers(0, 3, (h, w))
    both = (valid[1:] & valid[:-1], valid[:, 1:] & valid[:, :-1])
    smooth = Steps(*(np.where(b & (rng.random(b.shape) < 0.5), 100.0, 0.0) for b in both))
    _, named = np.unique(groups[valid], return_inverse=True)
    found = minimum(log_gray, valid, smooth, named, texture)

    def energy(r: Array) -> float:
        return reference.zhao_energy(r, log_gray, valid, *smooth, groups, texture)

    least = energy(found)
    assert not found[~valid].any()
    for _ in range(5):
        change = np.where(valid, rng.normal(size=(h, w)), 0)
        # At the minimum of a quadratic the two sides of a small change are equally higher.
        up, down = energy(found + 1e-3 * change), energy(found - 1e-3 * change)
        assert min(up, down) >= least - 1e-9
        assert up - down == pytest.approx(0, abs=1e-5 * (1 + least))


def test_textures_of_one_kind_are_one_group_wherever_they_are() -> None:
    colors = np.array([(0.8, 0.3, 0.2), (0.2, 0.7, 0.3)])
    checks = np.add.outer(np.arange(20), np.arange(30)) % 2
    flat = np.zeros((20, 30), int)
    picture = np.concatenate([colors[checks], colors[flat], colors[checks]], axis=1)
    chromaticity = np.moveaxis(picture / np.linalg.norm(picture, axis=-1, keepdims=True), -1, 0)
    groups = texture_groups(chromaticity, np.ones(picture.shape[:2], bool), 0.015, 3).reshape(picture.shape[:2])
    assert groups[10, 10] == groups[10, 70] != groups[10, 45]
    assert groups[10, 10] != groups[10, 11], "the two colors of a texture differ"
    assert len(np.unique(groups)) < 30


def test_far_stripes_of_one_color_are_of_one_reflectance_by_their_texture() -> None:
    truth = patches([COLORS[0], (0.3, 0.3, 0.3), COLORS[0]], 30, 60)
    light = np.where(np.arange(60) < 20, 0.4, 0.8)[None, :] * np.ones((30, 1))  # a shadow ends where the color does
    image = truth * light[..., None]
    with_texture, without = (zhao(image, np.ones((30, 60), bool), texture=t)[0] for t in (10.0, 1e-6))
    assert np.log(with_texture[15, 5, 0] / with_texture[15, 55, 0]) == pytest.approx(0, abs=0.01)
    assert np.log(without[15, 5, 0] / without[15, 55, 0]) == pytest.approx(np.log(0.5), abs=0.01)


def test_an_even_patch_is_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        zhao(np.ones((4, 5, 3)), np.ones((4, 5), bool), patch=2)


def test_the_colors_of_garces_are_those_of_scikit_image() -> None:
    light = np.random.default_rng(0).random((3, 50)) ** 2
    lightness, *colors = rgb2lab(linear_to_srgb(light.T)[None])[0].T
    np.testing.assert_allclose(lab_colors(light), np.stack(colors) * 116 / (lightness + 16), atol=0.1)


def test_the_colors_of_garces_do_not_depend_on_the_light() -> None:
    light = np.random.default_rng(0).uniform(0.2, 1, (3, 50))
    np.testing.assert_allclose(lab_colors(0.3 * light), lab_colors(light), rtol=1e-9)


def test_regions_are_the_connected_parts_of_labels() -> None:
    label_map = np.array([[0, 0, 1, 0], [1, -1, 1, 0], [0, 1, -1, -1]])
    regions = regions_of(label_map)
    np.testing.assert_array_equal(regions == -1, label_map == -1)
    assert len(np.unique(regions[regions >= 0])) == 4
    assert regions[0, 0] == regions[0, 1] != regions[0, 3] == regions[1, 3]
    assert regions[1, 0] == regions[2, 1] == regions[1, 2] == regions[0, 2], "corners touch"


def test_garces_gives_what_changes_inside_one_color_to_the_shading() -> None:
    image = 0.9 * slope()[..., None] * np.array([0.5, 0.5, 0.5])
    reflectance, shading = garces(image, np.ones(slope().shape, bool))
    np.testing.assert_allclose(reflectance, 1, rtol=1e-4)
    assert scale_free_error(shading, slope()) < 1e-3


def test_bell_gives_alike_pixels_one_brightness_of_reflectance() -> None:
    rng = np.random.default_rng(0)
    truth = patches(COLORS, 48, 60)
    image = truth * slope(48, 60)[..., None] * (1 + 0.05 * rng.normal(size=(48, 60, 1)))
    reflectance, _ = bell(image, np.ones((48, 60), bool))
    for k in range(3):
        stripe = reflectance[:, 20 * k : 20 * (k + 1)].mean(axis=-1)
        seen = image[:, 20 * k : 20 * (k + 1)].mean(axis=-1)
        assert np.std(np.log(stripe)) < 0.2 * np.std(np.log(seen)), "noise and slope are shading"


def test_bell_without_labels_to_choose_from_finds_shading_only() -> None:
    image = patches(COLORS) * slope()[..., None]
    reflectance, _ = bell(image, np.ones((30, 40), bool), BellSettings(labels=1))
    np.testing.assert_allclose(reflectance.mean(axis=-1), reflectance.mean(axis=-1)[0, 0], rtol=1e-5)


MEASURED = {
    # The worst that is allowed on the ten objects: mean of R and S of MSE, LMSE, DSSIM. For Weiss + Retinex 5 % above
    # the figures that the project was given for it before this code was written; for the others 5 % above what
    # docs/baselines.md has.
    "zhao": (0.0166, 0.0239, 0.124),
    "garces": (0.0254, 0.0350, 0.161),
    "bell": (0.0277, 0.0323, 0.156),
    "weiss-retinex": (0.0205, 0.0144, 0.109),
}


@pytest.mark.data
@pytest.mark.parametrize("name", MEASURED)
def test_scores_on_real_objects_are_those_of_the_documents(name: str, shared_data: Path) -> None:
    scores = []
    for folder in sorted((shared_data / "mit-intrinsic").iterdir()):
        truth = load_mit_truth(folder)
        if name in BASELINES:
            found = BASELINES[name](truth.image, truth.mask)
        else:
            lights = [read_image(folder / f"light{k:02}.png", encoding="linear").pixels for k in range(1, 11)]
            found = SEQUENCE_BASELINES[name](np.stack(lights), truth.mask, truth.image)
        scores.append(mit_scores(*found, truth.reflectance, truth.shading, truth.mask))
    means = mean_scores(scores)
    for metric, most in zip(("mse", "lmse", "dssim"), MEASURED[name], strict=True):
        assert (means[f"{metric}/reflectance"] + means[f"{metric}/shading"]) / 2 <= most
