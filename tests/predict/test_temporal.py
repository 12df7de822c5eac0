from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from unlit.predict.temporal import Memory, change, correlation, steadied, trust


def surface(h: int = 40, w: int = 60, seed: int = 0) -> Tensor:
    """Patches of paint: a log-reflectance (3, h, w)."""
    g = torch.Generator().manual_seed(seed)
    patches = -2 * torch.rand(3, h // 5, w // 5, generator=g) - 0.2
    return patches.repeat_interleave(5, 1).repeat_interleave(5, 2)


def run(frames: list[Tensor], light: Tensor | None = None) -> list[tuple[Memory, Tensor]]:
    seen = torch.full((3, *frames[0].shape[1:]), 0.4) if light is None else light
    found: list[tuple[Memory, Tensor]] = []
    memory: Memory | None = None
    for frame in frames:
        memory, changed = steadied(memory, frame, frame, seen)
        found.append((memory, changed))
    return found


def test_noise_and_scale_and_color_that_change_do_not_reach_the_reflectance() -> None:
    g = torch.Generator().manual_seed(1)
    still = surface()
    frames = []
    for _ in range(40):
        noise, light = 0.05 * torch.randn(still.shape, generator=g), 0.3 * torch.randn(3, 1, 1, generator=g)
        frames.append(still + noise + light)
    found = [memory.log_reflectance for memory, _ in run(frames)]
    own = np.mean([float((b - a).abs().mean()) for a, b in pairwise(frames[20:])])
    steady = np.mean([float((b - a).abs().mean()) for a, b in pairwise(found[20:])])
    assert steady < 0.1 * own
    error = found[-1] - still
    assert float((error - error.mean((1, 2), keepdim=True)).abs().mean()) < 0.02


def test_the_mean_is_the_stated_one() -> None:
    """With all light at one half, and nothing changed: W and ρ by the formula."""
    still = surface()
    small = torch.full_like(still, 0.4)
    frames = [still, still + 0.03 * torch.randn(still.shape, generator=torch.Generator().manual_seed(2))]
    (memory, _), (after, changed) = run(frames)
    w = float(trust(small)[0, 0, 0])
    assert float(changed.max()) == 0
    weight = (1 - 0.02 * w) * w + w
    torch.testing.assert_close(after.weight, torch.full_like(after.weight, weight))
    step = w / weight
    offset = (memory.small - frames[1]).flatten(1).median(1).values[:, None, None]
    drift = offset * w / ((1 - 0.005 * w) * w + w)
    expected = memory.small + step * (frames[1] + offset - memory.small) - drift
    torch.testing.assert_close(after.small, expected, atol=2e-3, rtol=0)


def test_a_thing_that_comes_is_shown_at_once_and_leaves_no_ghost() -> None:
    still = surface()
    with_thing = still.clone()
    with_thing[:, 10:25, 20:40] = torch.tensor([-0.2, -2.5, -2.0])[:, None, None]
    found = run([still] * 20 + [with_thing] * 3 + [still] * 3)
    inside = (slice(None), slice(13, 22), slice(23, 37))
    came = found[20][0].log_reflectance[inside] - with_thing[inside]
    assert float(came.abs().mean()) < 0.1
    gone = found[23][0].log_reflectance[inside] - still[inside]
    assert float(gone.abs().mean()) < 0.1
    assert 0.05 < float(found[20][1].mean()) < 0.35


def test_another_scene_starts_anew() -> None:
    found = run([surface()] * 5 + [surface(seed=7)])
    memory, changed = found[-1]
    assert float(changed.min()) == 1
    torch.testing.assert_close(memory.log_reflectance, surface(seed=7))


def test_darkness_is_no_news() -> None:
    still = surface(10, 15)
    (memory, _) = run([still] * 10)[-1]
    noise = torch.randn(still.shape, generator=torch.Generator().manual_seed(3))
    dark = torch.full_like(still, 1e-4)
    for _ in range(600):  # a long night
        memory, _ = steadied(memory, noise, noise, dark)
    assert float((memory.log_reflectance - still).abs().mean()) < 0.1


def test_trust_is_lost_in_the_dark_and_at_white() -> None:
    light = torch.tensor([0.0, 0.01, 0.3, 0.985, 1.0]).expand(3, 1, 5)
    found = trust(light)[0, 0]
    assert found[2] == 1
    assert found[0] == found[4] < found[1] < 1
    assert 0 < found[3] < 1


def test_flat_pictures_are_alike_and_opposite_ones_are_not() -> None:
    flat, structure = torch.zeros(1, 20, 20), surface(20, 20)[:1]
    assert float((correlation(flat, flat + 0.5) - 1).abs().max()) < 1e-3
    assert float(correlation(structure, structure + 0.3).min()) > 0.999
    assert float(correlation(structure, -structure).median()) < -0.9
    assert float(change(structure.expand(3, -1, -1), -structure.expand(3, -1, -1), torch.ones(1, 20, 20)).mean()) > 0.8
