from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from unlit.evaluate.resizing import resized


@pytest.mark.parametrize("before", [(7, 9), (1, 5), (1, 1), (12, 3)])
@pytest.mark.parametrize("after", [(7, 9), (14, 4), (1, 1), (3, 20)])
def test_resizing_is_that_of_torch(before: tuple[int, int], after: tuple[int, int]) -> None:
    picture = np.random.default_rng(0).random((*before, 3))
    tensor = torch.from_numpy(picture).permute(2, 0, 1)[None]
    expected = interpolate(tensor, after, mode="bilinear", align_corners=False)[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(resized(picture, after), expected, atol=1e-12)
    np.testing.assert_allclose(resized(picture[..., 0], after), expected[..., 0], atol=1e-12)


def test_a_picture_of_the_right_size_is_left_as_it_is() -> None:
    picture = np.random.default_rng(0).random((4, 5, 3)).astype(np.float32)
    assert resized(picture, (4, 5)) is picture
    assert resized(picture, (8, 5)).dtype == np.float32
