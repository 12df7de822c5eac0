from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unlit.model import cue
from unlit.model.compact import CompactNet
from unlit.model.cue import DARK, FLOOR, LEAST, THRESHOLDS, retinex_cues


def plain_retinex(image: Tensor, of_color: float, of_gray: float) -> Tensor:
    """Log shading (h, w) by one dense least-squares problem: a row for each pair of neighbors."""
    image = image.double()
    _, h, w = image.shape
    gray = image.mean(0)
    floor = DARK * gray.mean() + FLOOR
    logs = image.clamp_min(0.2 * floor).log()
    rows, wanted = [], []
    for y in range(h):
        for x in range(w):
            for v, u in ((y + 1, x), (y, x + 1)):
                if v < h and u < w:
                    change = logs[:, v, u] - logs[:, y, x]
                    step = change.mean()
                    is_paint = (change - step).norm() > of_color or step.abs() > of_gray
                    weight = min(float((gray[a, b] / floor).clamp(LEAST, 1)) for a, b in ((y, x), (v, u))) ** 0.5
                    row = torch.zeros(h, w, dtype=torch.float64)
                    row[v, u], row[y, x] = weight, -weight
                    rows.append(row.flatten())
                    wanted.append(weight * step * is_paint)
    matrix = torch.stack([*rows, torch.ones(h * w, dtype=torch.float64)])
    reflectance = torch.linalg.lstsq(matrix, torch.stack([*wanted, wanted[0] * 0])[:, None]).solution.reshape(h, w)
    shading: Tensor = logs.mean(0) - reflectance
    return shading - shading.mean()


def random_image(h: int = 7, w: int = 9) -> Tensor:
    g = torch.Generator().manual_seed(3)
    image = 0.05 + torch.rand(3, h, w, generator=g)
    image[:, :3, :3] = 0  # black ground
    return image


def test_cues_are_the_least_squares_that_they_stand_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cue, "ROUNDS", 60)
    found = retinex_cues(random_image()[None])[0]
    for k, thresholds in enumerate(THRESHOLDS):
        torch.testing.assert_close(found[k].double(), plain_retinex(random_image(), *thresholds), rtol=0, atol=2e-4)


def test_even_paper_in_soft_light_is_all_shading() -> None:
    light = (
        torch.linspace(0.2, 1, 32).reshape(1, 1, 1, 32).expand(2, 3, 24, 32)
        * torch.tensor([0.9, 0.8, 0.6])[:, None, None]
    )
    logs = light.mean(1, keepdim=True).log()
    expected = logs - logs.mean((2, 3), keepdim=True)
    torch.testing.assert_close(retinex_cues(light), expected.expand(-1, 2, -1, -1), rtol=0, atol=0.02)


def test_paint_in_even_light_is_no_shading() -> None:
    image = torch.full((1, 3, 24, 32), 0.8)
    image[:, 0, 8:16, 8:20] = 0.1
    image[:, :, 18:22, 4:9] = 0.05
    assert retinex_cues(image)[:, 1].abs().max() < 0.02


def test_a_black_ground_does_not_tie_the_sides_of_an_object_together() -> None:
    image = torch.zeros(1, 3, 32, 64)
    object_light = torch.linspace(0.1, 1, 32)
    image[:, :, 8:24, 16:48] = object_light
    found = retinex_cues(image)[0, 0, 16, 16:48]
    assert (found[-4] - found[3]).item() == pytest.approx((object_light[-4] / object_light[3]).log().item(), rel=0.25)


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (5, 1), (3, 4)])
@pytest.mark.parametrize("level", [0.0, 1e-6, 0.5, 1.0])
def test_cues_are_finite_for_flat_and_tiny_pictures(size: tuple[int, int], level: float) -> None:
    found = retinex_cues(torch.full((2, 3, *size), level))
    assert found.shape == (2, 2, *size)
    assert found.abs().max() < 1e-4


def test_what_is_negative_is_black() -> None:
    image = random_image(16, 16)[None]
    mixed = image - 0.4
    torch.testing.assert_close(retinex_cues(mixed), retinex_cues(mixed.clamp_min(0)))
    assert retinex_cues(image - 2).abs().max() < 1e-4
    network = CompactNet(width=0.25, cue=True).eval()
    assert network(-torch.rand(1, 3, 20, 30)).log_shading.isfinite().all()


def test_exposure_does_not_matter() -> None:
    image = random_image(32, 32)[None] + 0.01
    torch.testing.assert_close(retinex_cues(image), retinex_cues(0.25 * image), rtol=0, atol=0.02)


def test_the_network_listens_to_its_cues() -> None:
    torch.manual_seed(0)
    network = CompactNet(width=0.25, cue=True).eval()
    torch.nn.init.normal_(network.head.weight, 0, 0.1)
    seen = torch.rand(1, 3, 64, 64)
    before = network(seen).log_shading
    with torch.no_grad():
        network.stem.weight[:, -len(THRESHOLDS) :] *= 3
    assert (network(seen).log_shading - before).abs().max() > 1e-3


def test_cues_are_the_same_under_autocast() -> None:
    image = random_image(16, 16)[None]
    with torch.autocast("cpu", torch.bfloat16):
        found = retinex_cues(image)
    torch.testing.assert_close(found, retinex_cues(image))
