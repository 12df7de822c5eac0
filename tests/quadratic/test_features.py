"""Pairs, features and groups: what the sum knows of a picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.quadratic.objects import ball, picture_of
from unlit.baselines.splitting import View, view_of
from unlit.baselines.zhao import row_keys, texture_groups
from unlit.quadratic.decompose import exposure_of, scene_of
from unlit.quadratic.features import chromaticities, guesses, pair_features, pixel_features, roughness
from unlit.quadratic.groups import GROUPINGS, TEXTURES, by_shade, by_texture
from unlit.quadratic.pairs import KINDS, both, ends, gathered, steps
from unlit.quadratic.weights import BOUNDS, GROUP_STARTS, Weights


def view(seed: int = 0, side: int = 36) -> View:
    image, mask = picture_of(seed, side), ball(seed, side).mask
    light = np.where(mask[..., None], image * exposure_of(image, mask), 0.0)
    return view_of(light.astype(np.float64), mask)


def test_gathering_is_the_transpose_of_taking_steps() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((9, 7))
    flows = [rng.standard_normal(step.shape) for step in steps(values)]
    there = sum(float(np.vdot(flow, step)) for flow, step in zip(flows, steps(values), strict=True))
    assert there == pytest.approx(float(np.vdot(gathered(flows, values.shape), values)))


def test_the_ends_of_a_pair_move_apart_only_to_valid_pixels() -> None:
    values, valid = np.arange(10.0)[None], np.ones((1, 10), np.bool_)
    valid[0, 2] = False
    one, two = ends(values, valid, (1, 1), 2)
    # The pair (4, 5) would go to 2 and 7; 2 is not valid, so that its first end stays.
    assert (one[0, 4], two[0, 4]) == (4, 7)
    assert (one[0, 5], two[0, 5]) == (3, 8)
    assert (one[0, 0], two[0, 8]) == (0, 9)
    assert all(np.shares_memory(part, values) for part in ends(values, valid, (1, 1), 0))


def test_features_are_of_the_size_of_one_and_do_not_depend_on_how_bright_a_picture_was() -> None:
    seen = view()
    features = pair_features(seen, chromaticities(seen))
    assert [f.shape[1:] for f in features] == [b.shape for b in both(seen.valid)]
    for f, usable in zip(features, both(seen.valid), strict=True):
        assert np.isfinite(f).all()
        assert np.abs(f[:, usable]).max() < 12
    image, mask = picture_of(0, 36), ball(0, 36).mask
    assert 3 * exposure_of(3 * image, mask) == pytest.approx(exposure_of(image, mask))


def test_a_step_of_color_is_seen_and_one_of_light_is_not() -> None:
    light = np.full((20, 20, 3), 0.3)
    light[:, 10:] *= [1.5, 1.0, 0.5]
    colored = view_of(light, np.ones((20, 20), np.bool_))
    shaded = view_of(np.full((20, 20, 3), 0.3) * np.where(np.arange(20) < 10, 1, 0.5)[:, None], colored.valid)
    by_color, by_light = (pair_features(v, chromaticities(v))[1] for v in (colored, shaded))
    assert by_color[1, 5, 9] > 1  # over the edge
    assert by_color[1, 5, 3] < -1.5
    assert np.all(by_light[1] < -1.5)


def test_roughness_is_that_of_valid_neighbors_alone() -> None:
    values = np.zeros((1, 16, 16))
    values[0, 8:] = 5.0
    valid = np.zeros((16, 16), np.bool_)
    valid[:8] = True
    assert np.allclose(roughness(values, valid)[valid], 0)
    valid[:] = True
    assert roughness(values, valid)[8, 8] > 0.1


def test_guesses_have_no_mean_and_are_deep_inside() -> None:
    seen = view()
    found = guesses(seen)
    assert np.abs(found.mean(1)).max() < 1e-5
    depth = np.zeros(seen.valid.shape)
    depth[seen.valid] = found[1]
    h, w = seen.valid.shape
    assert depth[h // 2, w // 2] == found[1].max()


def test_pixels_of_one_texture_are_one_group_wherever_they_are() -> None:
    light = np.full((24, 24, 3), 0.3)
    light[:, 8:16] = [0.5, 0.3, 0.1]
    seen = view_of(light, np.ones((24, 24), np.bool_))
    for groups in by_texture(chromaticities(seen), seen.valid)[:4]:
        places = groups.reshape(24, 24)
        assert places[5, 3] == places[15, 20]  # on either side of the stripe
        assert places[5, 3] != places[5, 12]
        assert groups.min() == 0
        assert len(np.unique(groups)) == groups.max() + 1


def test_a_grid_that_begins_elsewhere_parts_other_pixels() -> None:
    rng = np.random.default_rng(0)
    chroma = np.abs(rng.normal(0.5, 0.02, (3, 30, 30)))
    valid = np.ones((30, 30), np.bool_)
    one, other = (texture_groups(chroma, valid, 0.05, 1, begin) for begin in (0.0, 0.5))
    assert len(np.unique(one)) != len(np.unique(row_keys(np.stack([one, other], 1))))


def test_shades_part_dark_paint_from_bright_of_one_color() -> None:
    seen = view_of(np.full((10, 10, 3), 0.2), np.ones((10, 10), np.bool_))
    dark = np.where(np.arange(100) < 50, 0.0, 1.0)
    for groups in by_shade(dark, chromaticities(seen), seen.valid):
        assert groups[0] != groups[99]
        assert len(np.unique(groups)) == 2


def test_the_weights_are_81_numbers_within_their_bounds_and_zero_between_pixels_that_are_not_valid() -> None:
    weights = Weights()
    assert sum(p.numel() for p in weights.parameters()) == 81
    assert len(GROUP_STARTS) == GROUPINGS
    scene = scene_of(view())
    assert len(scene.groups) == GROUPINGS
    assert scene.pixels.shape == pixel_features(scene.view, chromaticities(scene.view)).shape
    with torch.no_grad():
        for parameter in weights.parameters():
            parameter.add_(20 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
        terms = weights(scene)
    for k, (paint, sure, usable) in enumerate(zip(terms.paint, terms.sure, scene.both, strict=True)):
        middle, reach = BOUNDS[k // 2]
        assert torch.all((paint >= 0.01) & (paint <= 1))
        inside = sure[torch.from_numpy(usable)].log()
        assert torch.all((inside - middle).abs() <= reach + 1e-4)
        assert torch.all(sure[torch.from_numpy(~usable)] == 0)
    assert len(KINDS) == len(terms.paint)


def test_before_training_the_weights_are_those_of_zhao_with_a_soft_threshold() -> None:
    scene = scene_of(view())
    with torch.no_grad():
        terms = Weights()(scene)
    color = scene.pairs[0][1][torch.from_numpy(scene.both[0])]
    paint, sure = (values[0][torch.from_numpy(scene.both[0])] for values in (terms.paint, terms.sure))
    assert torch.all(paint[color < -1] < 0.02)
    assert torch.all(paint[color > 1] > 0.98)
    ratio = sure[color < -1].mean() / sure[color > 1].mean() if bool((color > 1).any()) else torch.tensor(100.0)
    assert 30 < float(ratio) < 300
    assert torch.allclose(terms.alike[:, 0], torch.tensor(GROUP_STARTS))
    assert len(TEXTURES) == 6
