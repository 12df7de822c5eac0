from __future__ import annotations

from pathlib import Path

import pytest

from unlit.predict.files import find_jobs


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a.jpg", "a.png", "B.JPG", "clip.mp4", "raw.dng", "notes.txt", ".hidden.png", "a.shading.png",
                 "a.unlit.json", "deep/c.png", "deep/deeper/d.tif", ".git/e.png"):  # fmt: skip
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).touch()
    return tmp_path / "in"


def test_a_folder_is_its_photographs_and_videos_but_not_earlier_results(tree: Path) -> None:
    jobs, wrong = find_jobs([tree], Path("out"))
    assert not wrong
    assert {job.source.name: job.stem for job in jobs} == {
        "a.jpg": "a.jpg",
        "a.png": "a.png",
        "B.JPG": "B",
        "clip.mp4": "clip",
        "raw.dng": "raw",
    }
    assert [job.source.name for job in jobs if job.is_video] == ["clip.mp4"]


def test_folders_inside_keep_their_places(tree: Path) -> None:
    jobs, _ = find_jobs([tree], Path("out"), recursive=True)
    places = {job.source.name: job.folder for job in jobs}
    assert places["c.png"] == Path("out/deep")
    assert places["d.tif"] == Path("out/deep/deeper")
    assert "e.png" not in places


def test_results_below_the_photographs_are_not_taken_for_photographs(tree: Path) -> None:
    out = tree / "results"
    (out).mkdir()
    (out / "x.png").touch()
    jobs, _ = find_jobs([tree], out, recursive=True)
    assert "x.png" not in {job.source.name for job in jobs}


def test_what_gives_nothing_is_said_and_the_rest_is_found(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    jobs, wrong = find_jobs([tmp_path / "none.jpg", tmp_path / "empty", tree / "a.jpg"], Path("out"))
    assert [job.stem for job in jobs] == ["a"]
    assert ["none.jpg: does not exist" in str(wrong[0]), "no photographs" in str(wrong[1])] == [True, True]


def test_a_file_is_done_once_and_two_of_one_name_do_not_collide(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.jpg").touch()
    jobs, wrong = find_jobs([tree / "a.jpg", tree / "a.jpg", tmp_path / "other" / "a.jpg"], Path("out"))
    assert [job.source for job in jobs] == [tree / "a.jpg"]
    assert "has the name of" in str(wrong[0])
    named, _ = find_jobs([tree / "a.jpg", tree / "a.png"], Path("out"))
    assert [job.stem for job in named] == ["a.jpg", "a.png"]
