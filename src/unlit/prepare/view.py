"""Which view each frame of a source shows: one fixed view, several with cuts between them, or a camera on the move.

Frames are watched one after the other, in small copies, and none is kept: a view keeps two fields of orientations, the
`anchor`, a mean of its first frames, against which all motion is measured, and the `recent` one, a running mean that
goes along with the light, for frames whose light has too little in common with the anchor's (night). What is added to
either is moved into place first; else a slow drift would be learned instead of measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from unlit.prepare.light import descriptor, why_useless
from unlit.prepare.registration import Match, Motion, moved_back, orientation, packed, register
from unlit.prepare.settings import PrepareSettings
from unlit.prepare.source import SmallFrame

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unlit.prepare.registration import Field

SAME = 9.0
"""The height of a peak from which on two fields show one view (docs/trials-prepare.md has what real views gave)."""
SURE = 20.0
"""The height from which on no other view needs to be asked."""
MOVED = "the view"
"""How the cause of a view begins that is an earlier one, moved."""
_ANCHOR_FRAMES = 16
_LEARN_EVERY = 4
_RECENT_SHARE = 0.2
"""How much of the running mean a new frame becomes."""
_STILL = 0.05
"""Pixels of a small copy: less motion than this is not worth moving back."""
_MOST_VIEWS = 8
"""Views that are kept to compare with; a camera on the move makes a new one every few frames."""


@dataclass(frozen=True)
class Seen:
    """What is known of a frame after it was watched."""

    index: int
    name: str
    time: float | None
    size: tuple[int, int]
    view: int | None = None
    """The number of the view that it shows; None where it shows nothing."""
    motion: Motion = field(default_factory=Motion)
    """From the view's place to the frame's, in pixels of the frame itself."""
    light: NDArray[np.float32] | None = None
    reason: str | None = None
    """Why it is dropped, where that is known already."""


class View:
    """One view: its fields, and how it came to be."""

    def __init__(
        self, number: int, size: tuple[int, int], first: Field, cause: str, origin: tuple[float, float]
    ) -> None:
        self.number, self.size, self.cause, self.origin = number, size, cause, origin
        self.anchor, self.recent, self.count = first.copy(), first.copy(), 1

    def match(self, frame_field: Field) -> tuple[Match, bool]:
        """Return how a frame lies to this view, and whether that is sure by the anchor."""
        match = register(self.anchor, frame_field)
        if match.height >= SURE:
            return match, True
        if self.count > 1:
            match = max(match, register(self.recent, frame_field), key=lambda m: m.height)
        return match, False

    @property
    def is_learning(self) -> bool:
        """Whether the last frame is one to learn from: all of the first, some of the others, to save time."""
        return self.count <= _ANCHOR_FRAMES or self.count % _LEARN_EVERY == 0

    def learn(self, in_place: Field) -> None:
        """Learn from a frame of this view that was moved into place."""
        if self.count <= _ANCHOR_FRAMES:
            self.anchor += (in_place - self.anchor) / self.count
        self.recent += (in_place - self.recent) * max(_RECENT_SHARE, 1 / self.count)


class Watcher:
    """Watches the frames of a source, in order, and says which view each shows."""

    def __init__(self, settings: PrepareSettings) -> None:
        self._settings = settings
        self._views: list[View] = []
        self._by_content: dict[int, str] = {}
        self.causes: dict[int, str] = {}
        """For each view, what came before it: a cut, a move, another size."""
        self.seen: list[Seen] = []
        self.steps: list[float] = []
        """By how many pixels the view moved from each frame to the next, where that could be measured."""
        self._forgotten: dict[int, NDArray[np.int8]] = {}
        self.extent = [np.inf, np.inf, -np.inf, -np.inf]
        self._position: tuple[float, float] | None = None

    def watch(self, frame: SmallFrame) -> Seen:
        """Look at the next frame."""
        seen = Seen(frame.index, frame.name, frame.time, frame.size)
        reason = self._useless(frame)
        seen = replace(seen, reason=reason) if reason else self._placed(seen, frame.pixels_u8)
        self.seen.append(seen)
        return seen

    def packed_field(self, view: int) -> NDArray[np.int8]:
        """Return a view's anchor in bytes (2, h, w), to know the view again elsewhere."""
        kept = [known for known in self._views if known.number == view]
        return packed(kept[0].anchor) if kept else self._forgotten[view]

    def _useless(self, frame: SmallFrame) -> str | None:
        """Return why a frame is not worth a look, or None."""
        if min(frame.pixels_u8.shape[:2]) < 16:
            return "too small: a frame needs 16 pixels a side"
        reason = why_useless(frame.pixels_u8)
        if reason:
            return reason
        content = hash(frame.pixels_u8.tobytes())
        first = self._by_content.setdefault(content, frame.name)
        return None if first == frame.name else f"the same picture as {first}"

    def _placed(self, seen: Seen, pixels_u8: NDArray[np.uint8]) -> Seen:
        """Return the frame with its view, a new one where none fits."""
        frame_field = orientation(pixels_u8)
        scale = max(seen.size) / max(pixels_u8.shape[:2])
        view, match, cause = self._found(seen.size, frame_field)
        if view is None:
            origin = self._origin(match, cause)
            view = View(len(self.causes), seen.size, frame_field, cause, origin)
            self.causes[view.number] = cause
            motion = Motion()
        else:
            motion = match.motion if match else Motion()
            view.count += 1
            if view.is_learning:
                still = motion.farthest(*pixels_u8.shape[:2]) < _STILL
                view.learn(frame_field if still else orientation(moved_back(pixels_u8, motion)))
        self._follow(view, motion, scale)
        return replace(seen, view=view.number, motion=motion.scaled(scale), light=descriptor(pixels_u8))

    def _found(self, size: tuple[int, int], frame_field: Field) -> tuple[View | None, Match | None, str]:
        """Return the view that fits best, and the match; or none, the nearest match and what must have happened."""
        best: tuple[View, Match] | None = None  # the surest, but for one whose own first frames are like this one
        moved: Match | None = None
        alike = [view for view in self._views if view.anchor.shape == frame_field.shape and view.size == size]
        for view in alike:  # the one seen last comes first
            match, is_anchored = view.match(frame_field)
            if match.height < SAME:
                continue
            if not self._is_small(match.motion, frame_field.shape):
                moved = moved or match
                continue
            if best is None or is_anchored or match.height > best[1].height:
                best = view, match
            if is_anchored:  # else a view that went along with the light to this one's day would keep it
                break
        if best is not None:
            return *best, ""
        if moved is not None:
            return None, moved, _move_in_words(moved.motion, max(size) / max(frame_field.shape))
        cause = "the first view" if not self._views else "another view, after a cut" if alike else "another size"
        return None, None, cause

    def _is_small(self, motion: Motion, shape: tuple[int, ...]) -> bool:
        """Return whether a motion is one to be moved back."""
        most = self._settings
        return (
            np.hypot(motion.dx, motion.dy) <= most.max_shift * max(shape)
            and abs(np.degrees(motion.turn)) <= most.max_turn
            and max(motion.zoom, 1 / motion.zoom) <= most.max_zoom
        )

    def _origin(self, match: Match | None, cause: str) -> tuple[float, float]:
        """Return where a new view lies to the first one, as far as it was followed; a cut begins anew."""
        if match is None or not self._views:
            self._position = None
            return 0.0, 0.0
        before = self._views[0].origin
        return before[0] + match.motion.dx, before[1] + match.motion.dy

    def _follow(self, view: View, motion: Motion, scale: float) -> None:
        """Note how far the view has moved since the frame before."""
        if view in self._views:
            self._views.remove(view)
        self._views.insert(0, view)
        if len(self._views) > _MOST_VIEWS:
            forgotten = min(self._views[1:], key=lambda v: v.count)
            self._views.remove(forgotten)
            if forgotten.count >= self._settings.min_frames:
                self._forgotten[forgotten.number] = packed(forgotten.anchor)
        x, y = scale * (view.origin[0] + motion.dx), scale * (view.origin[1] + motion.dy)
        if self._position is not None:
            self.steps.append(float(np.hypot(x - self._position[0], y - self._position[1])))
        self._position = x, y
        low, high = self.extent[:2], self.extent[2:]
        self.extent = [min(low[0], x), min(low[1], y), max(high[0], x), max(high[1], y)]


def _move_in_words(motion: Motion, scale: float) -> str:
    shift = scale * float(np.hypot(motion.dx, motion.dy))
    parts = [f"moved by {shift:.0f} px"]
    if abs(np.degrees(motion.turn)) > 0.5:
        parts.append(f"turned by {np.degrees(motion.turn):.1f} degrees")
    if abs(motion.zoom - 1) > 0.01:
        parts.append(f"zoomed by {motion.zoom:.3f}")
    return f"{MOVED} {', '.join(parts)}"
