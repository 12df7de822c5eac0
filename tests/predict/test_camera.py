from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from numpy.typing import NDArray

from unlit.color import linear_to_srgb
from unlit.image_io import ImageError
from unlit.image_io.icc import srgb_profile
from unlit.predict.predictor import Predictor
from unlit.predict.source import opened


def words_of(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    words: NDArray[np.uint8] = np.rint(255 * linear_to_srgb(image)).astype(np.uint8)
    return words


@pytest.mark.parametrize("suffix", [".heic", ".HEIF"])
def test_heif_is_read_and_decomposed(
    suffix: str, predictor: Predictor, image: NDArray[np.float32], tmp_path: Path
) -> None:
    heif = pytest.importorskip("pillow_heif", reason="needs the extra raw")
    path = tmp_path / f"phone{suffix}"
    heif.from_pillow(PIL.Image.fromarray(words_of(image))).save(path, quality=-1, chroma=444)
    found = predictor.decompose(path)
    assert found.image.shape == image.shape
    assert np.abs(linear_to_srgb(found.image) - words_of(image) / 255).mean() < 0.01


def test_heif_s_profile_and_alpha_are_obeyed(image: NDArray[np.float32], tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif", reason="needs the extra raw")
    words = np.dstack([words_of(image), np.full(image.shape[:2], 128, np.uint8)])
    picture = PIL.Image.fromarray(words)
    file = heif.from_pillow(picture)
    file.info["icc_profile"] = srgb_profile("linear", gray=False)  # so that the same bytes are other light
    file.save(tmp_path / "a.heic", quality=-1, chroma=444)
    found = opened(tmp_path / "a.heic")
    assert np.abs(found.pixels - words[..., :3] / 255).mean() < 0.01
    assert found.alpha is not None
    np.testing.assert_allclose(found.alpha, 128 / 255, atol=0.01)


def test_damaged_camera_files_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("pillow_heif", reason="needs the extra raw")
    pytest.importorskip("rawpy", reason="needs the extra raw")
    for name in ("a.heic", "b.dng", "c.nef"):
        (tmp_path / name).write_bytes(b"nothing of the kind" * 20)
        with pytest.raises(ImageError, match=name):
            opened(tmp_path / name)
    (tmp_path / "folder.dng").mkdir()
    with pytest.raises(ImageError, match="is no file"):
        opened(tmp_path / "folder.dng")


def write_dng(path: Path, mosaic: NDArray[np.uint16]) -> None:
    """Write the least that is a DNG: one uncompressed RGGB mosaic of 16 bits, white balance 1, sRGB's own primaries."""
    h, w = mosaic.shape
    to_camera = np.linalg.inv([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    rationals = b"".join(struct.pack("<ii", round(10_000 * v), 10_000) for v in to_camera.flatten())
    neutral = b"".join(struct.pack("<II", 1, 1) for _ in range(3))
    short, long, byte, text, rational, signed = 3, 4, 1, 2, 5, 10
    tags: list[tuple[int, int, int, bytes]] = [
        (254, long, 1, struct.pack("<I", 0)),
        (256, long, 1, struct.pack("<I", w)),
        (257, long, 1, struct.pack("<I", h)),
        (258, short, 1, struct.pack("<HH", 16, 0)),
        (259, short, 1, struct.pack("<HH", 1, 0)),
        (262, short, 1, struct.pack("<HH", 32803, 0)),
        (271, text, 6, b"unlit\0"),
        (272, text, 6, b"tests\0"),
        (273, long, 1, b"DATA"),
        (274, short, 1, struct.pack("<HH", 1, 0)),
        (277, short, 1, struct.pack("<HH", 1, 0)),
        (278, long, 1, struct.pack("<I", h)),
        (279, long, 1, struct.pack("<I", mosaic.nbytes)),
        (33421, short, 2, struct.pack("<HH", 2, 2)),
        (33422, byte, 4, bytes([0, 1, 1, 2])),
        (50706, byte, 4, bytes([1, 4, 0, 0])),
        (50714, short, 1, struct.pack("<HH", 0, 0)),
        (50717, long, 1, struct.pack("<I", 65535)),
        (50721, signed, 9, rationals),
        (50728, rational, 3, neutral),
        (50778, short, 1, struct.pack("<HH", 21, 0)),
    ]
    after = 8 + 2 + 12 * len(tags) + 4
    longer = b"".join(content for *_, content in tags if len(content) > 4)
    data_at = after + len(longer)
    entries, place = b"", after
    for tag, kind, count, content in tags:
        value = struct.pack("<I", data_at) if content == b"DATA" else content
        if len(content) > 4:
            value, place = struct.pack("<I", place), place + len(content)
        entries += struct.pack("<HHI", tag, kind, count) + value.ljust(4, b"\0")
    head = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + struct.pack("<I", 0)
    path.write_bytes(head + longer + mosaic.tobytes())


def test_raw_is_developed_to_linear_light(predictor: Predictor, tmp_path: Path) -> None:
    """Of a flat gray mosaic: half of white stays half of white, without a curve and without brightening."""
    pytest.importorskip("rawpy", reason="needs the extra raw")
    mosaic = np.full((120, 160), 32768, np.uint16)
    mosaic[:, 80:] = 16384
    write_dng(tmp_path / "a.dng", mosaic)
    found = predictor.decompose(tmp_path / "a.dng")
    left, right = found.image[20:-20, 20:60].mean((0, 1)), found.image[20:-20, 100:140].mean((0, 1))
    np.testing.assert_allclose(left / right, 2, rtol=0.02)
    np.testing.assert_allclose(left, left.mean(), rtol=0.05)
    assert 0.3 < left.mean() < 0.7
    np.testing.assert_allclose(found.recompose(), found.image, rtol=1e-5, atol=1e-9)
