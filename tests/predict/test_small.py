from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from unlit.color import linear_to_srgb
from unlit.predict.small import HOLE, small_picture, small_size


@pytest.mark.parametrize(
    ("size", "expected"),
    [((2000, 3000), (256, 384)), ((3000, 2000), (384, 256)), ((1000, 1000), (314, 314)), ((100, 120), (100, 120))],
)
def test_every_shape_gets_as_many_pixels_and_none_is_enlarged(size: tuple[int, int], expected: tuple[int, int]) -> None:
    assert small_size(*size) == expected


def test_a_panorama_keeps_some_height_and_a_line_its_pixel() -> None:
    h, w = small_size(205, 2469)
    assert h >= 80
    assert h * w < 1.1 * 256 * 384
    assert small_size(1, 10**6) == (1, 4 * 384)


def test_a_small_picture_is_the_mean_of_what_it_covers() -> None:
    image = np.random.default_rng(0).uniform(0, 1, (600, 900, 3)).astype(np.float32)
    small = small_picture(image)
    assert small.light.shape == (3, 256, 384)
    torch.testing.assert_close(small.light.mean((1, 2)), torch.from_numpy(image.mean((0, 1))), atol=2e-3, rtol=0)
    assert small.exposure == 1
    (encoded,) = small.encoded
    torch.testing.assert_close(encoded, linear_to_srgb(small.light))


def test_strips_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.random.default_rng(0).uniform(0, 1, (610, 903, 3)).astype(np.float32)
    whole = interpolate(
        torch.from_numpy(image).permute(2, 0, 1)[None], small_size(610, 903), mode="bilinear", antialias=True
    )
    monkeypatch.setattr("unlit.predict.small.strips", lambda h, w: (slice(y, min(h, y + 7)) for y in range(0, h, 7)))
    torch.testing.assert_close(small_picture(image).light, whole[0], atol=1e-6, rtol=0)


def test_light_beyond_white_is_brought_below_it_but_for_lamps() -> None:
    image = np.random.default_rng(0).uniform(0, 8, (60, 90, 3)).astype(np.float32)
    image[:2, :10] = 1e4  # lamps: fewer than a hundredth
    small = small_picture(image)
    assert 7 < small.exposure < 9
    assert float(small.encoded[0].max()) == pytest.approx(1)
    np.testing.assert_allclose(small.light.permute(1, 2, 0).numpy() * small.exposure, image, rtol=1e-5)


def test_what_is_transparent_is_black_and_the_rest_keeps_its_light_up_to_the_edge() -> None:
    image = np.full((60, 90, 3), 0.6, np.float32)
    image[:, :30] = 0.9
    opacity = np.ones((60, 90), np.float32)
    opacity[:, :30] = 0
    light = small_picture(image, opacity).light.numpy()
    assert not light[:, :, : 30 - HOLE].any()
    np.testing.assert_allclose(light[:, :, 30 - HOLE :], 0.6, rtol=1e-4)


@pytest.mark.parametrize("stops", [0.5, 3, 15])
def test_a_dim_picture_is_brightened_to_a_stop_below_white_and_others_are_not(stops: float) -> None:
    draw = np.random.default_rng(1)
    bright = draw.uniform(0.1, 0.98, (60, 90, 3)).astype(np.float32)
    bright[:, :80] = 0  # black around a thing says nothing of its light
    found = small_picture(bright * np.float32(2**-stops))
    brightest = float(found.light.amax(0)[:, 80:].flatten().kthvalue(600 * 99 // 100 + 1).values)
    expected = 2**-stops * 0.98 if stops < 1 else 0.5
    assert brightest == pytest.approx(expected, rel=0.03)
    np.testing.assert_allclose(found.light * found.exposure, np.moveaxis(bright, -1, 0) * 2**-stops, rtol=1e-5)


def test_nothing_but_black_stays_black() -> None:
    found = small_picture(np.zeros((6, 9, 3), np.float32))
    assert found.exposure == 1
    assert not found.light.any()


def test_what_is_nearly_nothing_is_not_brightened_without_end() -> None:
    found = small_picture(np.full((6, 9, 3), 1e-30, np.float32))
    assert found.exposure == pytest.approx(2e-6)


def test_small_holes_are_filled_by_what_is_around_them() -> None:
    """As a mask of clipped pixels makes them: the file's own color there means nothing, and black would be paint."""
    image = np.full((60, 90, 3), 0.25, np.float32)
    image[:, 45:] = 0.5
    opacity = np.ones((60, 90), np.float32)
    for rows, columns in ((slice(5, 6), slice(7, 8)), (slice(20, 24), slice(60, 64))):
        image[rows, columns], opacity[rows, columns] = 9.0, 0
    light = small_picture(image, opacity).light.numpy()
    np.testing.assert_allclose(light[:, :, :45], 0.25, rtol=1e-4)
    np.testing.assert_allclose(light[:, :, 45:], 0.5, rtol=1e-4)


@pytest.mark.parametrize("most", [1.0, 0.5, 0.1])
def test_a_picture_that_is_faint_all_over_is_seen(most: float) -> None:
    image = np.random.default_rng(0).uniform(0.1, 0.9, (60, 90, 3)).astype(np.float32)
    opacity = np.full((60, 90), most, np.float32)
    opacity[:, :30] = 0.2 * most
    light = small_picture(image, opacity).light.numpy()
    assert not light[:, :, : 30 - HOLE].any()
    np.testing.assert_allclose(light[:, :, 30:], image[:, 30:].transpose(2, 0, 1), rtol=1e-4)
    assert not small_picture(image, 0 * opacity).light.any()
