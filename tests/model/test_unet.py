from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unlit.model.unet import STRIDE, UNet, padded


def small_net(width: float = 0.05, seed: int = 0, *, gray_shading: bool = False) -> UNet:
    """A narrow network; BatchNorm's means and spreads are moved from where they start, so that they matter."""
    torch.manual_seed(seed)
    net = UNet(width=width, gray_shading=gray_shading)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return net


def random_images(m: int, h: int, w: int) -> Tensor:
    return torch.rand(m, 3, h, w, generator=torch.Generator().manual_seed(0))


def parts(net: UNet, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    d = net(images)
    return d.log_reflectance, d.log_shading, d.light_color


def layers(levels: nn.ModuleList) -> list[list[str]]:
    return [[type(layer).__name__ for layer in level.children()] for level in levels]


def channels(levels: nn.ModuleList) -> list[tuple[int, int]]:
    convolutions = [m for m in levels.modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d)]
    for m in convolutions:
        assert (m.kernel_size, m.stride, m.padding) == ((4, 4), (2, 2), (1, 1))
    return [(m.in_channels, m.out_channels) for m in convolutions]


def test_the_paper_s_network_has_its_layers_and_69_5_million_parameters() -> None:
    with torch.device("meta"):
        net = UNet()
    assert abs(sum(p.numel() for p in net.parameters()) / 1e6 - 69.5) < 0.05
    assert channels(net.encoder) == [(3, 64), (64, 128), (128, 256), (256, 512), (512, 512), (512, 512), (512, 512)]
    inner = [(256, 64), (512, 128), (1024, 256), (1024, 512), (1024, 512), (512, 512)]
    assert channels(net.reflectance_decoder) == [(128, 3), *inner]
    assert channels(net.shading_decoder) == [(128, 1), *inner]
    middle = ["LeakyReLU", "Conv2d", "BatchNorm2d"]
    assert layers(net.encoder) == [["Conv2d"], *[middle] * 5, ["LeakyReLU", "Conv2d"]]
    for decoder in (net.reflectance_decoder, net.shading_decoder):
        assert layers(decoder) == [["ReLU", "LastLayer"], *[["ReLU", "ConvTranspose2d", "BatchNorm2d"]] * 6]
    assert {m.negative_slope for m in net.modules() if isinstance(m, nn.LeakyReLU)} == {0.2}
    assert isinstance(net.color_head, nn.Sequential)
    head = ["AdaptiveAvgPool2d", "ReLU", "Conv2d", "ReLU", "Flatten", "Linear"]
    assert [type(layer).__name__ for layer in net.color_head] == head
    assert [tuple(p.shape) for p in net.color_head.parameters()] == [(256, 512, 3, 3), (256,), (3, 256), (3,)]


def test_levels_lie_inside_one_another_with_the_skip_beside_what_is_inside() -> None:
    net = small_net().eval()
    images = random_images(1, 128, 256)

    def nested(decoder: nn.ModuleList, level: int, x: Tensor) -> Tensor:
        own = net.encoder[level](x)
        inside = own if level == 6 else torch.cat([nested(decoder, level + 1, own), own], dim=1)
        result: Tensor = decoder[level](inside)
        return result

    log_reflectance, log_shading, _ = parts(net, images)
    assert torch.equal(log_reflectance, nested(net.reflectance_decoder, 0, images))
    assert torch.equal(log_shading, nested(net.shading_decoder, 0, images))


def test_the_color_of_the_light_comes_of_the_mean_of_the_innermost_map() -> None:
    net = small_net().eval()
    images = random_images(2, 128, 256)
    x = images
    for level in net.encoder:
        x = level(x)
    assert x.shape[2:] == (1, 2)
    assert isinstance(net.color_head, nn.Sequential)
    assert torch.equal(parts(net, images)[2], net.color_head(x.mean((2, 3), keepdim=True)))


def test_gray_shading_has_no_color_head_and_white_light() -> None:
    net = small_net(gray_shading=True)
    assert net.color_head is None
    d = net(random_images(2, 128, 128))
    assert d.light_color.shape == (2, 3)
    assert not d.light_color.any()
    assert sum(p.numel() for p in net.parameters()) < sum(p.numel() for p in small_net().parameters())


@pytest.mark.parametrize(("h", "w"), [(1, 1), (127, 129), (130, 257), (128, 100)])
def test_other_sizes_are_continued_by_their_edges_and_cut_back(h: int, w: int) -> None:
    net = small_net().eval()
    images = random_images(2, h, w)
    whole = np.pad(images.numpy(), ((0, 0), (0, 0), (0, -h % 128), (0, -w % 128)), mode="edge")
    log_reflectance, log_shading, color = parts(net, images)
    assert log_reflectance.shape == (2, 3, h, w)
    assert log_shading.shape == (2, 1, h, w)
    by_hand = parts(net, torch.from_numpy(whole))
    assert torch.equal(log_reflectance, by_hand[0][..., :h, :w])
    assert torch.equal(log_shading, by_hand[1][..., :h, :w])
    assert torch.equal(color, by_hand[2])


def test_multiples_of_128_are_left_as_they_are() -> None:
    assert STRIDE == 128
    for h, w in ((128, 128), (256, 384)):
        images = random_images(1, h, w)
        assert padded(images, STRIDE) is images


@pytest.mark.parametrize("width", [0.25, 0.1, 0.001])
def test_narrow_networks_keep_the_shape_and_have_at_least_one_channel(width: float) -> None:
    with torch.device("meta"):
        net = UNet(width=width)
    assert [out for _, out in channels(net.encoder)] == [
        max(1, round(width * c)) for c in (64, 128, 256, 512, 512, 512, 512)
    ]
    d = net(torch.zeros(1, 3, 128, 128, device="meta"))
    assert d.log_reflectance.shape == (1, 3, 128, 128)


def test_images_of_a_batch_do_not_see_one_another_when_not_training() -> None:
    net = small_net().eval()
    images = random_images(3, 128, 128)
    for i in range(3):
        for alone, together in zip(parts(net, images[i : i + 1]), parts(net, images), strict=True):
            torch.testing.assert_close(alone, together[i : i + 1], rtol=1e-4, atol=1e-5)


def test_no_number_is_added_where_normalising_takes_it_out_again() -> None:
    net = small_net(0.1).train().double()
    images = random_images(2, 128, 256).double()
    before = parts(net, images)
    torch.manual_seed(3)
    bare = 0
    for level in (*net.encoder, *net.reflectance_decoder, *net.shading_decoder):
        inside = list(level.children())
        convolution = next(m for m in inside if isinstance(m, nn.Conv2d | nn.ConvTranspose2d))
        assert (convolution.bias is None) == isinstance(inside[-1], nn.BatchNorm2d)
        if convolution.bias is None:
            convolution.bias = nn.Parameter(torch.randn(convolution.out_channels, dtype=torch.float64))
            bare += 1
    assert bare == 5 + 6 + 6
    for own, other in zip(parts(net, images), before, strict=True):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("gray_shading", [True, False])
def test_gradients_reach_every_parameter(gray_shading: bool) -> None:
    net = small_net(0.1, gray_shading=gray_shading).train()
    sum((part.square().sum() for part in parts(net, random_images(2, 128, 256))), torch.zeros(())).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
        assert bool(parameter.grad.any()), name


@pytest.mark.parametrize(("h", "w"), [(128, 128), (1, 1)])
def test_one_small_image_is_enough_to_train_on(h: int, w: int) -> None:
    """The innermost map is one pixel, but it is not normalised, and the smallest that is has four."""
    net = small_net(0.1).train()
    sum((part.square().sum() for part in parts(net, random_images(1, h, w))), torch.zeros(())).backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name


def test_a_seed_decides_the_first_weights() -> None:
    first, again, other = (small_net(seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["encoder.0.0.weight"], other["encoder.0.0.weight"])


def test_first_weights_are_spread_as_in_the_release() -> None:
    net = small_net(0.25)
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d) and module.weight.numel() > 10_000:
            assert abs(module.weight.mean().item()) < 1e-3
            assert abs(module.weight.std().item() / 0.02 - 1) < 0.05
    normalised = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    scales = torch.cat([module.weight for module in normalised])
    assert abs(scales.mean().item() - 1) < 0.01
    assert abs(scales.std().item() / 0.02 - 1) < 0.1
    assert not any(bool(module.bias.any()) for module in normalised)


@pytest.mark.parametrize("shape", [(3, 128, 128), (1, 1, 128, 128), (1, 4, 128, 128), (0, 3, 8, 8), (1, 3, 0, 5)])
def test_images_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"images must be \(m, 3, h, w\).*not \(" + ", ".join(map(str, shape))):
        small_net()(torch.zeros(shape))
