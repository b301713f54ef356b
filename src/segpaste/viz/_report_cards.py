"""Cards of the HTML report: one for each image with pictures, as large as all of them together may be.

Pictures are encoded as they come. When the cards grow beyond their limit, all pictures are made smaller; at the
smallest size further cards are left out.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO

import numpy as np
from PIL import Image, features

from segpaste._printable import in_html
from segpaste.viz.comparison import Comparison
from segpaste.viz.gallery import shrunk
from segpaste.viz.palette import UInt8Image, instance_color

_MOST_ROWS = 40
"""Pasted objects that a card lists."""
_PAIR_BYTES = 600
"""Approximate size of the markup of two pictures, bytes."""


@dataclass(frozen=True, slots=True)
class _Level:
    """Size of the pictures: the longer side at most, pixels, the format, and its quality."""

    longest_px: int
    format: str
    quality: int


_SMALL = "WEBP" if features.check("webp") else "JPEG"
"""A third of the bytes of JPEG, but ten times its time."""
_LEVELS = (
    _Level(1 << 16, "JPEG", 86),
    _Level(520, "JPEG", 80),
    _Level(420, _SMALL, 76),
    _Level(320, _SMALL, 72),
    _Level(256, _SMALL, 60),
)


@dataclass(frozen=True, slots=True)
class PastedObject:
    """One pasted object.

    Attributes:
        class_name: name of its class.
        source: image that it comes from.
        scale: ratio of its size to its size in the source.
        hflip: True if it was flipped or turned.
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
        counts_before, counts_after: number of objects of each class in the image as it came, and in the augmented one.
        lost: class of each object of the image that is not in the augmented one, with the reason.
    """

    name: str
    pictures: Sequence[Comparison] = ()
    pasted: Sequence[PastedObject] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    counts_before: Mapping[str, int] = field(default_factory=dict)
    counts_after: Mapping[str, int] = field(default_factory=dict)
    lost: Sequence[tuple[str, str]] = ()

    @property
    def classes(self) -> list[str]:
        """Classes of the pasted objects; of an image without any, those that it shows."""
        return list(dict.fromkeys(thing.class_name for thing in self.pasted)) or list(self.counts_after)


Pairs = Sequence[tuple[str, bytes, bytes]]
"""Title and encoded pictures before and after."""


@dataclass(frozen=True, slots=True)
class _Kept:
    item: ReportItem
    pairs: Pairs
    text_bytes: int

    @property
    def num_bytes(self) -> int:
        return self.text_bytes + sum(
            _PAIR_BYTES + 4 * (len(before) + len(after)) // 3 for _, before, after in self.pairs
        )


class Cards:
    """Cards of a report, whose size in bytes has a limit.

    Args:
        max_bytes: of all of them.
        picture_px: the longer side of a picture, at most.
        num_expected: number of cards that will be added, if it is known: then the first one decides the size and
            quality of all pictures, unless later ones are larger.

    Attributes:
        num_left_out: items with pictures that have no card.
    """

    def __init__(self, max_bytes: int, picture_px: int, num_expected: int | None = None) -> None:
        self.max_bytes, self.picture_px = max_bytes, picture_px
        self._num_expected = num_expected or 1
        self.num_left_out = 0
        self._level = 0
        self._kept: list[_Kept] = []

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, item: ReportItem) -> None:
        """Add the card of an item with pictures, unless the limit is reached."""
        if self.num_left_out:
            self.num_left_out += 1
            return
        pairs = [(p.title, self._encoded(p.before), self._encoded(p.after)) for p in item.pictures]
        self._kept.append(_Kept(replace(item, pictures=()), pairs, len(_card(item, [], []).encode())))
        while self._num_bytes() > self.max_bytes:
            if self._level + 1 < len(_LEVELS):
                self._level += 1
                self._kept = [replace(kept, pairs=self._smaller(kept.pairs)) for kept in self._kept]
            else:
                self.drop_last()

    def _num_bytes(self) -> int:
        """Return the size of the cards, or, after the first one, the expected size of all."""
        num = self._num_expected if len(self._kept) == 1 and self._level + 1 < len(_LEVELS) else 1
        return num * sum(kept.num_bytes for kept in self._kept)

    def drop_last(self) -> None:
        """Leave the last card out."""
        self._kept.pop()
        self.num_left_out += 1

    def html(self, number_of: Mapping[str, int]) -> Iterable[str]:
        """Yield the cards; ``number_of`` numbers the classes by which cards are chosen."""
        for kept in self._kept:
            numbers = [number_of[name] for name in kept.item.classes if name in number_of]
            yield _card(kept.item, kept.pairs, numbers)

    def _encoded(self, picture: UInt8Image) -> bytes:
        level, buffer = _LEVELS[self._level], BytesIO()
        small = shrunk(picture, min(self.picture_px, level.longest_px))
        # Not optimize=True: a picture of noise would be larger than the buffer that Pillow then provides.
        options = {"subsampling": 0} if level.format == "JPEG" else {"method": 2}
        Image.fromarray(small).save(buffer, format=level.format, quality=level.quality, **options)
        return buffer.getvalue()

    def _smaller(self, pairs: Pairs) -> Pairs:
        def again(side: bytes) -> bytes:
            return self._encoded(np.array(Image.open(BytesIO(side))))

        return [(title, again(before), again(after)) for title, before, after in pairs]


def table(columns: Sequence[str], rows: Sequence[str], nothing: str) -> str:
    """Return a table, or a sentence instead of an empty one; columns of text are known by their names."""
    if not rows:
        return f'<p class="empty">{in_html(nothing)}</p>\n'
    texts = ("class", "reason", "source", "what helps", "")
    align = {name: "" if name in texts else ' class="n"' for name in columns}
    head = "".join(f'<th scope="col"{align[name]}>{in_html(name)}</th>' for name in columns)
    body = "".join(rows)
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'


def numbers(*cells: object) -> str:
    """Return cells of numbers."""
    return "".join(f'<td class="n">{in_html(str(cell))}</td>' for cell in cells)


def in_words(reason: str) -> str:
    """Return the name of a reason in words."""
    return reason.replace("_", " ")


def _card(item: ReportItem, pairs: Pairs, classes: Sequence[int]) -> str:
    figures = "".join(_figure(item.name, *pair) for pair in pairs)
    rows = [_object_row(thing) for thing in item.pasted[:_MOST_ROWS]]
    listed = table(("class", "source", "scale", "flipped", "pixels"), rows, "Nothing was pasted.")
    more = f"<p>and {len(item.pasted) - _MOST_ROWS:,} more</p>\n" if len(item.pasted) > _MOST_ROWS else ""
    missed = ", ".join(f"{in_words(k)} {n:,}" for k, n in item.dropped.items() if n)
    note = f"<p>Not pasted: {in_html(missed)}</p>\n" if missed else ""
    gone = ", ".join(f"{name}, {in_words(why)}{f' ({n:,})' * (n > 1)}" for (name, why), n in Counter(item.lost).items())
    note += f"<p>Lost: {in_html(gone)}</p>\n" if gone else ""
    own = f' data-classes="{" ".join(map(str, classes))}"'
    text = f"<div>\n<h3>{in_html(item.name)}</h3>\n{note}{listed}{more}</div>"
    return f'<article class="card"{own}>\n{figures}{text}\n</article>\n'


def _figure(name: str, title: str, before: bytes, after: bytes) -> str:
    with Image.open(BytesIO(before)) as image:
        size = f'width="{image.width}" height="{image.height}"'
    what = in_html(f"{name}, {title}")
    return (
        f'<figure class="compare" data-view="{in_html(title)}">\n'
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
    cells = numbers(f"{thing.scale:.2f}", "yes" if thing.hflip else "no", area)
    return f"<tr><td>{dot}{in_html(thing.class_name)}</td><td>{in_html(thing.source)}</td>{cells}</tr>\n"


def _data_url(picture: bytes) -> str:
    kind = "webp" if picture[:4] == b"RIFF" else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
