from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from unlit.data.augment import seeded
from unlit.data.batch import batch_of
from unlit.data.dataset import Item
from unlit.data.exchange import drawn_partners, exchanged
from unlit.data.judgements import Judgements
from unlit.data.sequence import Sequence
from unlit.data.settings import AugmentSettings, DataSettings
from unlit.data.truth import Truth


def surface(seed: int, h: int = 6, w: int = 8) -> Tensor:
    return 0.1 + 0.8 * torch.rand(3, h, w, generator=torch.Generator().manual_seed(seed))


def light(seed: int, m: int = 2, h: int = 6, w: int = 8) -> Tensor:
    return 0.2 + torch.rand(m, 1, h, w, generator=torch.Generator().manual_seed(100 + seed))


def scenes(b: int = 3) -> tuple[Tensor, Tensor, tuple[Truth, ...]]:
    frames = torch.stack([surface(k) * light(k) for k in range(b)])
    mask = torch.ones(b, 2, 1, 6, 8, dtype=torch.bool)
    return frames, mask, tuple(Truth(surface(k)) for k in range(b))


def test_each_light_falls_on_the_partner_s_surface() -> None:
    frames, mask, truths = scenes()
    found, valid, known = exchanged(frames, mask, truths, [1, 2, 2])
    torch.testing.assert_close(found[0], surface(1) * light(0))
    torch.testing.assert_close(found[1], surface(2) * light(1))
    assert torch.equal(found[2], frames[2])
    assert valid.all()
    assert known[0] is not None
    torch.testing.assert_close(known[0].reflectance, surface(1))
    assert known[2] is truths[2]


def test_what_either_does_not_show_is_masked_and_black() -> None:
    frames, mask, _ = scenes(2)
    hole, other_hole = surface(0), surface(1)
    hole[:, 0, 0], other_hole[:, 5, 7] = 0, 0
    found, valid, known = exchanged(frames, mask, (Truth(hole), Truth(other_hole)), [1, 1])
    for row, column in ((0, 0), (5, 7)):
        assert not valid[0, :, :, row, column].any()
        assert not found[0, ..., row, column].any()
        assert known[0] is not None
        assert known[0].reflectance is not None
        assert not known[0].reflectance[:, row, column].any()
    assert valid.sum() == mask.sum() - 2 * 2
    assert torch.isfinite(found).all()


def test_what_was_masked_stays_masked_and_nothing_given_is_changed() -> None:
    frames, mask, truths = scenes(2)
    mask[0, :, :, 2, 3] = False
    before = frames.clone(), mask.clone()
    _, valid, _ = exchanged(frames, mask, truths, [1, 0])
    assert not valid[0, :, :, 2, 3].any()
    assert torch.equal(frames, before[0])
    assert torch.equal(mask, before[1])


@pytest.mark.parametrize("unknown", [0, 1])
def test_sequences_of_which_nothing_is_known_keep_their_surface_and_lend_it_to_none(unknown: int) -> None:
    frames, mask, truths = scenes(2)
    partial = tuple(None if k == unknown else truth for k, truth in enumerate(truths))
    found, _, known = exchanged(frames, mask, partial, [1, 0])
    assert torch.equal(found, frames)
    assert known == partial


def test_as_many_are_exchanged_as_asked_for_and_never_with_themselves() -> None:
    draws = [seeded(k) for k in range(400)]
    partners = drawn_partners(draws, 0.3)
    moved = [k for k, partner in enumerate(partners) if partner != k]
    assert 80 < len(moved) < 160
    assert drawn_partners(draws[:50], 0.0) == list(range(50))
    assert all(k != p for k, p in enumerate(drawn_partners(draws[:50], 1.0)))
    assert drawn_partners(draws[:1], 1.0) == [0]


def test_a_batch_has_the_surfaces_of_others_under_its_own_lights() -> None:
    items = []
    for k in range(2):
        sequence = Sequence(surface(k) * light(k), torch.ones(2, 1, 6, 8, dtype=torch.bool), f"scene{k}")
        items.append(Item(sequence, Truth(surface(k)), one_light=False))
    still = AugmentSettings(flip=False, rotation=0.0, crop=0, exchange=1.0)
    places = [torch.zeros(0, 2)] * 2
    batch = batch_of(items, [seeded(0), seeded(1)], places, DataSettings(frames=2), still, torch.device("cpu"))
    torch.testing.assert_close(batch.frames[0], (surface(1) * light(0)).clamp(0, 1))
    torch.testing.assert_close(batch.frames[1], (surface(0) * light(1)).clamp(0, 1))


def test_what_was_said_of_the_old_surface_goes_with_it() -> None:
    frames, mask, truths = scenes(2)
    said = Judgements(torch.rand(2, 2), torch.tensor([[0, 1]]), torch.tensor([1]), torch.ones(1))
    classes = torch.full((6, 8), 2, dtype=torch.uint8)
    more = {"shading": torch.rand(2, 3, 6, 8), "shading_valid": torch.ones(2, dtype=torch.bool)}
    judged = tuple(replace(truth, judgements=said, shading_classes=classes, **more) for truth in truths)
    _, _, known = exchanged(frames, mask, judged, [1, 1])
    assert known[0] is not None
    assert known[1] is not None
    assert known[0].judgements is None
    assert known[0].shading is None, "the light's color is lost"
    assert known[0].shading_classes is classes, "the light is the same"
    assert known[1].judgements is said
