"""How PNG is packed: by what the picture is like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unlit.image_io import read_image, write_encoded
from unlit.image_io.format import PNG, TIFF, options

GRAIN = np.random.default_rng(0).integers(90, 110, (120, 160, 3), np.uint8)


def test_grain_is_packed_by_frequent_values_and_even_parts_by_what_is_repeated(tmp_path: Path) -> None:
    even = GRAIN.copy()
    even[:60] = 0  # a thing before black
    assert options(PNG, GRAIN)["compression"] == "huffman"
    assert options(PNG, even) == PNG.options
    for name, picture, largest in (("grain", GRAIN, 0.75), ("even", even, 0.45), ("black", 0 * GRAIN, 0.02)):
        path = tmp_path / f"{name}.png"
        write_encoded(path, picture, encoding="srgb")
        assert path.stat().st_size < largest * picture.nbytes
        np.testing.assert_array_equal(np.rint(255 * read_image(path, encoding="linear").pixels), picture)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 9, 4), (200, 1, 3), (3, 7, 1)])
def test_small_pictures_and_other_formats_have_options_too(shape: tuple[int, ...]) -> None:
    stored = np.zeros(shape, np.uint8)
    assert options(PNG, stored)["png:compressionLevel"] == 1
    assert options(PNG, stored.astype(np.uint16)) == PNG.options
    assert options(TIFF, stored) == TIFF.options
