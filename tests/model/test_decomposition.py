from __future__ import annotations

import pytest
import torch

from unlit.model.decomposition import Decomposition


def random_decomposition(m: int = 2, h: int = 4, w: int = 5) -> Decomposition:
    g = torch.Generator().manual_seed(0)
    shapes = ((m, 3, h, w), (m, 1, h, w), (m, 3))
    return Decomposition(*(torch.randn(shape, generator=g, dtype=torch.float64) for shape in shapes))


def test_the_image_is_reflectance_times_shading() -> None:
    d = random_decomposition()
    torch.testing.assert_close(d.recompose(), d.reflectance * d.shading, rtol=1e-12, atol=0)


def test_recomposing_adds_logs_at_every_pixel_and_channel() -> None:
    d = random_decomposition()
    image = d.recompose()
    assert image.shape == (2, 3, 4, 5)
    for i in range(2):
        for c in range(3):
            logs = d.log_reflectance[i, c] + d.log_shading[i, 0] + d.light_color[i, c]
            torch.testing.assert_close(image[i, c], logs.exp())


def test_shading_has_the_color_of_the_light_and_reflectance_has_not() -> None:
    d = random_decomposition()
    white = Decomposition(d.log_reflectance, d.log_shading, torch.zeros_like(d.light_color))
    assert torch.equal(d.reflectance, d.log_reflectance.exp())
    assert torch.equal(white.reflectance, d.reflectance)
    torch.testing.assert_close(white.shading, d.log_shading.exp().expand(2, 3, 4, 5))
    torch.testing.assert_close(d.shading / white.shading, d.light_color.exp()[:, :, None, None].expand(2, 3, 4, 5))


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("log_reflectance", [(3, 4, 5), (2, 1, 4, 5), (2, 4, 4, 5), (4, 5)]),
        ("log_shading", [(2, 3, 4, 5), (1, 1, 4, 5), (2, 1, 5, 4), (1, 4, 5)]),
        ("light_color", [(2, 3, 1, 1), (1, 3), (2, 1), (3,)]),
    ],
)
def test_parts_of_another_shape_are_refused_by_name(name: str, shapes: list[tuple[int, ...]]) -> None:
    for shape in shapes:
        parts = {"log_reflectance": (2, 3, 4, 5), "log_shading": (2, 1, 4, 5), "light_color": (2, 3), name: shape}
        with pytest.raises(ValueError, match=rf"{name} must be \(.*, not \({shape[0]},"):
            Decomposition(**{key: torch.zeros(size) for key, size in parts.items()})


def test_gradients_pass_through_recomposing() -> None:
    g = torch.Generator().manual_seed(0)
    shapes = ((1, 3, 2, 2), (1, 1, 2, 2), (1, 3))
    parts = [torch.randn(shape, generator=g, dtype=torch.float64).requires_grad_() for shape in shapes]
    torch.autograd.gradcheck(lambda r, s, c: Decomposition(r, s, c).recompose(), parts)
