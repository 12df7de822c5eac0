import math
from typing import Any

import pytest

from unlit.train.schedule import PAPER_HALVE_AT, learning_rate


def rates(steps: int, **options: Any) -> list[float]:
    return [learning_rate(step, base=1.0, steps=steps, **options) for step in range(steps)]


def test_the_paper_halves_at_8_and_16_of_24_epochs() -> None:
    epoch = 212
    found = [learning_rate(step, base=5e-4, steps=24 * epoch) for step in range(24 * epoch)]
    assert found == [5e-4] * 8 * epoch + [2.5e-4] * 8 * epoch + [1.25e-4] * 8 * epoch


@pytest.mark.parametrize("steps", [3, 9, 99, 300, 999_999])
def test_a_third_of_the_steps_is_a_third_whatever_the_rounding(steps: int) -> None:
    third = steps // 3
    found = [learning_rate(k, base=1.0, steps=steps) for k in (third - 1, third, 2 * third - 1, 2 * third)]
    assert found == [1.0, 0.5, 0.5, 0.25]


def test_a_fraction_is_of_whole_steps_whatever_the_rounding() -> None:
    assert 0.07 * 100 > 7
    assert rates(100, halve_at=(0.07,)) == [1.0] * 7 + [0.5] * 93


def test_without_fractions_the_rate_stays() -> None:
    assert rates(10, halve_at=()) == [1.0] * 10


def test_fractions_count_in_any_order() -> None:
    assert rates(12, halve_at=PAPER_HALVE_AT[::-1]) == rates(12)


def test_warm_up_climbs_in_a_straight_line_to_the_base() -> None:
    assert rates(9, warm_up=3, halve_at=()) == [0.25, 0.5, 0.75] + [1.0] * 6
    assert rates(9, warm_up=3)[3:] == rates(9)[3:]


def test_the_cosine_falls_from_the_base_to_nearly_zero() -> None:
    found = rates(100, final="cosine")
    assert found[0] == 1.0
    assert found == sorted(found, reverse=True)
    assert 0 < found[-1] < 1e-3
    assert found[50] == pytest.approx(0.5)
    assert found[25] == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert learning_rate(100, base=1.0, steps=100, final="cosine") == 0.0
    assert learning_rate(150, base=1.0, steps=100, final="cosine") == 0.0


def test_the_cosine_begins_after_the_warm_up() -> None:
    found = rates(110, warm_up=10, final="cosine")
    assert max(found) == found[10] == 1.0
    assert found[:10] == pytest.approx([k / 11 for k in range(1, 11)])
    assert found[10:] == rates(100, final="cosine")


@pytest.mark.parametrize("final", ["steps", "cosine"])
def test_a_warm_up_longer_than_the_run_only_climbs(final: Any) -> None:
    found = rates(5, warm_up=10, halve_at=(), final=final)
    assert found == pytest.approx([k / 11 for k in range(1, 6)])


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"step": -1}, "step -1 of 10"),
        ({"steps": 0}, "step 0 of 0"),
        ({"warm_up": -1}, "warm-up of -1"),
        ({"base": 0.0}, "must be positive, not 0.0"),
        ({"base": math.nan}, "must be positive, not nan"),
        ({"base": math.inf}, "must be positive, not inf"),
        ({"halve_at": (0.0,)}, "fractions between 0 and 1"),
        ({"halve_at": (8.0, 16.0)}, "fractions between 0 and 1"),
        ({"final": "linear"}, "one of steps, cosine, not 'linear'"),
    ],
)
def test_impossible_schedules_are_refused(change: dict[str, Any], wrong: str) -> None:
    options: dict[str, Any] = {"step": 0, "base": 1.0, "steps": 10} | change
    with pytest.raises(ValueError, match=wrong):
        learning_rate(options.pop("step"), **options)
