"""What a watched source comes to: shots, each a fixed view with the frames to keep, and why every other frame goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unlit.prepare.choosing import spread
from unlit.prepare.light import distances
from unlit.prepare.settings import PrepareSettings
from unlit.prepare.source import Source, SourceError
from unlit.prepare.view import MOVED, Seen, Watcher

if TYPE_CHECKING:
    pass

_MIN_FIXED = 0.5
"""The share of frames that must show views which stay; below it the camera is on the move, and pauses are no views."""


@dataclass(frozen=True)
class Shot:
    """A fixed view: all its frames, and those that are kept."""

    view: int
    cause: str
    """What came before it."""
    frames: tuple[Seen, ...]
    kept: tuple[Seen, ...]
    reasons: dict[int, str]
    """Why each of its other frames goes, by index."""

    def some_frames(self, most: int) -> list[Seen]:
        """Return the kept frames and, evenly among the others, about `most` of them."""
        kept = {seen.index for seen in self.kept}
        step = -(-len(self.frames) // most)
        return [seen for k, seen in enumerate(self.frames) if k % step == 0 or seen.index in kept]


def choose_shots(source: Source, watcher: Watcher, settings: PrepareSettings) -> tuple[list[Shot], dict[int, str]]:
    """Return the shots of a source, and for each frame of none of them the reason. SourceError where there is none."""
    by_view: dict[int, list[Seen]] = {}
    for seen in watcher.seen:
        if seen.view is not None:
            by_view.setdefault(seen.view, []).append(seen)
    reasons = {seen.index: seen.reason for seen in watcher.seen if seen.reason}
    fixed = {view: frames for view, frames in by_view.items() if len(frames) >= settings.min_frames}
    _check_fixed(source, watcher, fixed, settings)
    shots, too_alike = [], []
    for view, frames in by_view.items():
        if view not in fixed:
            reasons |= {seen.index: _why_not_fixed(watcher, view, fixed) for seen in frames}
            continue
        shot = _chosen(view, watcher.causes[view], frames, settings)
        if len(shot.kept) >= settings.min_frames:
            shots.append(shot)
            continue
        too_alike.append(f"{len(shot.kept)} different light(s) in {len(frames)} frames")
        reasons |= {seen.index: f"of a view whose light hardly changes: {too_alike[-1]}" for seen in frames}
    if not shots:
        remedy = f"{settings.min_frames} are needed: give a longer time, or lower --min-difference"
        raise SourceError(f"{source.place}: the light hardly changes ({'; '.join(too_alike[:3])}); {remedy}")
    return shots, reasons


def _why_not_fixed(watcher: Watcher, view: int, fixed: dict[int, list[Seen]]) -> str:
    cause = watcher.causes[view]
    if cause == "another size":
        size = next(seen.size for seen in watcher.seen if seen.view == view)
        usual = Counter(seen.size for frames in fixed.values() for seen in frames).most_common(1)[0][0]
        return f"has {size[1]} x {size[0]} pixels, most have {usual[1]} x {usual[0]}"
    return f"too few frames of its view ({cause})"


def _check_fixed(source: Source, watcher: Watcher, fixed: dict[int, list[Seen]], settings: PrepareSettings) -> None:
    """Refuse a source without a fixed view, saying what was measured."""
    usable = [seen for seen in watcher.seen if seen.view is not None]
    if len(usable) < settings.min_frames:
        dropped = Counter((seen.reason or "").split(" as ")[0] for seen in watcher.seen if seen.reason)
        why = "".join(f", {count} {reason}" for reason, count in dropped.most_common(3))
        wrong = f"has {len(watcher.seen)} frame(s){why}; {settings.min_frames} that show something are needed"
        raise SourceError(f"{source.place}: {wrong}: give more")
    if sum(len(frames) for frames in fixed.values()) >= _MIN_FIXED * len(usable):
        return
    views, sizes = len(watcher.causes), len({seen.size for seen in usable})
    moves = sum(cause.startswith(MOVED) for cause in watcher.causes.values())
    if sizes == views:  # one view at many sizes cannot be told from as many views
        wrong = f"its frames have {sizes} different sizes"
        raise SourceError(f"{source.place}: {wrong}; give frames of one view at one size")
    if moves < views - 1 - moves:  # most views do not continue an earlier one, so there is no motion to speak of
        wrong = f"{len(usable)} frames show {views} different views" + (f" at {sizes} sizes" if sizes > 1 else "")
        needed = f"{settings.min_frames} or more of one view, at one size, under light that changes"
        raise SourceError(f"{source.place}: {wrong}; give {needed}")
    raise SourceError(f"{source.place}: the view is not fixed: {_motion_in_words(watcher)}; use a tripod")


def _motion_in_words(watcher: Watcher) -> str:
    step = float(np.median(watcher.steps)) if watcher.steps else 0.0
    left, top, right, bottom = watcher.extent
    words = (
        f"it moves by {step:.1f} px from frame to frame (median), {np.hypot(right - left, bottom - top):.0f} px in all"
    )
    zooms = [cause for cause in watcher.causes.values() if "zoomed" in cause]
    return words + (f", and zooms in {len(zooms)} places" if zooms else "")


def _chosen(view: int, cause: str, frames: list[Seen], settings: PrepareSettings) -> Shot:
    """Return a view's shot: of frames under nearly one light only one is kept."""
    lights = np.stack([seen.light for seen in frames if seen.light is not None])
    taken, nearest = spread(lights, settings.max_frames, settings.min_difference)
    kept = [frames[k] for k in taken]
    reasons = {}
    for k, seen in enumerate(frames):
        if k not in taken:
            other = taken[nearest[k]]
            apart = float(distances(lights[k : k + 1], lights[other])[0])
            alike = "nearly the light" if apart <= settings.min_difference else "the nearest light"
            reasons[seen.index] = f"{frames[other].name} has {alike}"
    return Shot(view, cause, tuple(frames), tuple(sorted(kept, key=lambda seen: seen.index)), reasons)


def without_frames(shot: Shot, reasons: dict[int, str]) -> Shot:
    """Return the shot less some of the frames that were to be kept."""
    kept = tuple(seen for seen in shot.kept if seen.index not in reasons)
    return replace(shot, kept=kept, reasons={**shot.reasons, **reasons})


def runs(watcher: Watcher, reasons: dict[int, str]) -> list[dict[str, str]]:
    """Return the dropped frames with their reasons, in order; neighbors with the same reason as one entry."""
    entries: list[dict[str, str]] = []
    last = None
    for place, seen in enumerate(watcher.seen):
        reason = reasons.get(seen.index)
        if reason is None:
            continue
        if entries and entries[-1]["reason"] == reason and last == place - 1:
            entries[-1]["last"] = seen.name
        else:
            entries.append({"first": seen.name, "last": seen.name, "reason": reason})
        last = place
    return entries
