"""What is sampled at other places stays reflectance times shading: also at edges, and where a light leaves the dark."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from unlit.data.augment import seeded
from unlit.data.batch import UNCHANGED, Batch, batch_of
from unlit.data.dataset import Item
from unlit.data.sequence import Sequence
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.data.sizing import places_of, resized
from unlit.data.truth import Truth

H, W = 40, 48
PLACES: dict[str, tuple[AugmentSettings, DataSettings]] = {
    "rotated": (replace(UNCHANGED, rotation=20.0, flip=True), DataSettings(frames=4)),
    "cropped": (replace(UNCHANGED, crop=6), DataSettings(frames=4)),
    "larger": (replace(UNCHANGED, zoom=(1.5, 2.0)), DataSettings(frames=4, window=16)),
    "smaller": (replace(UNCHANGED, zoom=(0.4, 0.5), rotation=8.0), DataSettings(frames=4, window=16)),
}


def lamps(seed: int = 0, k: int = 4) -> Item:
    """A surface of patches under lamps that each leave a half of it wholly dark, with hard borders."""
    g = torch.Generator().manual_seed(seed)
    reflectance = (0.05 + 0.9 * torch.rand(3, 8, 8, generator=g)).repeat_interleave(5, 1).repeat_interleave(6, 2)
    shading = 0.05 + 0.4 * torch.rand(k, 3, H, W, generator=g)
    for n, light in enumerate(shading):
        light[:, :, : 8 + 8 * n] = 0
    mask = torch.ones(k, 1, H, W, dtype=torch.bool)
    truth = Truth(reflectance, shading, torch.ones(k, dtype=torch.bool))
    return Item(Sequence(reflectance * shading, mask, f"lamps{seed}"), truth, one_light=True)


def seen(items: list[Item], augment: AugmentSettings, data: DataSettings, seed: int) -> Batch:
    draws = [seeded(seed, k) for k in range(len(items))]
    return batch_of(items, draws, [places_of(one) for one in items], data, augment, torch.device("cpu"))


@pytest.mark.parametrize("mixtures", [0.0, 1.0])
@pytest.mark.parametrize("name", PLACES)
def test_a_sampled_frame_is_the_sampled_reflectance_times_its_shading(name: str, mixtures: float) -> None:
    augment, data = PLACES[name]
    augment = replace(augment, mixtures=mixtures, light_color=mixtures)
    for seed in range(3):
        result = seen([lamps(0), lamps(1)], augment, data, seed)
        for frames, mask, truth in zip(result.frames, result.mask, result.truths, strict=True):
            assert truth is not None
            assert truth.reflectance is not None
            assert truth.shading is not None
            product = truth.reflectance * truth.shading
            valid = (mask & (truth.reflectance > 0).any(0)).expand_as(frames)
            assert valid.float().mean() > 0.3
            torch.testing.assert_close(frames[valid], product[valid], rtol=1e-3, atol=1e-5)


def test_the_shading_of_a_mixture_is_unknown_where_that_of_a_light_in_it_is() -> None:
    one = lamps()
    assert one.truth is not None
    assert one.truth.shading is not None
    shading = one.truth.shading.clone()
    shading[3, :, 10:20, 40:] = 0  # the frame is not black there: it is the truth that has a gap
    one = replace(one, truth=replace(one.truth, shading=shading))
    result = seen([one], replace(UNCHANGED, mixtures=1.0, most_lights=4), DataSettings(frames=6), 0)
    (truth,) = result.truths
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    gap = truth.shading[:, :, 10:20, 40:]
    known = gap.amax((1, 2, 3)) > 0
    assert 0 < known.sum() < 6, "some mixtures have the fourth light, others not"
    product = truth.reflectance * truth.shading
    valid = result.mask[0].expand_as(product) & known[:, None, None, None]
    torch.testing.assert_close(result.frames[0][valid], product[valid], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("size", [(20, 24), (17, 31), (60, 70)])
def test_a_resized_frame_is_the_resized_reflectance_times_its_shading(size: tuple[int, int]) -> None:
    one = lamps()
    assert one.truth is not None
    truth = one.truth.resized(size)
    assert truth.reflectance is not None
    assert truth.shading is not None
    product, frames = truth.reflectance * truth.shading, resized(one.sequence.frames, size)
    known = (truth.shading > 0).any(1, keepdim=True).expand_as(frames)
    assert known.float().mean() > 0.4
    torch.testing.assert_close(frames[known], product[known], rtol=2e-3, atol=1e-6)


def test_frames_that_are_chosen_keep_what_is_known_of_them() -> None:
    one = lamps(k=5)
    assert one.truth is not None
    assert one.truth.shading is not None
    shading = one.truth.shading.clone()
    shading[1, :, 10:20, 40:] = 0  # a gap in the truth of one frame
    valid = torch.tensor([True, False, True, True, False])
    one = replace(one, one_light=False, truth=replace(one.truth, shading=shading, shading_valid=valid))
    for seed in range(4):
        result = seen([one], UNCHANGED, DataSettings(frames=3), seed)
        (truth,) = result.truths
        assert truth is not None
        assert truth.shading is not None
        assert truth.shading_valid is not None
        chosen = [(one.sequence.frames == frame).all((1, 2, 3)).nonzero().item() for frame in result.frames[0]]
        assert truth.shading_valid.tolist() == valid[chosen].tolist()
        torch.testing.assert_close(truth.shading, shading[chosen])
