"""The minimum of a picture's sum, against a dense solve; its gradient, against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.quadratic.objects import picture_of
from tests.reference.quadratic import dense_minimum, finite_difference, sum_of
from unlit.baselines.splitting import view_of
from unlit.quadratic.decompose import exposure_of, scene_of
from unlit.quadratic.solving import System, minimum
from unlit.quadratic.weights import Scene, Weights

SIDE = 14


def tiny_scene(seed: int = 0, side: int = SIDE) -> Scene:
    image = picture_of(seed, side)
    mask = np.ones((side, side), np.bool_)
    mask[:3, :4] = False
    mask[7, 6] = False  # a hole
    noise = np.random.default_rng(seed).uniform(0.02, 0.2, image.shape)
    light = np.where(mask[..., None], (image + noise) * exposure_of(image + noise, mask), 0.0)
    return scene_of(view_of(light, mask))


def some_weights(seed: int = 0, size: float = 0.2) -> Weights:
    """Weights off their start, so that every one of them counts."""
    torch.manual_seed(seed)
    weights = Weights()
    with torch.no_grad():
        for parameter in weights.parameters():
            parameter.add_(size * torch.randn(parameter.shape))
        weights.anchor[0] = -1.0
    return weights.double()


@pytest.mark.parametrize("seed", [0, 1])
def test_conjugate_gradients_find_what_a_dense_solve_finds(seed: int) -> None:
    scene, weights = tiny_scene(seed), some_weights(seed)
    terms = weights(scene)
    found = minimum(scene, terms, tolerance=1e-10).detach().numpy()
    assert np.abs(found - dense_minimum(scene, terms)).max() < 1e-6 * np.abs(found).max()
    assert np.all(found[~scene.valid] == 0)


def test_float32_weights_find_nearly_the_same() -> None:
    scene, weights = tiny_scene(), some_weights()
    exact = minimum(scene, weights(scene), tolerance=1e-10).detach()
    rounded = minimum(scene, weights.float()(scene))
    assert rounded.dtype == torch.float32
    assert (rounded - exact).abs().max() < 1e-3


def test_nothing_near_the_minimum_is_less() -> None:
    scene, terms = tiny_scene(), some_weights()(tiny_scene())
    found = minimum(scene, terms, tolerance=1e-10).detach().numpy()
    least, rng = sum_of(scene, terms, found), np.random.default_rng(0)
    for size in (1e-3, 1e-1, 1.0):
        assert sum_of(scene, terms, found + size * scene.valid * rng.standard_normal(found.shape)) > least


def test_the_system_is_symmetric_and_a_constant_is_nothing_to_it() -> None:
    scene = tiny_scene()
    system, rng = System(scene, some_weights()(scene)), np.random.default_rng(0)
    one, other = (scene.valid * rng.standard_normal(scene.valid.shape) for _ in range(2))
    assert np.vdot(one, system.operator(other)) == pytest.approx(np.vdot(other, system.operator(one)))
    assert np.abs(system.operator(scene.valid.astype(np.float64))).max() < 1e-9
    assert abs(system.right_side().sum()) < 1e-9


def test_a_constant_on_the_right_side_is_left_out_and_what_nothing_feels_ends_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = tiny_scene()
    system = System(scene, some_weights()(scene))
    right = system.right_side()
    assert np.allclose(system.solved(right), system.solved(right + 5.0 * scene.valid), atol=1e-6)
    monkeypatch.setattr(system, "operator", np.zeros_like)
    assert np.all(system.solved(right) == 0)


def test_the_gradient_is_that_of_finite_differences() -> None:
    scene, weights = tiny_scene(), some_weights()
    wanted = torch.from_numpy(np.random.default_rng(2).standard_normal(scene.valid.shape))

    def loss() -> torch.Tensor:
        return (minimum(scene, weights(scene), tolerance=1e-11) * wanted).sum()

    loss().backward()
    checked = 0
    for parameter in weights.parameters():
        assert parameter.grad is not None
        for index in np.ndindex(*parameter.shape):
            slope = finite_difference(loss, parameter, index, 1e-4)
            assert float(parameter.grad[index]) == pytest.approx(slope, rel=1e-4, abs=1e-6)
            checked += 1
    assert checked == 81


def test_the_gradient_in_float32_is_that_in_float64() -> None:
    scene, weights = tiny_scene(), some_weights()
    for kind in (weights, some_weights().float()):
        minimum(scene, kind(scene), tolerance=1e-8).square().sum().backward()
        if kind is not weights:
            for exact, rounded in zip(weights.parameters(), kind.parameters(), strict=True):
                assert exact.grad is not None
                assert rounded.grad is not None
                assert torch.allclose(exact.grad.float(), rounded.grad, rtol=1e-2, atol=1e-3)


def test_a_picture_of_one_gray_and_one_of_one_pixel_have_a_minimum() -> None:
    for shape in ((20, 20), (1, 1), (1, 30), (3, 2)):
        mask = np.ones(shape, np.bool_)
        scene = scene_of(view_of(np.full((*shape, 3), 0.2), mask))
        found = minimum(scene, Weights()(scene))
        assert found.shape == shape
        assert found.abs().max() < 1e-6
