"""How a file's numbers are encoded is known from the file, or asked for."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from OpenImageIO import ImageBuf, ImageBufAlgo

from tests.image_io.files import chunk, noise, png_bytes, write_raw
from unlit.color import srgb_to_linear
from unlit.image_io import ImageError, read_image
from unlit.image_io.color_space import CHROMATICITIES, color_space, identity, named_curve_and_chromaticities, row_blocks
from unlit.image_io.icc import srgb_profile

SRGB_CHUNK = chunk(b"sRGB", b"\0")
P3 = [0.3127, 0.3290, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06]


def by_opencolorio(values: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """The linear sRGB light of values in a space that OpenColorIO knows by this name."""
    return np.asarray(ImageBufAlgo.colorconvert(ImageBuf(values), name, "lin_rec709_scene").get_pixels(), np.float32)


def gamma_chunk(exponent: float) -> bytes:
    return chunk(b"gAMA", struct.pack(">I", round(exponent * 100_000)))


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_without_a_word_are_asked_about(tmp_path: Path, suffix: str, channels: int) -> None:
    values = noise(4, 4, channels, bits=16)
    path = tmp_path / f"a{suffix}"
    if suffix == ".png":
        path.write_bytes(png_bytes(values))
    else:
        write_raw(path, values, "uint16")
    with pytest.raises(ImageError, match='pass encoding="srgb" or encoding="linear"'):
        read_image(path)
    assert read_image(path, encoding="linear").pixels[0, 0, 0] == pytest.approx(values[0, 0, 0] / 65535)
    assert read_image(path, encoding="srgb").pixels[0, 0, 0] == pytest.approx(srgb_to_linear(values[0, 0, 0] / 65535))


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(
    ("chunks", "encoding", "power"),
    [
        ([SRGB_CHUNK], "srgb", None),
        ([SRGB_CHUNK, gamma_chunk(1)], "srgb", None),
        ([gamma_chunk(0.45455)], "srgb", None),
        ([gamma_chunk(1)], "linear", 1),
        ([gamma_chunk(1 / 1.8)], "srgb", 1.8),
        ([chunk(b"cICP", bytes([1, 8, 0, 1])), SRGB_CHUNK], "linear", 1),
        ([chunk(b"cICP", bytes([1, 13, 0, 1])), gamma_chunk(1)], "srgb", None),
    ],
)
def test_the_chunks_of_a_png_are_believed(
    tmp_path: Path, chunks: list[bytes], encoding: str, power: float | None, bits: int
) -> None:
    values = noise(8, 8, 3, bits=bits)
    (tmp_path / "a.png").write_bytes(png_bytes(values, *chunks))
    image = read_image(tmp_path / "a.png")
    stored = values / ((1 << bits) - 1)
    np.testing.assert_allclose(image.pixels, stored**power if power else srgb_to_linear(stored), atol=2e-5)
    assert (image.encoding, image.bits) == (encoding, bits)


def test_of_several_statements_the_most_exact_is_believed(tmp_path: Path) -> None:
    icc = chunk(b"iCCP", b"test\0\0" + zlib.compress(srgb_profile("srgb")))
    (tmp_path / "a.png").write_bytes(png_bytes(noise(4, 4, 3), icc, gamma_chunk(1)))
    assert read_image(tmp_path / "a.png").encoding == "srgb"
    (tmp_path / "a.png").write_bytes(png_bytes(noise(4, 4, 3), chunk(b"cICP", bytes([1, 8, 0, 1])), icc))
    assert read_image(tmp_path / "a.png").encoding == "linear"


def test_a_profile_that_cannot_be_unpacked_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.png").write_bytes(png_bytes(noise(4, 4, 3), chunk(b"iCCP", b"test\0\0not packed")))
    with pytest.raises(ImageError, match="ICC profile that is damaged"):
        read_image(tmp_path / "a.png")
    assert capfd.readouterr() == ("", "")


def test_the_primaries_of_a_png_are_believed(tmp_path: Path) -> None:
    values = noise(8, 8, 3, bits=16)
    chrm = chunk(b"cHRM", struct.pack(">8I", *(round(100_000 * c) for c in P3)))
    for name, chunks in {"cHRM": [gamma_chunk(1), chrm], "cICP": [chunk(b"cICP", bytes([12, 8, 0, 1]))]}.items():
        (tmp_path / "a.png").write_bytes(png_bytes(values, *chunks))
        wanted = by_opencolorio((values / 65535).astype(np.float32), "lin_p3d65_scene")
        np.testing.assert_allclose(read_image(tmp_path / "a.png").pixels, wanted, atol=2e-4, err_msg=name)


@pytest.mark.parametrize(("name", "encoding"), [("srgb_rec709_scene", "srgb"), ("lin_rec709_scene", "linear")])
@pytest.mark.parametrize("numbers", ["uint8", "uint16", "float"])
def test_a_jpeg_xl_says_its_encoding_without_a_profile(tmp_path: Path, name: str, encoding: str, numbers: str) -> None:
    values = np.random.default_rng(0).random((20, 20, 3), np.float32)
    image = read_image(write_raw(tmp_path / "a.jxl", values, numbers, oiio__ColorSpace=name))
    assert image.encoding == encoding
    wanted = values if encoding == "linear" else srgb_to_linear(values)
    np.testing.assert_allclose(image.pixels, wanted, atol=0.006 if numbers == "uint8" else 2e-5)


def test_the_callers_word_comes_before_the_files(tmp_path: Path) -> None:
    values = noise(8, 8, 3)
    (tmp_path / "a.png").write_bytes(png_bytes(values, SRGB_CHUNK))
    image = read_image(tmp_path / "a.png", encoding="linear")
    np.testing.assert_allclose(image.pixels, values / 255, atol=1e-6)
    assert image.encoding == "linear"


@pytest.mark.parametrize("content", [struct.pack(">I", 0), b""])
def test_a_gamma_of_zero_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(png_bytes(noise(4, 4, 3), chunk(b"gAMA", content)))
    with pytest.raises(ImageError, match="gAMA"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize(("curve", "name"), [(16, "PQ"), (18, "HLG")])
def test_the_curves_of_hdr_video_are_refused(tmp_path: Path, curve: int, name: str) -> None:
    (tmp_path / "a.png").write_bytes(png_bytes(noise(4, 4, 3, bits=16), chunk(b"cICP", bytes([9, curve, 0, 1]))))
    with pytest.raises(ImageError, match="color space"):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize(
    "name", ["lin_ap1_scene", "lin_ap0_scene", "lin_rec2020_scene", "lin_p3d65_scene", "srgb_p3d65_scene"]
)
def test_spaces_by_name_are_those_of_opencolorio(tmp_path: Path, name: str) -> None:
    values = np.random.default_rng(0).random((6, 6, 3), np.float32)
    path = write_raw(tmp_path / "a.exr", values, "float", oiio__ColorSpace=name)
    wanted = by_opencolorio(values, name)
    np.testing.assert_allclose(read_image(path).pixels, wanted, atol=2e-3)


def test_the_primaries_of_an_exr_are_believed(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((6, 6, 3), np.float32)
    path = write_raw(tmp_path / "a.exr", values, "float", chromaticities=CHROMATICITIES["ap1"])
    wanted = by_opencolorio(values, "ACEScg")
    np.testing.assert_allclose(read_image(path).pixels, wanted, atol=2e-3)


@pytest.mark.parametrize("primaries", [(0.3,) * 8, (0.0,) * 8, (0.64, 0.33, 0.3, 0.6, 0.15, 0.06, 0.3127, 0.0)])
def test_primaries_that_span_nothing_are_refused(tmp_path: Path, primaries: tuple[float, ...]) -> None:
    path = write_raw(tmp_path / "a.exr", np.ones((2, 2, 3), np.float32), "float", chromaticities=primaries)
    with pytest.raises(ImageError, match="span no color space"):
        read_image(path)
    assert read_image(path, encoding="linear").pixels.max() == 1


@pytest.mark.parametrize("primaries", CHROMATICITIES)
def test_white_is_white_in_every_space(primaries: str) -> None:
    space = color_space(identity, CHROMATICITIES[primaries])
    np.testing.assert_allclose(space.to_srgb @ np.ones(3), 1, atol=1e-3)


def test_names_that_are_no_curve_and_primaries_are_not_known() -> None:
    for name in ("", "srgb", "lin_nowhere_scene", "pq_rec2020_display", "lin_rec709_scene_and_more"):
        assert named_curve_and_chromaticities(name) is None
    named = named_curve_and_chromaticities("g18_rec709_scene")
    assert named is not None
    assert named[0](np.array(0.5)) == pytest.approx(0.5**1.8)


@pytest.mark.parametrize("shape", [(1, 1, 3), (7, 500_000, 3), (1000, 1000, 3), (3, 0, 3)])
def test_blocks_of_rows_cover_every_row_once(shape: tuple[int, int, int]) -> None:
    rows = np.zeros(shape[0], int)
    for block in row_blocks(shape):
        rows[block] += 1
    assert (rows == 1).all()
