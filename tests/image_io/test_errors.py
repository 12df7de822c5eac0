"""What cannot be read is refused in one line that names the file and the remedy, and nothing is printed."""

import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO
import PIL.Image
import pytest

from tests.image_io.files import chunk, ihdr, noise, png_bytes, write_raw
from unlit.image_io import ImageError, check_image, read_image, reading, write_image
from unlit.image_io.color_space import CHROMATICITIES
from unlit.image_io.header import read_header
from unlit.image_io.icc import srgb_profile


def refusal(path: Path, **options: object) -> str:
    """The message with which `path` is refused."""
    with pytest.raises(ImageError) as caught:
        read_image(path, **options)  # type: ignore[arg-type]  # options of several types, as each test needs
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert "; " in message
    return message


def write_some(path: Path) -> Path:
    """A picture of 60 x 40 pixels, of which no format makes little."""
    write_image(path, noise(40, 60, 3) / 255)
    return path


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none.png")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    assert "is a folder" in refusal(tmp_path / "folder.png")


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.exr", "a"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert "is empty" in refusal(tmp_path / name)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.exr", "a.hdr", "a.webp", "a.jxl", "a.txt", "a"])
def test_what_is_not_a_picture_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Dear diary, today I took no picture.\n" * 20)
    assert "not a picture" in refusal(tmp_path / name)


@pytest.mark.parametrize("part", [0.02, 0.3, 0.7, 0.9])
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".exr", ".hdr", ".webp", ".jxl"])
def test_a_file_cut_short_is_refused(
    tmp_path: Path, suffix: str, part: float, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = write_some(tmp_path / f"whole{suffix}").read_bytes()
    (tmp_path / f"cut{suffix}").write_bytes(whole[: int(part * len(whole))])
    assert re.search("cut short|not a picture", refusal(tmp_path / f"cut{suffix}"))
    assert capfd.readouterr() == ("", "")


def test_a_damaged_png_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = bytearray(png_bytes(noise(40, 60, 3)))
    whole[len(whole) // 2] ^= 0xFF
    (tmp_path / "a.png").write_bytes(whole)
    assert "damaged" in refusal(tmp_path / "a.png")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("size", [(0, 5), (5, 0)])
def test_a_png_without_pixels_is_refused(
    tmp_path: Path, size: tuple[int, int], capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + ihdr(*size) + chunk(b"IDAT") + chunk(b"IEND"))
    assert "no pixels" in refusal(tmp_path / "a.png")
    assert capfd.readouterr() == ("", "")


def test_a_damaged_exr_is_refused_and_quoted_in_one_line(tmp_path: Path) -> None:
    whole = write_some(tmp_path / "a.exr").read_bytes()
    (tmp_path / "a.exr").write_bytes(whole.replace(b"lineOrder\0lineOrder", b"lineOrder\0li\x1b\n\xc0rder"))
    message = refusal(tmp_path / "a.exr")
    assert "damaged" in message
    assert message.isprintable()
    (tmp_path / "a.exr").write_bytes(whole.replace(b"chlist", b"chli\xcdt"))
    with pytest.raises(ImageError, match=r"a\.exr: is damaged"):
        check_image(tmp_path / "a.exr")


def test_a_jpeg_without_pixels_is_refused(tmp_path: Path) -> None:
    whole = bytearray(write_some(tmp_path / "a.jpg").read_bytes())
    start_of_frame = whole.index(b"\xff\xc0")
    whole[start_of_frame + 5 : start_of_frame + 9] = bytes(4)
    (tmp_path / "a.jpg").write_bytes(whole)
    assert "not a picture, or is damaged" in refusal(tmp_path / "a.jpg")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["a.exr", "a.tif"])
def test_values_that_are_no_numbers_are_refused_with_their_place(tmp_path: Path, name: str, bad: float) -> None:
    values = np.ones((4, 5, 3), np.float32)
    values[2, 3, 1] = bad
    assert "row 2, column 3" in refusal(write_raw(tmp_path / name, values, "float"))


def test_no_number_in_a_layer_that_is_not_read_does_no_harm(tmp_path: Path) -> None:
    values = np.array([[[1, 2, 3, np.nan]]], np.float32)
    assert read_image(write_raw(tmp_path / "a.exr", values, "float", ["R", "G", "B", "Z"])).pixels.sum() == 6


HUGE = [
    ("a.exr", (1e30, 1e30, 1e30, 1e-20), {}, {}),
    ("a.tif", (1e20, 1e20, 1e20), {"ICCProfile": srgb_profile("srgb")}, {}),
    ("a.exr", (3e38, 3e38, 3e38), {"chromaticities": CHROMATICITIES["ap0"]}, {}),
    ("a.exr", (1e20, 1e20, 1e20), {}, {"encoding": "srgb"}),
]


@pytest.mark.parametrize(("name", "pixel", "fields", "options"), HUGE)
def test_numbers_too_large_to_convert_are_refused_with_their_place(
    tmp_path: Path, name: str, pixel: tuple[float, ...], fields: dict[str, Any], options: dict[str, Any]
) -> None:
    values = np.ones((400, 300, len(pixel)), np.float32)
    values[390, 3] = pixel
    path = write_raw(tmp_path / name, values, "float", list("RGBA"[: len(pixel)]), **fields)
    message = refusal(path, **options)
    assert "too large to convert" in message
    assert "row 390, column 3" in message


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".exr", ".hdr", ".webp", ".jxl"])
def test_the_limit_of_pixels_holds_and_can_be_raised(tmp_path: Path, suffix: str) -> None:
    path = write_some(tmp_path / f"a{suffix}")
    assert "60 x 40 pixels, more than the limit of 2,399" in refusal(path, max_pixels=2399)
    assert read_image(path, max_pixels=2400).pixels.shape == (40, 60, 3)


def test_the_windows_of_an_exr_count_too(tmp_path: Path) -> None:
    whole = bytearray(write_some(tmp_path / "a.exr").read_bytes())
    display = whole.index(b"displayWindow\0box2i\0") + len(b"displayWindow\0box2i\0") + 4
    whole[display : display + 16] = struct.pack("<4i", 0, 0, 49_999, 49_999)
    (tmp_path / "a.exr").write_bytes(whole)
    assert "50000 x 50000 pixels" in refusal(tmp_path / "a.exr")


@pytest.mark.parametrize("side", [30_000, 1_000_000, 2**31 - 1])
def test_a_small_file_that_claims_to_be_huge_is_refused(tmp_path: Path, side: int) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + ihdr(side, side) + chunk(b"IDAT") + chunk(b"IEND"))
    assert f"{side} x {side} pixels" in refusal(tmp_path / "a.png")
    (tmp_path / "a.gif").write_bytes(b"GIF89a" + struct.pack("<HH", 65535, 65535) + bytes(20))
    assert "65535 x 65535 pixels" in refusal(tmp_path / "a.gif")


def test_a_bomb_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    blank = np.zeros((2500, 2500), np.float32)
    for name in ("a.jxl", "a.png", "a.webp", "a.tif"):
        write_image(tmp_path / name, blank)
    program = (
        "import sys, resource\nfrom unlit.image_io import *\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\nbefore = peak()\n"
        "for path in sys.argv[1:]:\n    try:\n        read_image(path, max_pixels=6_249_999)\n        sys.exit(path)\n"
        "    except ImageError:\n        pass\n"
        "assert peak() - before < 12_000, peak() - before\n"
    )
    names = [str(tmp_path / name) for name in ("a.jxl", "a.png", "a.webp", "a.tif")]
    subprocess.run([sys.executable, "-c", program, *names], check=True)


def test_a_chunk_that_claims_to_be_huge_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + struct.pack(">I4s", 2**32 - 1, b"IHDR") + bytes(100))
    program = (
        "import sys, resource\nfrom unlit.image_io.header import *\nfrom pathlib import Path\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "try:\n    read_header(Path(sys.argv[1]))\nexcept DamagedFileError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "a.png")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "cut short\n"
    assert "cut short" in refusal(tmp_path / "a.png")


@pytest.mark.parametrize("step", ["_checked_header", "_raw_values"])
def test_a_lack_of_memory_is_an_error_of_the_picture(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(reading, step, fail)
    assert "too large for the memory" in refusal(write_some(tmp_path / "a.png"))


def test_a_decoder_that_cannot_start_is_an_error_of_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("Resource temporarily unavailable")

    monkeypatch.setattr(OpenImageIO.ImageInput, "read_image", fail)
    assert "temporarily unavailable" in refusal(write_some(tmp_path / "a.tif"))


@pytest.mark.parametrize("name", ["a\0b.png", "a\ud800.png", "long" * 100 + ".png", os.fsdecode(b"f\xe9.png")])
def test_a_strange_name_is_refused_in_printable_words(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageError) as caught:
        read_image(tmp_path / name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "size", [(1, 1), (8, 8), (256, 8), (40, 40), (7, 9), (600, 500), (1600, 900), (9000, 3), (30, 20)]
)
def test_the_size_of_a_jpeg_xl_is_known_before_it_is_unpacked(tmp_path: Path, size: tuple[int, int]) -> None:
    width, height = size
    write_image(tmp_path / "a.jxl", np.zeros((height, width, 3), np.float32))
    contained = read_header(tmp_path / "a.jxl")
    assert (contained.width, contained.height) == size
    whole = (tmp_path / "a.jxl").read_bytes()
    (tmp_path / "bare.jxl").write_bytes(whole[whole.index(b"\xff\x0a") :])
    assert read_header(tmp_path / "bare.jxl") == contained


def box(kind: bytes, content: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack(">I", 8 + len(content) if length is None else length) + kind + content


def test_boxes_of_any_length_may_precede_a_jpeg_xl(tmp_path: Path) -> None:
    write_image(tmp_path / "a.jxl", np.zeros((20, 30, 3), np.float32))
    whole = (tmp_path / "a.jxl").read_bytes()
    codestream = whole[whole.index(b"\xff\x0a") :]
    start = box(b"JXL ", b"\r\n\x87\n") + box(b"ftyp", b"jxl \0\0\0\0jxl ")
    long_box = box(b"xml ", struct.pack(">Q", 16 + 50) + bytes(50), length=1)
    for last in (box(b"jxlc", codestream), box(b"jxlp", b"\0\0\0\0" + codestream)):
        (tmp_path / "b.jxl").write_bytes(start + long_box + last)
        header = read_header(tmp_path / "b.jxl")
        assert (header.width, header.height) == (30, 20)
    for end in (b"", box(b"xml ", length=0), box(b"xml ", struct.pack(">Q", 3), length=1)):
        (tmp_path / "b.jxl").write_bytes(start + end)
        assert re.search("cut short|damaged", refusal(tmp_path / "b.jxl"))


def test_a_deep_picture_is_refused(tmp_path: Path) -> None:
    spec = OpenImageIO.ImageSpec(1, 1, 4, "float")
    spec.deep = True
    data = OpenImageIO.DeepData()
    data.init(1, 4, (OpenImageIO.TypeDesc("float"),) * 4, list("RGBA"))
    data.set_samples(0, 1)
    file = OpenImageIO.ImageOutput.create("a.exr")
    assert file is not None
    assert file.open(str(tmp_path / "a.exr"), spec)
    assert file.write_deep_image(data)
    assert file.close()
    assert "flatten" in refusal(tmp_path / "a.exr")


@pytest.mark.parametrize(("mode", "name"), [("CMYK", "a.jpg"), ("CMYK", "a.tif"), ("LAB", "a.tif")])
def test_color_models_of_print_are_refused(tmp_path: Path, mode: str, name: str) -> None:
    PIL.Image.new("RGB", (8, 8), (9, 99, 199)).convert(mode).save(tmp_path / name)
    assert "convert it to RGB" in refusal(tmp_path / name)


def test_channels_that_are_no_color_are_refused_by_name(tmp_path: Path) -> None:
    assert "Z" in refusal(write_raw(tmp_path / "a.exr", np.ones((2, 2, 1), np.float32), "float", ["Z"]))


def test_a_layer_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    names = ["shading.Y", "reflectance.R", "reflectance.G", "reflectance.B"]
    path = write_raw(tmp_path / "a.exr", np.ones((2, 2, 4), np.float32), "float", names)
    assert "reflectance, shading" in refusal(path)
    assert "reflectance, shading" in refusal(path, layer="albedo")
    (tmp_path / "a.png").write_bytes(png_bytes(noise(2, 2, 3)))
    assert "no layers" in refusal(tmp_path / "a.png", layer="shading")


def test_an_unknown_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png_bytes(noise(2, 2, 3)))
    assert "gamma" in refusal(tmp_path / "a.png", encoding="gamma")


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "loop.png"
    path.symlink_to(path)
    assert "does not exist" in refusal(path)


def test_nothing_is_left_to_be_printed_at_exit(tmp_path: Path) -> None:
    write_some(tmp_path / "a.tif")
    (tmp_path / "bad.png").write_text("no picture")
    shutil.copy(tmp_path / "a.tif", tmp_path / "b.png")
    program = (
        "import sys\nfrom unlit.image_io import *\n"
        "for path in sys.argv[1:]:\n    try:\n"
        "        write_image(path + '.tif', read_image(path).pixels, encoding='linear')\n"
        "    except ImageError:\n        pass\n"
    )
    names = [str(tmp_path / name) for name in ("a.tif", "bad.png", "b.png")]
    done = subprocess.run([sys.executable, "-c", program, *names], check=True, capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert len(list(tmp_path.glob("*.tif"))) == 3
