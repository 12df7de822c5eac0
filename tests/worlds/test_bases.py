"""Rendered scenes, composed frames, and datasets of both."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import avg_pool2d

from unlit.data.batch import UNCHANGED, batch_of
from unlit.data.camera import CameraLook
from unlit.data.settings import DataSettings
from unlit.data.sizing import places_of
from unlit.worlds import bases as rendering
from unlit.worlds.bases import World, bases
from unlit.worlds.compose import LEVEL, compose, drawn_weights, levelled, usable_lights
from unlit.worlds.dataset import SPLIT_STARTS, open_worlds, parsed_size, seeds_of
from unlit.worlds.item import world_item
from unlit.worlds.scene import LIGHTS, Scene

SIZE = (24, 32)
SEEDS = (0, 7, 11)


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return list(bases(SEEDS, SIZE, samples=8))


def test_a_world_has_reflectance_light_mask_depth_and_normals(worlds: list[World]) -> None:
    for world in worlds:
        basis = world.basis
        assert basis.reflectance.shape == basis.normal.shape == (3, *SIZE)
        assert basis.irradiance.shape == (LIGHTS, 3, *SIZE)
        assert basis.mask.shape == basis.depth.shape == (1, *SIZE)
        assert world.highlight.shape == (LIGHTS, 1, *SIZE)
        assert bool((basis.irradiance >= 0).all())
        assert bool(torch.isfinite(basis.irradiance).all())
        assert bool((world.highlight[:, basis.mask] == 0).all()), "what shines is masked"


def test_a_world_is_the_same_again_and_in_any_company(worlds: list[World]) -> None:
    (again,) = bases([SEEDS[1]], SIZE, samples=8)
    torch.testing.assert_close(again.basis.reflectance, worlds[1].basis.reflectance)
    torch.testing.assert_close(again.basis.irradiance, worlds[1].basis.irradiance)


def test_a_pixel_is_the_mean_of_the_finer_ones_at_edges_too(
    worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "FINER", 1)
    (fine,) = bases([SEEDS[0]], (2 * SIZE[0], 2 * SIZE[1]), samples=2)
    torch.testing.assert_close(avg_pool2d(fine.frames(), 2), worlds[0].frames(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(avg_pool2d(fine.basis.reflectance[None], 2)[0], worlds[0].basis.reflectance)


def test_scenes_are_rendered_one_by_one_where_memory_does_not_suffice_for_more(
    worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = rendering._rendered

    def short_of_memory(scenes: list[Scene], *rest: Any) -> Iterator[World]:
        if len(scenes) > 1:
            yield from together(scenes[:1], *rest)
            raise torch.OutOfMemoryError
        yield from together(scenes, *rest)

    monkeypatch.setattr(rendering, "_rendered", short_of_memory)
    again = list(bases(SEEDS, SIZE, samples=8))
    assert [world.scene.seed for world in again] == list(SEEDS)
    torch.testing.assert_close(again[2].basis.irradiance, worlds[2].basis.irradiance)


def lights_and_weights(world: World, count: int = 5, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    lights = usable_lights(world)
    return lights, drawn_weights(np.random.default_rng(seed), world, lights, count)


def test_frames_are_reflectance_times_shading_where_they_are_valid(worlds: list[World]) -> None:
    for seed, world in enumerate(worlds):
        lights, weights = lights_and_weights(world, seed=seed)
        made = compose(world, weights, lights, torch.linspace(0.1, 0.5, 5))
        product = made.reflectance * made.shading
        valid = made.mask.expand_as(product)
        assert float(valid.float().mean()) > 0.1
        error = (made.frames - product).abs()[valid] / product[valid].clamp_min(1e-6)
        assert float(error.max()) < 1e-3
        assert not bool((made.mask & (made.frames.amax(1, keepdim=True) >= 1)).any()), "what is clipped is masked"


def test_light_adds_up(worlds: list[World]) -> None:
    world = worlds[0]
    lights = usable_lights(world)[:2]
    frames, _ = levelled(world, lights)
    both = compose(world, np.ones((1, 2, 3), np.float32), lights, torch.tensor([2 * LEVEL]))
    valid = both.mask[0].expand(3, -1, -1)
    torch.testing.assert_close(both.frames[0][valid], frames.sum(0)[valid], rtol=1e-4, atol=1e-6)


def test_a_camera_changes_frames_and_no_truth(worlds: list[World]) -> None:
    lights, weights = lights_and_weights(worlds[1])
    exposure = torch.full((5,), 0.3)
    plain, seen = (
        compose(worlds[1], weights, lights, exposure, look) for look in (None, CameraLook(contrast=0.3, quality=60.0))
    )
    assert torch.equal(plain.shading, seen.shading)
    assert not torch.equal(plain.frames, seen.frames)


def test_weights_are_not_negative_and_no_frame_is_dark(worlds: list[World]) -> None:
    for seed in range(30):
        _, weights = lights_and_weights(worlds[seed % 3], seed=seed)
        assert (weights >= 0).all()
        assert (weights.sum((1, 2)) > 0).all()


def test_a_world_is_an_item_of_single_lights_whose_mixtures_are_known(worlds: list[World]) -> None:
    item = world_item(worlds[0], "test")
    assert item.one_light
    augment = replace(UNCHANGED, mixtures=1.0, light_color=1.0)
    batch = batch_of(
        [item], [np.random.default_rng(0)], [places_of(item)], DataSettings(frames=4), augment, torch.device("cpu")
    )
    (truth,) = batch.truths
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    valid = batch.mask[0].expand_as(batch.frames[0])
    torch.testing.assert_close(batch.frames[0][valid], (truth.reflectance * truth.shading)[valid], rtol=1e-3, atol=1e-6)


def test_splits_never_meet() -> None:
    ranges = [seeds_of(split, 0, 1_000_000_000) for split in SPLIT_STARTS]
    assert all(a.stop <= b.start or b.stop <= a.start for a in ranges for b in ranges if a is not b)


def test_a_dataset_that_is_rendered_when_read_has_all_that_its_name_says() -> None:
    dataset = open_worlds("worlds:5:3:32x24:2")
    assert [source.split for source in dataset.sources] == ["train"] * 3 + ["validation"]
    assert len({source.name for source in dataset.sources}) == 4
    assert dataset.fingerprint != open_worlds("worlds:5:3:32x24:4").fingerprint
    first = dataset.sources[0].read()
    assert first.sequence.frames.shape[1:] == (3, 24, 32)
    second = dataset.sources[1].read()
    copied = pickle.loads(pickle.dumps(dataset.sources[1])).read()
    assert torch.equal(second.sequence.frames, copied.sequence.frames), "out of order, and in another process"


@pytest.mark.parametrize(
    "text", ["worlds:1", "worlds:1:0", "worlds:a:2", "worlds:1:2:9", "worlds:1:2:32x24:0", "worlds:-1:2", "world:1:2"]
)
def test_wrong_names_of_worlds_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|give|ask"):
        open_worlds(text)


def test_a_size_that_is_too_large_is_called_so() -> None:
    with pytest.raises(ValueError, match="sides of 16 to 4096"):
        parsed_size("100000x100000")


@pytest.mark.parametrize("text", ["384", "x", "0x10", "15x400", "5000x100", "64x64x3"])
def test_impossible_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size '?[\dx]+"):
        parsed_size(text)
