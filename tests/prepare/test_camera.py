from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prepare.clips import clip, write_folder
from tests.prepare.test_collection import run, stated
from unlit.prepare.camera import cameras, splits
from unlit.prepare.registration import orientation, packed

SIZE = (72, 96)


def fields(**frames: np.ndarray) -> dict[str, np.ndarray]:
    return {name: packed(orientation(frame)) for name, frame in frames.items()}


def test_sources_that_show_one_view_have_one_camera() -> None:
    monday, tuesday, elsewhere = clip(6, SIZE, seed=1)[1], clip(6, SIZE, seed=1)[4], clip(6, SIZE, seed=2)[1]
    own = {"monday": "monday", "tuesday": "tuesday", "elsewhere": "elsewhere"}
    found = cameras(list(own), own, fields(monday=monday, tuesday=tuesday, elsewhere=elsewhere), {})
    assert found == {"monday": "monday", "tuesday": "monday", "elsewhere": "elsewhere"}


def test_sequences_of_one_source_have_one_camera_whatever_they_show() -> None:
    frames = fields(a=clip(1, SIZE, seed=1)[0], b=clip(1, SIZE, seed=2)[0])
    found = cameras(["a", "b"], {"a": "film", "b": "film"}, frames, {})
    assert set(found.values()) == {"film"}


def test_a_camera_keeps_the_name_and_the_split_it_had() -> None:
    own = {"a": "a", "b": "b"}
    assert cameras(["a", "b"], own, {}, {"b": "roof"}) == {"a": "a", "b": "roof"}
    assert splits({"a": "a", "b": "roof"}, {"roof": "test"}, validation=0, test=0)["b"] == "test"


@given(st.integers(1, 40), st.floats(0, 0.5), st.floats(0, 0.5))
def test_shares_are_met_as_well_as_whole_cameras_allow(n: int, validation: float, test: float) -> None:
    names = {f"s{k}": f"c{k}" for k in range(n)}
    counts = Counter(splits(names, {}, validation=validation, test=test).values())
    for split, share in (("validation", validation), ("test", test)):
        assert abs(counts[split] - share * n) <= 1


@given(st.integers(2, 12), st.integers(1, 12))
def test_new_cameras_move_no_old_one(old: int, new: int) -> None:
    before = splits({f"s{k}": f"c{k}" for k in range(old)}, {}, validation=0.3, test=0.2)
    known = {f"c{name[1:]}": split for name, split in before.items()}
    after = splits({f"s{k}": f"c{k}" for k in range(old + new)}, known, validation=0.3, test=0.2)
    assert {name: after[name] for name in before} == before


def test_by_default_all_is_for_training() -> None:
    assert set(splits({"a": "a", "b": "b"}, {}, validation=0, test=0).values()) == {"train"}


def test_two_days_of_one_webcam_are_never_on_both_sides(tmp_path: Path) -> None:
    day = clip(12, SIZE, seed=3)
    write_folder(tmp_path / "monday", day[:6])
    write_folder(tmp_path / "tuesday", day[6:])
    write_folder(tmp_path / "elsewhere", clip(6, SIZE, seed=4))
    places = [tmp_path / name for name in ("monday", "tuesday", "elsewhere")]
    options = ("--out", tmp_path / "set", "--workers", 1, "--validation", 0.5)
    assert run(*places, *options) == 0
    split = {one["name"]: one["split"] for one in stated(tmp_path / "set")["sequences"]}
    assert split["monday"] == split["tuesday"] != split["elsewhere"]


@pytest.mark.parametrize(("validation", "test"), [(0.7, 0.6), (-0.1, 0), (0, 2)])
def test_shares_that_cannot_be_are_refused(tmp_path: Path, validation: float, test: float) -> None:
    assert run("--out", tmp_path / "set", "--validation", validation, "--test", test) == 2
    assert not (tmp_path / "set").exists()
