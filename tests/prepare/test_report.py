"""The report's pictures, by what can be told of them without eyes."""

from __future__ import annotations

import numpy as np

from unlit.prepare.drawing import curves, thumbnail
from unlit.prepare.report import _sheet as sheet_of
from unlit.prepare.report import page


def test_a_thumbnail_is_the_mean_of_the_light_and_keeps_the_shape() -> None:
    frame = np.zeros((120, 160, 3), np.uint8)
    frame[:, ::2] = 255
    small = thumbnail(frame, 40)
    assert small.shape == (30, 40, 3)
    assert (small == 188).all(), "half of the light, encoded"


def test_what_is_small_already_stays() -> None:
    frame = np.full((30, 40, 3), 7, np.uint8)
    assert thumbnail(frame, 152) is frame


def test_sheets_of_wide_frames_have_fewer_and_wider_pictures() -> None:
    usual = sheet_of([np.zeros((480, 640, 3), np.uint8)] * 16, (8, 152))
    wide = sheet_of([np.zeros((100, 1200, 3), np.uint8)] * 6, (8, 152))
    assert usual.shape[:2] == (2 * 114 + 4, 8 * 156 - 4)
    assert wide.shape[1] == 3 * 416 - 4
    assert wide.shape[0] == 2 * 34 + 4


def test_a_plot_shows_its_zero_and_its_range() -> None:
    drawn = curves([np.array([0.0, 2.0]), np.array([-1.0, 0.0])], ("x", "y"), "shift")
    for text in (">0.0</text>", ">2.0</text>", ">-1.0</text>", "<figcaption>shift</figcaption>"):
        assert text in drawn


def test_where_nothing_was_wrong_nothing_is_said_of_it() -> None:
    source = {"name": "<v>", "sequences": ["v"], "frames": [9, 5], "refused": None, "warnings": []}
    assert "what was wrong" not in page("t", [source], [], {})
    wrong = page("t", [{**source, "refused": "a < b"}], [], {})
    assert "what was wrong" in wrong
    assert "a &lt; b" in wrong
    assert "&lt;v&gt;" in wrong
