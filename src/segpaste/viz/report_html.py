"""Self-contained HTML report of a run: headline numbers, pasted and dropped objects, and every image.

Pictures, style and script are inside the page; a content security policy forbids it to load anything. The same input
gives the same bytes. For more than a few hundred images give pictures to some items only: all items count in the
tables, and items with pictures have a card.
"""

from __future__ import annotations

import base64
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from io import BytesIO
from pathlib import Path

from PIL import Image

from segpaste._printable import in_html
from segpaste.viz.comparison import Comparison
from segpaste.viz.gallery import shrunk
from segpaste.viz.palette import UInt8Image, instance_color
from segpaste.workspace import write_whole

_JPEG_QUALITY = 86


@dataclass(frozen=True, slots=True)
class PastedObject:
    """One pasted object.

    Attributes:
        class_name: name of its class.
        source: image that it comes from.
        scale: ratio of its size to its size in the source.
        hflip: True if it was flipped horizontally.
        area_px: number of its visible pixels, if known.
        instance_id: its id in the augmented sample, if known; it determines the colour, which is that of the pictures.
    """

    class_name: str
    source: str
    scale: float
    hflip: bool
    area_px: int | None = None
    instance_id: int | None = None


@dataclass(frozen=True, slots=True)
class ReportItem:
    """One image of a run.

    Attributes:
        name: name of the image.
        pictures: pictures from `segpaste.viz.compare`; an item without pictures counts, but has no card.
        pasted: objects that were pasted into it.
        dropped: number of pastes that were tried without success, by reason.
    """

    name: str
    pictures: Sequence[Comparison] = ()
    pasted: Sequence[PastedObject] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Totals:
    num_images: int = 0
    pasted: dict[str, list[PastedObject]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    views: dict[str, None] = field(default_factory=dict)

    def add(self, item: ReportItem) -> None:
        self.num_images += 1
        for thing in item.pasted:
            self.pasted.setdefault(thing.class_name, []).append(thing)
        self.dropped.update(item.dropped)
        self.views.update(dict.fromkeys(c.title for c in item.pictures))


def write_html_report(
    path: str | os.PathLike[str],
    items: Iterable[ReportItem],
    summary: Mapping[str, object],
    title: str,
    *,
    picture_px: int = 640,
) -> Path:
    """Write the report; the file appears only when it is complete.

    Args:
        path: path of the file; missing folders are made.
        items: one item per image, in the order of the page. A generator is possible: only encoded pictures are kept.
        summary: headline numbers by name, in the order of the page.
        title: title of the page.
        picture_px: maximum length of the longer side of a picture, pixels.

    Returns:
        The path.

    Raises:
        OSError: the file cannot be written; no partial file remains.
    """
    totals, cards = _Totals(), []
    for item in items:
        totals.add(item)
        if item.pictures:
            cards.append(_card(item, picture_px))
    page = [_head(title), _header(title, summary, totals), _tools(totals), *cards, _foot()]
    return write_whole(path, (part.encode() for part in page))


def _head(title: str) -> str:
    style = resources.files("segpaste.viz").joinpath("report.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{in_html(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
    )


def _header(title: str, summary: Mapping[str, object], totals: _Totals) -> str:
    numbers = "".join(f"<div><dt>{in_html(k)}</dt><dd>{in_html(_shown(v))}</dd></div>\n" for k, v in summary.items())
    return (
        f'<header>\n<h1>{in_html(title)}</h1>\n<dl class="numbers">\n{numbers}</dl>\n'
        f'<div class="panels">\n{_pasted_panel(totals)}{_dropped_panel(totals)}</div>\n</header>\n'
    )


def _pasted_panel(totals: _Totals) -> str:
    rows = []
    ranked = sorted(totals.pasted.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    for name, things in ranked:
        scales = dict.fromkeys(f"{s(t.scale for t in things):.2f}" for s in (min, max))
        flipped, sources = sum(t.hflip for t in things), len({t.source for t in things})
        cells = [sources, " to ".join(scales), f"{100 * flipped / len(things):.0f} %"]
        rows.append(_ranked_row(name, len(things), len(ranked[0][1]), cells))
    count = sum(len(things) for things in totals.pasted.values())
    heading = f"Pasted: {count:,} objects in {totals.num_images:,} images"
    return _panel(heading, ("class", "objects", "", "sources", "scale", "flipped"), rows, "Nothing was pasted.")


def _dropped_panel(totals: _Totals) -> str:
    ranked = sorted(((k, n) for k, n in totals.dropped.items() if n), key=lambda pair: (-pair[1], pair[0]))
    rows = [_ranked_row(_reason(name), n, ranked[0][1], []) for name, n in ranked]
    heading = f"Tried and not pasted: {sum(n for _, n in ranked):,}"
    return _panel(heading, ("reason", "pastes", ""), rows, "No paste was dropped.")


def _panel(heading: str, columns: Sequence[str], rows: Sequence[str], nothing: str) -> str:
    return f'<section class="panel">\n<h2>{in_html(heading)}</h2>\n{_table(columns, rows, nothing)}</section>\n'


def _ranked_row(name: str, count: int, largest: int, cells: Sequence[object]) -> str:
    bar = f'<td class="share"><i style="--part:{100 * count / max(1, largest):.1f}%"></i></td>'
    return f"<tr><td>{in_html(name)}</td>{_numbers(f'{count:,}')}{bar}{_numbers(*cells)}</tr>\n"


def _numbers(*cells: object) -> str:
    return "".join(f'<td class="n">{in_html(str(cell))}</td>' for cell in cells)


def _table(columns: Sequence[str], rows: Sequence[str], nothing: str) -> str:
    """Return a table, or a sentence instead of an empty one."""
    if not rows:
        return f'<p class="empty">{in_html(nothing)}</p>\n'
    align = {name: "" if name in ("class", "reason", "source", "") else ' class="n"' for name in columns}
    head = "".join(f'<th scope="col"{align[name]}>{in_html(name)}</th>' for name in columns)
    body = "".join(rows)
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'


def _tools(totals: _Totals) -> str:
    buttons = "".join(
        f'<button type="button" data-view="{in_html(v)}" aria-pressed="false">{in_html(v)}</button>'
        for v in totals.views
    )
    return (
        '<main>\n<div class="tools" hidden>\n'
        f'<div class="views" role="group" aria-label="What to show">{buttons}</div>\n'
        '<input type="search" placeholder="Filter by image, class or source" aria-label="Filter">\n'
        '<output></output>\n</div>\n<div class="cards">\n'
    )


def _card(item: ReportItem, picture_px: int) -> str:
    figures = "".join(_figure(item.name, picture, picture_px) for picture in item.pictures)
    rows = [_object_row(thing) for thing in item.pasted]
    listed = _table(("class", "source", "scale", "flipped", "pixels"), rows, "Nothing was pasted.")
    missed = ", ".join(f"{_reason(k)} {n:,}" for k, n in item.dropped.items() if n)
    note = f"<p>Not pasted: {in_html(missed)}</p>\n" if missed else ""
    return f'<article class="card">\n{figures}<div>\n<h3>{in_html(item.name)}</h3>\n{note}{listed}</div>\n</article>\n'


def _figure(name: str, picture: Comparison, picture_px: int) -> str:
    before, after = (shrunk(p, picture_px) for p in (picture.before, picture.after))
    size = f'width="{before.shape[1]}" height="{before.shape[0]}"'
    what = in_html(f"{name}, {picture.title}")
    return (
        f'<figure class="compare" data-view="{in_html(picture.title)}">\n'
        f'<img {size} alt="{what}, before" src="{_data_url(before)}">\n'
        f'<img {size} alt="{what}, after" class="after" src="{_data_url(after)}">\n'
        f'<input type="range" min="0" max="100" value="50" aria-label="{what}: before left, after right">\n'
        "<span>before</span><span>after</span>\n</figure>\n"
    )


def _object_row(thing: PastedObject) -> str:
    dot = ""
    if thing.instance_id is not None:
        red, green, blue = instance_color(thing.instance_id)
        dot = f'<i class="dot" style="--dot:rgb({red} {green} {blue})"></i>'
    area = "" if thing.area_px is None else f"{thing.area_px:,}"
    numbers = _numbers(f"{thing.scale:.2f}", "yes" if thing.hflip else "no", area)
    return f"<tr><td>{dot}{in_html(thing.class_name)}</td><td>{in_html(thing.source)}</td>{numbers}</tr>\n"


def _foot() -> str:
    script = resources.files("segpaste.viz").joinpath("report.js").read_text(encoding="utf-8")
    return (
        "</div>\n</main>\n<footer><p>Drag across a picture: before on the left, after on the right. "
        f"Pasted objects are outlined in yellow.</p></footer>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _reason(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: object) -> str:
    """Return a headline value as text: thousands separated, three or four significant digits, yes or no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def _data_url(picture: UInt8Image) -> str:
    buffer = BytesIO()
    # Not optimize=True: a picture of noise would be larger than the buffer that Pillow then provides.
    Image.fromarray(picture).save(buffer, format="JPEG", quality=_JPEG_QUALITY, subsampling=0)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
