"""The report page of a dataset: one HTML file that carries all its pictures, so that it can be sent to anyone.

A source's section is made when the source is prepared and kept; the page is put together from all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from unlit.masks.overlay import COLORS, overlay
from unlit.prepare.drawing import GAP, curves, image_tag, scatter, sheet, thumbnail
from unlit.prepare.light import principal_plane

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unlit.prepare.placing import Placed
    from unlit.prepare.shot import Shot
    from unlit.prepare.view import Watcher

_SHEET = (8, 152)
"""Frames side by side, and the width of each; fewer and wider ones where frames are wide."""
_OVERLAY = (3, 306)
_DRAWN = 2000
"""Frames of a long video that plots show, besides those kept."""
_OVERLAYS = 3
"""Frames that show a kind of mask: those of which it leaves out most, little, and in between."""

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; background: #fff; max-width: 1264px; margin: 24px auto;
  padding: 0 16px }
h1 { font-size: 24px } h3 { font-size: 15px }
h2 { font-size: 19px; margin: 40px 0 4px; border-top: 1px solid #ccc; padding-top: 16px }
table { border-collapse: collapse; margin: 8px 0 }
td, th { text-align: left; padding: 2px 14px 2px 0; vertical-align: top }
.number { text-align: right; font-variant-numeric: tabular-nums }
img { max-width: 100%; height: auto; display: block }
figure { display: inline-block; margin: 8px 24px 8px 0; vertical-align: top }
figcaption { font-size: 13px; color: #555; max-width: 300px }
figure p { margin: 4px 0 }
svg { background: #f6f6f4 } text { font-size: 11px; fill: #555 } .axis { stroke: #bbb; stroke-width: 1 }
polyline { fill: none; stroke-width: 1.5 }
.other { fill: #bbb } .chosen { fill: #1b6ca8; stroke: #fff }
.line0 { stroke: #1b6ca8 } .line1 { stroke: #c2410c } .name0 { fill: #1b6ca8 } .name1 { fill: #c2410c }
.kind { display: inline-block; width: 12px; height: 12px; margin-right: 6px }
.refused { color: #a11 } .note { color: #555 }
"""


@dataclass
class Page:
    """Sections of one source, one for each of its sequences."""

    sections: list[str] = field(default_factory=list)

    def html(self) -> str:
        """Return them as one."""
        return "\n".join(self.sections)


def sequence_section(
    name: str,
    watcher: Watcher,
    shot: Shot,
    placed: Placed,
    masks: Mapping[str, NDArray[np.bool_]],
    dropped: Sequence[Mapping[str, str]],
) -> str:
    """Return what the report says of a sequence."""
    h, w = placed.frames_u8.shape[1:3]
    kept = {seen.index for seen in shot.kept}
    drawn = shot.some_frames(_DRAWN)
    chosen = np.array([seen.index in kept for seen in drawn])
    lights = np.stack([seen.light for seen in drawn if seen.light is not None])
    shifts = [np.array([getattr(seen.motion, axis) for seen in drawn]) for axis in ("dx", "dy")]
    facts = f"{len(kept)} of {len(shot.frames)} frames of this view are kept, {w} x {h} pixels"
    if len(watcher.causes) > 1:
        facts += f"; it begins with {shot.cause}"
    return "\n".join(
        [
            f'<h2 id="{escape(name)}">{escape(name)}</h2><p class="note">{escape(facts)}</p>',
            image_tag(_sheet(placed.frames_u8, _SHEET), f"the frames of {escape(name)}"),
            scatter(
                principal_plane(lights), chosen, "lights of all frames; the nearer, the more alike; those kept are blue"
            ),
            curves(
                shifts,
                ("to the right", "down"),
                "shift in pixels, frame by frame, before it was taken out",
            ),
            _masks(placed.frames_u8, masks),
            _dropped(watcher, dropped),
        ]
    )


def _masks(frames_u8: NDArray[np.uint8], masks: Mapping[str, NDArray[np.bool_]]) -> str:
    """Return overlays of all kinds together and of each, and how much it leaves out."""
    intro = "Each row shows three frames: those of which most, a middling amount and least is left out."
    parts = [f'<h3>Masks</h3><p class="note">{intro}</p>']
    if masks:
        parts.append(_overlays(frames_u8, "all kinds together", "", masks))
    for kind, left_out in masks.items():
        swatch = f'<span class="kind" style="background: rgb{COLORS[kind]}"></span>'
        parts.append(_overlays(frames_u8, kind, swatch, {kind: left_out}))
    return "\n".join(parts)


def _overlays(frames_u8: NDArray[np.uint8], label: str, swatch: str, masks: Mapping[str, NDArray[np.bool_]]) -> str:
    """Return some frames with masks laid over; where they leave out nothing, words only."""
    shares = np.logical_or.reduce(list(masks.values())).mean((1, 2))
    amount = f"{100 * shares.mean():.1f} % of pixels, at most {100 * shares.max():.1f} % of a frame"
    text = f"{swatch}<b>{escape(label)}</b>: {amount if shares.any() else 'nothing'}"
    if not shares.any():
        return f"<p>{text}</p>"
    most_first = np.argsort(-shares)
    shown = most_first[np.unique(np.linspace(0, (shares > 0).sum() - 1, _OVERLAYS).astype(int))]
    laid = [overlay(frames_u8[k], {kind: left_out[k] for kind, left_out in masks.items()}) for k in shown]
    return f"<figure><p>{text}</p>{image_tag(_sheet(laid, _OVERLAY), escape(label))}</figure>"


def _sheet(pictures: Sequence[NDArray[np.uint8]] | NDArray[np.uint8], usual: tuple[int, int]) -> NDArray[np.uint8]:
    """Return pictures of one size as a sheet: `usual` is how many of what width stand side by side."""
    h, w = pictures[0].shape[:2]
    columns = max(1, round(usual[0] / max(1, w / h / 2) ** 0.5))  # of a panorama eight would be mere lines
    width = (usual[0] * (usual[1] + GAP)) // columns - GAP
    return sheet([thumbnail(picture, width) for picture in pictures], columns)


def _dropped(watcher: Watcher, dropped: Sequence[Mapping[str, str]]) -> str:
    """Return why frames were dropped, alike reasons counted together; each one stands in sequence.json."""
    place = {seen.name: k for k, seen in enumerate(watcher.seen)}
    counts: Counter[str] = Counter()
    for entry in dropped:
        count = place[entry["last"]] - place[entry["first"]] + 1
        counts[_alike(entry["reason"])] += count
    if not counts:
        return "<p>No frame was dropped.</p>"
    rows = "".join(
        f'<tr><td class="number">{count}</td><td>{escape(reason)}</td></tr>' for reason, count in counts.most_common()
    )
    return f"<h3>Dropped frames</h3><table>{rows}</table>"


def _alike(reason: str) -> str:
    for common in ("nearly the light", "the nearest light"):
        if reason.endswith(common):
            return f"a frame that is kept has {common}"
    if reason.startswith("the same picture"):
        return "the same picture as another"
    return "cannot be read" if reason.startswith("cannot be read") else reason


def page(title: str, sources: Iterable[Mapping[str, Any]], sections: Iterable[str], splits: Mapping[str, str]) -> str:
    """Return the whole page; `sources` are the entries of `dataset.json`, `splits` what each sequence is for."""
    sources = list(sources)
    used = [source for source in sources if source["sequences"]]
    frames = sum(source["frames"][1] for source in used)
    count = sum(len(source["sequences"]) for source in used)
    summary = f"{count} sequences, {frames} frames, from {len(used)} of {len(sources)} sources."
    rows = "".join(_row(source, splits) for source in sources)
    is_fine = not any(source["refused"] or source["warnings"] for source in sources)
    last = "" if is_fine else "<th>what was wrong</th>"
    head = f'<tr><th>source</th><th class="number">frames</th><th class="number">kept</th><th>sequences</th>{last}</tr>'
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
        f"<h1>{escape(title)}</h1><p>{summary}</p><table>{head}{rows}</table>\n" + "\n".join(sections) + "</html>\n"
    )


def _row(source: Mapping[str, Any], splits: Mapping[str, str]) -> str:
    names = ", ".join(
        f'<a href="#{escape(name)}">{escape(name)}</a> ({splits.get(name, "train")})' for name in source["sequences"]
    )
    wrong = "".join(f"<div>{escape(text)}</div>" for text in source["warnings"])
    if source["refused"]:
        wrong = f'<div class="refused">{escape(source["refused"])}</div>' + wrong
    looked, kept = source["frames"]
    return (
        f'<tr><td>{escape(source["name"])}</td><td class="number">{looked}</td><td class="number">{kept}</td>'
        f"<td>{names}</td><td>{wrong}</td></tr>"
    )
