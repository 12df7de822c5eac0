from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.reference.attention import looked_around
from unlit.model.attention import HEADS, PER_HEAD, Attention
from unlit.model.compact import CompactNet

INSIDE = HEADS * PER_HEAD


def taught(channels: int = 6, dtype: torch.dtype = torch.float64) -> Attention:
    """Return one that says something."""
    torch.manual_seed(0)
    block = Attention(channels).to(dtype).eval()
    torch.nn.init.normal_(block.said.weight, 0, 0.2)
    torch.nn.init.normal_(block.asked.weight, 0, 0.8)
    return block


def slow(block: Attention, x: Tensor) -> Tensor:
    m, _, h, w = x.shape
    asked = block.asked(block.normalised(x)).flatten(2).transpose(1, 2)
    images = []
    for i in range(m):
        q, k, v = asked[i].split(INSIDE, 1)
        parts = [slice(a * PER_HEAD, (a + 1) * PER_HEAD) for a in range(HEADS)]
        told = torch.cat([looked_around(q[:, part], k[:, part], v[:, part]) for part in parts], 1)
        images.append((told @ block.said.weight[:, :, 0, 0].T).T.reshape(-1, h, w))
    return x + torch.stack(images)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_every_place_is_told_by_all_as_the_slow_way_has_it(dtype: torch.dtype, layout: torch.memory_format) -> None:
    block = taught(dtype=dtype)
    x = torch.randn(2, 6, 3, 4, dtype=dtype).contiguous(memory_format=layout).requires_grad_()
    mine, theirs = block(x), slow(block, x)
    digits = 1e-4 if dtype == torch.float32 else 1e-7
    torch.testing.assert_close(mine, theirs, rtol=digits, atol=digits)
    inputs, by = (x, block.asked.weight, block.said.weight), torch.randn_like(theirs)
    for own, other in zip(torch.autograd.grad(mine, inputs, by), torch.autograd.grad(theirs, inputs, by), strict=True):
        torch.testing.assert_close(own, other, rtol=digits, atol=digits)


def test_squares_of_a_large_map_answer_together(monkeypatch: pytest.MonkeyPatch) -> None:
    block = taught()
    squares = torch.randn(1, 6, 3, 4, dtype=torch.float64).repeat_interleave(2, 2).repeat_interleave(2, 3)
    exact = block(squares)
    monkeypatch.setattr("unlit.model.attention.MANY", 12)
    torch.testing.assert_close(block(squares), exact)
    monkeypatch.setattr("unlit.model.attention.MANY", 3)
    assert (block(squares) - exact).abs().max() > 1e-3
    monkeypatch.setattr("unlit.model.attention.MANY", 1)
    narrow = torch.randn(1, 6, 1, 5, dtype=torch.float64)
    assert torch.isfinite(block(narrow)).all()  # of a side of one no half is left


def test_it_says_nothing_at_first() -> None:
    x = torch.randn(2, 6, 3, 4)
    assert torch.equal(Attention(6)(x), x)


def test_where_places_are_does_not_count() -> None:
    block, x = taught(), torch.randn(1, 6, 3, 4, dtype=torch.float64)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    moved = x.flatten(2)[..., order].reshape(x.shape)
    torch.testing.assert_close(block(moved).flatten(2), block(x).flatten(2)[..., order])


def test_a_trained_network_may_be_given_some_and_says_the_same() -> None:
    torch.manual_seed(0)
    plain, richer = CompactNet(width=0.25).eval(), CompactNet(width=0.25, attention=True).eval()
    torch.nn.init.normal_(plain.head.weight, 0, 0.1)
    known = plain.state_dict()
    missing, unexpected = richer.load_state_dict(known, strict=False)
    assert not unexpected
    assert {name.rsplit(".", 2)[1] for name in missing} == {"normalised", "asked", "said"}
    seen = torch.rand(1, 3, 128, 64)
    assert torch.equal(richer(seen).log_reflectance, plain(seen).log_reflectance)


@pytest.mark.parametrize("attention", [True, False])
def test_a_far_place_is_heard_of(attention: bool) -> None:
    """Fifteen places of the smallest map apart: convolutions do not carry so far."""
    torch.manual_seed(0)
    network = CompactNet(width=0.25, attention=attention).eval()
    torch.nn.init.normal_(network.head.weight, 0, 0.1)
    for module in network.modules():
        if isinstance(module, Attention):
            torch.nn.init.normal_(module.said.weight, 0, 0.5)
    seen = torch.rand(1, 3, 64, 1024)
    other = seen.clone()
    other[..., -64:] = 0.9 * torch.rand(1, 3, 64, 64)
    near = [network(images).log_shading[..., :16] for images in (seen, other)]
    assert torch.equal(*near) != attention


@pytest.mark.parametrize("fine", [True, False])
def test_few_places_look_at_one_another(fine: bool) -> None:
    network = CompactNet(width=0.25, fine=fine, attention=True).eval()
    seen: list[tuple[int, ...]] = []
    for module in network.modules():
        if isinstance(module, Attention):
            module.register_forward_hook(lambda _module, _inputs, out: seen.append(tuple(out.shape[2:])))
    network(torch.rand(1, 3, 128, 256))
    assert seen == [(8, 16), (4, 8), (8, 16)]
