"""What a camera makes of light."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from tests.reference.jpeg import quantised_block
from unlit.color import linear_to_srgb, srgb_to_linear
from unlit.data.camera import (
    _STEPS_AT_50,
    CameraLook,
    _quantised,
    drawn_look,
    evened,
    jpeg_like,
    photographed,
    sharpened,
    toned,
)


def scene(h: int = 40, w: int = 56) -> torch.Tensor:
    """A picture (1, 3, h, w) in [0, 1] with soft and sharp parts."""
    y, x = torch.meshgrid(torch.linspace(0, 1, h), torch.linspace(0, 1, w), indexing="ij")
    red = 0.5 + 0.4 * torch.sin(7 * x + 3 * y)
    return torch.stack([red, 0.2 + 0.6 * x, torch.where(x + y > 1, 0.8, 0.15)])[None]


def compressed(encoded: torch.Tensor, quality: float) -> torch.Tensor:
    """One clip (m, 3, h, w) as JPEG of one quality gives it back."""
    return jpeg_like(encoded[None], torch.full((1, 1, 1, 1, 1), float(quality)))[0]


def test_a_perfect_camera_only_counts_to_255() -> None:
    light = scene()
    kept = photographed(light[None], [CameraLook()])[0]
    assert float((linear_to_srgb(kept) - linear_to_srgb(light)).abs().max()) <= 0.5 / 255 + 1e-5


def test_a_sequence_without_a_camera_stays_as_it_is() -> None:
    light = scene()[None] * 3
    assert torch.equal(photographed(light, [None]), light)


def test_the_noise_has_the_stated_variance_and_is_the_same_for_the_same_seed() -> None:
    light = torch.full((1, 64, 3, 32, 32), 0.25)
    look = CameraLook(shot=4e-3, read=0.01, seed=3)
    kept = photographed(light, [look])
    assert float(kept.var()) == pytest.approx(4e-3 * 0.25 + 1e-4, rel=0.05)
    assert torch.equal(kept, photographed(light, [look]))
    assert not torch.equal(kept, photographed(light, [replace(look, seed=4)]))


def test_black_and_white_stay_and_the_tone_curve_never_turns_back() -> None:
    ramp = torch.linspace(0, 1, 256).reshape(1, 1, 1, -1).expand(1, 3, 1, -1)
    for seed in range(50):
        look = drawn_look(np.random.default_rng(seed))
        numbers = (torch.tensor(n) for n in (look.contrast, look.gamma, look.saturation))
        curve = toned(ramp, *numbers)[0, 0, 0]
        assert float(curve[0]) == pytest.approx(0, abs=1e-6)
        assert float(curve[-1]) == pytest.approx(1, abs=1e-6)
        assert bool((curve.diff() > -1e-6).all()), look


def test_corners_lose_what_vignetting_says() -> None:
    kept = photographed(torch.full((1, 1, 3, 33, 33), 0.5), [CameraLook(vignetting=0.4)])[0, 0, 0]
    assert float(kept[16, 16]) == pytest.approx(0.5, rel=0.02)
    assert float(kept[0, 0]) == pytest.approx(0.3, rel=0.02)


def test_glare_spreads_its_share_of_all_light_evenly() -> None:
    light = torch.zeros(1, 2, 3, 48, 72)
    light[0, 0, :, :, :24], light[0, 1] = 0.6, 0.3
    kept = photographed(light, [CameraLook(glare=0.1)])[0, :, 0]
    torch.testing.assert_close(kept[0, :, 24:], torch.full((48, 48), 0.02), rtol=0, atol=0.002)
    torch.testing.assert_close(kept[0, :, :24], torch.full((48, 24), 0.56), rtol=0, atol=0.004)
    torch.testing.assert_close(kept[1], torch.full((48, 72), 0.3), rtol=0, atol=0.004)


def test_evening_takes_away_its_share_of_broad_differences_and_leaves_fine_ones() -> None:
    coarse = torch.full((1, 1, 3, 48, 96), 0.05)
    coarse[..., 48:] = 0.4
    fine = 1 + 0.2 * (torch.arange(96) % 2)
    result = evened(coarse * fine, torch.tensor(0.25))[0, 0, 0]
    logs = result[24].log()
    step = logs[72:90].mean() - logs[6:24].mean()
    assert float(step) == pytest.approx(0.75 * np.log(8), abs=0.01)
    assert float((logs[8:24:2] - logs[7:23:2]).mean()) == pytest.approx(-np.log(1.2), abs=0.01)
    torch.testing.assert_close(evened(coarse, torch.tensor(0.0)), coarse, rtol=0, atol=0)
    assert bool(torch.isfinite(evened(torch.zeros(1, 1, 3, 8, 8), torch.tensor(0.3))).all())


def test_sharpening_drives_pixels_away_from_the_mean_around_them() -> None:
    values = scene()[None]
    kept = sharpened(values, torch.tensor(0.5))[0, 0]
    around = values[0, 0, :, 9:12, 19:22].mean((1, 2))
    torch.testing.assert_close(kept[:, 10, 20], 1.5 * values[0, 0, :, 10, 20] - 0.5 * around)
    assert float(sharpened(values, torch.tensor(-0.7)).diff().abs().sum()) < float(values.diff().abs().sum())
    flat = torch.full((1, 1, 3, 5, 7), 0.3)
    torch.testing.assert_close(sharpened(flat, torch.tensor(1.0)), flat)


def test_glare_keeps_the_color_of_all_light() -> None:
    light = torch.rand(1, 1, 3, 20, 30, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [0.9, 0.3, 0.1]
    ).reshape(3, 1, 1)
    kept = photographed(light, [CameraLook(glare=0.3)])
    torch.testing.assert_close(kept.mean((3, 4)), light.mean((3, 4)), rtol=0.01, atol=1e-3)


def test_evening_keeps_the_mean_log_and_the_ratios_of_channels() -> None:
    light = torch.rand(1, 2, 3, 40, 60, generator=torch.Generator().manual_seed(0)) + 0.1
    light[..., 30:] *= 4
    after = evened(light, torch.tensor(0.3))
    torch.testing.assert_close(after[:, :, 0] / after[:, :, 2], light[:, :, 0] / light[:, :, 2])
    torch.testing.assert_close(after.log().mean((2, 3, 4)), light.log().mean((2, 3, 4)), rtol=0, atol=0.01)


def test_what_is_an_eighth_of_the_shorter_side_or_finer_is_not_evened() -> None:
    stripes = 0.3 + 0.2 * (torch.arange(160) // 5 % 2).float().expand(1, 1, 3, 80, 160)
    after = evened(stripes, torch.tensor(0.3))
    torch.testing.assert_close(
        after[..., 7::10] / after[..., 2::10], torch.full((1, 1, 3, 80, 16), 0.5 / 0.3), rtol=0.06, atol=0
    )


def test_light_is_scattered_and_lost_before_the_camera_evens_curves_and_sharpens() -> None:
    light = scene()[None] * 0.8
    look = CameraLook(glare=0.1, evenness=0.2, sharpness=0.5, vignetting=0.3, contrast=0.3, gamma=1.1, saturation=1.2)
    h, w = light.shape[-2:]
    y, x = torch.linspace(-1, 1, h)[:, None], torch.linspace(-1, 1, w)
    scattered = light + 0.1 * (light.mean((3, 4), keepdim=True) - light)
    reached = scattered * (1 - 0.3 * (x.square() + y.square()) / 2)
    curved = toned(
        linear_to_srgb(evened(reached, torch.tensor(0.2)).clamp(0, 1)), *(torch.tensor(n) for n in (0.3, 1.1, 1.2))
    )
    expected = sharpened(curved, torch.tensor(0.5)).clamp(0, 1)
    kept = linear_to_srgb(photographed(light, [look]))
    torch.testing.assert_close(kept, expected, rtol=0, atol=0.5 / 255 + 1e-5)
    packed = linear_to_srgb(photographed(light, [replace(look, sharpness=4.0, quality=60.0)]))
    whole = sharpened(curved, torch.tensor(4.0))
    assert float(whole.max()) > 1.2
    torch.testing.assert_close(
        packed, jpeg_like(whole.clamp(0, 1), torch.full((1, 1, 1, 1, 1), 60.0)), rtol=0, atol=0.5 / 255 + 1e-4
    )


def test_how_often_cameras_scatter_even_sharpen_and_leave_out_what_is_nearly_black() -> None:
    looks = [drawn_look(np.random.default_rng(seed)) for seed in range(600)]
    names = ("glare", "evenness", "sharpness", "black")
    shares = [np.mean([getattr(look, name) != 0 for look in looks]) for name in names]
    np.testing.assert_allclose(shares, [0.4, 0.2, 0.7, 0.3], atol=0.07)
    assert max(look.glare for look in looks) <= 0.1
    assert 0.03 < max(look.black for look in looks) <= 0.04
    assert min(look.sharpness for look in looks) < -0.3 < 1.4 < max(look.sharpness for look in looks)


def test_most_pictures_are_made_small_and_their_flaws_with_them() -> None:
    looks = [drawn_look(np.random.default_rng(seed)) for seed in range(2000)]
    noise = np.array([look.shot for look in looks if look.shot])
    assert len(noise) / len(looks) == pytest.approx(0.6, abs=0.05)
    # As it was before pictures were made small: logs even from 1e-5 to 1.5e-3; by a factor f noise is 1 / f².
    assert np.mean(noise >= 1e-5) == pytest.approx(0.3 + 0.7 * 0.5, abs=0.12)
    assert noise.max() <= 1.5e-3
    assert noise.min() < 1e-6
    qualities = [look.quality for look in looks if look.quality is not None]
    # Seven in ten are made small, of these a third by less than two: their blocks are still seen.
    assert len(qualities) / len(looks) == pytest.approx(0.6 * (0.3 + 0.7 / 3), abs=0.04)
    assert 40 <= min(qualities) < 45
    assert max(qualities) > 99


def test_what_is_nearly_black_is_black_and_white_stays_white() -> None:
    ramp = srgb_to_linear(torch.linspace(0, 1, 101)).expand(1, 1, 3, 1, -1)
    kept = linear_to_srgb(photographed(ramp, [CameraLook(black=0.05)]))[0, 0, 0, 0]
    assert bool((kept[:6] == 0).all())
    expected = (torch.linspace(0.05, 1, 96) - 0.05) / 0.95
    torch.testing.assert_close(kept[5:], expected, rtol=0, atol=0.5 / 255 + 1e-5)


def test_each_sequence_has_the_look_of_its_own_camera() -> None:
    light = scene()[None].repeat(3, 1, 1, 1, 1)
    looks = [CameraLook(glare=0.1), CameraLook(evenness=0.3), CameraLook(sharpness=0.8)]
    together = photographed(light, [*looks])
    for k, look in enumerate(looks):
        torch.testing.assert_close(together[k : k + 1], photographed(light[k : k + 1], [look]))
        assert not torch.allclose(together[k], light[k], atol=0.02)


def test_blocks_are_quantised_as_the_slow_transform_does_it() -> None:
    block = 100 * torch.rand(8, 8, generator=torch.Generator().manual_seed(0))
    steps = torch.tensor(_STEPS_AT_50, dtype=torch.float32)
    slow = torch.tensor(quantised_block(block.tolist(), steps.tolist()))
    torch.testing.assert_close(_quantised(block[None, None], steps.flatten())[0, 0], slow, rtol=0, atol=1e-3)


def test_rows_and_columns_of_a_block_have_their_own_steps() -> None:
    """The table is not symmetric; at a quality of 50 it is taken as it is, for brightness."""
    block = torch.rand(8, 8, generator=torch.Generator().manual_seed(1))
    gray = block.repeat(2, 2).expand(1, 3, 16, 16)
    slow = torch.tensor(quantised_block((255 * block - 128).tolist(), [list(map(float, r)) for r in _STEPS_AT_50]))
    expected = ((slow + 128) / 255).clamp(0, 1).repeat(2, 2)
    torch.testing.assert_close(compressed(gray, 50)[0], expected.expand(3, 16, 16), rtol=0, atol=1e-4)


@pytest.mark.parametrize("quality", [40, 75, 95])
def test_jpeg_like_pictures_are_as_wrong_as_those_of_a_real_encoder(quality: int) -> None:
    encoded = linear_to_srgb(scene(48, 64))
    pixels = np.rint(255 * encoded[0].permute(1, 2, 0).numpy()).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality)
    real = np.asarray(Image.open(file)).astype(np.float32) / 255
    ours = compressed(encoded, quality)[0].permute(1, 2, 0).numpy()
    errors = [float(np.sqrt(np.mean((kept - pixels / 255.0) ** 2))) for kept in (real, ours)]
    assert 0.5 < errors[1] / errors[0] < 2, errors


def test_sizes_that_are_no_multiple_of_a_block_come_back() -> None:
    encoded = torch.rand(2, 3, 21, 35)
    assert compressed(encoded, 90).shape == encoded.shape
    assert float((compressed(torch.full((1, 3, 9, 9), 0.5), 90) - 0.5).abs().max()) < 0.02


def test_cameras_together_do_what_each_does_alone() -> None:
    clips = torch.stack([scene().expand(2, -1, -1, -1) * k for k in (0.5, 1.0, 0.8, 0.3)])
    looks = [
        CameraLook(vignetting=0.3, contrast=0.4, gamma=1.1),
        None,
        CameraLook(quality=50.0),
        CameraLook(quality=45.0),
    ]
    together = photographed(clips, looks)
    for k, look in enumerate(looks):
        torch.testing.assert_close(together[k], photographed(clips[k : k + 1], [look])[0], rtol=0, atol=1e-6)
    assert torch.equal(together[1], clips[1])


def test_what_is_clipped_is_white() -> None:
    kept = photographed(torch.full((1, 1, 3, 8, 8), 7.0), [CameraLook()])
    assert torch.equal(kept, srgb_to_linear(torch.ones_like(kept)))
