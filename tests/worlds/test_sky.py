"""The sky's brightness by direction."""

from __future__ import annotations

import numpy as np
import pytest

from unlit.worlds.sky import ROWS, sky_map


def directions() -> np.ndarray:
    theta = (np.arange(ROWS) + 0.5) / ROWS * np.pi
    phi = (np.arange(2 * ROWS) + 0.5) / ROWS * np.pi
    t, p = np.meshgrid(theta, phi, indexing="ij")
    return np.stack([np.sin(t) * np.cos(p), np.sin(t) * np.sin(p), np.cos(t)], -1)


def test_an_overcast_zenith_is_about_three_times_as_bright_as_the_horizon_and_the_same_all_around() -> None:
    sky = sky_map(np.array([1.0, 0, 0]), None)
    assert 2.3 < sky[0].mean() / sky[ROWS // 2 - 1].mean() < 3.2
    np.testing.assert_allclose(sky, sky[:, :1].repeat(2 * ROWS, 1))


@pytest.mark.parametrize("turbidity", [2.0, 5.0, 9.0])
def test_a_clear_sky_is_brightest_on_the_side_of_the_sun(turbidity: float) -> None:
    to_sun = np.array([0.3, -0.6, 0.74])
    sky = sky_map(to_sun / np.linalg.norm(to_sun), turbidity)
    # At the sun's own height: the horizon may be brighter than any of it.
    row = int(np.arccos(to_sun[2] / np.linalg.norm(to_sun)) / np.pi * ROWS)
    column = int(sky[row].argmax())
    assert directions()[row, column] @ to_sun / np.linalg.norm(to_sun) > 0.98
    assert sky[row, column] > 1.5 * sky[row, (column + ROWS) % (2 * ROWS)]
    assert (sky >= 0).all()


def test_the_mean_above_is_one_whatever_the_sky() -> None:
    weight = np.sin((np.arange(ROWS) + 0.5) / ROWS * np.pi)[: ROWS // 2, None]
    for turbidity in (None, 2.0, 7.0):
        above = sky_map(np.array([0, 0.6, 0.8]), turbidity)[: ROWS // 2]
        assert (above * weight).sum() / weight.sum() / (2 * ROWS) == pytest.approx(1, rel=1e-6)
