"""The report of a benchmark run as Markdown: tables of scores with intervals, published rows, what was skipped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unlit.evaluate.benchmark import Benchmark
from unlit.evaluate.bootstrap import DRAWS, LEVEL
from unlit.evaluate.mit_set import TEST
from unlit.evaluate.published import PUBLISHED

if TYPE_CHECKING:
    from unlit.evaluate.report import Heading

FEW = 50
"""Up to so many images stand in the report itself; all are in `images.csv`."""
MEASURED, NOT_MEASURED = "measured here", "published, not measured"


@dataclass(frozen=True)
class Table:
    """What the text says of a method."""

    record: Mapping[str, Any]
    """Its part of `report.json`."""
    intervals: Mapping[str, tuple[float, float]]
    resized: Sequence[str]
    seconds: float


def report_text(
    benchmark: Benchmark,
    heading: Heading,
    tables: Mapping[str, Table],
    plots: Sequence[str],
    sheets: Mapping[str, Sequence[str]],
) -> str:
    """Return the whole report."""
    parts = [
        [f"# {benchmark.name}", "", f"`{heading.command}`", "", f"Commit {heading.commit}; data: {benchmark.place}."],
        _comparability(benchmark, heading, tables),
        _score_tables(benchmark, tables, with_published=not heading.made_here),
        _counts(tables),
        [f"![{plot}]({plot})" for plot in plots],
        ["## Best and worst", "", *(f"![{f}]({f})" for files in sheets.values() for f in files)] if sheets else [],
        _skipped(tables),
        _images(tables),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _comparability(benchmark: Benchmark, heading: Heading, tables: Mapping[str, Table]) -> list[str]:
    if heading.made_here:
        return [f"**Not comparable with published figures:** {heading.made_here}"]
    scored = {case_id for table in tables.values() for case_id in table.record["images"]}
    if benchmark.name == "mit" and not scored >= set(TEST):
        return ["Published rows are of the ten test objects. These are others, so compare only what was measured here."]
    return []


def _score_tables(benchmark: Benchmark, tables: Mapping[str, Table], *, with_published: bool) -> list[str]:
    """Return a table for each family of scores, measured rows above, published ones below."""
    published = PUBLISHED.get(benchmark.name, {}) if with_published else {}
    keys = list(dict.fromkeys(key for table in tables.values() for key in table.record["scores"]))
    lines = [f"Intervals hold {LEVEL:.0%} of {DRAWS} draws of images with replacement. WHDR and AP are in per cent."]
    for family in dict.fromkeys(_family(key) for key in keys):
        chosen = [key for key in keys if _family(key) == family]
        rows = [[name, *(_with_interval(key, table) for key in chosen)] for name, table in tables.items()]
        others = [
            [name, *(_shown(key, scores.get(key)) for key in chosen)]
            for name, scores in published.items()
            if any(key in scores for key in chosen)
        ]
        head = ["method", *chosen]
        if others:
            rows = [*([*row, MEASURED] for row in rows), *([*row, NOT_MEASURED] for row in others)]
            head.append("source")
        lines += ["", *_markdown(head, rows)]
    return lines


def _family(key: str) -> str:
    return "geometric" if key.startswith("geometric/") else key.partition("/")[0].partition("@")[0]


def _counts(tables: Mapping[str, Table]) -> list[str]:
    """Return how many images were scored, skipped and resized, and how long the methods took."""
    rows = []
    for name, table in tables.items():
        count = len(table.record["images"])
        seconds = f"{table.seconds / count:.3g}" if count else ""
        rows.append([name, str(count), str(len(table.record["skipped"])), str(len(table.resized)), seconds])
    return _markdown(["method", "scored", "skipped", "resized", "seconds an image"], rows)


def _skipped(tables: Mapping[str, Table]) -> list[str]:
    """Return every image that was not scored, with the reason."""
    rows = [[n, case_id, reason] for n, t in tables.items() for case_id, reason in t.record["skipped"].items()]
    return ["## Skipped", "", *_markdown(["method", "image", "reason"], rows)] if rows else []


def _images(tables: Mapping[str, Table]) -> list[str]:
    """Return the scores of each image where they are few."""
    if max(len(table.record["images"]) for table in tables.values()) > FEW:
        return ["Scores of each image: `images.csv`."]
    lines = ["## Each image"]
    for name, table in tables.items():
        images = table.record["images"]
        keys = list(dict.fromkeys(key for scores in images.values() for key in scores))
        rows = [[case_id, *(_shown(key, scores.get(key)) for key in keys)] for case_id, scores in images.items()]
        lines += ["", f"### {name}", "", *_markdown(["image", *keys], rows)]
    return lines


def _with_interval(key: str, table: Table) -> str:
    value = table.record["scores"].get(key)
    if value is None or key not in table.intervals:
        return _shown(key, value)
    low, high = (_shown(key, edge) for edge in table.intervals[key])
    return f"{_shown(key, value)} ({low} to {high})"


def _shown(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.2f}" if key.startswith(("whdr", "ap/")) else f"{value:.4f}"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    cells = [list(head), ["---"] * len(head), *rows]
    # What stands in a cell comes from files: a bar or a line's end would begin another cell or row.
    return ["| " + " | ".join(" ".join(c.replace("|", "\\|").split()) for c in row) + " |" for row in cells]
