"""Small text on pictures, in Pillow's bundled font: class labels on plates that do not overlap.

The font has ASCII only: accents are removed, and a fallback replaces a text without ASCII letters. For text in any
script use the HTML report, which uses the fonts of the browser.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from segpaste.viz.palette import INK, PAPER, RGB, UInt8Image, text_color

ClassNames = Mapping[int, str] | Sequence[str]
"""Name of each class id; a class without a name is shown as ``class 7``."""

Rectangle = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Plate:
    """Text on a rounded plate that belongs to a box.

    Attributes:
        text: text of the plate; it is drawn in the form of `plain`.
        background: colour of the plate; the text is dark or light, for the better contrast.
        box: (x1, y1, x2, y2) in pixels; the plate goes above its top-left corner, else inside, else below.
        centred: True for a plate at the middle of the box instead.
    """

    text: str
    background: RGB
    box: Rectangle
    centred: bool = False

    def corners(self, width: float, height: float) -> Iterator[tuple[float, float]]:
        """Yield the possible top-left corners of a plate of this size, the best first."""
        x1, y1, x2, y2 = self.box
        if self.centred:
            yield (x1 + x2 - width) / 2, (y1 + y2 - height) / 2
            return
        for x in (x1, x2 - width):
            yield from ((x, y1 - height), (x, y1), (x, y2), (x, y2 - height))


def class_name(label: int, class_names: ClassNames | None) -> str:
    """Return the name of a class, or ``class 7`` if it has none."""
    name: str | None = None
    if isinstance(class_names, Mapping):
        name = class_names.get(label)
    elif class_names is not None and 0 <= label < len(class_names):
        name = class_names[label]
    return f"class {label}" if name is None else str(name)


def plain(text: str, fallback: str = "?", max_chars: int = 24) -> str:
    """Return ``text`` on one line, in letters of the bundled font, at most ``max_chars`` of them."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    line = " ".join("".join(c if c.isprintable() else " " for c in ascii_only).split()) or fallback
    return line if len(line) <= max_chars else line[: max_chars - 3].rstrip() + "..."


def fitted(text: str, width_px: int, size_px: int) -> str:
    """Return `plain` text that is cut to at most ``width_px``; empty if nothing fits."""
    line = plain(text, max_chars=200)
    kept = [line, *(line[:n].rstrip() + "..." for n in range(len(line) - 3, 0, -1))]
    return next((short for short in kept if text_width(short, size_px) <= width_px), "")


@lru_cache(maxsize=32)
def font(size_px: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return Pillow's bundled font in this size, pixels."""
    return ImageFont.load_default(size_px)


def text_width(text: str, size_px: int) -> int:
    """Return the width of a line, in whole pixels."""
    return int(np.ceil(font(size_px).getlength(text)))


def draw_plates(picture: UInt8Image, plates: Iterable[Plate], size_px: int) -> UInt8Image:
    """Draw plates with letters of this height on a copy of the picture [H, W, 3].

    The most important come first; a plate that would cover another or leave the picture is skipped.
    """
    height, width = picture.shape[:2]
    canvas = Image.fromarray(picture)
    pen = ImageDraw.Draw(canvas)
    pad, plate_h = max(2, size_px // 4), size_px + max(2, size_px // 3)
    taken: list[Rectangle] = []
    for plate in plates:
        line = plain(plate.text)
        plate_w = text_width(line, size_px) + 2 * pad
        spot = _free_spot(plate, plate_w, plate_h, (width, height), taken)
        if spot is None:
            continue
        taken.append(spot)
        x, y = round(spot[0]), round(spot[1])
        pen.rounded_rectangle((x, y, x + plate_w - 1, y + plate_h - 1), radius=plate_h // 6, fill=plate.background)
        pen.text((x + pad, y + plate_h / 2), line, font=font(size_px), fill=text_color(plate.background), anchor="lm")
    return np.array(canvas)


def draw_scale(picture: UInt8Image, ramp: UInt8Image, ends: Sequence[str], size_px: int) -> UInt8Image:
    """Draw a colour scale in the lower left corner of a copy of the picture [H, W, 3], if there is room for it.

    Its bar has the colours ``ramp`` [256, 3] uint8, with the texts ``ends`` beside the first and the last colour.
    """
    height, width = picture.shape[:2]
    gap, bar_w, bar_h = max(3, size_px // 2), 6 * size_px, max(3, size_px * 2 // 3)
    first_w, second_w = (text_width(end, size_px) for end in ends)
    plate_w, plate_h = first_w + bar_w + second_w + 4 * gap, size_px + 2 * (gap // 2)
    x, y = gap, height - gap - plate_h
    if x + plate_w > width or y < 0:
        return picture.copy()
    canvas = Image.fromarray(picture)
    pen = ImageDraw.Draw(canvas)
    pen.rounded_rectangle((x, y, x + plate_w - 1, y + plate_h - 1), radius=plate_h // 6, fill=INK)
    middle = y + plate_h / 2
    pen.text((x + gap, middle), ends[0], font=font(size_px), fill=PAPER, anchor="lm")
    pen.text((x + plate_w - gap, middle), ends[1], font=font(size_px), fill=PAPER, anchor="rm")
    bar = Image.fromarray(ramp[None]).resize((bar_w, bar_h))
    canvas.paste(bar, (x + first_w + 2 * gap, round(middle - bar_h / 2)))
    return np.array(canvas)


def _free_spot(plate: Plate, w: float, h: float, canvas: tuple[int, int], taken: list[Rectangle]) -> Rectangle | None:
    if w > canvas[0] or h > canvas[1]:
        return None
    for x, y in plate.corners(w, h):
        x = min(max(x, 0), canvas[0] - w)
        if not 0 <= y <= canvas[1] - h:
            continue
        if all(x + w <= t[0] or t[2] <= x or y + h <= t[1] or t[3] <= y for t in taken):
            return x, y, x + w, y + h
    return None
