"""Colors of lights."""

from __future__ import annotations

import numpy as np
import pytest

from unlit.data.illuminant import COOLEST, HOTTEST, balanced, black_body, drawn_color_of_light, drawn_colored


def planck(kelvin: float) -> np.ndarray:
    """The ratio of red, green and blue light at three wavelengths of a body that glows, by Planck's law."""
    wave = np.array([610e-9, 550e-9, 465e-9])
    power = 1 / wave**5 / (np.exp(0.014387769 / (wave * kelvin)) - 1)
    return np.asarray(power / power.mean())


def test_daylight_of_the_white_point_is_nearly_white() -> None:
    np.testing.assert_allclose(black_body(6500), 1, atol=0.06)


@pytest.mark.parametrize("kelvin", [2500, 4000, 5500, 9000, 18000])
def test_colors_follow_plancks_law_on_the_whole(kelvin: float) -> None:
    ours, exact = (np.log(c[0] / c[2]) for c in (black_body(kelvin), planck(kelvin)))
    white = np.log(planck(6500)[0] / planck(6500)[2])
    assert np.sign(ours) == np.sign(exact - white)
    assert ours == pytest.approx(exact - white, abs=0.25 + 0.4 * abs(exact - white))


def test_hotter_is_always_bluer() -> None:
    ratio = [black_body(k)[2] / black_body(k)[0] for k in np.linspace(COOLEST, HOTTEST, 60)]
    assert (np.diff(ratio) >= -1e-9).all()


def test_colors_change_no_exposure() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        assert drawn_color_of_light(draw).mean() == pytest.approx(1)


def test_white_balance_brings_the_mean_light_nearer_to_white() -> None:
    draw = np.random.default_rng(1)
    colored = draw.random((4, 3, 1)) * black_body(2500)
    before, after = (w.sum((0, 1)) for w in (colored, balanced(colored, draw)))
    assert np.ptp(after / after.mean()) < np.ptp(before / before.mean())


def test_lights_are_white_where_no_color_is_wanted_and_dark_ones_stay_dark() -> None:
    weights = np.array([[1, 0], [0.5, 2]], np.float32)
    draw = np.random.default_rng(2)
    np.testing.assert_array_equal(drawn_colored(draw, weights, 0.0), np.repeat(weights[:, :, None], 3, 2))
    colored = drawn_colored(draw, weights, 1.0)
    assert (colored[0, 1] == 0).all()
    assert np.isfinite(colored).all()
    assert colored[0, 0].std() > 0
