from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv_transpose2d

from unlit.model.last_layer import LastLayer
from unlit.model.unet import UNet


def layer_and_input(
    d: int, h: int, w: int, dtype: torch.dtype = torch.float64, channels: int = 6
) -> tuple[LastLayer, Tensor]:
    torch.manual_seed(0)
    layer = LastLayer(channels, d).to(dtype)
    return layer, torch.randn(2, channels, h, w, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("h", "w"), [(1, 1), (1, 4), (5, 3), (8, 12)])
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_overlapping_windows_equal_a_transposed_convolution_and_its_gradients(
    d: int, h: int, w: int, dtype: torch.dtype, layout: torch.memory_format
) -> None:
    layer, x = layer_and_input(d, h, w, dtype)
    mine = layer.overlapped(x.contiguous(memory_format=layout))
    theirs = conv_transpose2d(x, layer.weight, layer.bias, stride=2, padding=1)
    torch.testing.assert_close(mine, theirs)
    assert mine.is_contiguous(memory_format=torch.channels_last)
    inputs, by = (x, layer.weight, layer.bias), torch.randn_like(theirs)
    for own, other in zip(torch.autograd.grad(mine, inputs, by), torch.autograd.grad(theirs, inputs, by), strict=True):
        torch.testing.assert_close(own, other)


def test_rounded_as_a_convolution_where_few_digits_are_asked_for() -> None:
    layer, x = layer_and_input(3, 4, 6, torch.float32, 128)
    with torch.autocast("cpu", torch.bfloat16):
        mine, theirs = layer.overlapped(x), layer(x)
    exact = layer(x)
    assert mine.dtype == theirs.dtype == torch.bfloat16
    assert (mine - exact).square().mean() < 3 * (theirs - exact).square().mean()
    mine.float().square().sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32


def test_a_cpu_takes_its_own_transposed_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = layer_and_input(3, 4, 6)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.delattr(LastLayer, "overlapped")
    assert torch.equal(layer(x), conv_transpose2d(x, layer.weight, layer.bias, stride=2, padding=1))


def test_compiled_on_a_gpu_windows_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, _ = layer_and_input(3, 4, 6)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(layer, "overlapped", lambda x: "windows")

    class OnGpu:
        is_cuda = True

    assert layer(OnGpu()) == "windows"


def test_the_network_s_last_layers_have_the_names_of_any_transposed_convolution() -> None:
    with torch.device("meta"):
        net = UNet()
        plain = nn.ConvTranspose2d(128, 3, 4, stride=2, padding=1)
    last = net.reflectance_decoder[0][1]  # type: ignore[index]  # a level is a Sequential, torch says a Module
    assert isinstance(last, LastLayer)
    assert isinstance(net.shading_decoder[0][1], LastLayer)  # type: ignore[index]  # so too
    assert {k: v.shape for k, v in last.state_dict().items()} == {k: v.shape for k, v in plain.state_dict().items()}
    assert not list(last.buffers())
