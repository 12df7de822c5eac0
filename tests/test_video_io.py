from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.prepare.clips import write_video
from unlit.video_io import VideoError, VideoFrame, read_video, video_info

av = pytest.importorskip("av")


def flat(*colors: tuple[int, int, int], h: int = 48, w: int = 64) -> list[np.ndarray]:
    return [np.broadcast_to(np.array(color, np.uint8), (h, w, 3)).copy() for color in colors]


def gradients(m: int, h: int = 48, w: int = 64) -> list[np.ndarray]:
    ramp = np.linspace(0, 200, w)[None, :, None] + np.linspace(0, 40, h)[:, None, None]
    return [np.asarray(ramp * (k + 1) / m + np.array([5, 10, 0]), np.uint8) for k in range(m)]


def test_frames_come_one_by_one_in_order_with_their_colors(tmp_path: Path) -> None:
    frames = flat((250, 20, 20), (20, 250, 20), (20, 20, 250))
    path = write_video(tmp_path / "a.mp4", frames)
    found = list(read_video(path))
    assert [frame.index for frame in found] == [0, 1, 2]
    for frame, wanted in zip(found, frames, strict=True):
        assert np.abs(frame.pixels_srgb.astype(int) - wanted).max() <= 4
    info = video_info(path)
    assert (info.width, info.height, info.frames, info.bits) == (64, 48, 3, 8)


def test_times_are_those_of_the_file_at_a_rate_that_varies(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mkv", gradients(4), times=[0, 10, 15, 90])
    assert [frame.time for frame in read_video(path)] == pytest.approx([0, 0.1, 0.15, 0.9])


def test_only_the_wanted_frames_are_given(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", gradients(9))
    everything = list(read_video(path))
    some = list(read_video(path, only={2, 5}, end=6))
    assert [frame.index for frame in some] == [2, 5]
    np.testing.assert_array_equal(some[1].pixels_srgb, everything[5].pixels_srgb)


def test_small_copies_are_means_over_areas(tmp_path: Path) -> None:
    checks = np.kron(np.indices((24, 32)).sum(0) % 2, np.ones((2, 2)))[..., None] * np.array([200, 200, 200])
    path = write_video(tmp_path / "a.mp4", [checks.astype(np.uint8)] * 2)
    small = next(iter(read_video(path, longest=16))).pixels_srgb
    assert small.shape == (12, 16, 3)
    assert np.abs(small.astype(int) - 100).max() <= 8


def test_ten_bits_stay_more_than_eight(tmp_path: Path) -> None:
    ramp = np.broadcast_to(np.linspace(0, 65535, 256)[None, :, None], (64, 256, 3)).astype(np.uint16)
    path = write_video(tmp_path / "a.mkv", [ramp] * 3, codec="libx265", pix_fmt="yuv444p10le", options={"crf": "0"})
    pixels = next(iter(read_video(path))).pixels_srgb
    assert pixels.dtype == np.uint16
    assert video_info(path).bits == 10
    assert np.abs(pixels.astype(float) - ramp).mean() < 65535 / 500
    assert next(iter(read_video(path, longest=32))).pixels_srgb.dtype == np.uint8


@pytest.mark.parametrize(("turn", "matrix"), [(1, (0, 1, -1, 0)), (2, (-1, 0, 0, -1)), (3, (0, -1, 1, 0))])
def test_frames_are_upright(tmp_path: Path, turn: int, matrix: tuple[int, ...]) -> None:
    """The matrix of an MP4's track header, in 16.16 numbers, says how to turn what is stored, here clockwise."""
    path = write_video(tmp_path / "a.mp4", gradients(2))
    stored = next(iter(read_video(path))).pixels_srgb
    data = bytearray(path.read_bytes())
    place = data.index(b"tkhd") + 4 + 40  # version, times, id, duration, layer, volume: then the matrix
    a, b, c, d = (value << 16 for value in matrix)
    data[place : place + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)
    upright = next(iter(read_video(path))).pixels_srgb
    np.testing.assert_array_equal(upright, np.rot90(stored, -turn))


def test_a_video_that_is_cut_short_gives_its_frames_and_then_says_so(tmp_path: Path) -> None:
    noise = [np.random.default_rng(k).integers(0, 255, (48, 64, 3)).astype(np.uint8) for k in range(40)]
    path = write_video(tmp_path / "a.mkv", noise)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    frames: list[VideoFrame] = []
    with pytest.raises(VideoError, match=r"a\.mkv: is (damaged or )?cut short"):
        frames.extend(read_video(path))
    assert 5 < len(frames) < 35


def test_an_mp4_that_states_more_frames_than_it_has_is_cut_short(tmp_path: Path) -> None:
    noise = [np.random.default_rng(k).integers(0, 255, (48, 64, 3)).astype(np.uint8) for k in range(40)]
    path = write_video(tmp_path / "a.mp4", noise, container_options={"movflags": "faststart"})
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(VideoError, match="cut short"):
        list(read_video(path))


def sound_only(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.int16), format="s16", layout="mono")
        frame.rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def test_what_is_no_video_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").write_bytes(b"")
    (tmp_path / "text.mp4").write_text("not a video")
    cases = {
        "empty.mp4": "is empty",
        "text.mp4": "is not a video",
        "missing.mp4": "cannot be opened",
        sound_only(tmp_path / "sound.wav").name: "has no pictures, only sound",
    }
    for name, wrong in cases.items():
        with pytest.raises(VideoError, match=wrong) as caught:
            list(read_video(tmp_path / name))
        assert str(caught.value).startswith(str(tmp_path / name))
        assert "\n" not in str(caught.value)
        assert "; " in str(caught.value), "a remedy follows"


def test_curves_for_bright_screens_are_refused(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mkv", gradients(2), color_trc=16)
    with pytest.raises(VideoError, match=r"encoded for bright screens \(PQ\)"):
        list(read_video(path))


def test_without_pyav_the_message_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['av'] = None\n"
        "from unlit.video_io import read_video\n"
        "try: list(read_video('a.mp4'))\n"
        "except ValueError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'unlit[video]'" in said
