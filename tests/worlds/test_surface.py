"""Textures and bumps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unlit.worlds.description import ShapeKind
from unlit.worlds.hits import Hits, pattern_places
from unlit.worlds.materials import Bump, Materials, Texture, joined
from unlit.worlds.noise import cells, fractal, hashed, value_noise
from unlit.worlds.palette import (
    _MEAN_SHARES,
    _PICTURE_MEAN,
    Material,
    drawn_color,
    drawn_greens,
    drawn_leaves,
    drawn_material,
    mean_reflectance,
    stacked,
)
from unlit.worlds.patterns import reflectance_at
from unlit.worlds.pictures import FILES, PicturesError, pictures
from unlit.worlds.surface import DARKEST, WHITEST, surface_at


def plane(material: int = 0, side: int = 40, width: float = 0.01) -> Hits:
    """A flat square of a meter, seen straight."""
    line = torch.linspace(-0.5, 0.5, side)
    y, x = torch.meshgrid(line, line, indexing="ij")
    n = side * side
    position = torch.stack([x, y, 0 * x], -1).reshape(n, 3)
    up = torch.tensor([0.0, 0, 1]).expand(n, 3)
    kind = torch.full((n,), int(ShapeKind.QUAD))
    return Hits(position, up, kind, torch.ones(n), torch.full((n,), material), torch.full((n,), width), position)


def drawn(texture: Texture, seed: int, **changes: object) -> Material:
    material = drawn_material(np.random.default_rng((int(texture), seed)), 1.0, (texture,))
    for name, value in {"wear": 0.0, "bump": 0, **changes}.items():
        setattr(material, name, value)
    return material


@pytest.mark.parametrize("texture", Texture)
def test_every_texture_stays_between_soot_and_snow_and_is_the_same_again(texture: Texture) -> None:
    for seed in range(3):
        materials = stacked([drawn(texture, seed)])
        reflectance, normal, horizon, *_ = surface_at(plane(), materials)
        assert bool(torch.isfinite(reflectance).all())
        assert float(reflectance.min()) >= DARKEST - 1e-6
        assert float(reflectance.max()) <= WHITEST + 1e-6
        assert torch.equal(normal, plane().normal)
        assert float(horizon.abs().max()) == 0, "smooth: nothing rises above it"
        assert torch.equal(reflectance, surface_at(plane(), materials)[0])


@pytest.mark.parametrize("texture", [t for t in Texture if t not in (Texture.PLAIN, Texture.PICTURE, Texture.WATER)])
def test_every_texture_varies_and_stays_gray_on_gray(texture: Texture) -> None:
    gray = np.repeat(np.array([0.6, 0.08, 0.3, 0.15])[:, None], 3, 1)
    spread = []
    for seed in range(3):
        reflectance = surface_at(plane(side=24), stacked([drawn(texture, seed, colors=gray, scale=0.2)]))[0]
        torch.testing.assert_close(reflectance[:, 0], reflectance[:, 2])
        spread.append(float(reflectance.std()))
    assert max(spread) > 0.03


def test_scenes_together_look_as_they_do_alone() -> None:
    one, other = (stacked([drawn(t, 0)]) for t in (Texture.BRICK, Texture.STROKES))
    both = joined([one, other])
    first, second = plane(0), plane(1)
    merged = Hits(*(torch.cat(pair) for pair in zip(vars(first).values(), vars(second).values(), strict=True)))
    together = surface_at(merged, both)[0]
    assert torch.equal(together[: len(first.width)], surface_at(first, one)[0])
    assert torch.equal(together[len(first.width) :], surface_at(plane(), other)[0])


def bumpy(bump: Bump, height: float = 0.5) -> Materials:
    return stacked([drawn(Texture.BRICK, 1, bump=int(bump), bump_height=height, bump_scale=0.1, scale=0.2)])


@pytest.mark.parametrize("bump", [b for b in Bump if b != Bump.NONE])
def test_bumps_turn_normals_and_leave_the_reflectance_alone(bump: Bump) -> None:
    flat, rough = (surface_at(plane(), m) for m in (bumpy(Bump.NONE), bumpy(bump)))
    assert torch.equal(flat[0], rough[0])
    assert float((flat[1] - rough[1]).norm(dim=1).max()) > 0.05
    torch.testing.assert_close(rough[1].norm(dim=1), torch.ones(len(rough[1])))
    assert float(rough[1][:, 2].min()) > 0.5, "none turns away"


def test_the_slope_of_waves_is_what_their_height_says() -> None:
    hits = plane(side=200, width=1e-3)
    normal = surface_at(hits, bumpy(Bump.WAVES, 0.2))[1]
    slope = -normal[:, 0] / normal[:, 2]
    assert float(slope.max()) == pytest.approx(0.2 * 0.3 * 2 * np.pi, rel=0.02)
    assert float(normal[:, 1].abs().max()) < 1e-3


def test_patterns_finer_than_a_pixel_become_their_mean() -> None:
    materials = stacked([drawn(Texture.CHECKS, 0, scale=0.01)])
    assert float(surface_at(plane(width=0.05), materials)[0].std(0).max()) < 1e-6


def test_the_mean_that_bounces_meet_is_about_that_of_the_texture() -> None:
    errors = []
    for texture in Texture:
        for seed in range(5):
            material = drawn(texture, seed)
            exact = surface_at(plane(side=20, width=1e-3), stacked([material]))[0].mean(0).numpy()
            errors.append(abs(np.log(mean_reflectance(material).mean() / exact.mean())))
    assert np.median(errors) < 0.25
    assert np.mean(errors) < 0.4


def measured_shares(texture: Texture) -> np.ndarray:
    """How much (4,) a texture has of each of its colors, over many materials and places."""
    materials, each = [drawn(texture, seed) for seed in range(200)], 150
    for material in materials:
        material.params[1] = 0.9 if texture == Texture.PICTURE else material.params[1]  # printed in two colors
    n = each * len(materials)
    position = torch.rand(n, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([4.0, 4.0, 0.0])
    owner = torch.arange(n) // each
    kind, one = torch.full((n,), int(ShapeKind.QUAD)), torch.ones(n)
    hits = Hits(position, torch.tensor([0.0, 0, 1]).expand(n, 3), kind, one, owner, 1e-3 * one, position)
    means = []
    for first in (0, 1):
        for material in materials:
            material.colors = np.eye(4)[:, first : first + 3]
        m = Materials(*(values[owner] for values in vars(stacked(materials)).values()))
        means.append(reflectance_at(pattern_places(hits, m), m.texture).mean(0).numpy())
    return np.append(means[0], means[1][2])


@pytest.mark.parametrize("texture", [t for t in Texture if t != Texture.WATER])
def test_bounces_meet_as_much_of_each_color_as_the_texture_has(texture: Texture) -> None:
    np.testing.assert_allclose(_MEAN_SHARES[texture], measured_shares(texture), atol=0.045)


def test_bounces_meet_the_mean_of_all_pictures() -> None:
    np.testing.assert_allclose(_PICTURE_MEAN, pictures()[0].mean((0, 2, 3)), atol=0.02)


def test_noise_is_smooth_between_its_grid_and_random_on_it() -> None:
    p = torch.rand(2000, 3) * 50 - 25
    seed = torch.zeros(2000, dtype=torch.long)
    field = value_noise(p, seed)
    assert 0.3 < float(field.mean()) < 0.7
    step = (value_noise(p + 1e-3, seed) - field).abs()
    assert float(step.max()) < 0.02
    corners = torch.randint(-9, 9, (500, 3))
    torch.testing.assert_close(value_noise(corners.float(), seed[:500]), hashed(corners, seed[:500]), rtol=0, atol=1e-6)
    assert float(fractal(p, seed).abs().max()) < 0.5


def test_the_nearest_of_scattered_centers_is_the_nearest_of_all() -> None:
    uv = torch.rand(200, 2) * 4
    seed = torch.full((200,), 3)
    places = torch.tensor([(x, y) for x in range(-3, 8) for y in range(-3, 8)])
    offset = torch.stack([hashed(places, torch.full((len(places),), 3), c) for c in (11, 12)], 1)
    centers = places + 0.5 + 0.9 * (offset - 0.5)
    slow = (uv[:, None] - centers).norm(dim=2).sort(1)
    first, _, nearest = cells(uv, seed)
    torch.testing.assert_close(first, slow.values[:, 0])
    assert torch.equal(nearest, places[slow.indices[:, 0]])


def test_pictures_come_from_the_installed_package_or_from_a_file(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]  # fixtures of pytest
    assert pictures().shape[1] == len(FILES)
    assert float(pictures().min()) >= 0.02
    monkeypatch.setenv("UNLIT_PICTURES", str(tmp_path / "missing.npy"))
    pictures.cache_clear()
    with pytest.raises(PicturesError, match=r"missing.npy: cannot be read .* write it with"):
        pictures()
    monkeypatch.delenv("UNLIT_PICTURES")
    pictures.cache_clear()


def test_vivid_colors_are_made_darker_and_not_whiter() -> None:
    draw = np.random.default_rng(0)
    for _ in range(100):
        color = drawn_color(draw, lightness=0.85, vivid=1.0)
        assert color.max() <= 0.9 + 1e-9
        assert color.min() < 0.6 * color.max()


def test_windows_have_walls_dark_panes_frames_and_curtains_and_level_floors() -> None:
    for seed in range(30):
        material = drawn_material(np.random.default_rng(seed), 3.0, (Texture.WINDOWS,))
        assert material.turn == 0
        assert material.colors[1] @ [0.2126, 0.7152, 0.0722] < 0.16, "glass"
    colors = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.5, 0.5, 0.1]])
    material = drawn(Texture.WINDOWS, 0, colors=colors, scale=0.1, params=np.array([0.0, 1.0, 0.0, 0.5]))
    seen = surface_at(plane(side=120, width=1e-3), stacked([material]))[0]
    shares = [float((seen - torch.tensor(c).float()).abs().amax(1).lt(1e-4).float().mean()) for c in colors]
    assert shares[0] > shares[1] > shares[3] > 0.01
    assert 0.01 < shares[2] < 0.3


def test_leaves_are_matt_mostly_rough_and_much_of_one_color() -> None:
    leaves = [drawn_leaves(np.random.default_rng(seed), 1.0) for seed in range(100)]
    plants = [drawn_greens(np.random.default_rng(seed)) for seed in range(100)]
    assert all(leaf.gloss == 0 for leaf in leaves)
    assert 0.7 < np.mean([leaf.bump == Bump.CROWNS or leaf.bump == Bump.GRAIN for leaf in leaves]) < 0.95

    def differ(palettes: list[np.ndarray]) -> float:
        return float(np.median([np.abs(np.log(p[0] / p[1])).max() for p in palettes]))

    assert differ([leaf.colors for leaf in leaves]) < 0.7 * differ(plants)


def test_foliage_is_not_darker_between_its_leaves() -> None:
    material = drawn(Texture.FOLIAGE, 0, colors=np.full((4, 3), 0.4), scale=0.1)
    assert float(surface_at(plane(side=80, width=1e-3), stacked([material]))[0].min()) > 0.6 * 0.4, "but for their ribs"


def test_what_is_dark_by_its_own_shade_is_no_print() -> None:
    assert not {"grass.png", "gravel.png"} & set(FILES)
