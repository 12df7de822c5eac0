"""All kinds of masks together: exposure, borders, sky, switches; and how they are shown."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import ndimage

from tests.masks.clips import clip, photograph, surface
from unlit.masks.build import build_masks
from unlit.masks.exposure import border
from unlit.masks.overlay import COLORS, overlay
from unlit.masks.settings import KINDS, MaskSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray


def landscape(m: int = 12, h: int = 120, w: int = 160) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Frames of gravel under a sky with passing clouds, blue or gray, and where the sky is."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:h, :w]
    above = y < 50 + 12 * np.sin(x / 17)
    frames = []
    for _ in range(m):
        noise = ndimage.gaussian_filter(rng.normal(size=(h, w)), 8, mode="wrap")
        cloud = np.clip(0.5 + 2 * noise / noise.std() * 0.25, 0, 1)[..., None]
        heaven = 0.6 * cloud + (1 - cloud) * np.array([0.25, 0.4, 0.75])
        ground = surface("gravel", h, w) * rng.uniform(0.3, 0.9)
        frames.append(photograph(rng, np.where(above[..., None], heaven, 0.7 * ground)))
    return np.stack(frames), np.asarray(above)


def test_the_sky_is_found_up_to_the_horizon() -> None:
    frames, above = landscape()
    masks = build_masks(frames, MaskSettings(moving=False))["sky"]
    assert (masks == masks[0]).all(), "one region for all frames"
    assert (masks[0] & above).sum() / (masks[0] | above).sum() > 0.93


def test_no_sky_is_found_where_there_is_none() -> None:
    for seed in (1, 2, 3, 4):
        for kind in ("sky", "day"):
            frames = clip(seed, kind=kind, m=8, h=90, w=120).frames_u8
            assert not build_masks(frames, MaskSettings(moving=False))["sky"].any(), (seed, kind)
    wall = landscape()[0][..., ::-1]
    assert not build_masks(wall, MaskSettings(moving=False))["sky"].any(), "what is yellow above is a wall"
    below = landscape()[0][:, ::-1]
    assert not build_masks(below, MaskSettings(moving=False))["sky"].any(), "what is bright below is no sky"


def test_saturated_has_one_channel_cut_off_and_dark_has_none_above() -> None:
    frames = np.full((2, 8, 8, 3), 100, np.uint8)
    frames[0, 0, 0] = (20, 250, 30)
    frames[0, 0, 1] = (20, 249, 30)
    frames[1, 2, 2] = (10, 3, 10)
    frames[1, 2, 3] = (11, 0, 0)
    masks = build_masks(frames, MaskSettings(moving=False, sky=False))
    assert np.argwhere(masks["saturated"]).tolist() == [[0, 0, 0]]
    assert np.argwhere(masks["dark"]).tolist() == [[1, 2, 2]]


def test_bars_that_never_change_are_borders_and_the_callers_are_added() -> None:
    frames = clip(5, m=6, h=60, w=80).frames_u8
    frames[:, :6] = 16
    frames[:, :, -4:] = 0
    expected = np.zeros((60, 80), bool)
    expected[:6], expected[:, -4:] = True, True
    outside = np.zeros((6, 60, 80), bool)
    outside[2, -9:] = True
    masks = build_masks(frames, MaskSettings(moving=False, sky=False), borders=outside)["border"]
    assert np.array_equal(masks[0], expected)
    assert np.array_equal(masks[2], expected | outside[2])


def test_no_border_without_change_of_light_and_none_inside() -> None:
    still = np.repeat(clip(6, m=1, h=40, w=50).frames_u8 // 8, 5, axis=0)
    assert not border(still).any()
    frames = clip(6, m=6, h=60, w=80).frames_u8
    frames[:, 20:30, 20:30] = 16
    assert not border(frames).any()


def switched_off(kind: str) -> MaskSettings:
    off: dict[str, Any] = {kind: False}
    return dataclasses.replace(MaskSettings(), **off)


@pytest.mark.parametrize("kind", ["saturated", "dark", "border", "moving", "sky"])
def test_each_kind_can_be_switched_off(kind: str) -> None:
    frames = clip(7, m=5, h=40, w=50).frames_u8
    assert kind in build_masks(frames, MaskSettings())
    assert kind not in build_masks(frames, switched_off(kind))


def test_masks_come_in_one_order_with_the_size_of_the_frames() -> None:
    frames = clip(8, m=5, h=41, w=53).frames_u8
    masks = build_masks(frames, MaskSettings(work_pixels=1024), by_hand=np.eye(41, 53, dtype=bool))
    assert list(masks) == [kind for kind in KINDS if kind in masks]
    assert {(mask.shape, mask.dtype.kind) for mask in masks.values()} == {((5, 41, 53), "b")}
    assert np.array_equal(masks["by-hand"][3], np.eye(41, 53, dtype=bool))


def test_the_overlay_shows_each_kind_in_its_color_and_leaves_the_rest() -> None:
    assert set(COLORS) == set(KINDS)
    assert len(set(COLORS.values())) == len(KINDS)
    frame = np.full((4, 6, 3), 90, np.uint8)
    mask = np.zeros((4, 6), bool)
    mask[1, 2] = True
    shown = overlay(frame, {"sky": mask})
    assert np.array_equal(shown[~mask], frame[~mask])
    assert shown[1, 2, 2] > shown[1, 2, 1] > shown[1, 2, 0], "sky is shown blue"
    assert shown.dtype == np.uint8


@pytest.mark.parametrize(
    "wrong",
    [
        {"saturated_from": 300},
        {"dark_to": 250},
        {"moving_sensitivity": 0},
        {"work_pixels": 1},
        {"segmenter_kinds": ("cow",)},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"masks\."):
        MaskSettings(**wrong)


def test_settings_are_light_to_import() -> None:
    code = "import sys, unlit.masks.settings; assert not {'torch', 'scipy', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
