"""Other views of a sequence: each draw against its definition."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool2d

from unlit.data.augment import (
    drawn_colors,
    drawn_mixtures,
    drawn_paint,
    drawn_shade,
    drawn_stops,
    drawn_view,
    drawn_window,
    exposed,
    painted,
    seeded,
    shaded,
    warped,
    warped_mask,
)
from unlit.data.settings import AugmentSettings

STILL = AugmentSettings(flip=False, rotation=0.0, crop=0)
CPU = torch.device("cpu")
WIDE = (12, 20)
EVERYWHERE = torch.cartesian_prod(torch.arange(WIDE[0]), torch.arange(WIDE[1]))


def picture(m: int = 1, size: tuple[int, int] = WIDE, seed: int = 0) -> Tensor:
    return torch.rand(m, 3, *size, generator=torch.Generator().manual_seed(seed))


def in_pixels(theta: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """The linear part of a map as it takes steps of new pixels (x, y) to steps of old ones."""
    (h, w), (new_h, new_w) = old, new
    to_old = torch.diag(torch.tensor([w / 2, h / 2], dtype=torch.float64))
    from_new = torch.diag(torch.tensor([2 / new_w, 2 / new_h], dtype=torch.float64))
    return to_old @ theta[:, :2].double() @ from_new


def angle_of(matrix: Tensor) -> float:
    """The turn in degrees, the first column being the way to the right."""
    return math.degrees(math.atan2(matrix[1, 1].item(), matrix[0, 1].item())) - 90


def slowly_warped(image: Tensor, theta: Tensor, size: tuple[int, int]) -> Tensor:
    """Bilinear sampling of one picture (c, h, w), a pixel at a time; nothing lies beyond the edges."""
    _, h, w = image.shape
    out = torch.zeros(len(image), *size)
    for v in range(size[0]):
        for u in range(size[1]):
            x, y = (theta @ torch.tensor([(2 * u + 1) / size[1] - 1, (2 * v + 1) / size[0] - 1, 1.0])).tolist()
            column, row = ((x + 1) * w - 1) / 2, ((y + 1) * h - 1) / 2
            for j in (math.floor(row), math.floor(row) + 1):
                for i in (math.floor(column), math.floor(column) + 1):
                    if 0 <= j < h and 0 <= i < w:
                        out[:, v, u] += (1 - abs(row - j)) * (1 - abs(column - i)) * image[:, j, i]
    return out


# Where ---------------------------------------------------------------------------------------------------------------


def test_draws_depend_on_all_numbers_and_on_their_order() -> None:
    def first(*numbers: int) -> float:
        return float(seeded(*numbers).random())

    assert first(1, 2, 3) == first(1, 2, 3)
    assert len({first(1, 2), first(2, 1), first(1, 3), first(1, 2, 1), first(2**40, 2)}) == 5


def test_no_change_is_the_identity_and_gives_the_picture_itself() -> None:
    theta = drawn_view(seeded(0), WIDE, STILL)
    assert torch.equal(theta, torch.eye(2, 3))
    torch.testing.assert_close(warped(picture(2), theta, WIDE), picture(2), rtol=0, atol=1e-6)


def test_half_of_the_views_are_mirrored_and_twice_mirrored_is_the_picture() -> None:
    settings = replace(STILL, flip=True)
    views = [drawn_view(seeded(k), WIDE, settings) for k in range(200)]
    mirror = torch.tensor([[-1.0, 0, 0], [0, 1, 0]])
    mirrored = [view for view in views if torch.equal(view, mirror)]
    assert all(torch.equal(view, mirror) or torch.equal(view, torch.eye(2, 3)) for view in views)
    assert 70 < len(mirrored) < 130
    once = warped(picture(), mirror, WIDE)
    torch.testing.assert_close(once, picture().flip(-1), rtol=0, atol=1e-5)
    torch.testing.assert_close(warped(once, mirror, WIDE), picture(), rtol=0, atol=1e-5)


def test_turns_keep_distances_in_pixels_even_in_a_wide_picture() -> None:
    settings = replace(STILL, rotation=40.0, flip=True)
    angles = []
    for k in range(100):
        matrix = in_pixels(drawn_view(seeded(k), WIDE, settings), WIDE, WIDE)
        torch.testing.assert_close(matrix.T @ matrix, torch.eye(2, dtype=torch.float64), rtol=0, atol=1e-6)
        angles.append(angle_of(matrix))
    assert max(map(abs, angles)) <= 40 + 1e-4
    assert min(angles) < -30
    assert max(angles) > 30


def test_what_is_turned_appears_where_the_map_says() -> None:
    h, w = size = (40, 64)
    y, x = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
    spot = torch.exp(-((x - 44) ** 2 + (y - 16) ** 2) / 8)[None, None]
    theta = drawn_view(seeded(3), size, replace(STILL, rotation=60.0))
    matrix = in_pixels(theta, size, size)
    assert abs(angle_of(matrix)) > 5
    turned = warped(spot, theta, size)[0, 0]
    found = torch.stack([(turned * x).sum(), (turned * y).sum()]) / turned.sum()
    middle = torch.tensor([w / 2, h / 2])
    torch.testing.assert_close(
        matrix.float() @ (found - middle) + middle, torch.tensor([44.0, 16.0]), rtol=0, atol=0.05
    )


def test_a_cropped_view_loses_up_to_so_many_pixels_of_each_side_and_stays_inside() -> None:
    settings = replace(STILL, crop=5)
    lost = []
    for k in range(200):
        theta = drawn_view(seeded(k), WIDE, settings)
        assert theta[0, 1] == theta[1, 0] == 0
        share = torch.stack([theta[0, 0], theta[1, 1]])
        assert (share + theta[:, 2].abs() <= 1 + 1e-6).all()
        lost.append((1 - share) * torch.tensor([WIDE[1], WIDE[0]]))
    assert (torch.stack(lost) >= -1e-5).all()
    assert (torch.stack(lost) <= 5 + 1e-5).all()
    assert (torch.stack(lost).amax(0) > 4.5).all()


def test_a_crop_leaves_something_of_the_smallest_picture() -> None:
    for k in range(20):
        theta = drawn_view(seeded(k), (1, 2), replace(STILL, crop=30))
        assert theta[0, 0] > 0.4
        assert theta[1, 1] == 1


def window_edges(theta: Tensor, old: tuple[int, int]) -> tuple[float, float, float, float]:
    """Left, right, top and bottom of a window that is not turned, in old pixels."""
    (h, w), (a, _, x), (_, d, y) = old, theta[0].tolist(), theta[1].tolist()
    return (1 + x - abs(a)) * w / 2, (1 + x + abs(a)) * w / 2, (1 + y - d) * h / 2, (1 + y + d) * h / 2


@pytest.mark.parametrize("place", [(0, 0), (0, 19), (11, 7), (5, 10), (11, 19)])
def test_a_window_contains_its_place_and_stays_inside_where_it_fits(place: tuple[int, int]) -> None:
    settings = replace(STILL, flip=True, zoom=(0.8, 2.0))
    row, column = place
    for k in range(50):
        theta = drawn_window(seeded(k), WIDE, 8, torch.tensor([place]), settings)
        left, right, top, bottom = window_edges(theta, WIDE)
        assert -1e-4 <= left <= column + 1e-4
        assert column + 1 - 1e-4 <= right <= WIDE[1] + 1e-4
        assert -1e-4 <= top <= row + 1e-4
        assert row + 1 - 1e-4 <= bottom <= WIDE[0] + 1e-4


def test_a_window_is_centred_on_its_place_where_the_edges_are_far() -> None:
    theta = drawn_window(seeded(0), (64, 80), 8, torch.tensor([[30, 50]]), STILL)
    left, right, top, bottom = window_edges(theta, (64, 80))
    assert ((left + right) / 2, (top + bottom) / 2) == pytest.approx((50.5, 30.5), abs=1e-4)


def test_a_window_larger_than_the_picture_holds_all_of_it() -> None:
    theta = drawn_window(seeded(0), WIDE, 32, EVERYWHERE, STILL)
    assert window_edges(theta, WIDE) == pytest.approx((-6, 26, -10, 22), abs=1e-4)


def test_a_window_of_a_picture_without_valid_places_is_in_the_middle() -> None:
    theta = drawn_window(seeded(0), (64, 80), 8, torch.empty(0, 2, dtype=torch.int64), STILL)
    left, right, top, bottom = window_edges(theta, (64, 80))
    assert ((left + right) / 2, (top + bottom) / 2) == pytest.approx((40, 32), abs=1)


def test_every_place_is_chosen_some_time() -> None:
    places = torch.tensor([[10, 10], [50, 70]])
    middles = {round(window_edges(drawn_window(seeded(k), (64, 80), 8, places, STILL), (64, 80))[0]) for k in range(20)}
    assert middles == {6, 66}


def test_windows_have_square_pixels_and_are_enlarged_by_factors_from_the_range() -> None:
    settings = replace(STILL, zoom=(0.5, 2.0), rotation=180.0, flip=True)
    zooms = []
    for k in range(300):
        matrix = in_pixels(drawn_window(seeded(k), WIDE, 8, EVERYWHERE, settings), WIDE, (8, 8))
        zoom = float(matrix.det().abs()) ** -0.5
        torch.testing.assert_close(matrix.T @ matrix * zoom**2, torch.eye(2, dtype=torch.float64), rtol=0, atol=1e-5)
        zooms.append(zoom)
    assert min(zooms) == pytest.approx(0.5, rel=0.03)
    assert max(zooms) == pytest.approx(2.0, rel=0.03)
    assert min(zooms) > 0.5 - 1e-5
    assert max(zooms) < 2 + 1e-5
    assert 120 < sum(zoom < 1 for zoom in zooms) < 180  # as many are made smaller as larger


@pytest.mark.parametrize(("size", "window"), [((40, 61), 16), ((41, 60), 15), (WIDE, 32)])
def test_untouched_windows_have_the_picture_s_own_pixels(size: tuple[int, int], window: int) -> None:
    settings = replace(STILL, zoom=(0.5, 2.0), rotation=30.0, flip=True, untouched=1.0)
    image = picture(1, size)
    places = torch.cartesian_prod(torch.arange(size[0]), torch.arange(size[1]))
    outside = (window, window, window, window)
    around = torch.nn.functional.pad(image, outside)
    mirrored = 0
    for k in range(30):
        theta = drawn_window(seeded(k), size, window, places, settings)
        left, _, top, _ = (round(edge) for edge in window_edges(theta, size))
        cut = around[..., top + window : top + 2 * window, left + window : left + 2 * window]
        mirrored += bool(theta[0, 0] < 0)
        expected = cut.flip(-1) if theta[0, 0] < 0 else cut
        torch.testing.assert_close(warped(image, theta, (window, window)), expected, rtol=0, atol=1e-4)
    assert 5 < mirrored < 25


def test_so_many_windows_are_untouched_as_is_asked() -> None:
    settings = replace(STILL, zoom=(1.5, 2.0), untouched=0.3)
    widths = [float(drawn_window(seeded(k), (64, 80), 8, EVERYWHERE, settings)[0, 0]) for k in range(300)]
    assert 65 < sum(width == pytest.approx(8 / 80) for width in widths) < 115
    assert sum(8 / 2 / 80 <= width <= 8 / 1.5 / 80 for width in widths) > 185


# Sampling ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_sampling_equals_the_slow_loop(seed: int) -> None:
    settings = AugmentSettings(rotation=30.0, crop=4, zoom=(0.9, 1.6))
    image = picture(seed=seed)
    theta = drawn_view(seeded(seed), WIDE, settings)
    torch.testing.assert_close(warped(image, theta, WIDE)[0], slowly_warped(image[0], theta, WIDE), rtol=0, atol=1e-5)
    theta = drawn_window(seeded(seed), WIDE, 9, EVERYWHERE, settings)
    torch.testing.assert_close(
        warped(image, theta, (9, 9))[0], slowly_warped(image[0], theta, (9, 9)), atol=1e-5, rtol=0
    )


def test_all_frames_are_moved_alike() -> None:
    theta = drawn_view(seeded(1), WIDE, AugmentSettings(rotation=30.0, crop=4))
    frames = picture(3)
    each = torch.cat([warped(frame[None], theta, WIDE) for frame in frames])
    torch.testing.assert_close(warped(frames, theta, WIDE), each, rtol=0, atol=1e-6)


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_a_picture_that_shrinks_by_a_power_of_two_is_averaged(factor: int) -> None:
    image = picture(2, (32, 48))
    small = warped(image, torch.eye(2, 3), (32 // factor, 48 // factor))
    torch.testing.assert_close(small, avg_pool2d(image, factor), rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [(45, 63), (44, 62), (27, 90)])
def test_shrinking_keeps_the_mean_and_does_not_alias(size: tuple[int, int]) -> None:
    y, x = torch.meshgrid(torch.arange(size[0]), torch.arange(size[1]), indexing="ij")
    board = ((y + x) % 2).float()[None, None]
    small = warped(board, torch.eye(2, 3), (size[0] // 3, size[1] // 3))
    assert (small - 0.5).abs().max() < 0.2
    assert small.mean().item() == pytest.approx(0.5, abs=0.02)
    noise = picture(1, size)
    small = warped(noise, torch.eye(2, 3), (size[0] // 3, size[1] // 3))
    small, inside = small[..., 1:-1, 1:-1], noise[..., 3:-3, 3:-3]  # at the edge nothing has a share, and is masked
    assert small.mean().item() == pytest.approx(inside.mean().item(), abs=0.01)
    assert small.std() < 0.6 * noise.std()  # means over 9 pixels would have a third; single pixels have all of it


def test_edges_stay_where_they_are_when_an_odd_side_shrinks() -> None:
    ramp = ((torch.arange(63) + 0.5) / 63).expand(1, 1, 45, 63)
    small = warped(ramp, torch.eye(2, 3), (9, 13))
    torch.testing.assert_close(small[0, 0, 4, 1:-1], (torch.arange(1, 12) + 0.5) / 13, rtol=0, atol=0.005)


@pytest.mark.parametrize("seed", range(6))
def test_a_pixel_is_valid_unless_something_masked_or_outside_has_a_share(seed: int) -> None:
    h, w = WIDE
    g = torch.Generator().manual_seed(seed)
    mask = torch.rand(1, 1, h, w, generator=g) > 0.05
    settings = AugmentSettings(rotation=40.0, zoom=(0.25, 1.5))
    theta = drawn_window(seeded(seed), WIDE, 8, EVERYWHERE, settings)
    valid = warped_mask(mask, theta, (8, 8))[0, 0]
    # The share of every old pixel in every new one: what each would give if it alone were lit.
    shares = warped(torch.eye(h * w).reshape(h * w, 1, h, w), theta, (8, 8))[:, 0]
    foreign = 1 - shares[mask.flatten()].sum(0)
    assert not (valid & (foreign > 2e-5)).any()
    assert not (~valid & (foreign < 5e-6)).any()
    assert valid.any()
    assert not valid.all()


# Light ---------------------------------------------------------------------------------------------------------------


def mixtures(lights: int, count: int, share: float, most: int = 10, seed: int = 0) -> NDArray[np.float32]:
    settings = AugmentSettings(mixtures=share, most_lights=most)
    weights = drawn_mixtures(seeded(seed), lights, count, settings)
    assert weights.shape == (count, lights)
    assert weights.dtype == np.float32
    assert (weights >= 0).all()
    assert (weights.sum(1) > 0).all()
    return weights


@pytest.mark.parametrize("most", [2, 3, 6, 30])
def test_mixtures_are_of_two_to_the_most_lights_and_of_each_number(most: int) -> None:
    counts = Counter((mixtures(10, 2000, 1.0, most) > 0).sum(1).tolist())
    assert set(counts) == set(range(2, min(most, 10) + 1))


def test_the_share_of_mixtures_is_the_one_asked_for() -> None:
    for share in (0.0, 0.3, 1.0):
        several = (mixtures(10, 2000, share) > 0).sum(1) > 1
        assert several.mean() == pytest.approx(share, abs=0.04)


def test_single_lights_are_whole_and_differ_where_there_are_enough() -> None:
    singles = mixtures(10, 10, 0.0)
    assert set(singles.flatten().tolist()) == {0.0, 1.0}
    assert (singles.sum(0) == 1).all()
    assert (mixtures(4, 10, 0.0).sum(0) >= 2).all()  # else all come before one comes again
    assert not np.array_equal(mixtures(10, 10, 0.0, seed=1), singles)


def test_one_lamp_alone_cannot_be_mixed() -> None:
    assert (mixtures(1, 5, 1.0) == 1).all()


def test_every_light_takes_part_and_none_leads_always() -> None:
    weights = mixtures(6, 600, 1.0, 6)
    assert set(weights.argmax(1).tolist()) == set(range(6))
    assert ((weights > 0).mean(0) > 0.3).all()


def test_exposing_brings_the_mean_of_valid_pixels_to_the_level() -> None:
    frames = picture(4) * torch.tensor([0.01, 0.3, 1, 50]).reshape(4, 1, 1, 1)
    mask = torch.rand(4, 1, *WIDE, generator=torch.Generator().manual_seed(5)) > 0.4
    result = exposed(torch.where(mask, frames, 1000), mask, 0.3)
    for k in range(4):
        assert result[k, :, mask[k, 0]].mean().item() == pytest.approx(0.3, rel=1e-4)
        ratio = (result[k] / frames[k])[:, mask[k, 0]]
        torch.testing.assert_close(ratio, ratio[:1, :1].expand_as(ratio), rtol=1e-4, atol=0)


def test_frames_that_are_black_or_wholly_masked_stay_finite() -> None:
    frames = torch.stack([torch.zeros(3, *WIDE), picture()[0]])
    mask = torch.stack([torch.ones(1, *WIDE), torch.zeros(1, *WIDE)]).bool()
    assert torch.equal(exposed(frames, mask), frames)


def test_stops_are_powers_of_two_of_either_sign() -> None:
    logs = np.log2(drawn_stops(seeded(0), 1000, 1.5))
    assert abs(logs).max() <= 1.5 + 1e-5
    assert logs.min() < -1.4
    assert logs.max() > 1.4
    assert (drawn_stops(seeded(0), 5, 0.0) == 1).all()


def colors(count: int = 200, **settings: float) -> NDArray[np.float32]:
    chosen = AugmentSettings(**settings)  # type: ignore[arg-type]  # of all fields only these are numbers
    matrices = np.stack([drawn_colors(seeded(k), chosen) for k in range(count)])
    assert (matrices >= 0).all()
    assert matrices.dtype == np.float32
    return matrices


def test_colors_stay_where_nothing_is_asked() -> None:
    assert (colors() == np.eye(3)).all()


def test_hue_alone_leaves_gray_gray_and_moves_colors_no_further_than_asked() -> None:
    for hue in (0.3, 1.0):
        matrices = colors(hue=hue)
        np.testing.assert_allclose(matrices @ np.ones(3), 1, atol=1e-6)
        kept = matrices[:, range(3), range(3)]
        assert kept.min() >= 1 - hue - 1e-6
        assert kept.min() < 1 - 0.8 * hue


def test_permuting_channels_gives_all_six_orders_and_nothing_else() -> None:
    matrices = colors(permute_channels=True)
    assert set(matrices.flatten().tolist()) == {0.0, 1.0}
    assert (matrices.sum(1) == 1).all()
    assert (matrices.sum(2) == 1).all()
    assert len({matrix.tobytes() for matrix in matrices}) == 6


def test_white_balance_scales_channels_by_so_many_stops() -> None:
    matrices = colors(white_balance=0.5)
    scales = matrices[:, range(3), range(3)]
    assert np.array_equal(matrices, scales[:, :, None] * np.eye(3, dtype=np.float32))
    assert abs(np.log2(scales)).max() <= 0.5 + 1e-6
    assert (np.ptp(np.log2(scales), axis=1) > 0).all()


# Patterns ------------------------------------------------------------------------------------------------------------


def paint(seed: int, size: tuple[int, int] = WIDE) -> Tensor:
    return painted(drawn_paint(seeded(seed)), size, CPU)


def shade(seed: int, size: tuple[int, int] = WIDE) -> Tensor:
    return shaded(drawn_shade(seeded(seed), 3), size, CPU)


@pytest.mark.parametrize(("pattern", "shape"), [(paint, (3,)), (shade, (3, 1))])
def test_patterns_are_positive_of_the_right_shape_and_repeat_with_the_seed(
    pattern: Callable[[int, tuple[int, int]], Tensor], shape: tuple[int, ...]
) -> None:
    for seed, size in enumerate([(12, 20), (1, 9), (33, 16)]):
        values = pattern(seed, size)
        assert values.shape == (*shape, *size)
        assert (values > 0).all()
        assert torch.isfinite(values).all()
        assert torch.equal(values, pattern(seed, size))
        assert not torch.equal(values, pattern(seed + 10, size))


def test_paint_has_few_colors_with_sharp_edges_and_is_gray_half_of_the_time() -> None:
    patterns = [paint(seed, (48, 48)) for seed in range(60)]
    assert all(len(pattern.flatten(1).unique(dim=1).T) < 12 * 160 for pattern in patterns)
    sharp = [(pattern.diff(dim=2) == 0).float().mean().item() for pattern in patterns]
    assert min(sharp) > 0.3  # most neighbors are of one cell
    gray = sum(bool((pattern == pattern[:1]).all()) for pattern in patterns)
    assert 18 < gray < 42


def test_shade_is_soft_and_each_frame_has_its_own() -> None:
    for seed in range(10):
        fields = shade(seed, (64, 64)).log()
        spread = fields.amax((2, 3)) - fields.amin((2, 3))
        assert (fields.diff(dim=3).abs().amax((1, 2, 3)) < 0.25 * spread[:, 0]).all()
        assert not torch.equal(fields[0], fields[1])
