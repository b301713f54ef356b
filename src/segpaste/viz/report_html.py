"""Self-contained HTML report of a run: headline numbers, classes, pasted and dropped objects, and the images.

Pictures, style and script are inside the page; a content security policy forbids it to load anything. The same input
gives the same bytes. All items count in the tables, and items with pictures have a card, as many as the page has room
for: it says how many of all images are shown.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from segpaste._printable import in_html
from segpaste.viz._report_cards import Cards, in_words, numbers, table
from segpaste.viz._report_cards import PastedObject as PastedObject
from segpaste.viz._report_cards import ReportItem as ReportItem
from segpaste.workspace import write_whole

MAX_BYTES = 3_000_000
_RESERVED_BYTES = 100_000
"""Room for what is not in cards."""
_MOST_CLASSES = 1000


@dataclass(slots=True)
class _Totals:
    num_images: int = 0
    pasted: dict[str, list[PastedObject]] = field(default_factory=dict)
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    lost_reasons: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    views: dict[str, None] = field(default_factory=dict)

    def add(self, item: ReportItem) -> None:
        self.num_images += 1
        for thing in item.pasted:
            self.pasted.setdefault(thing.class_name, []).append(thing)
        self.before.update(item.counts_before)
        self.after.update(item.counts_after)
        self.dropped.update(item.dropped)
        self.lost.update(name for name, _ in item.lost)
        self.lost_reasons.update(reason for _, reason in item.lost)
        self.views.update(dict.fromkeys(c.title for c in item.pictures))

    @property
    def classes(self) -> list[str]:
        """Classes, the most pasted first."""
        names = {*self.pasted, *self.before, *self.after, *self.lost}
        return sorted(names, key=lambda name: (-len(self.pasted.get(name, ())), -self.after[name], name))


def write_html_report(
    path: str | os.PathLike[str],
    items: Iterable[ReportItem],
    summary: Mapping[str, object],
    title: str,
    *,
    picture_px: int = 640,
    advice: Mapping[str, str] | None = None,
    lost_advice: Mapping[str, str] | None = None,
    counted: str = "objects",
    left_out: Mapping[str, int] | None = None,
    max_bytes: int = MAX_BYTES,
    num_pictured: int | None = None,
) -> Path:
    """Write the report; the file appears only when it is complete.

    Args:
        path: path of the file; missing folders are made.
        items: one item per image, in the order of the page. A generator is possible: only encoded pictures are kept.
        summary: headline numbers by name, in the order of the page.
        title: title of the page.
        picture_px: maximum length of the longer side of a picture, pixels. Where the page would be too large, all
            pictures are made smaller, then the last ones are left out.
        advice: what helps against each reason of dropped pastes.
        lost_advice: what helps against each reason of lost objects.
        counted: what ``counts_before`` and ``counts_after`` of the items count.
        left_out: number of each kind of what the images have and the dataset does not, by description.
        max_bytes: size that the file stays below, unless its tables alone are larger.
        num_pictured: number of items with pictures, if it is known; then no picture is encoded twice to be smaller.

    Returns:
        The path.

    Raises:
        OSError: the file cannot be written; no partial file remains.
    """
    totals, cards = _Totals(), Cards(max_bytes - _RESERVED_BYTES, picture_px, num_pictured)
    for item in items:
        totals.add(item)
        if item.pictures:
            cards.add(item)
    totals.left_out.update(left_out or {})
    parts = _page(title, summary, totals, cards, (advice or {}, lost_advice or {}), counted)
    while sum(map(len, parts)) >= max_bytes and len(cards):
        cards.drop_last()
        parts = _page(title, summary, totals, cards, (advice or {}, lost_advice or {}), counted)
    return write_whole(path, parts)


def _page(
    title: str,
    summary: Mapping[str, object],
    totals: _Totals,
    cards: Cards,
    advice: tuple[Mapping[str, str], Mapping[str, str]],
    counted: str,
) -> list[bytes]:
    """Return the page in parts; ``advice`` is that on dropped pastes, and that on lost objects."""
    classes = totals.classes[:_MOST_CLASSES]
    header = _header(title, summary, totals, advice, counted)
    tools = _tools(totals, classes, len(cards))
    numbered = {name: number for number, name in enumerate(classes)}
    page = [_head(title), header, tools, *cards.html(numbered), _foot()]
    return [part.encode() for part in page]


def _head(title: str) -> str:
    style = resources.files("segpaste.viz").joinpath("report.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{in_html(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
    )


def _header(
    title: str,
    summary: Mapping[str, object],
    totals: _Totals,
    advice: tuple[Mapping[str, str], Mapping[str, str]],
    counted: str,
) -> str:
    facts = "".join(f"<div><dt>{in_html(k)}</dt><dd>{in_html(_shown(v))}</dd></div>\n" for k, v in summary.items())
    return (
        f'<header>\n<h1>{in_html(title)}</h1>\n<dl class="numbers">\n{facts}</dl>\n'
        f'<div class="panels">\n{_classes_panel(totals, counted)}<div>\n{_dropped_panel(totals, advice[0])}'
        f"{_lost_panel(totals, advice[1])}{_left_out_panel(totals.left_out)}</div>\n</div>\n</header>\n"
    )


def _classes_panel(totals: _Totals, counted: str) -> str:
    """Return the table of the classes: how many there were, were pasted, and are; and of what the pastes are."""
    has_counts = bool(totals.before or totals.after)
    largest = max((len(things) for things in totals.pasted.values()), default=0)
    rows = [_class_row(name, totals, largest, has_counts) for name in totals.classes[:_MOST_CLASSES]]
    if len(totals.classes) > _MOST_CLASSES:
        rows.append(f'<tr><td colspan="8">and {len(totals.classes) - _MOST_CLASSES:,} more classes</td></tr>\n')
    count = sum(len(things) for things in totals.pasted.values())
    heading = f"Pasted: {count:,} objects in {totals.num_images:,} images"
    before, after = (f"{side}, {counted}" if counted != "objects" else side for side in ("before", "after"))
    lost = ["lost"] if totals.lost else []
    columns = ("class", *([before] if has_counts else []), "pasted", "", *lost, *([after] if has_counts else []))
    return _panel(heading, (*columns, "sources", "scale", "flipped"), rows, "Nothing was pasted.")


def _class_row(name: str, totals: _Totals, largest: int, has_counts: bool) -> str:
    things = totals.pasted.get(name, [])
    cells: list[object] = ["", "", ""]
    if things:
        scales = dict.fromkeys(f"{side(t.scale for t in things):.2f}" for side in (min, max))
        flipped = sum(t.hflip for t in things)
        cells = [len({t.source for t in things}), " to ".join(scales), f"{100 * flipped / len(things):.0f} %"]
    before, after = (numbers(f"{side[name]:,}") if has_counts else "" for side in (totals.before, totals.after))
    pasted = f"{numbers(f'{len(things):,}')}{_bar(len(things), largest)}"
    lost = numbers(f"{totals.lost[name]:,}") if totals.lost else ""
    return f"<tr><td>{in_html(name)}</td>{before}{pasted}{lost}{after}{numbers(*cells)}</tr>\n"


def _dropped_panel(totals: _Totals, advice: Mapping[str, str]) -> str:
    heading = f"Tried and not pasted: {totals.dropped.total():,}"
    return _reasons_panel(heading, "pastes", totals.dropped, advice, "No paste was dropped.")


def _lost_panel(totals: _Totals, advice: Mapping[str, str]) -> str:
    """Return the table of objects that pastes hid or cut below a limit; empty if there are none."""
    if not totals.lost:
        return ""
    share = f" ({totals.lost.total() / num:.1%})" if (num := totals.before.total()) else ""
    heading = f"Objects of the images that were lost: {totals.lost.total():,}{share}"
    return _reasons_panel(heading, "objects", totals.lost_reasons, advice, "")


def _left_out_panel(left_out: Counter[str]) -> str:
    """Return the table of what has no place in the dataset; empty if everything has."""
    if not left_out:
        return ""
    rows = [f"<tr><td>{in_html(what)}</td>{numbers(f'{num:,}')}</tr>\n" for what, num in left_out.most_common()]
    return _panel(f"Left out: {left_out.total():,}", ("what", "number"), rows, "")


def _reasons_panel(heading: str, counted: str, counts: Counter[str], advice: Mapping[str, str], nothing: str) -> str:
    ranked = sorted(((k, n) for k, n in counts.items() if n), key=lambda pair: (-pair[1], pair[0]))
    helps = any(advice.get(name) for name, _ in ranked)
    rows = [
        f"<tr><td>{in_html(in_words(name))}</td>{numbers(f'{n:,}')}{_bar(n, ranked[0][1])}"
        f"{f'<td>{in_html(advice.get(name, str()))}</td>' if helps else ''}</tr>\n"
        for name, n in ranked
    ]
    return _panel(heading, ("reason", counted, "", *(["what helps"] if helps else [])), rows, nothing)


def _panel(heading: str, columns: Sequence[str], rows: Sequence[str], nothing: str) -> str:
    return f'<section class="panel">\n<h2>{in_html(heading)}</h2>\n{table(columns, rows, nothing)}</section>\n'


def _bar(count: int, largest: int) -> str:
    return f'<td class="share"><i style="--part:{100 * count / max(1, largest):.1f}%"></i></td>'


def _tools(totals: _Totals, classes: Sequence[str], num_shown: int) -> str:
    buttons = "".join(
        f'<button type="button" data-view="{in_html(v)}" aria-pressed="false">{in_html(v)}</button>'
        for v in totals.views
    )
    options = "".join(f'<option value="{number}">{in_html(name)}</option>' for number, name in enumerate(classes))
    chooser = f'<select aria-label="Class">\n<option value="">all classes</option>{options}\n</select>\n'
    return (
        f'<main>\n<h2 class="shown" data-images="{totals.num_images}">{num_shown:,} of {totals.num_images:,} images '
        'shown</h2>\n<div class="tools" hidden>\n'
        f'<div class="views" role="group" aria-label="What to show">{buttons}</div>\n{chooser}'
        '<input type="search" placeholder="Filter by image, class or source" aria-label="Filter">\n'
        '</div>\n<div class="cards">\n'
    )


def _foot() -> str:
    script = resources.files("segpaste.viz").joinpath("report.js").read_text(encoding="utf-8")
    return (
        "</div>\n</main>\n<footer><p>Drag across a picture: before on the left, after on the right. "
        f"Pasted objects are outlined in yellow.</p></footer>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _shown(value: object) -> str:
    """Return a headline value as text: thousands separated, three or four significant digits, yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
