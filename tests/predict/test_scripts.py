"""The scripts about photographs still run, on little."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.test_scripts import run
from unlit.image_io import read_image
from unlit.video_writing import VideoWriter


def test_the_demo_splits_the_coffee_and_says_where(tmp_path: Path, weights: Path) -> None:
    said = run("examples/demo_photo.py", "--out", tmp_path, "--weights", weights)
    assert str(tmp_path / "sheet.png") in said
    assert read_image(tmp_path / "sheet.png").pixels.shape == (400, 2400, 3)
    for name in ("coffee.reflectance.png", "coffee.shading.png", "coffee.unlit.json", "coffee.repainted.png"):
        assert (tmp_path / name).exists()
    photo, repainted = np.split(read_image(tmp_path / "sheet.png").pixels, 4, axis=1)[::3]
    np.testing.assert_allclose(repainted[:60], photo[:60], atol=1e-2)  # the wall and the table keep their color
    assert np.abs(repainted[250:350, 100:300] - photo[250:350, 100:300]).mean() > 0.02  # the saucer does not


def test_a_sheet_has_photograph_reflectance_and_shading_of_each(tmp_path: Path, weights: Path) -> None:
    names = ("--names", "coffee", "stereo_motorcycle", "brick")
    said = run("examples/photo_sheet.py", "--out", tmp_path / "sheet.png", "--weights", weights, *names)
    assert said.startswith("3 photographs")
    sheet = read_image(tmp_path / "sheet.png").pixels
    coffee, brick = round(210 * 400 / 600), 210
    assert sheet.shape == (6 + coffee + 6 + brick + 6, 6 + 2 * 636, 3)
    assert (sheet[:6] == 1).all()
    assert (sheet[coffee + 20 :, 642:] == 1).all()  # the second column has the motorcycle alone
    gray = sheet[coffee + 18 : coffee + 200, 10:630]
    np.testing.assert_allclose(gray, gray[..., :1].repeat(3, -1), atol=0.02)


def test_the_photograph_benchmark_reports_networks_files_and_folders(tmp_path: Path, weights: Path) -> None:
    small = ("--photos", 2, "--megapixels", 1, "--calls", 2, "--weights", weights)
    run("benchmarks/photo.py", *small, "--json", tmp_path / "r.json")
    rows = {row["what"]: row for row in json.loads((tmp_path / "r.json").read_text())["rows"]}
    paper, own = rows["paper's network, float32"], rows["this network, auto"]
    assert own["times"] == paper["median_ms"] / own["median_ms"]
    assert rows["1 megapixels, file to files"]["memory_mb"] > 100
    folder = rows["2 photographs of 512 pixels"]
    assert folder["per_second"] == 2 / folder["seconds"]


def test_the_steadiness_of_a_video_is_reported(tmp_path: Path, weights: Path) -> None:
    still = np.random.default_rng(0).random((40, 60, 3)) * 100
    with VideoWriter(tmp_path / "a.mkv") as out:
        for k in range(4):
            out.write((still + 100 + 20 * (k % 2)).astype(np.uint8), k / 25)
    run("benchmarks/steady.py", "--video", tmp_path / "a.mkv", "--weights", weights, "--json", tmp_path / "r.json")
    rows = {row["what"]: row for row in json.loads((tmp_path / "r.json").read_text())["rows"]}
    assert rows["frames"]["pairs"] == 3
    assert rows["frames"]["over_frames"] == 1
    steady, alone = rows["reflectance, steadied"], rows["reflectance, frame by frame"]
    assert 0 < steady["over_frames"] < alone["over_frames"]
    assert steady["over_frames"] == steady["change"] / rows["frames"]["change"]
