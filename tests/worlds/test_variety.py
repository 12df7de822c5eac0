"""Figures of variety, on pictures whose figures are known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from unlit.image_io import read_image
from unlit.worlds.scene import scene
from unlit.worlds.variety import log_steps, variety


def picture(value: float, h: int = 20, w: int = 20) -> torch.Tensor:
    return torch.full((3, h, w), value)


def test_a_plain_gray_surface_has_no_color_and_no_edges() -> None:
    figures = variety(picture(0.4), torch.ones(1, 20, 20, dtype=torch.bool))
    assert figures.edges == 0
    assert figures.flat == 1
    assert float(figures.chroma.max()) < 1e-6
    torch.testing.assert_close(figures.grays, torch.ones(5))


def test_a_board_of_stripes_has_an_edge_at_every_stripe() -> None:
    light = picture(0.2)
    light[:, :, ::2] = 0.8
    figures = variety(light, torch.ones(1, 20, 20, dtype=torch.bool))
    assert figures.edges == pytest.approx(0.5), "all steps to the right, none of those below"
    assert figures.flat == pytest.approx(0.5)


def test_what_is_masked_does_not_count() -> None:
    light, mask = picture(0.5), torch.ones(1, 20, 20, dtype=torch.bool)
    light[:, 5:9, 5:9] = torch.rand(3, 4, 4)
    mask[:, 5:9, 5:9] = False
    assert variety(light, mask).edges == 0
    assert len(log_steps(light[0], mask[0])) < 2 * 19 * 20 - 30


def test_the_chroma_of_pure_red_is_one() -> None:
    light = picture(0.0)
    light[0] = 0.5
    assert float(variety(light, torch.ones(1, 20, 20, dtype=torch.bool)).chroma.min()) == pytest.approx(1)


@pytest.mark.data
def test_materials_are_about_as_dull_and_as_light_as_painted_objects(shared_data: Path) -> None:
    dull = []
    for place in sorted((shared_data / "mit-intrinsic").iterdir()):
        if (place / "mask.png").is_file():
            colors = torch.from_numpy(read_image(place / "reflectance.png", encoding="linear").pixels)
            valid = torch.from_numpy(read_image(place / "mask.png", encoding="linear").pixels[..., 0]) > 0.5
            dull.append(_chroma(colors[valid]).median())
    ours = torch.cat([_chroma(scene(seed).materials.colors.reshape(-1, 3)) for seed in range(30)])
    assert float(ours.median()) == pytest.approx(float(torch.stack(dull).mean()), abs=0.2)


def _chroma(colors: torch.Tensor) -> torch.Tensor:
    return 1 - colors.amin(1) / colors.amax(1).clamp_min(1e-3)
