import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO
import PIL.Image
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tests.image_io.files import noise
from unlit.color import linear_to_srgb, srgb_to_linear
from unlit.image_io import WRITABLE_SUFFIXES, Encoding, ImageError, read_image, write_image

SIXTEEN_BITS = [".png", ".tif", ".tiff", ".jxl"]
INTEGERS = [(".png", 8), (".png", 16), (".tif", 8), (".tif", 16), (".webp", 8), (".jxl", 8), (".jxl", 16)]
FLOATS = [(".exr", 32), (".tif", 32)]
ENCODINGS: list[Encoding] = ["srgb", "linear"]


def picture(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).random(shape, np.float32)


@pytest.mark.parametrize("suffix", SIXTEEN_BITS)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("gray", [False, True])
def test_every_sixteen_bit_number_survives(tmp_path: Path, suffix: str, encoding: Encoding, gray: bool) -> None:
    codes = np.arange(65536).reshape(256, 256) / 65535
    codes = codes if gray else np.stack([codes, codes[::-1], codes.T], axis=-1)
    light = srgb_to_linear(codes) if encoding == "srgb" else codes
    write_image(tmp_path / f"a{suffix}", light, encoding=encoding, bits=16)
    image = read_image(tmp_path / f"a{suffix}")
    assert (image.encoding, image.bits) == (encoding, 16)
    back = linear_to_srgb(image.pixels.astype(float)) if encoding == "srgb" else image.pixels
    np.testing.assert_array_equal(
        np.rint(back * 65535), np.rint((codes[..., None] if gray else codes) * 65535) + 0 * back
    )


@pytest.mark.parametrize(("suffix", "bits"), INTEGERS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_integers_come_back_to_half_a_step(tmp_path: Path, suffix: str, bits: int, encoding: Encoding) -> None:
    light = picture(9, 7, 3)
    write_image(tmp_path / f"a{suffix}", light, encoding=encoding, bits=bits)
    image = read_image(tmp_path / f"a{suffix}")
    assert (image.encoding, image.bits, image.alpha) == (encoding, bits, None)
    encoded = linear_to_srgb if encoding == "srgb" else np.asarray
    steps = np.abs(encoded(image.pixels) - encoded(light)) * ((1 << bits) - 1)
    assert steps.max() <= 0.51


@pytest.mark.parametrize(("suffix", "bits"), FLOATS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_floats_come_back_beyond_one_and_below_zero(tmp_path: Path, suffix: str, bits: int, encoding: Encoding) -> None:
    light = picture(9, 7, 3) * 40 - 2
    write_image(tmp_path / f"a{suffix}", light, encoding=encoding, bits=bits)
    image = read_image(tmp_path / f"a{suffix}")
    assert (image.encoding, image.bits) == (encoding, bits)
    np.testing.assert_allclose(image.pixels, light, rtol=2e-6 if encoding == "srgb" else 0, atol=1e-6)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_half_floats_come_back_to_eleven_bits(tmp_path: Path, encoding: Encoding) -> None:
    light = picture(9, 7, 3) * 40
    write_image(tmp_path / "a.exr", light, encoding=encoding, bits=16)
    image = read_image(tmp_path / "a.exr")
    assert (image.encoding, image.bits) == (encoding, 16)
    np.testing.assert_allclose(image.pixels, light, rtol=2e-3)


def test_hdr_comes_back_to_its_shared_exponent(tmp_path: Path) -> None:
    light = picture(9, 40, 3) * 40
    light[0, 0] = -1, -5, 4
    write_image(tmp_path / "a.hdr", light)
    image = read_image(tmp_path / "a.hdr")
    assert image.encoding == "linear"
    assert np.abs(image.pixels - np.maximum(light, 0)).max() <= 40 / 128
    assert image.pixels[0, 0].tolist() == [0, 0, 4]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_jpeg_comes_back_nearly_and_says_its_encoding(tmp_path: Path, encoding: Encoding) -> None:
    light = np.linspace(0, 1, 64 * 64, dtype=np.float32).reshape(64, 64, 1).repeat(3, axis=2)
    write_image(tmp_path / "a.jpg", light, encoding=encoding)
    image = read_image(tmp_path / "a.jpg")
    assert image.encoding == encoding
    assert np.abs(image.pixels - light).max() < 0.05


@pytest.mark.parametrize("suffix", WRITABLE_SUFFIXES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 3), (1, 6), (6, 1, 3)])
def test_a_few_pixels_are_a_picture(tmp_path: Path, suffix: str, shape: tuple[int, ...]) -> None:
    light = np.full(shape, 0.5, np.float32)
    write_image(tmp_path / f"a{suffix}", light)
    image = read_image(tmp_path / f"a{suffix}").pixels
    assert image.shape == (*shape[:2], 3)
    assert np.abs(image - 0.5).max() < 0.02


@pytest.mark.parametrize("suffix", [".png", ".tif", ".exr"])
def test_gray_is_stored_in_one_channel(tmp_path: Path, suffix: str) -> None:
    write_image(tmp_path / f"a{suffix}", picture(5, 4), alpha=picture(5, 4))
    file = OpenImageIO.ImageInput.open(str(tmp_path / f"a{suffix}"))
    assert file is not None
    assert file.spec().channelnames == ("Y", "A")


@pytest.mark.parametrize(("suffix", "bits"), [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("gray", [False, True])
def test_alpha_comes_back_beside_the_color(tmp_path: Path, suffix: str, bits: int, gray: bool) -> None:
    light = picture(9, 7) if gray else picture(9, 7, 3)
    alpha = np.linspace(0.1, 1, 63, dtype=np.float32).reshape(9, 7)
    write_image(tmp_path / f"a{suffix}", light, bits=bits, alpha=alpha)
    image = read_image(tmp_path / f"a{suffix}")
    assert image.alpha is not None
    np.testing.assert_allclose(image.alpha, alpha, atol=0.51 / 255)
    wanted = light[..., None] if gray else light
    np.testing.assert_allclose(image.pixels, np.broadcast_to(wanted, image.pixels.shape), atol=0.005)


@pytest.mark.parametrize("suffix", [".png", ".tif", ".jxl"])
def test_color_under_alpha_of_zero_is_kept(tmp_path: Path, suffix: str) -> None:
    light = picture(9, 7, 3)
    write_image(tmp_path / f"a{suffix}", light, bits=16, alpha=np.zeros((9, 7)))
    np.testing.assert_allclose(read_image(tmp_path / f"a{suffix}").pixels, light, atol=3e-5)


def test_exr_stores_color_multiplied_by_alpha(tmp_path: Path) -> None:
    write_image(tmp_path / "a.exr", np.full((1, 1, 3), 0.8), alpha=np.full((1, 1), 0.25))
    file = OpenImageIO.ImageInput.open(str(tmp_path / "a.exr"))
    assert file is not None
    np.testing.assert_allclose(np.asarray(file.read_image()), [[[0.2, 0.2, 0.2, 0.25]]], rtol=1e-6)


def test_layers_come_back_by_name(tmp_path: Path) -> None:
    image, reflectance, shading = picture(5, 4, 3), picture(5, 4, 3) / 2, picture(5, 4) / 3
    write_image(tmp_path / "a.exr", image, layers={"reflectance": reflectance, "shading": shading})
    np.testing.assert_array_equal(read_image(tmp_path / "a.exr").pixels, image)
    np.testing.assert_array_equal(read_image(tmp_path / "a.exr", layer="reflectance").pixels, reflectance)
    np.testing.assert_array_equal(read_image(tmp_path / "a.exr", layer="shading").pixels[..., 1], shading)


@pytest.mark.parametrize("suffix", [".png", ".tif", ".jpg", ".webp"])
def test_other_programs_show_linear_files_right(tmp_path: Path, suffix: str) -> None:
    """A profile, or for PNG the gamma, tells them; Pillow hands both on."""
    write_image(tmp_path / f"a{suffix}", picture(8, 8, 3), encoding="linear", bits=8)
    with PIL.Image.open(tmp_path / f"a{suffix}") as opened:
        assert opened.info.get("gamma") == 1.0 or b"acsp" in opened.info["icc_profile"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(
    arrays(np.float32, st.tuples(st.integers(1, 5), st.integers(1, 5), st.just(3)), elements=st.floats(0, 1, width=32))
)
def test_any_picture_comes_back(tmp_path: Path, light: NDArray[np.float32]) -> None:
    write_image(tmp_path / "a.png", light, bits=16)
    encoded = linear_to_srgb(light)
    assert np.abs(linear_to_srgb(read_image(tmp_path / "a.png").pixels) - encoded).max() < 0.51 / 65535 + 1e-6


def test_numbers_outside_are_clipped_and_rounded_not_wrapped(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", np.array([[-0.5, 0.0, 1.0, 7.0, 0.6 / 255]]), encoding="linear")
    assert np.asarray(PIL.Image.open(tmp_path / "a.png")).tolist() == [[0, 0, 255, 255, 1]]


def refusal(path: Path, pixels: Any, **options: Any) -> str:
    with pytest.raises(ImageError) as caught:
        write_image(path, pixels, **options)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["a.gif", "a.xyz", "a", "a.psd"])
def test_a_suffix_that_cannot_be_written_is_refused_with_those_that_can(tmp_path: Path, name: str) -> None:
    assert ".exr" in refusal(tmp_path / name, picture(2, 2, 3))


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    light = picture(2, 2, 3)
    assert "bits=8" in refusal(tmp_path / "a.jpg", light, bits=16)
    assert "bits=8 or 16" in refusal(tmp_path / "a.png", light, bits=12)
    assert "alpha" in refusal(tmp_path / "a.jpg", light, alpha=light[..., 0])
    assert "linear by its format" in refusal(tmp_path / "a.hdr", light, encoding="srgb")
    assert "layers" in refusal(tmp_path / "a.png", light, layers={"b": light})
    assert "size" in refusal(tmp_path / "a.exr", light, layers={"b": picture(3, 3, 3)})
    assert "gamma" in refusal(tmp_path / "a.png", light, encoding="gamma")
    assert "bits=32" in refusal(tmp_path / "a.exr", 1e6 * light, bits=16)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_that_overflow_are_refused(tmp_path: Path, sign: int) -> None:
    for name, bits, value in [("a.exr", 32, 1e39), ("a.exr", 16, 65600.0), ("a.tif", 32, 1e39), ("a.exr", 16, 1e39)]:
        assert "largest" in refusal(tmp_path / name, np.full((4, 4, 3), sign * value), bits=bits)
    assert "largest" in refusal(tmp_path / "a.exr", picture(4, 4, 3), layers={"b": np.full((4, 4), sign * 1e39)})
    assert "largest" in refusal(tmp_path / "a.exr", picture(4, 4, 3), alpha=np.full((4, 4), sign * 1e39))
    assert list(tmp_path.iterdir()) == []


def test_the_largest_numbers_that_fit_come_back(tmp_path: Path) -> None:
    for name, bits, value in [("a.exr", 16, 65504.0), ("a.exr", 32, 3.4e38), ("a.hdr", 32, 1.7e38)]:
        write_image(tmp_path / name, np.full((4, 4, 3), value), bits=bits)
        np.testing.assert_allclose(read_image(tmp_path / name).pixels, value, rtol=0.01)
    assert "largest" in refusal(tmp_path / "a.hdr", np.full((4, 4, 3), 1.8e38))


def test_half_floats_reach_white_in_sixteen_bits(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", np.ones((2, 2, 3), np.float16), bits=16)
    assert read_image(tmp_path / "a.png").pixels.min() == 1


@pytest.mark.parametrize(
    ("pixels", "words"),
    [
        (np.zeros((2, 2, 4)), "shape"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.zeros(5), "shape"),
        (np.zeros((0, 5, 3)), "without any value"),
        (np.zeros((2, 2, 3), np.uint8), "uint8"),
        (np.full((2, 2, 3), np.nan), "NaN"),
        (np.full((2, 2, 3), np.inf), "NaN or infinite"),
    ],
)
def test_what_is_no_picture_is_refused(tmp_path: Path, pixels: NDArray[Any], words: str) -> None:
    assert words in refusal(tmp_path / "a.png", pixels)
    assert "alpha" in refusal(tmp_path / "a.png", np.zeros((2, 2, 3)), alpha=np.zeros((3, 3)))
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").touch()
    assert "is a folder" in refusal(tmp_path / "folder.png", picture(2, 2, 3))
    assert "folder does not exist" in refusal(tmp_path / "none" / "a.png", picture(2, 2, 3))
    assert "folder does not exist" in refusal(tmp_path / "file" / "a.png", picture(2, 2, 3))
    assert "cannot be written" in refusal(tmp_path / f"{'long' * 100}.png", picture(2, 2, 3))


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_image(tmp_path / "a.webp", picture(4, 4, 3))
    before = (tmp_path / "a.webp").read_bytes()
    too_wide_for_webp = np.zeros((1, 20_000, 3))
    assert "16383" in refusal(tmp_path / "a.webp", too_wide_for_webp)
    assert (tmp_path / "a.webp").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.webp"]


def test_a_failure_at_the_last_step_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    assert "No space left" in refusal(tmp_path / "a.png", picture(4, 4, 3))
    assert list(tmp_path.iterdir()) == []


def test_the_old_file_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"old" * 100_000)
    (tmp_path / "link").hardlink_to(tmp_path / "a.png")  # whoever has the old file open keeps it
    write_image(tmp_path / "a.png", srgb_to_linear(noise(4, 4, 3) / 255))
    assert (tmp_path / "link").read_bytes() == b"old" * 100_000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "link"]
    np.testing.assert_array_equal(np.asarray(PIL.Image.open(tmp_path / "a.png")), noise(4, 4, 3))


WRITE_NOISE = """
import os, resource, sys
import numpy as np
from unlit.image_io import ImageError, write_image
folder, limit, suffixes = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
for suffix in suffixes:
    try:
        write_image(folder + "/a" + suffix, np.random.default_rng(0).random((400, 400, 3)))
        print(suffix, "no error")
    except ImageError as error:
        assert "cannot be written" in str(error), error
        assert ("ulimit" if limit else "No space left on device") in str(error), error
    assert os.listdir(folder) == [], suffix
print("alive")
"""


def test_a_limit_on_the_size_of_files_is_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE_NOISE, str(tmp_path), "20000", *WRITABLE_SUFFIXES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("alive\n", "", 0)


@pytest.mark.parametrize("size", ["4k", "200k"])
def test_a_full_disk_is_an_error(tmp_path: Path, size: str) -> None:
    in_small_disk = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size="$0" tmpfs "$1" && shift && exec "$@"', size]
    try:
        subprocess.run([*in_small_disk, str(tmp_path), "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs leave to mount a small disk")
    program = [sys.executable, "-c", WRITE_NOISE, str(tmp_path), "0", *WRITABLE_SUFFIXES]
    done = subprocess.run([*in_small_disk, str(tmp_path), *program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("alive\n", "", 0)


@pytest.mark.parametrize("suffix", WRITABLE_SUFFIXES)
def test_a_disk_that_finds_itself_full_at_the_end_is_an_error(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert "No space left" in refusal(tmp_path / f"a{suffix}", picture(4, 4, 3))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have names of text only")
@pytest.mark.parametrize("suffix", WRITABLE_SUFFIXES)
def test_a_name_that_is_not_utf8_is_written_and_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / os.fsdecode(b"f\xe9" + suffix.encode())
    write_image(path, np.full((40, 40, 3), 0.5))
    assert [os.fsencode(p.name) for p in tmp_path.iterdir()] == [b"f\xe9" + suffix.encode()]
    np.testing.assert_allclose(read_image(path).pixels, 0.5, atol=0.01)


@pytest.mark.parametrize("name", ["a\0b.png", "a\ud800.png"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageError, match="in its name") as caught:
        write_image(tmp_path / name, picture(2, 2, 3))
    assert str(caught.value).isprintable()
