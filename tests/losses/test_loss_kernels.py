"""The terms' Triton kernels against plain torch. On a machine without a GPU: TRITON_INTERPRET=1, Triton installed."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from tests.kernels import DEVICE, INTERPRETED, needs_cuda, needs_kernels
from unlit.losses.all_pairs import all_pairs_sq_distance, plain_all_pairs_sq_distance
from unlit.losses.energy import energy
from unlit.losses.reflectance import dense_reflectance_term, plain_dense_reflectance_term
from unlit.losses.shading import plain_shading_term, shading_term
from unlit.model.decomposition import Decomposition
from unlit.pairwise.lattice import PermutohedralLattice
from unlit.pairwise.neighbors import OFFSETS, PackedPairs, sizes_at_scales
from unlit.pairwise.pairwise import DensePairs, build_pairwise, dense_pairs

pytestmark = [pytest.mark.gpu, needs_kernels]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def packed(m: int, h: int, w: int, levels: int = 4) -> PackedPairs:
    """Pairs with random weights and counts, one of them none; where p has no neighbor is NaN, which nobody may read."""
    pixels = sum(rows * columns for rows, columns in sizes_at_scales(h, w, levels))
    counts = torch.randint(20, (levels, len(OFFSETS)), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    counts[0, 1] = 0
    pairs = PackedPairs(torch.full((len(OFFSETS) * m * pixels,), torch.nan, device=DEVICE), counts, (m, h, w))
    for level, at_scale in enumerate(pairs):
        for pair in at_scale:
            pair.weight.copy_(random(*pair.weight.shape, seed=level).abs())
    return pairs


def gradients(function: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
    """The value, and three times its gradients."""
    inputs = tuple(t.detach().requires_grad_() for t in inputs)
    value = function(*inputs)
    return value.detach(), *torch.autograd.grad(3 * value, inputs)


def second(function: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
    """The gradients of the size of the gradients."""
    inputs = tuple(t.detach().requires_grad_() for t in inputs)
    first = torch.autograd.grad(function(*inputs) ** 2, inputs, create_graph=True)
    return torch.autograd.grad(sum((g**2).sum() for g in first), inputs)  # type: ignore[arg-type]  # never 0


def assert_close(mine: tuple[Tensor, ...], theirs: tuple[Tensor, ...], tolerance: float = 1e-5) -> None:
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=tolerance, atol=tolerance * float(b.abs().max()))


class TestShading:
    @pytest.mark.parametrize(("m", "h", "w"), [(1, 1, 1), (2, 1, 5), (2, 5, 1), (3, 17, 20), (2, 31, 29), (1, 2, 2)])
    def test_value_and_gradient_equal_plain_torch(self, m: int, h: int, w: int) -> None:
        from unlit.losses import shading_kernels as kernels

        pairs, s = packed(m, h, w), random(m, 1, h, w)
        mine = gradients(lambda t: kernels.shading_term(pairs, t), s)
        assert_close(mine, gradients(lambda t: plain_shading_term(pairs, t), s.double()))
        assert mine[1].shape == s.shape

    @pytest.mark.parametrize("levels", [1, 2, 6])
    def test_there_may_be_any_number_of_scales(self, levels: int) -> None:
        from unlit.losses import shading_kernels as kernels

        pairs, s = packed(2, 9, 10, levels), random(2, 1, 9, 10)
        mine = gradients(lambda t: kernels.shading_term(pairs, t), s)
        assert_close(mine, gradients(lambda t: plain_shading_term(pairs, t), s.double()))

    def test_the_shading_may_lie_in_memory_as_it_likes(self) -> None:
        from unlit.losses import shading_kernels as kernels

        pairs, s = packed(2, 6, 7), random(2, 4, 7, 6)[:, 1:2].mT
        mine = gradients(lambda t: kernels.shading_term(pairs, t), s)
        assert_close(mine, gradients(lambda t: plain_shading_term(pairs, t), s.double()))

    def test_second_derivatives_are_those_of_plain_torch(self) -> None:
        from unlit.losses import shading_kernels as kernels

        pairs, s = packed(2, 5, 6), random(2, 1, 5, 6)
        mine = second(lambda t: kernels.shading_term(pairs, t), s)
        assert_close(mine, second(lambda t: plain_shading_term(pairs, t), s))

    def test_the_value_needs_no_gradient(self) -> None:
        from unlit.losses import shading_kernels as kernels

        pairs, s = packed(2, 5, 6), random(2, 1, 5, 6)
        value, gradient = kernels.value_and_gradient(pairs, s, False)
        assert gradient is None
        assert_close((value,), (plain_shading_term(pairs, s),))

    def test_repetitions_agree_to_the_last_bit(self) -> None:
        from unlit.losses import shading_kernels as kernels

        size = (2, 40, 30) if INTERPRETED else (9, 256, 384)
        pairs, s = packed(*size), random(size[0], 1, *size[1:])
        first, *others = (gradients(lambda t: kernels.shading_term(pairs, t), s) for _ in range(3))
        assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))

    @needs_cuda
    def test_packed_pairs_of_these_frames_on_a_gpu_go_to_the_kernel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from unlit.losses import shading_kernels as kernels

        pairs, s = packed(2, 5, 6), random(2, 1, 5, 6)
        kernel = Mock(wraps=kernels.shading_term)
        monkeypatch.setattr(kernels, "shading_term", kernel)
        shading_term(pairs, s)
        assert kernel.call_count == 1
        shading_term(list(pairs), s)
        shading_term(pairs, s.double())
        assert kernel.call_count == 1
        with pytest.raises(RuntimeError):  # as plain torch says it
            shading_term(pairs, random(2, 1, 6, 6))


def weights(m: int, h: int, w: int, seed: int) -> Tensor:
    weight = torch.rand(m, 1, h, w, generator=torch.Generator().manual_seed(seed))
    return (weight * (weight > 0.3)).to(DEVICE)


def case(m: int = 3, n: int = 3, c: int = 3, h: int = 6, w: int = 7) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return random(m, c, h, w), random(n, c, h, w, seed=1), weights(m, h, w, 2), weights(n, h, w, 3)


def assert_as_plain(x: Tensor, y: Tensor, p: Tensor, q: Tensor) -> None:
    from unlit.losses import all_pairs_kernels as kernels

    assert kernels.fits(x, y, p, q)
    mine = gradients(lambda x, y: kernels.all_pairs_sq_distance(x, y, p, q), x, y)
    exact = gradients(lambda x, y: plain_all_pairs_sq_distance(x, y, p.double(), q.double()), x.double(), y.double())
    assert_close(mine, exact)


class TestAllPairs:
    @pytest.mark.parametrize(("h", "w"), [(1, 1), (1, 6), (6, 1), (6, 7), (31, 33)])
    @pytest.mark.parametrize("m", [1, 2, 5])
    def test_value_and_gradients_equal_plain_torch(self, m: int, h: int, w: int) -> None:
        assert_as_plain(*case(m, m, 3, h, w))

    def test_the_sides_may_have_different_numbers_of_frames(self) -> None:
        assert_as_plain(*case(4, 2, c=2))

    @pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 1, 6, 7), (3, 3, 6, 7), (3, 1, 1, 1), (3, 1, 1, 7)])
    def test_weights_that_broadcast_count_for_every_frame(self, shape: tuple[int, ...]) -> None:
        x, y, _, _ = case()
        assert_as_plain(x, y, random(*shape), random(*shape, seed=4))

    def test_values_and_weights_may_lie_in_memory_as_they_like(self) -> None:
        x, y, p, q = case()
        last = torch.channels_last
        assert_as_plain(*(t.contiguous(memory_format=last) for t in (x, y, p, q)))
        assert_as_plain(x.contiguous(memory_format=last), y, p, q)
        assert_as_plain(*(t.mT.contiguous().mT for t in (x, y, p, q)))
        assert_as_plain(random(6, 3, 12, 14)[::2, :, ::2, 1::2], y, p, q)
        assert_as_plain(*(t[:, :, :1].mT for t in (x, y, p, q)))
        assert_as_plain(*(t[:, :, :1].contiguous().mT for t in (x, y, p, q)))
        assert_as_plain(*(t[..., :1].contiguous().mT for t in (x, y, p, q)))

    def test_float32_keeps_its_digits_on_a_dark_still_scene(self) -> None:
        x, y, p, q = case(8, 8)
        assert_as_plain(-6 + 0.001 * x, -6 + 0.001 * y, p, q)

    def test_values_that_are_not_numbers_do_not_matter_without_weight(self) -> None:
        x, y, p, q = case()
        assert_as_plain(torch.where(p == 0, torch.nan, x), torch.where(q == 0, y * torch.inf, y), p, q)  # ±

    def test_nothing_weighs_nothing(self) -> None:
        x, y, p, q = case()
        assert_as_plain(x, y, 0 * p, 0 * q)

    def test_one_tensor_may_be_both_sides(self) -> None:
        from unlit.losses import all_pairs_kernels as kernels

        x, _, p, _ = case()
        assert kernels.value_and_gradients(x, x, p, p, True, True)[1] is None  # one gradient does for both
        mine = gradients(lambda x: kernels.all_pairs_sq_distance(x, x, p, p), x)
        assert_close(mine, gradients(lambda x: plain_all_pairs_sq_distance(x, x, p.double(), p.double()), x.double()))
        mine = second(lambda x: kernels.all_pairs_sq_distance(x, x, p, p), x)
        assert_close(mine, second(lambda x: plain_all_pairs_sq_distance(x, x, p, p), x), 1e-4)

    @pytest.mark.parametrize("side", [0, 1])
    def test_one_side_may_be_constant(self, side: int) -> None:
        from unlit.losses import all_pairs_kernels as kernels

        def of_one(function: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
            return lambda t: function(*((t, y, p, q) if side == 0 else (x, t, p, q)))

        x, y, p, q = case()
        for derivative in (gradients, second):
            mine, theirs = (
                derivative(of_one(function), (x, y)[side])
                for function in (kernels.all_pairs_sq_distance, plain_all_pairs_sq_distance)
            )
            assert_close(mine, theirs, 1e-4)

    def test_second_derivatives_are_those_of_plain_torch(self) -> None:
        from unlit.losses import all_pairs_kernels as kernels

        x, y, p, q = case()
        mine = second(lambda x, y: kernels.all_pairs_sq_distance(x, y, p, q), x, y)
        assert_close(mine, second(lambda x, y: plain_all_pairs_sq_distance(x, y, p, q), x, y), 1e-4)

    def test_repetitions_agree_to_the_last_bit(self) -> None:
        from unlit.losses import all_pairs_kernels as kernels

        x, y, p, q = case(3, 3, 3, 40, 30) if INTERPRETED else case(9, 9, 3, 256, 384)
        first, *others = (gradients(lambda x, y: kernels.all_pairs_sq_distance(x, y, p, q), x, y) for _ in range(3))
        assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))

    def test_what_the_kernel_does_not_take_is_left_to_plain_torch(self) -> None:
        from unlit.losses.all_pairs_kernels import fits

        x, y, p, q = case()
        assert fits(x, y, p, q)
        for other in (
            (x.double(), y, p, q),
            (x, y, p, q.double()),
            (x, y.half(), p, q),
            (x, y, p.clone().requires_grad_(), q),
            (x, y, p, torch.ones((), device=DEVICE)),
            (x, y[..., :1], p, q[..., :1]),
            (x[:, :1], y[:, :1], p.expand(3, 3, 6, 7), q),
            (x[..., :0], y[..., :0], p[..., :0], q[..., :0]),
            (x[:0], y, p[:0], q),
            (x, y[:0], p, q[:0]),
            (x, y, p, q.to("meta")),
        ):
            assert not fits(*other)

    @needs_cuda
    def test_values_on_a_gpu_go_to_the_kernel(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from unlit.losses import all_pairs_kernels as kernels

        x, y, p, q = case()
        kernel = Mock(wraps=kernels.all_pairs_sq_distance)
        monkeypatch.setattr(kernels, "all_pairs_sq_distance", kernel)
        all_pairs_sq_distance(x, y, p, q)
        assert kernel.call_count == 1
        all_pairs_sq_distance(x.double(), y, p, q)
        assert kernel.call_count == 1


@needs_cuda
@pytest.mark.parametrize("m", [1, 2, 5, 31])
def test_the_energy_of_a_sequence_on_a_gpu_is_that_on_a_cpu(m: int) -> None:
    g = torch.Generator().manual_seed(m)
    frames = 0.05 + 0.2 * torch.rand(m, 3, 45, 38, generator=g)
    mask = torch.rand(m, 1, 45, 38, generator=g) > 0.2
    parts = [torch.randn(shape, generator=g) for shape in ((m, 3, 45, 38), (m, 1, 45, 38), (m, 3))]
    results = []
    for device in ("cpu", "cuda"):
        inputs = [part.to(device).requires_grad_() for part in parts]
        frames_there, mask_there = frames.to(device), mask.to(device)
        pairwise = build_pairwise(frames_there, mask_there)
        terms = energy(frames_there, mask_there, Decomposition(*inputs), pairwise)
        values = (terms.reconstruction, terms.consistency, terms.shading, terms.total)
        results.append(tuple(t.detach().cpu() for t in (*values, *torch.autograd.grad(terms.total, inputs))))
    assert_close(results[1], results[0], 1e-4)


def dense(m: int, h: int, w: int, masked: float, monkeypatch: pytest.MonkeyPatch) -> DensePairs:
    """The pairs of frames that are much alike, by kernels also where these are interpreted."""
    from unlit.pairwise.filtering_kernels import TritonFilter

    mask = (random(m, 1, h, w, seed=3) > torch.distributions.Normal(0, 1).icdf(torch.tensor(masked))).to(DEVICE)
    with monkeypatch.context() as patch:
        patch.setattr("unlit.pairwise.lattice.best_filter", TritonFilter)
        return dense_pairs(torch.where(mask, 0.4 + 0.01 * random(m, 3, h, w, seed=4), 0), mask, tolerance=1e-2)


class TestDenseReflectance:
    @pytest.mark.parametrize("layout", ["frames", "channels last", "strided"])
    @pytest.mark.parametrize(("m", "h", "w"), [(1, 1, 1), (2, 9, 1), (1, 1, 7), (3, 11, 14)])
    @pytest.mark.parametrize("masked", [0.0, 0.3])
    def test_value_and_gradient_equal_plain_torch(
        self, m: int, h: int, w: int, layout: str, masked: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from unlit.losses import reflectance_kernels as kernels

        if m * h * w < 10 and masked:
            pytest.skip("nothing may be left")
        pairs = dense(m, h, w, masked, monkeypatch)
        r = random(m, 3, h, w, seed=5) - 4
        r = r.contiguous(memory_format=torch.channels_last) if layout == "channels last" else r
        r = random(m, 3, h, 2 * w, seed=5)[..., ::2] if layout == "strided" else r
        assert kernels.fits(pairs, r)
        mine = gradients(lambda t: kernels.dense_reflectance_term(pairs, t), r)
        assert_close(mine, gradients(lambda t: plain_dense_reflectance_term(pairs, t), r), 2e-5)

    def test_second_derivatives_equal_plain_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from unlit.losses import reflectance_kernels as kernels

        pairs, r = dense(2, 5, 6, 0.3, monkeypatch), random(2, 3, 5, 6)
        mine = second(lambda t: kernels.dense_reflectance_term(pairs, t), r)
        assert_close(mine, second(lambda t: plain_dense_reflectance_term(pairs, t), r), 1e-4)

    def test_even_reflectance_costs_nothing_and_masked_pixels_do_not_matter(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from unlit.losses import reflectance_kernels as kernels

        pairs, r = dense(2, 9, 10, 0.4, monkeypatch), torch.full((2, 3, 9, 10), -3.0, device=DEVICE)
        assert pairs.pixels is not None
        outside = (
            torch.ones(180, dtype=torch.bool, device=DEVICE).index_fill(0, pairs.pixels, False).reshape(2, 1, 9, 10)
        )
        value, gradient = gradients(
            lambda t: kernels.dense_reflectance_term(pairs, t), torch.where(outside, torch.nan, r)
        )
        assert float(value) < 1e-10
        assert float(gradient.abs().max()) < 1e-6
        assert not gradient[outside.expand_as(gradient)].any()

    def test_pairs_of_another_kind_are_left_to_plain_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from unlit.losses import reflectance_kernels as kernels

        pairs, r = dense(2, 5, 6, 0.0, monkeypatch), random(2, 3, 5, 6)
        assert not kernels.fits(pairs, r.double())
        assert not kernels.fits(pairs, r[0])
        lattice = PermutohedralLattice(random(60, 5).abs())
        plain = DensePairs(lattice, pairs.scaled, None)
        assert not kernels.fits(plain, r)

    @needs_cuda
    def test_the_term_on_a_gpu_is_the_kernels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from unlit.losses import reflectance_kernels as kernels

        pairs, r = dense(3, 32, 40, 0.2, monkeypatch), random(3, 3, 32, 40)
        called = Mock(wraps=kernels.dense_reflectance_term)
        monkeypatch.setattr(kernels, "dense_reflectance_term", called)
        first, again = (gradients(lambda t: dense_reflectance_term(pairs, t), r) for _ in range(2))
        assert called.call_count == 2
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
