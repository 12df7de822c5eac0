"""Profiles are checked against LittleCMS, which Pillow carries."""

import io
import zlib
from pathlib import Path

import numpy as np
import OpenImageIO
import PIL.Image
import PIL.ImageCms
import pytest

from tests.image_io.files import (
    chunk,
    noise,
    parametric_curve,
    png_bytes,
    power_curve,
    profile,
    rgb_profile,
    table_curve,
)
from unlit.color import linear_to_srgb, srgb_to_linear
from unlit.image_io import ImageError, read_image
from unlit.image_io.icc import parse_icc, srgb_profile

# As published by their makers, XYZ relative to D50.
ADOBE_RGB = [(0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457)]
DISPLAY_P3 = [(0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407)]
SRGB = [(0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410)]
SRGB_CURVE = parametric_curve(3, 2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
RAMP = np.linspace(0, 1, 1024)

PROFILES = {
    "Adobe RGB": rgb_profile(ADOBE_RGB, power_curve(2.19921875)),
    "Display P3": rgb_profile(DISPLAY_P3, SRGB_CURVE),
    "sRGB": rgb_profile(SRGB, SRGB_CURVE),
    "sRGB as a table": rgb_profile(SRGB, table_curve(srgb_to_linear(RAMP))),
    "linear": rgb_profile(SRGB, b"curv" + bytes(8)),
    "linear P3": rgb_profile(DISPLAY_P3, parametric_curve(0, 1.0)),
    "a curve for each channel": rgb_profile(ADOBE_RGB, power_curve(1.8), power_curve(2.2), table_curve(RAMP**2.6)),
    "parametric 1": rgb_profile(SRGB, parametric_curve(1, 2.2, 1.1, -0.1)),
    "parametric 2": rgb_profile(SRGB, parametric_curve(2, 2.2, 0.9, -0.05, 0.1)),
    "parametric 4": rgb_profile(SRGB, parametric_curve(4, 2.0, 0.9, 0.1, 0.3, 0.1, -0.02, 0.005)),
    "written for sRGB": srgb_profile("srgb"),
    "written for linear": srgb_profile("linear"),
}


def by_littlecms(picture: PIL.Image.Image, icc: bytes) -> np.ndarray:
    """The picture converted to sRGB (relative colorimetric), as bytes; not through sampled curves, which are coarse."""
    intent = PIL.ImageCms.Intent.RELATIVE_COLORIMETRIC
    srgb = PIL.ImageCms.createProfile("sRGB")
    flags = PIL.ImageCms.Flags.NOOPTIMIZE
    converted = PIL.ImageCms.profileToProfile(picture, io.BytesIO(icc), srgb, intent, outputMode="RGB", flags=flags)
    assert converted is not None
    return np.asarray(converted).astype(int)


@pytest.mark.parametrize("suffix", [".png", ".tif", ".webp", ".jpg"])
@pytest.mark.parametrize("name", PROFILES)
def test_profiles_are_converted_as_littlecms_does(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    PIL.Image.fromarray(noise(32, 32, 3)).save(path, icc_profile=PROFILES[name], lossless=True, quality=95)
    with PIL.Image.open(path) as picture:
        theirs = by_littlecms(picture, PROFILES[name])
    ours = np.rint(255 * np.clip(linear_to_srgb(read_image(path).pixels), 0, 1)).astype(int)
    assert np.abs(ours - theirs).max() <= 1


@pytest.mark.parametrize(
    "icc",
    [srgb_profile("srgb", gray=True), srgb_profile("linear", gray=True), profile(b"GRAY", {b"kTRC": power_curve(1.8)})],
)
def test_gray_profiles_are_converted_as_littlecms_does(tmp_path: Path, icc: bytes) -> None:
    picture = PIL.Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    picture.save(tmp_path / "a.tif", icc_profile=icc)
    ours = np.rint(255 * linear_to_srgb(read_image(tmp_path / "a.tif").pixels)).astype(int)
    assert np.abs(ours - by_littlecms(picture, icc)).max() <= 1


def test_sixteen_bits_with_a_profile_need_no_word_from_the_caller(tmp_path: Path) -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(128, 128, 4)[..., :3]
    for encoding in ("srgb", "linear"):
        iccp = chunk(b"iCCP", b"test\0\0" + zlib.compress(srgb_profile(encoding)))
        (tmp_path / "a.png").write_bytes(png_bytes(np.ascontiguousarray(values), iccp))
        image = read_image(tmp_path / "a.png")
        assert image.encoding == encoding
        straight = values / 65535 if encoding == "linear" else srgb_to_linear(values / 65535)
        np.testing.assert_allclose(image.pixels, straight, atol=1e-7)


def test_rounding_in_a_profile_leaves_srgb_exact() -> None:
    space = parse_icc(PROFILES["sRGB as a table"])
    np.testing.assert_array_equal(space.to_srgb, np.eye(3))
    np.testing.assert_array_equal(space.curves[0](RAMP), srgb_to_linear(RAMP))
    assert parse_icc(PROFILES["linear"]).is_linear


def test_a_linear_profile_keeps_floats_beyond_one(tmp_path: Path) -> None:
    values = np.array([[[-0.5, 2.0, 40.0]]], np.float32)
    spec = OpenImageIO.ImageSpec(1, 1, 3, "float")
    icc = srgb_profile("linear")
    spec.attribute("ICCProfile", OpenImageIO.TypeDesc(f"uint8[{len(icc)}]"), np.frombuffer(icc, np.uint8))
    file = OpenImageIO.ImageOutput.create("a.tif")
    assert file is not None
    assert file.open(str(tmp_path / "a.tif"), spec)
    assert file.write_image(values)
    assert file.close()
    file.geterror()
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif").pixels, values)


def test_white_stays_white_and_gray_stays_gray() -> None:
    for name, icc in PROFILES.items():
        white = parse_icc(icc).decoded(np.full((1, 1, 3), 255, np.uint8))
        if not name.startswith("parametric"):
            np.testing.assert_allclose(white, 1, atol=2e-3, err_msg=name)


BROKEN = {
    "junk": b"no profile " * 30,
    "empty": b"",
    "only a header": PROFILES["sRGB"][:128],
    "cut short": PROFILES["sRGB"][:400],
    "without curves": profile(b"RGB ", {}),
    "curve of unknown kind": rgb_profile(SRGB, b"what" + bytes(8)),
    "parametric of unknown kind": rgb_profile(SRGB, parametric_curve(9, 1.0)),
    "level": rgb_profile(SRGB, parametric_curve(1, 2.0, 0.0, 0.0)),
    "overflowing": rgb_profile(SRGB, parametric_curve(3, 30000.0, 30000.0, 0.0, 0.0, 0.0)),
    "table that is too short": rgb_profile(SRGB, b"curv" + bytes(4) + (9999).to_bytes(4, "big") + bytes(8)),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif"])
def test_a_damaged_profile_is_refused_unless_the_caller_knows(
    tmp_path: Path, name: str, suffix: str, capfd: pytest.CaptureFixture[str]
) -> None:
    if not BROKEN[name]:
        with pytest.raises(ValueError, match="damaged"):
            parse_icc(b"")
        return
    path = tmp_path / f"a{suffix}"
    PIL.Image.fromarray(noise(8, 8, 3)).save(path, icc_profile=BROKEN[name])
    with pytest.raises(ImageError, match=r"a\.\w+: has an ICC profile .*; .*encoding="):
        read_image(path)
    assert read_image(path, encoding="srgb").encoding == "srgb"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("icc", "words"),
    [
        (profile(b"RGB ", {b"A2B0": b"mft2" + bytes(60)}), "made of tables"),
        (profile(b"RGB ", {}, connection=b"Lab "), "made of tables"),
        (profile(b"CMYK", {}), "for CMYK"),
        (srgb_profile("srgb", gray=True), "for gray"),
    ],
)
def test_a_profile_of_another_kind_is_refused_by_its_kind(tmp_path: Path, icc: bytes, words: str) -> None:
    PIL.Image.fromarray(noise(8, 8, 3)).save(tmp_path / "a.tif", icc_profile=icc)
    with pytest.raises(ImageError, match=words):
        read_image(tmp_path / "a.tif")
