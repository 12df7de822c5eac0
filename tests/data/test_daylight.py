"""Days made of lights that were taken one at a time."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from unlit.data.augment import seeded
from unlit.data.dataset import Item
from unlit.data.daylight import NIGHT, OVERCAST, drawn_days, has_day, roles_of
from unlit.data.illuminant import drawn_color_of_light
from unlit.data.sequence import Sequence
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.data.visit import drawn_visit

NAMES = ("01-sun", "02-lamp", "03-sun", "04-sky", "05-flash", "06-sun")
SUNS, SKY, LAMP, FLASH = [0, 2, 5], 3, 1, 4


def days(seed: int, count: int = 3) -> NDArray[np.float32]:
    weights = drawn_days(seeded(seed), roles_of(NAMES), count)
    assert weights.shape == (count, len(NAMES), 3)
    return weights


def test_by_day_there_are_a_sky_and_at_most_one_sun_and_at_night_lamps_and_little_sky() -> None:
    nights, ratios = [], []
    for seed in range(400):
        for frame in days(seed):
            assert (frame[SKY] > 0).all()
            assert (frame[FLASH] == 0).all()
            suns, night = (frame[SUNS] > 0).all(1).sum(), bool((frame[LAMP] > 0).all())
            assert suns <= (0 if night else 1)
            nights.append(night)
            if night:
                ratios.append(frame[SKY].mean() / frame[LAMP].mean())
    assert abs(np.mean(nights) - NIGHT) < 0.025
    assert min(ratios) > 0.015
    assert max(ratios) > 0.4, "dusk"
    assert np.median(ratios) < 0.3


def test_lamps_share_the_night_each_as_bright_as_it_likes_and_warmer_than_the_sky() -> None:
    roles, warmer, sums = ["sun", "sky", "lamp", "lamp", "lamp"], [], []
    for seed in range(300):
        for frame in drawn_days(seeded(seed), roles, 3):
            lamps = frame[2:]
            if (lamps > 0).all():
                bright = lamps.mean(1)
                assert bright.max() > 1.01 * bright.min()
                sums.append(bright.sum() / frame[1].mean())
                warmer.append((lamps[0, 0] / lamps[0, 2]) / (frame[1, 0] / frame[1, 2]))
    assert len(sums) > 40
    assert max(sums) < 1.3 / 0.02
    assert np.mean(np.array(warmer) > 1.05) > 0.5
    assert np.median([w for w in warmer if w > 1.05]) > 2.5, "warmer than the sky is blue"
    assert np.min(warmer) > 0.99


def test_without_lamps_there_are_no_nights() -> None:
    for seed in range(50):
        weights = drawn_days(seeded(seed), ["sun", "sky", "sun"], 3)
        assert (weights[:, 1] > 0.03).all()


def test_a_quarter_of_the_days_frames_are_overcast_and_suns_differ_within_a_day() -> None:
    frames = [days(seed) for seed in range(400)]
    shining = np.stack([(f[:, SUNS] > 0).all(2) for f in frames])
    is_day = np.stack([(f[:, LAMP] == 0).all(1) for f in frames])
    assert abs(1 - shining[is_day].any(1).mean() - OVERCAST) < 0.04
    assert (shining.sum(1) <= 1).all(), "three frames, three suns"
    assert (days(0, count=12)[:, SUNS] > 0).any((0, 2)).all(), "more frames than suns: each comes again"


def test_the_sky_is_fainter_than_the_sun_and_mostly_bluer() -> None:
    ratios, bluer = [], []
    for seed in range(300):
        for frame in days(seed):
            sun = frame[SUNS].sum(0)
            if sun.any():
                ratios.append(frame[SKY].mean() / sun.mean())
                bluer.append((frame[SKY, 2] / frame[SKY, 0]) / (sun[2] / sun[0]))
    assert 0.05 < np.quantile(ratios, 0.02) < 0.09
    assert 0.5 < np.quantile(ratios, 0.98) < 0.9
    is_white = np.isclose(bluer, 1, rtol=1e-5)
    assert 0.2 < is_white.mean() < 0.4, "on the other days both are white"
    assert (np.array(bluer)[~is_white] > 1).all()


def test_cameras_take_most_of_a_days_color_out() -> None:
    casts = []
    for seed in range(200):
        light = days(seed).sum((0, 1))
        casts.append(abs(np.log(light[2] / light[0])))
    sun, sky = (drawn_color_of_light(seeded(1), kelvin, kelvin) for kelvin in (3200.0, 16000.0))
    assert np.median(casts) < 0.15 < np.abs(np.log(sky[2] / sky[0] * sun[0] / sun[2])) / 4


def test_only_what_has_a_sun_and_a_sky_has_days() -> None:
    assert has_day(roles_of(NAMES))
    assert not has_day(roles_of(("01-sun", "02-lamp")))
    assert not has_day(roles_of(("light01", "light02")))


def item(names: tuple[str, ...]) -> Item:
    k = len(names)
    return Item(
        Sequence(torch.rand(k, 3, 8, 8), torch.ones(k, 1, 8, 8, dtype=torch.bool), "scene", names), one_light=True
    )


def is_day(names: tuple[str, ...], share: float, seed: int) -> bool:
    settings = AugmentSettings(mixtures=1.0, days=share, light_color=1.0)
    places = torch.zeros(1, 2, dtype=torch.long)
    weights = drawn_visit(item(names), seeded(seed), places, 2, DataSettings(), settings).weights
    assert weights is not None
    lit: NDArray[np.bool_] = np.all(weights > 0, axis=2)
    return bool(lit[:, SKY].all() and not lit[:, FLASH].any() and (lit[:, SUNS].sum(1) <= 1).all())


def test_the_share_of_sequences_that_are_days_is_the_one_asked_for() -> None:
    assert all(is_day(NAMES, 1.0, seed) for seed in range(30))
    assert sum(is_day(NAMES, 0.0, seed) for seed in range(100)) < 20
    assert 90 < sum(is_day(NAMES, 0.5, seed) for seed in range(200)) < 140
    other = tuple(name.replace("sun", "spot") for name in NAMES)
    assert not all(is_day(other, 1.0, seed) for seed in range(30)), "without a sun lamps are mixed"
