"""How lights are sampled: evenly, and with densities that are what they say."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.worlds.example import generator, light, uniform
from unlit.worlds.description import LightKind
from unlit.worlds.emission import _panel_by_area, is_rectangle, sample_light, sky_radiance, sky_table
from unlit.worlds.rectangle import rectangle_point
from unlit.worlds.sampling import (
    cone_direction,
    cosine_direction,
    direct_numbers,
    frame,
    mixed,
    path_words,
    pixel_keys,
    unit,
)


def grid(count: int) -> tuple[Tensor, Tensor]:
    """The middles of count² squares of the unit square."""
    middles = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    u, v = torch.meshgrid(middles, middles, indexing="ij")
    return u.flatten(), v.flatten()


def solid_angle(x0: float, x1: float, y0: float, y1: float, z: float) -> float:
    """Of a rectangle, by its four corners (the usual arctangents)."""

    def corner(x: float, y: float) -> float:
        return math.atan2(x * y, z * math.sqrt(x * x + y * y + z * z))

    return corner(x1, y1) - corner(x0, y1) - corner(x1, y0) + corner(x0, y0)


@pytest.mark.parametrize(
    "place", [(-0.5, 0.5, -0.5, 0.5, 0.3), (0.2, 1.0, -2.0, -0.5, 0.05), (-3.0, 1.0, 0.1, 0.2, 1.0)]
)
def test_points_of_a_rectangle_are_even_over_its_solid_angle(place: tuple[float, ...]) -> None:
    u, v = grid(400)
    x0, x1, y0, y1, z = (torch.full_like(u, value) for value in place)
    x, y, solid = rectangle_point(x0, x1, y0, y1, z, u, v)
    assert float(solid[0]) == pytest.approx(solid_angle(*place), rel=1e-9)
    # A part of the rectangle gets its share of the points: that of its solid angle.
    middle_x, middle_y = place[0] * 0.3 + place[1] * 0.7, place[2] * 0.6 + place[3] * 0.4
    share = float(((x < middle_x) & (y < middle_y)).double().mean())
    part = solid_angle(place[0], middle_x, place[2], middle_y, place[4])
    assert share == pytest.approx(part / solid_angle(*place), abs=3e-3)


def test_a_near_panel_gives_what_its_area_gives_with_less_noise() -> None:
    panel = light(LightKind.PANEL, position=[0.0, 0, 0.3], edge_u=[0.0, 0.5, 0], edge_v=[0.8, 0, 0], radiance=3.0)
    u, v = (torch.rand(20_000, generator=generator(i)) for i in (1, 2))
    point = torch.tensor([[0.5], [0.2], [0.0]]).expand(3, 20_000)
    up = torch.tensor([[0.0], [0.0], [1.0]]).expand(3, 20_000)
    angle = sample_light(panel, sky_table(panel.sky), 0, point, up, u, v)
    area = _panel_by_area(panel, 0, panel.radiance[0], point, u, v)
    by_angle, by_area = (part.weight * part.direction[2].clamp_min(0) for part in (angle, area))
    assert float(by_angle.mean()) == pytest.approx(float(by_area.mean()), rel=0.03)
    assert float(by_angle.std()) < 0.5 * float(by_area.std())


def test_a_slanted_panel_is_no_rectangle() -> None:
    assert is_rectangle(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 2.0, 0.0]))
    assert not is_rectangle(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.2, 2.0, 0.0]))
    assert not is_rectangle(torch.tensor([1.0, 0.0, 0.0]), torch.zeros(3))


def test_directions_to_a_lamp_meet_it_and_fill_it() -> None:
    lamp = light(LightKind.LAMP, position=[0.0, 0.0, 1.0], radius=0.4)
    u, v = (part.float() for part in grid(64))
    point = torch.zeros(3, len(u))
    found = sample_light(lamp, sky_table(lamp.sky), 0, point, point, u, v)
    at = found.direction * found.distance - torch.tensor([[0.0], [0.0], [1.0]])
    assert torch.allclose(at.norm(dim=0), torch.tensor(0.4), atol=1e-3)
    widest = torch.atan2(found.direction[:2].norm(dim=0), found.direction[2]).max()
    assert float(widest) == pytest.approx(math.asin(0.4), rel=0.02)


def test_cosine_directions_have_the_mean_cosine_of_their_density() -> None:
    u, v = (part.float() for part in grid(128))
    normal = torch.nn.functional.normalize(torch.tensor([[0.3], [-0.8], [-0.5]]), dim=0).expand(3, len(u))
    direction = cosine_direction(normal, u, v)
    assert torch.allclose(direction.norm(dim=0), torch.ones(1), atol=1e-5)
    assert float((direction * normal).sum(0).mean()) == pytest.approx(2 / 3, rel=1e-3)
    assert torch.allclose(direction.mean(1), normal[:, 0] * 2 / 3, atol=1e-3)


def test_a_narrow_cone_keeps_its_digits() -> None:
    """The sun's disk is 0.0047 wide: its cosine in float32 has two digits."""
    u, v = (part.float() for part in grid(64))
    axis = torch.tensor([[0.0], [0.0], [1.0]]).expand(3, len(u))
    width = torch.tensor(2 * math.sin(0.0047 / 2) ** 2)
    sine = cone_direction(axis, width, u, v)[:2].norm(dim=0)
    assert float(sine.max()) == pytest.approx(math.sin(0.0047), rel=0.01)
    assert float((sine**2).mean()) == pytest.approx(math.sin(0.0047) ** 2 / 2, rel=1e-3)


def test_frames_are_upright() -> None:
    axis = torch.nn.functional.normalize(torch.randn(3, 100, generator=generator(0)), dim=0)
    axis[:, 0], axis[:, 1] = torch.tensor([0.0, 0.0, -1.0]), torch.tensor([1.0, 0.0, 0.0])
    one, two = frame(axis)
    basis = torch.stack([one, two, axis]).permute(2, 0, 1)
    assert torch.allclose(basis @ basis.transpose(1, 2), torch.eye(3).expand(100, 3, 3), atol=1e-5)


def test_the_sky_is_sampled_where_it_is_bright() -> None:
    sky = uniform(generator(3), 0.0, 1.0, 6, 12)
    sky[2] = 0
    sky[4, 7] = 50.0
    table = sky_table(sky)
    u, v = (part.float() for part in grid(256))
    lights = light(LightKind.SKY, sky)
    normal = torch.tensor([[0.0], [0.0], [1.0]]).expand(3, len(u))
    found = sample_light(lights, table, 0, normal * 0, normal, 0.5 + u / 2, v)  # the half that goes by brightness
    shine = sky_radiance(table, found.direction)
    assert float((shine == 50.0).float().mean()) == pytest.approx(50 * pixel_angle(6, 4) / table.total, rel=0.02)
    assert float(shine.min()) > 0


def pixel_angle(side: int, row: int) -> float:
    return (math.cos(row * math.pi / side) - math.cos((row + 1) * math.pi / side)) * math.pi / side


def test_numbers_fill_the_square_evenly_for_every_pixel() -> None:
    keys = pixel_keys(50, 7, torch.device("cpu"))
    u, v = direct_numbers(keys[:, None], 3, torch.arange(256))
    assert bool(((u >= 0) & (u < 1) & (v >= 0) & (v < 1)).all())
    cells = (u * 8).long() * 8 + (v * 8).long()
    counts = torch.stack([cell.bincount(minlength=64) for cell in cells]).float()
    # 256 plain random points in 64 cells: a deviation of 2; these are far more even.
    assert float(counts.std()) < 1.1
    assert float((u[0] - u[1]).abs().mean()) > 0.05


def test_words_of_later_bounces_do_not_repeat_those_of_earlier_ones() -> None:
    keys = pixel_keys(1000, 1, torch.device("cpu"))
    numbers = torch.stack([unit(word) for bounce in range(3) for word in path_words(keys, torch.tensor(5), bounce)])
    correlation = torch.corrcoef(numbers)
    assert float((correlation - torch.eye(12)).abs().max()) < 0.15
    assert torch.allclose(numbers.mean(1), torch.tensor(0.5), atol=0.05)


def test_mixing_changes_half_of_the_bits() -> None:
    words = torch.arange(1000)
    changed = mixed(words) ^ mixed(words ^ 1)
    bits = sum((changed >> i) & 1 for i in range(32))
    assert float(torch.as_tensor(bits).float().mean()) == pytest.approx(16, abs=0.5)
