"""What goes and stands in streets and squares."""

from __future__ import annotations

import numpy as np
import pytest

from unlit.worlds.builder import Builder
from unlit.worlds.description import ShapeKind
from unlit.worlds.outdoors import street
from unlit.worlds.traffic import car, cars, passer, railing


def boxes(b: Builder) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest corners (n, 3) of the boxes around shapes."""
    maps = b.shapes().to_world.double().numpy()
    reach = np.abs(maps[:, :, :3]).sum(2)
    return maps[:, :, 3] - reach, maps[:, :, 3] + reach


def test_people_stand_on_their_feet() -> None:
    b = Builder(np.random.default_rng(0))
    passer(b, np.array([2.0, 5.0, 0.5]))
    low, high = boxes(b)
    assert 2.0 < high[:, 2].max() < 2.4
    assert 0.4 < low[:, 2].min() < 0.501, "feet are round"
    assert (np.abs(b.centers()[:, :2] - [2, 5]) < 0.3).all()


@pytest.mark.parametrize("yaw", [0.0, np.pi / 2, 1.0])
def test_cars_stand_on_wheels_and_lie_along_their_way(yaw: float) -> None:
    b = Builder(np.random.default_rng(0))
    car(b, np.zeros(3), yaw)
    low, high = boxes(b)
    assert low[:, 2].min() == pytest.approx(0, abs=0.01)
    assert 1.4 < high[:, 2].max() < 2.5
    wheels = b.centers()[(b.shapes().kind == int(ShapeKind.CYLINDER)).numpy()]
    along = wheels[1] - wheels[0]
    np.testing.assert_allclose(along / np.linalg.norm(along), [-np.sin(yaw), np.cos(yaw), 0], atol=1e-6)


def test_parked_cars_keep_between_their_ends_and_off_each_other() -> None:
    start, end = np.array([1.0, 2.0, 0.1]), np.array([25.0, 14.0, 0.1])
    for seed in range(20):
        b = Builder(np.random.default_rng(seed))
        cars(b, start, end)
        if not len(b):
            continue
        bodies = b.centers()[::5]
        share = (bodies - start)[:, :2] @ (end - start)[:2] / np.sum((end - start)[:2] ** 2)
        assert ((share > 0) & (share < 1)).all()
        wheels = b.centers()[3::5, :2], b.centers()[4::5, :2]
        turned = (wheels[1] - wheels[0]) @ (end - start)[:2] / np.linalg.norm((end - start)[:2])
        np.testing.assert_allclose(np.abs(turned), 2.4, atol=1e-6, err_msg="a car stands along the row")
        gaps = np.linalg.norm(np.diff(bodies[:, :2], axis=0), axis=1)
        assert (gaps > 4.5).all()
    b = Builder(np.random.default_rng(0))
    cars(b, start, start + np.array([0.5, 0, 0]))
    assert len(b) == 0, "no room, no car"


def test_a_railing_has_posts_from_end_to_end_and_rails_over_all_of_it() -> None:
    start, end = np.array([0.0, 3.0, 0.0]), np.array([9.0, 3.0, 0.0])
    for seed in range(10):
        b = Builder(np.random.default_rng(seed))
        railing(b, start, end)
        low, high = boxes(b)
        posts = high[:, 0] - low[:, 0] < 1
        assert 5 <= posts.sum() <= 15
        assert 1 <= (~posts).sum() <= 2
        centers = b.centers()[posts]
        np.testing.assert_allclose([centers[0, 0], centers[-1, 0]], [0, 9], atol=1e-9)
        assert (low[:, 2] > -1e-6).all()


def test_traffic_keeps_to_the_street_and_on_its_ground(monkeypatch: pytest.MonkeyPatch) -> None:
    feet: list[np.ndarray] = []
    for name in ("passer", "car", "railing"):
        module = "unlit.worlds.traffic" if name == "car" else "unlit.worlds.outdoors"
        monkeypatch.setattr(f"{module}.{name}", lambda _b, *places: feet.extend(np.array(p) for p in places[:1]))
    for seed in range(60):
        feet.clear()
        b, _, _ = street(np.random.default_rng(seed))
        ground, kerb = (m[:, [0, 1, 3]] for m in b.shapes().to_world.double().numpy()[:2])
        half, last = abs(kerb[0, 2]) - 5, ground[1, 2] + ground[1, 1]
        for foot in feet:
            assert foot[2] == 0
            assert abs(foot[0]) < half + 1, "not in a house"
            assert foot[1] < last, "not beyond the ground"
