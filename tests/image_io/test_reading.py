from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO
import PIL.Image
import PIL.ImageOps
import pytest
from numpy.typing import NDArray

from tests.image_io.files import noise, png_bytes, write_raw
from unlit.color import srgb_to_linear
from unlit.image_io import read_image


def light(values_u8: NDArray[Any]) -> NDArray[Any]:
    return srgb_to_linear(values_u8.astype(np.float64) / 255)


def assert_same(image: NDArray[Any], wanted: NDArray[Any], tolerance: float = 1e-6) -> None:
    np.testing.assert_allclose(image, np.broadcast_to(wanted, image.shape), atol=tolerance)


@pytest.mark.parametrize("suffix", [".png", ".tif", ".bmp", ".webp"])
def test_bytes_are_read_as_srgb(tmp_path: Path, suffix: str) -> None:
    values = noise(6, 5, 3)
    PIL.Image.fromarray(values).save(tmp_path / f"a{suffix}", lossless=True)
    image = read_image(tmp_path / f"a{suffix}")
    assert_same(image.pixels, light(values))
    assert image.pixels.dtype == np.float32
    assert image.alpha is None
    assert (image.encoding, image.bits) == ("srgb", 8)


@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg_is_read_as_another_library_reads_it(tmp_path: Path, progressive: bool) -> None:
    ramp = np.linspace(0, 255, 40 * 30 * 3).reshape(40, 30, 3).astype(np.uint8)
    PIL.Image.fromarray(ramp).save(tmp_path / "a.jpg", quality=95, progressive=progressive)
    values_srgb = np.asarray(PIL.Image.open(tmp_path / "a.jpg")).astype(float)
    assert np.abs(read_image(tmp_path / "a.jpg").pixels - light(values_srgb)).max() < 0.02


@pytest.mark.parametrize("channels", [1, 3])
def test_all_sixteen_bits_are_kept(tmp_path: Path, channels: int) -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256, 1).repeat(channels, axis=2)
    (tmp_path / "a.png").write_bytes(png_bytes(values))
    write_raw(tmp_path / "a.tif", values, "uint16")
    for name in ("a.png", "a.tif"):
        image = read_image(tmp_path / name, encoding="linear")
        assert_same(image.pixels, values / 65535, 1e-7)
        assert len(np.unique(image.pixels)) == 65536
        assert image.bits == 16


@pytest.mark.parametrize("suffix", [".png", ".tif", ".jpg"])
def test_gray_fills_three_equal_channels(tmp_path: Path, suffix: str) -> None:
    values = np.full((8, 8), 77, np.uint8)
    PIL.Image.fromarray(values).save(tmp_path / f"a{suffix}")
    assert_same(read_image(tmp_path / f"a{suffix}").pixels, light(values)[..., None])


def test_palettes_and_single_bits_become_colors(tmp_path: Path) -> None:
    colors = PIL.Image.fromarray(noise(9, 7, 3)).quantize(8)
    colors.save(tmp_path / "palette.png")
    assert_same(read_image(tmp_path / "palette.png").pixels, light(np.asarray(colors.convert("RGB"))))
    single = PIL.Image.fromarray(noise(9, 7) > 127)
    for name in ("single.png", "single.tif"):
        single.save(tmp_path / name)
        assert_same(read_image(tmp_path / name).pixels, np.asarray(single, float)[..., None])
    assert read_image(tmp_path / "single.tif").bits == 1


def test_white_is_zero_is_turned_over(tmp_path: Path) -> None:
    values = noise(5, 4)
    photometric_interpretation = 262
    PIL.Image.fromarray(values).save(
        tmp_path / "a.tif", tiffinfo={photometric_interpretation: 0}
    )  # Pillow turns it over
    assert_same(read_image(tmp_path / "a.tif").pixels, light(values)[..., None])


@pytest.mark.parametrize(
    ("suffix", "mode"), [(".png", "RGBA"), (".png", "LA"), (".tif", "RGBA"), (".tif", "LA"), (".webp", "RGBA")]
)
def test_color_is_kept_where_alpha_is_zero(tmp_path: Path, suffix: str, mode: str) -> None:
    values = noise(8, 8, len(mode))
    values[:4, :, -1] = 0
    PIL.Image.fromarray(values, mode).save(tmp_path / f"a{suffix}", lossless=True, exact=True)
    image = read_image(tmp_path / f"a{suffix}")
    assert image.alpha is not None
    assert_same(image.pixels, light(values[..., :-1]))
    assert_same(image.alpha, values[..., -1] / 255)


def test_channels_between_color_and_alpha_are_passed_over(tmp_path: Path) -> None:
    values = np.array([[[10, 20, 30, 99, 255]]], np.uint8)
    image = read_image(write_raw(tmp_path / "a.tif", values, "uint8", ["R", "G", "B", "X", "A"]))
    assert_same(image.pixels, light(values[..., :3]))
    assert image.alpha is not None
    assert image.alpha.tolist() == [[1]]


def test_transparency_of_a_palette_is_alpha(tmp_path: Path) -> None:
    picture = PIL.Image.fromarray(np.array([[0, 1]], np.uint8), "P")
    picture.putpalette([255, 0, 0, 0, 255, 0])
    picture.save(tmp_path / "a.png", transparency=1)
    image = read_image(tmp_path / "a.png")
    assert image.alpha is not None
    assert image.alpha.tolist() == [[1, 0]]
    assert image.pixels.tolist() == [[[1, 0, 0], [0, 1, 0]]]


@pytest.mark.parametrize(("name", "numbers"), [("a.exr", "float"), ("a.tif", "uint8")])
def test_color_stored_multiplied_by_alpha_is_divided(tmp_path: Path, name: str, numbers: str) -> None:
    values = np.array([[[0.2, 0.1, 0.4, 0.5], [0.2, 0.1, 0.4, 0.0]]], np.float32)
    write_raw(tmp_path / name, values, numbers, list("RGBA"))
    image = read_image(tmp_path / name, encoding="linear")
    assert_same(image.pixels[0, 0], np.array([0.4, 0.2, 0.8]), 0.01)
    if name == "a.exr":
        assert_same(image.pixels[0, 1], values[0, 1, :3])  # light without cover stays as it is


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
def test_pictures_come_upright(tmp_path: Path, orientation: int, suffix: str) -> None:
    corners = np.zeros((16, 24, 3), np.uint8)
    corners[:8, :8], corners[:8, 16:], corners[8:, :8] = 250, 150, 60
    exif = PIL.Image.Exif()
    exif[0x112] = orientation
    PIL.Image.fromarray(corners).save(tmp_path / f"a{suffix}", exif=exif, lossless=True, quality=100)
    with PIL.Image.open(tmp_path / f"a{suffix}") as opened:
        upright = np.asarray(PIL.ImageOps.exif_transpose(opened).convert("RGB"))
    image = read_image(tmp_path / f"a{suffix}").pixels
    assert image.shape == upright.shape
    assert_same(image, light(upright), 0.05)


@pytest.mark.parametrize("suffix", [".gif", ".tif", ".webp", ".png"])
def test_the_first_of_several_pictures_is_read(tmp_path: Path, suffix: str) -> None:
    first, second = PIL.Image.new("RGB", (6, 6), (255, 0, 0)), PIL.Image.new("RGB", (6, 6), (0, 0, 255))
    first.save(tmp_path / f"a{suffix}", save_all=True, append_images=[second], lossless=True)
    assert_same(read_image(tmp_path / f"a{suffix}").pixels, np.array([1, 0, 0]))


@pytest.mark.parametrize(("suffix", "numbers"), [(".exr", "float"), (".exr", "half"), (".hdr", "float")])
def test_floats_are_linear_and_may_exceed_one(tmp_path: Path, suffix: str, numbers: str) -> None:
    values = np.random.default_rng(0).uniform(0, 40, (6, 5, 3)).astype(np.float32)
    image = read_image(write_raw(tmp_path / f"a{suffix}", values, numbers))
    assert image.encoding == "linear"
    assert image.bits == (16 if numbers == "half" else 32)
    assert np.abs(image.pixels - values).max() < (0.4 if suffix == ".hdr" else 0.02)


def test_negative_values_in_exr_are_kept(tmp_path: Path) -> None:
    values = np.array([[[-0.5, 0.0, 2.0]]], np.float32)
    assert_same(read_image(write_raw(tmp_path / "a.exr", values, "float")).pixels, values)


def test_a_layer_is_read_by_its_name(tmp_path: Path) -> None:
    names = ["R", "G", "B", "A", "Z", "reflectance.R", "reflectance.G", "reflectance.B", "shading.Y"]
    values = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 9)
    values[..., 3] = 1
    path = write_raw(tmp_path / "a.exr", values, "float", names)
    assert_same(read_image(path).pixels, np.array([1, 2, 3]))
    reflectance = read_image(path, layer="reflectance")
    assert_same(reflectance.pixels, np.array([6, 7, 8]))
    assert reflectance.alpha is None
    assert_same(read_image(path, layer="shading").pixels, np.array([9, 9, 9]))


def test_the_only_layer_needs_no_name(tmp_path: Path) -> None:
    names = ["View.Combined.B", "View.Combined.G", "View.Combined.R", "View.Depth.Z"]
    path = write_raw(tmp_path / "a.exr", np.array([[[3, 2, 1, 0]]], np.float32), "float", names)
    assert_same(read_image(path).pixels, np.array([1, 2, 3]))


@pytest.mark.parametrize("first_has_the_layer_too", [False, True])
def test_parts_of_an_exr_are_layers(tmp_path: Path, first_has_the_layer_too: bool) -> None:
    specs = tuple(OpenImageIO.ImageSpec(2, 2, 3, "float") for _ in range(2))
    for spec, name in zip(specs, ("main", "shading"), strict=True):
        spec["oiio:subimagename"] = name
    if first_has_the_layer_too:
        specs[0].channelnames = ["shading.Y", "Y", "Z"]
    file = OpenImageIO.ImageOutput.create("a.exr")
    assert file is not None
    path = str(tmp_path / "a.exr")
    assert file.open(path, specs)
    assert file.write_image(np.tile(np.array([1, 2, 3], np.float32), (2, 2, 1)))
    assert file.open(path, specs[1], "AppendSubimage")
    assert file.write_image(np.full((2, 2, 3), 7, np.float32))
    assert file.close()
    shading = read_image(path, layer="shading").pixels
    if first_has_the_layer_too:
        assert len(np.unique(shading)) == 1
        assert shading.max() < 7
    else:
        assert_same(read_image(path).pixels, np.array([1, 2, 3]))
        assert_same(shading, np.array(7))


def test_an_exr_of_luminance_alone_is_gray(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((3, 4, 1), np.float32)
    assert_same(read_image(write_raw(tmp_path / "a.exr", values, "float", ["Y"])).pixels, values)


def write_window(path: Path, values: NDArray[Any], x: int, y: int) -> Path:
    """Write an EXR whose display window is 5 x 9, with data from x, y on."""
    spec = OpenImageIO.ImageSpec(values.shape[1], values.shape[0], 3, "float")
    spec.x, spec.y, spec.full_x, spec.full_y, spec.full_width, spec.full_height = x, y, 0, 0, 5, 9
    file = OpenImageIO.ImageOutput.create(str(path))
    assert file is not None
    assert file.open(str(path), spec)
    assert file.write_image(values)
    assert file.close()
    return path


def test_what_an_exr_shows_is_its_display_window(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((4, 6, 3), np.float32)
    pixels = read_image(write_window(tmp_path / "a.exr", values, -2, 1)).pixels
    assert pixels.shape == (9, 5, 3)
    assert_same(pixels[1:5, :4], values[:, 2:])
    assert pixels.sum() == pytest.approx(values[:, 2:].sum(), rel=1e-5)
    for x, y in ((-20, 0), (0, 10), (6, 1)):
        assert read_image(write_window(tmp_path / "outside.exr", values, x, y)).pixels.sum() == 0


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 9, 3), (9, 1, 3)])
@pytest.mark.parametrize("suffix", [".png", ".tif", ".webp"])
def test_one_pixel_and_one_column_are_pictures(tmp_path: Path, shape: tuple[int, int, int], suffix: str) -> None:
    values = noise(*shape)
    PIL.Image.fromarray(values).save(tmp_path / f"a{suffix}", lossless=True)
    assert_same(read_image(tmp_path / f"a{suffix}").pixels, light(values))


def test_content_counts_and_not_the_suffix(tmp_path: Path) -> None:
    values = noise(4, 4, 3)
    for name in ("a.jpg", "a.exr", "a.txt", "a", "mit Öl und 画.png"):
        (tmp_path / name).write_bytes(png_bytes(values))
        assert_same(read_image(str(tmp_path / name)).pixels, light(values))


@pytest.mark.data
def test_the_mit_pictures_keep_their_sixteen_bits(shared_data: Path) -> None:
    path = shared_data / "mit-intrinsic" / "apple" / "diffuse.png"
    image = read_image(path, encoding="linear")
    assert (image.bits, image.encoding) == (16, "linear")
    assert len(np.unique(image.pixels)) > 256
