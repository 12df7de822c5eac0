from __future__ import annotations

import pytest
import torch

from unlit.color import floored_log, srgb_to_linear
from unlit.model.compact import CELL, CompactNet
from unlit.model.unet import UNet

ALL = {"fine": True, "cue": True, "deep": True, "attention": True}
RICHER = [{}, {"fine": True}, {"cue": True}, {"deep": True}, {"attention": True}, ALL]
"""What the network may have besides."""


def images(m: int = 2, h: int = 40, w: int = 56) -> torch.Tensor:
    return torch.rand(m, 3, h, w, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("richer", RICHER)
def test_an_untrained_network_splits_every_image_evenly(richer: dict[str, bool]) -> None:
    seen = images()
    found = CompactNet(width=0.25, gray_shading=True, **richer)(seen)
    half = 0.5 * floored_log(srgb_to_linear(seen))
    torch.testing.assert_close(found.log_reflectance, half)
    torch.testing.assert_close(found.log_shading, half.mean(1, keepdim=True))


@pytest.mark.parametrize("richer", RICHER)
@pytest.mark.parametrize("size", [(1, 1), (31, 33), (32, 64), (70, 5)])
def test_any_size_comes_back_as_it_was(size: tuple[int, int], richer: dict[str, bool]) -> None:
    network = CompactNet(width=0.25, **richer).eval()
    found = network(images(1, *size))
    assert found.log_reflectance.shape == (1, 3, *size)
    assert found.log_shading.shape == (1, 1, *size)
    assert found.light_color.shape == (1, 3)
    assert torch.isfinite(found.log_reflectance).all()


def test_what_is_cut_off_changes_nothing_but_near_the_edge() -> None:
    network = CompactNet(width=0.25, gray_shading=True).eval()
    torch.nn.init.normal_(network.head.weight, 0, 0.1)
    seen = images(1, 192, 192)
    whole = network(seen)
    for rows in (1, CELL, 13):  # continued to a multiple; odd maps; both
        cut = network(seen[..., :-rows, :])
        far = (whole.log_shading[..., :-rows, :] - cut.log_shading)[..., :8, :].abs().max()
        assert far < 0.2 * whole.log_shading.std()


def test_maps_are_no_larger_than_the_picture_needs_and_odd_ones_fit_what_comes_from_below() -> None:
    network = CompactNet(width=0.25, cue=True, attention=True).eval()
    maps: list[torch.Tensor] = []
    below: dict[int, torch.Tensor] = {}
    seen: dict[int, torch.Tensor] = {}

    def note(found: dict[int, torch.Tensor], k: int, value: torch.Tensor) -> None:
        found[k] = value.clone()

    for row in network.encoder:
        row.register_forward_hook(lambda _, __, out: maps.append(out))
    for k, (up, decoder) in enumerate(zip(network.up, network.decoder, strict=True)):
        up.register_forward_hook(lambda _, __, out, k=k: note(below, k, out))
        decoder.register_forward_pre_hook(lambda _, given, k=k: note(seen, k, given[0]))
    with torch.no_grad():
        network(images(1, 66, 98))
    assert [tuple(found.shape[-2:]) for found in maps] == [(34, 50), (17, 25), (9, 13), (5, 7), (3, 4), (2, 2)]
    for k in seen:
        twice = below[k].repeat_interleave(2, 2).repeat_interleave(2, 3)
        h, w = maps[k].shape[-2:]
        torch.testing.assert_close(seen[k], maps[k] + twice[..., :h, :w])


def test_gray_light_has_no_color_and_colored_light_learns_one() -> None:
    gray, colored = CompactNet(width=0.25, gray_shading=True), CompactNet(width=0.25)
    assert torch.equal(gray(images()).light_color, torch.zeros(2, 3))
    colored(images()).light_color.sum().backward()
    assert colored.color_head is not None
    assert colored.color_head.weight.grad is not None


@pytest.mark.parametrize("richer", RICHER)
def test_every_parameter_gets_a_gradient(richer: dict[str, bool]) -> None:
    network = CompactNet(width=0.25, **richer)
    torch.nn.init.normal_(network.head.weight, 0, 0.1)
    found = network(images())
    (found.log_reflectance.sum() + found.log_light.square().sum()).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_a_deeper_network_has_two_fifths_more_parameters_and_the_blocks_of_a_plain_one() -> None:
    plain, deep = (CompactNet(deep=deep).state_dict() for deep in (False, True))
    assert {name: values.shape for name, values in plain.items()}.items() <= {
        n: v.shape for n, v in deep.items()
    }.items()
    sizes = [sum(values.numel() for values in state.values()) for state in (plain, deep)]
    assert 1.35 < sizes[1] / sizes[0] < 1.45


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 1, 8, 8), (0, 3, 8, 8)])
def test_what_is_no_image_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="images must be"):
        CompactNet(width=0.25)(torch.zeros(shape))


def test_the_paper_s_network_may_be_anchored_to_the_image_too() -> None:
    torch.manual_seed(0)
    plain = UNet(width=1 / 32, gray_shading=True).eval()
    anchored = UNet(width=1 / 32, gray_shading=True, anchored=True).eval()
    anchored.load_state_dict(plain.state_dict())
    seen = images(1, 128, 128)
    half = 0.5 * floored_log(srgb_to_linear(seen))
    torch.testing.assert_close(anchored(seen).log_reflectance, plain(seen).log_reflectance + half)
    torch.testing.assert_close(anchored(seen).log_shading, plain(seen).log_shading + half.mean(1, keepdim=True))
