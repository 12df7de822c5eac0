"""What a step sees: each sequence changed as one, so that I = R · S holds with one R for all frames."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import nnls
from torch import Tensor

from unlit.color import linear_to_srgb
from unlit.data.augment import MIXTURE_MEAN, seeded
from unlit.data.batch import UNCHANGED, Batch, batch_of, frame_count
from unlit.data.dataset import Item
from unlit.data.judgements import Judgements
from unlit.data.sequence import Sequence
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.data.sizing import places_of
from unlit.data.truth import Truth

CPU = torch.device("cpu")
WHOLE = DataSettings(frames=6)
WINDOW = DataSettings(window=16, frames=6)
H, W = 24, 30


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def item(seed: int = 0, m: int = 4, *, flat: bool = True, one_light: bool = False, peak: float = 0.4) -> Item:
    """A sequence R · S_i, with its truth: gray shading, of one value a frame or of one a pixel.

    Where places are mixed by sampling, only light that is the same at all of them leaves the product a product.
    """
    g = generator(seed)
    reflectance = 0.1 + 0.8 * torch.rand(3, H, W, generator=g)
    shading = peak * (0.2 + 0.8 * torch.rand(m, 1, *((1, 1) if flat else (H, W)), generator=g)).expand(m, 3, H, W)
    mask = torch.rand(m, 1, H, W, generator=g) > 0.03
    truth = Truth(reflectance, shading.contiguous(), torch.ones(m, dtype=torch.bool))
    return Item(Sequence(reflectance * shading, mask, f"place{seed}"), truth, one_light)


def smaller(one: Item) -> Item:
    """The same without its last rows and columns."""
    assert one.truth is not None
    assert one.truth.reflectance is not None
    assert one.truth.shading is not None
    part = (..., slice(0, H - 3), slice(0, W - 5))
    truth = replace(one.truth, reflectance=one.truth.reflectance[part], shading=one.truth.shading[part])
    sequence = replace(one.sequence, frames=one.sequence.frames[part], mask=one.sequence.mask[part])
    return Item(sequence, truth, one.one_light)


def batch(items: list[Item], augment: AugmentSettings = UNCHANGED, data: DataSettings = WHOLE, seed: int = 0) -> Batch:
    draws = [seeded(seed, k) for k in range(len(items))]
    return batch_of(items, draws, [places_of(one) for one in items], data, augment, CPU)


def changing(**settings: Any) -> AugmentSettings:
    return replace(UNCHANGED, **settings)


PLACES: dict[str, tuple[AugmentSettings, DataSettings]] = {
    "flip": (changing(flip=True), WHOLE),
    "rotation": (changing(rotation=20.0), WHOLE),
    "crop": (changing(crop=6), WHOLE),
    "window": (UNCHANGED, WINDOW),
    "zoom": (changing(zoom=(0.8, 2.0), rotation=180.0, flip=True), WINDOW),
}
LIGHTS: dict[str, AugmentSettings] = {
    "nothing": UNCHANGED,
    "mixtures": changing(mixtures=0.7),
    "exposure": changing(exposure=1.0),
    "white balance": changing(white_balance=0.7),
    "channels": changing(permute_channels=True),
    "hue": changing(hue=0.8),
    "contrast": changing(contrast=0.5),
    "paint": changing(paint=1.0),
    "shade": changing(shade=1.0),
}
ALL = AugmentSettings(
    rotation=20.0, crop=6, zoom=(0.8, 2.0), mixtures=0.5, exposure=0.7, white_balance=0.5, permute_channels=True,
    hue=0.6, contrast=0.3, paint=0.7, shade=0.7,
)  # fmt: skip


def assert_gray(one: Tensor, other: Tensor, valid: Tensor) -> None:
    """The ratio of two pictures (3, h, w) is the same in all channels wherever valid (h, w)."""
    assert valid.any()
    a, b = one[:, valid], other[:, valid]
    # Without division: a_c / b_c is the same for all c.
    torch.testing.assert_close(a * b[:1], b * a[:1], rtol=2e-4, atol=1e-7)


def assert_one_reflectance(result: Batch) -> None:
    """All frames have one reflectance, and it is the truth's."""
    for frames, mask, truth in zip(result.frames, result.mask[:, :, 0], result.truths, strict=True):
        assert truth is not None
        assert truth.reflectance is not None
        known = truth.reflectance.amax(0) > 0
        for i in range(len(frames)):
            assert_gray(frames[i], truth.reflectance, mask[i] & known)
            for j in range(i):
                assert_gray(frames[i], frames[j], mask[i] & mask[j])
        if truth.shading is not None:
            product = truth.reflectance * truth.shading
            valid = mask[:, None].expand_as(product) & (product > 0)
            # A pixel counts if nothing outside has more than a thousandth of it: in R, and in S.
            torch.testing.assert_close(frames[valid], product[valid], rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PLACES)
def test_a_place_is_seen_alike_in_all_frames_and_in_the_truth(name: str, seed: int) -> None:
    augment, data = PLACES[name]
    result = batch([item(0), item(1)], augment, data, seed)
    assert_one_reflectance(result)
    assert not all(torch.equal(a, item(k).sequence.frames) for k, a in enumerate(result.frames))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LIGHTS)
def test_changes_of_light_and_color_leave_one_reflectance(name: str, seed: int) -> None:
    lamps = name == "mixtures"
    result = batch(
        [item(0, flat=False, one_light=lamps), item(1, flat=False, one_light=lamps)], LIGHTS[name], seed=seed
    )
    assert_one_reflectance(result)


@pytest.mark.parametrize("one_light", [False, True])
@pytest.mark.parametrize("data", [WHOLE, WINDOW])
@pytest.mark.parametrize("seed", range(4))
def test_all_changes_together_leave_one_reflectance(seed: int, data: DataSettings, one_light: bool) -> None:
    result = batch([item(k, one_light=one_light) for k in range(3)], ALL, data, seed)
    assert_one_reflectance(result)


def test_without_augmentation_frames_masks_and_truth_stay_as_they_are() -> None:
    one = item(flat=False)
    result = batch([one])
    assert torch.equal(result.frames[0], one.sequence.frames)
    assert torch.equal(result.mask[0], one.sequence.mask)
    assert one.truth is not None
    (truth,) = result.truths
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    torch.testing.assert_close(truth.reflectance, one.truth.reflectance)
    torch.testing.assert_close(truth.shading, one.truth.shading)
    assert (result.names, result.count) == (("place0",), 4)


def test_each_sequence_of_a_batch_is_changed_by_draws_of_its_own() -> None:
    one, other = item(0), item(1)
    for augment, data in [*PLACES.values(), (ALL, WHOLE), (ALL, WINDOW)]:
        together = batch([one, other], augment, data)
        for k, single in enumerate((one, other)):
            alone = batch_of([single], [seeded(0, k)], [places_of(single)], data, augment, CPU)
            torch.testing.assert_close(together.frames[k], alone.frames[0], rtol=1e-5, atol=1e-6)
            assert torch.equal(together.mask[k], alone.mask[0])


def test_the_same_seed_gives_the_same_batch_and_another_another() -> None:
    items = [item(0, one_light=True), item(1)]
    first, again, other = (batch(items, ALL, WINDOW, seed) for seed in (5, 5, 6))
    assert torch.equal(first.frames, again.frames)
    assert torch.equal(first.mask, again.mask)
    assert not torch.equal(first.frames, other.frames)


def test_items_are_left_as_they_were() -> None:
    one = item(0, one_light=True)
    before = one.sequence.frames.clone(), one.sequence.mask.clone()
    batch([one], ALL, replace(WINDOW, masked_input=True))
    assert torch.equal(one.sequence.frames, before[0])
    assert torch.equal(one.sequence.mask, before[1])


# Frames --------------------------------------------------------------------------------------------------------------


def test_as_many_frames_as_the_shortest_sequence_has_and_no_more_than_allowed() -> None:
    items = [item(0, m=5), item(1, m=3)]
    assert frame_count(items, WHOLE, UNCHANGED) == 3
    assert frame_count(items, DataSettings(frames=2), UNCHANGED) == 2
    assert frame_count(items[:1], WHOLE, UNCHANGED) == 5
    result = batch(items, data=DataSettings(frames=2))
    assert result.frames.shape == (2, 2, 3, H, W)
    assert result.mask.shape == (2, 2, 1, H, W)
    assert result.count == 4


def test_mixtures_of_lamps_never_run_out_and_single_lamps_do() -> None:
    lamps = [item(0, m=3, one_light=True)]
    assert frame_count(lamps, DataSettings(frames=8), changing(mixtures=0.5)) == 8
    assert frame_count(lamps, DataSettings(frames=8), UNCHANGED) == 3
    assert frame_count([*lamps, item(1, m=5)], DataSettings(frames=8), changing(mixtures=0.5)) == 5
    assert batch(lamps, changing(mixtures=0.5), DataSettings(frames=8)).frames.shape[1] == 8


def test_chosen_frames_keep_their_order_masks_and_shadings() -> None:
    one = item(m=12)
    frames = one.sequence.frames
    seen = set()
    for seed in range(12):
        result = batch([one], data=DataSettings(frames=5), seed=seed)
        numbers = [int((frames == frame).flatten(1).all(1).nonzero()) for frame in result.frames[0]]
        assert numbers == sorted(set(numbers))
        assert torch.equal(result.mask[0], one.sequence.mask[numbers])
        (truth,) = result.truths
        assert truth is not None
        assert truth.shading is not None
        assert one.truth is not None
        assert one.truth.shading is not None
        torch.testing.assert_close(truth.shading, one.truth.shading[numbers])
        seen |= set(numbers)
    assert seen == set(range(12))


# Lamps ---------------------------------------------------------------------------------------------------------------


def test_mixtures_are_sums_of_the_lamps_with_weights_that_are_not_negative() -> None:
    one = item(m=6, flat=False, one_light=True)
    result = batch([one], changing(mixtures=0.8, most_lights=3), DataSettings(frames=12))
    lamps = one.sequence.frames.flatten(1).double().numpy()
    used = set()
    for frame, mask in zip(result.frames[0], result.mask[0, :, 0], strict=True):
        kept = mask.expand(3, H, W).flatten().numpy()
        weights, left = nnls(lamps[:, kept].T, frame.flatten().double().numpy()[kept])
        assert left < 1e-4
        count = int((weights > 1e-4 * weights.max()).sum())
        assert 1 <= count <= 3
        used.add(count)
    assert len(used) > 1


def test_a_mixture_is_valid_where_all_lamps_are_and_its_shading_known_if_that_of_all_its_lamps_is() -> None:
    one = item(m=4, flat=False, one_light=True)
    assert one.truth is not None
    one = replace(one, truth=replace(one.truth, shading_valid=torch.tensor([True, True, False, True])))
    assert one.truth is not None
    judged = Judgements(torch.rand(2, 2), torch.tensor([[0, 1]]), torch.tensor([1]), torch.ones(1))
    one = replace(one, truth=replace(one.truth, judgements=judged))
    result = batch([one], changing(mixtures=1.0))
    assert torch.equal(result.mask[0], one.sequence.mask.all(0, keepdim=True).expand(6, -1, -1, -1))
    (truth,) = result.truths
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.judgements is not None
    assert torch.equal(truth.judgements.points, judged.points)
    assert truth.shading_valid is not None
    basis = one.sequence.frames.flatten(1).numpy().T
    for frame, known in zip(result.frames[0], truth.shading_valid, strict=True):
        weights, _ = nnls(basis, frame.flatten().numpy())
        assert bool(known) == (weights[2] < 1e-6)


@pytest.mark.parametrize("settings", [{"rotation": 30.0, "flip": True}, {"mixtures": 0.7, "light_color": 0.5}])
@pytest.mark.parametrize("window", [None, 24])
def test_sequences_of_any_shapes_together_are_what_each_is_alone(settings: dict[str, Any], window: int | None) -> None:
    """Those of one shape are worked on as one: nothing of one may get into another."""
    data = DataSettings(window=window, frames=3)
    augment = replace(changing(**settings), zoom=(0.4, 2.0) if window else (1.0, 1.0), contrast=0.3, exposure=0.5)
    lamps = bool(augment.mixtures)
    # Two of one shape, one with more frames, one without truth; with windows one of another size, seen from afar.
    sequences = [item(0, m=4, one_light=lamps), item(1, m=4, one_light=lamps), item(2, m=5, one_light=lamps)]
    sequences.append(replace(item(3, m=4, one_light=lamps), truth=None))
    if window:
        sequences.append(smaller(item(4, m=4, one_light=lamps)))
    seeds = range(len(sequences))
    places = [places_of(one) for one in sequences]
    cpu = torch.device("cpu")
    together = batch_of(sequences, [seeded(5, k) for k in seeds], places, data, augment, cpu)
    for k in seeds:
        alone = batch_of([sequences[k]], [seeded(5, k)], [places[k]], data, augment, cpu)
        torch.testing.assert_close(together.frames[k], alone.frames[0], rtol=1e-5, atol=1e-6)
        assert torch.equal(together.mask[k], alone.mask[0])
        one, other = together.truths[k], alone.truths[0]
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            for part in ("reflectance", "shading", "shading_valid"):
                torch.testing.assert_close(getattr(one, part), getattr(other, part), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_of_colored_lamps_has_a_colored_shading_that_is_known(seed: int) -> None:
    settings = changing(mixtures=0.7, light_color=1.0, exposure=0.5)
    result = batch([item(k, flat=False, one_light=True) for k in range(2)], settings, seed=seed)
    for frames, mask, truth in zip(result.frames, result.mask, result.truths, strict=True):
        assert truth is not None
        assert truth.reflectance is not None
        assert truth.shading is not None
        valid = mask.expand_as(frames)
        torch.testing.assert_close(frames[valid], (truth.reflectance * truth.shading)[valid], rtol=1e-4, atol=1e-6)
        red, _, blue = truth.shading.mean((0, 2, 3))
        assert abs(float(red / blue) - 1) > 1e-3


def test_a_camera_changes_the_picture_and_not_the_truth() -> None:
    one = item(flat=False, one_light=True)
    plain, seen = (batch([one], changing(mixtures=1.0, camera=share)) for share in (0.0, 1.0))
    (before,), (after,) = plain.truths, seen.truths
    assert before is not None
    assert after is not None
    assert before.shading is not None
    assert after.shading is not None
    assert torch.equal(before.shading, after.shading)
    assert not torch.equal(plain.frames, seen.frames)
    codes = 255 * linear_to_srgb(seen.frames)
    torch.testing.assert_close(codes, codes.round(), rtol=0, atol=2e-3)


def test_lamps_are_brought_to_one_exposure_and_the_frames_of_a_day_keep_theirs() -> None:
    lamps, day = item(0, one_light=True), item(1)
    result = batch([lamps, day])
    for frame, mask in zip(result.frames[0], lamps.sequence.mask, strict=True):
        assert frame[:, mask[0]].mean().item() == pytest.approx(MIXTURE_MEAN, rel=1e-3)
    assert torch.equal(result.frames[1], day.sequence.frames)


def under_a_sky(rows: int) -> Item:
    """Lamps on a surface, under a sky of so many rows that is eight times as bright."""
    one = item(one_light=True)
    assert one.truth is not None
    assert one.truth.reflectance is not None
    assert one.truth.shading is not None
    reflectance, shading = one.truth.reflectance.clone(), one.truth.shading.clone()
    reflectance[:, :rows] = 1.05
    shading[:, :, :rows] = 8 * float(one.sequence.frames.mean()) / 1.05
    sequence = replace(one.sequence, frames=reflectance * shading, mask=torch.ones(4, 1, H, W, dtype=torch.bool))
    return replace(one, sequence=sequence, truth=replace(one.truth, reflectance=reflectance, shading=shading))


@pytest.mark.parametrize(("metered", "of_surfaces"), [(0.0, False), (1.0, True)])
def test_the_exposure_is_that_of_all_or_of_surfaces_alone(metered: float, of_surfaces: bool) -> None:
    rows = H // 3
    result = batch([under_a_sky(rows)], changing(metered=metered))
    (truth,) = result.truths
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    light = truth.reflectance * truth.shading
    for frame in light:
        assert frame[:, rows if of_surfaces else 0 :].mean().item() == pytest.approx(MIXTURE_MEAN, rel=1e-3)
    clipped = (result.frames[:, :, :, :rows] == 1).all()
    assert bool(clipped) is of_surfaces, "the sky is"
    assert bool(result.mask[:, :, :, :rows].all()), "and counts all the same"
    torch.testing.assert_close(light, result.frames[0], msg="with no more light than is seen")


def test_what_is_masked_is_not_metered() -> None:
    rows = H // 3
    one = under_a_sky(rows)
    mask, frames = one.sequence.mask.clone(), one.sequence.frames.clone()
    mask[:, :, -4:], frames[:, :, -4:] = False, 50.0
    (truth,) = batch(
        [replace(one, sequence=replace(one.sequence, frames=frames, mask=mask))], changing(metered=1.0)
    ).truths
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    for light in truth.reflectance * truth.shading:
        assert light[:, rows:-4].mean().item() == pytest.approx(MIXTURE_MEAN, rel=1e-3)


def test_surfaces_keep_all_of_their_light_even_where_they_are_clipped() -> None:
    one = item(peak=3.0)
    result = batch([one], changing(exposure=2.0))
    (truth,) = result.truths
    assert truth is not None
    assert truth.reflectance is not None
    assert truth.shading is not None
    assert float((truth.reflectance * truth.shading).max()) > 1.5


@pytest.mark.parametrize("rows", [H, H - 1])
def test_a_sky_with_next_to_nothing_below_it_is_exposed_for_itself(rows: int) -> None:
    one = under_a_sky(rows)
    assert torch.equal(batch([one], changing(metered=1.0)).frames, batch([one]).frames)


def test_some_sequences_are_metered_by_their_surfaces_and_some_are_not() -> None:
    result = batch([under_a_sky(H // 3)] * 12, changing(metered=0.5))
    clipped = (result.frames[:, :, :, : H // 3] == 1).flatten(1).all(1)
    assert 2 <= int(clipped.sum()) <= 10


def test_stops_after_the_exposure_of_lamps_still_count() -> None:
    result = batch([item(0, one_light=True)], changing(exposure=1.0))
    means = torch.stack([f[:, m[0]].mean() for f, m in zip(result.frames[0], result.mask[0], strict=True)])
    stops = (means / MIXTURE_MEAN).log2()
    assert stops.abs().max() <= 1.01
    assert stops.std() > 0.1


def test_fields_and_stops_both_count_where_lights_have_both() -> None:
    one = item(peak=0.1)
    soft, both = (batch([one], changing(shade=1.0, exposure=stops)).frames[0] for stops in (0.0, 1.0))
    ratio = both / soft
    torch.testing.assert_close(ratio, ratio[:, :1, :1, :1].expand_as(ratio), rtol=1e-4, atol=0)
    assert ratio[:, 0, 0, 0].log2().std() > 0.1
    assert not torch.allclose(soft, one.sequence.frames, rtol=0.01)


# Clipping and masks --------------------------------------------------------------------------------------------------


def test_what_is_too_bright_is_clipped_masked_and_finite() -> None:
    one = item(peak=3.0)
    result = batch([one], changing(exposure=2.0))
    assert torch.isfinite(result.frames).all()
    assert result.frames.min() >= 0
    assert result.frames.max() == 1
    full = (result.frames >= 1).any(2, keepdim=True)
    assert full.any()
    assert not (result.mask & full).any()
    assert torch.equal(result.mask, one.sequence.mask[None] & ~full)


def test_values_below_zero_do_no_harm() -> None:
    one = item()
    one = replace(one, sequence=replace(one.sequence, frames=one.sequence.frames - 0.05))
    assert one.truth is not None
    assert one.truth.reflectance is not None
    one = replace(one, truth=replace(one.truth, reflectance=one.truth.reflectance - 0.2))
    result = batch([one], ALL, WINDOW)
    assert torch.isfinite(result.frames).all()
    assert result.frames.min() >= 0
    (truth,) = result.truths
    assert truth is not None
    assert truth.reflectance is not None
    assert torch.isfinite(truth.reflectance).all()


@pytest.mark.parametrize("augment", [UNCHANGED, ALL])
def test_masked_pixels_are_black_where_objects_are_cut_out_and_only_there(augment: AugmentSettings) -> None:
    cut = batch([item()], augment, replace(WHOLE, masked_input=True))
    plain = batch([item()], augment)
    black = (cut.frames == 0).all(2, keepdim=True)
    clipped = (plain.frames >= 1).any(2, keepdim=True)
    assert torch.equal(black, ~(plain.mask | (clipped & ~black)))
    assert torch.equal(cut.frames * ~black, plain.frames * ~black)
    assert torch.equal(cut.mask, plain.mask)
    assert (plain.frames.amax(2) > 0)[~plain.mask[:, :, 0]].any()


def test_what_lies_beyond_the_picture_is_masked() -> None:
    result = batch([item()], data=DataSettings(window=64, frames=6))
    outside = (result.frames == 0).all(2, keepdim=True)
    assert outside.float().mean() > 0.7
    assert not (result.mask & outside).any()


def test_windows_are_cut_where_something_is_valid() -> None:
    one = item(m=2)
    mask = torch.zeros(2, 1, H, W, dtype=torch.bool)
    mask[:, :, 2:4, 25:28] = True
    one = replace(one, sequence=replace(one.sequence, mask=mask))
    for seed in range(20):
        assert batch([one], UNCHANGED, DataSettings(window=8), seed).mask.any()


# Truth ---------------------------------------------------------------------------------------------------------------


def test_the_true_shading_of_colored_light_follows_when_channels_change_places() -> None:
    one = item(flat=False)
    assert one.truth is not None
    assert one.truth.shading is not None
    tint = torch.tensor([1.0, 0.6, 0.3]).reshape(3, 1, 1)
    truth = replace(one.truth, shading=one.truth.shading * tint)
    one = replace(one, truth=truth, sequence=replace(one.sequence, frames=one.sequence.frames * tint))
    for seed in range(6):
        result = batch([one], changing(permute_channels=True, white_balance=0.5, contrast=0.3, exposure=0.5), seed=seed)
        (after,) = result.truths
        assert after is not None
        assert after.reflectance is not None
        assert after.shading is not None
        product = after.reflectance * after.shading
        valid = result.mask[0].expand_as(product)
        torch.testing.assert_close(result.frames[0][valid], product[valid], rtol=1e-4, atol=1e-6)


def test_sequences_with_and_without_truth_go_together() -> None:
    without = replace(item(1), truth=None)
    result = batch([item(0), without], ALL, WINDOW)
    assert result.truths[0] is not None
    assert result.truths[1] is None


def test_patterns_are_not_the_same_for_all_sequences_and_some_have_none() -> None:
    plain = Sequence(torch.full((2, 3, H, W), 0.3), torch.ones(2, 1, H, W, dtype=torch.bool), "wall")
    result = batch([Item(plain)] * 12, changing(paint=0.5))
    painted = [bool((frames != 0.3).any()) for frames in result.frames]
    assert 1 < sum(painted) < 11
    assert all(torch.equal(frames[0], frames[1]) for frames in result.frames)
    assert len({np.asarray(frames).tobytes() for frames in result.frames}) == 1 + sum(painted)


def test_what_was_said_of_a_surface_does_not_hold_when_it_is_painted() -> None:
    one = item(m=4)
    assert one.truth is not None
    said = Judgements(torch.rand(2, 2), torch.tensor([[0, 1]]), torch.tensor([1]), torch.ones(1))
    one = replace(one, truth=replace(one.truth, judgements=said))
    (painted,), (plain,) = batch([one], changing(paint=1.0)).truths, batch([one], changing()).truths
    assert painted is not None
    assert plain is not None
    assert painted.judgements is None
    assert plain.judgements is not None


def test_what_a_camera_brings_to_white_does_not_count() -> None:
    white = 0
    for seed in range(8):
        seen = batch([item(k, flat=False, peak=2.0) for k in range(3)], changing(camera=1.0), seed=seed)
        plain = batch([item(k, flat=False, peak=2.0) for k in range(3)], changing(), seed=seed)
        full = seen.frames.amax(2, keepdim=True) >= 1
        assert not (seen.mask & full).any()
        white += int((full & plain.mask).sum())
    assert white > 0, "some of it was not white before the camera"
