"""Plots of the figures of a run, drawn with Pillow: bars of a step's ratios, and lines of its growth.

Both axes are logarithmic. Pillow's bundled font has ASCII only, so the signs of the tables are spelled out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from segpaste.viz.palette import INK, MUTED, PAPER, RGB

from . import timing
from .pasting import AGAIN, CLONE, IN_PLACE, OUT_OF_PLACE

Point = tuple[float, float]

_COLORS: dict[str, RGB] = {CLONE: MUTED, OUT_OF_PLACE: (34, 94, 168), IN_PLACE: (35, 139, 69)}
_OTHER: RGB = (190, 174, 150)
_FRAME: RGB = (205, 205, 200)
_WIDTH, _ROW, _LABELS, _MARGIN = 1000, 24, 290, 24
_PANEL = (460, 320)


def pictures(results: Mapping[str, Any]) -> dict[str, Image.Image]:
    """By file name without ending; what was not measured is not drawn."""
    found = {}
    if "step" in results:
        found["step"] = step_bars(results["step"]["rows"])
    if "growth" in results:
        found["growth"] = growth_lines(results["growth"]["axes"])
    return found


def step_bars(rows: Sequence[Mapping[str, Any]]) -> Image.Image:
    """A panel for each batch: multiples of the clone, a whisker over the middle half, a line at 1."""
    panels = [[name for name in row["times"] if name not in (CLONE, AGAIN)] for row in rows]
    ratios = [
        {name: timing.ratio(row["times"][name], row["times"][CLONE]) for name in names}
        for row, names in zip(rows, panels, strict=True)
    ]
    everything = [value for panel in ratios for triple in panel.values() for value in triple] + [1.0]
    low, high = decades(everything)
    canvas = Image.new("RGB", (_WIDTH, _MARGIN + sum(_ROW * (len(names) + 3) for names in panels)), PAPER)
    draw = ImageDraw.Draw(canvas)

    def x_of(ratio: float) -> float:
        return _LABELS + (_WIDTH - _LABELS - 90) * position(ratio, low, high)

    y = _MARGIN
    for row, panel in zip(rows, ratios, strict=True):
        write_text(draw, (_MARGIN, y), f"{row['batch']}, multiples of a clone", INK)
        y += _ROW
        bottom = y + _ROW * len(panel)
        for tick in powers(low, high):
            draw.line([(x_of(tick), y), (x_of(tick), bottom)], INK if tick == 1 else _FRAME)
            write_text(draw, (x_of(tick), bottom + 2), f"{tick:g}", MUTED, "ma")
        for name, triple in panel.items():
            _bar(draw, name, [x_of(value) for value in triple], x_of(low), y, f"{triple[0]:.2f}")
            y += _ROW
        y += 2 * _ROW
    return canvas


def growth_lines(axes: Sequence[Mapping[str, Any]]) -> Image.Image:
    """A panel for each axis that has several points: milliseconds of each function."""
    drawn = [axis for axis in axes if axis["exponents"]]
    width, height = _PANEL
    canvas = Image.new("RGB", (2 * width, max(1, -(-len(drawn) // 2)) * height), PAPER)
    draw = ImageDraw.Draw(canvas)
    for i, axis in enumerate(drawn):
        _lines(draw, axis, (i % 2 * width, i // 2 * height))
    return canvas


def position(value: float, low: float, high: float) -> float:
    """Return the position of a value between two others on a logarithmic axis: 0 at ``low``, 1 at ``high``."""
    return math.log(value / low) / math.log(high / low)


def decades(values: Iterable[float]) -> Point:
    """The powers of ten around all values, two different ones."""
    found = [math.log10(value) for value in values]
    low, high = math.floor(min(found)), math.ceil(max(found))
    return 10.0**low, 10.0 ** max(high, low + 1)


def powers(low: float, high: float) -> list[float]:
    """All powers of ten from one to another, both included."""
    first, last = round(math.log10(low)), round(math.log10(high))
    return [10.0**exponent for exponent in range(first, last + 1)]


def _bar(draw: ImageDraw.ImageDraw, name: str, xs: Sequence[float], x_low: float, y: float, value: str) -> None:
    median, first, last = xs
    write_text(draw, (_LABELS - 8, y + _ROW / 2), name, INK, "rm")
    draw.rectangle([x_low, y + 4, max(median, x_low + 1), y + _ROW - 4], _COLORS.get(name, _OTHER))
    draw.line([(first, y + _ROW / 2), (last, y + _ROW / 2)], INK)
    write_text(draw, (max(median, last) + 6, y + _ROW / 2), value, INK, "lm")


def _lines(draw: ImageDraw.ImageDraw, axis: Mapping[str, Any], corner: Point) -> None:
    """One panel of `growth_lines`."""
    names = [name for name in (CLONE, OUT_OF_PLACE, IN_PLACE) if name in axis["exponents"]]
    xs = [float(point["x"]) for point in axis["points"]]
    curves = {name: [float(point["times"][name]["median_ms"]) for point in axis["points"]] for name in names}
    low, high = decades(value for curve in curves.values() for value in curve)
    left, top, right, bottom = corner[0] + 60, corner[1] + 40, corner[0] + _PANEL[0] - 30, corner[1] + _PANEL[1] - 70

    def place(x: float, y: float) -> Point:
        return left + (right - left) * position(x, min(xs), max(xs)), bottom - (bottom - top) * position(y, low, high)

    write_text(draw, (left, corner[1] + 12), f"ms over {axis['axis']}", INK)
    for tick in powers(low, high):
        y = place(min(xs), tick)[1]
        draw.line([(left, y), (right, y)], _FRAME)
        write_text(draw, (left - 8, y), f"{tick:g}", MUTED, "rm")
    for x in xs:
        write_text(draw, (place(x, low)[0], bottom + 4), f"{x:,.0f}", MUTED, "ma")
    x_legend = left
    for name, curve in curves.items():
        points = [place(x, y) for x, y in zip(xs, curve, strict=True)]
        draw.line(points, _COLORS[name], 2)
        for x, y in points:
            draw.ellipse([x - 3, y - 3, x + 3, y + 3], _COLORS[name])
        legend = f"{name}, p = {axis['exponents'][name]:.2f}"
        x_legend += 16 + write_text(draw, (x_legend, bottom + 28), legend, _COLORS[name])


_SIGNS = str.maketrans({"²": "^2", "×": "x", "·": "*", "−": "-", "–": "-", "≥": ">=", "≤": "<=", "…": "..."})
"""Signs that Pillow's bundled font does not have, and how they are written."""


def write_text(draw: ImageDraw.ImageDraw, place: Point, text: str, color: RGB, anchor: str = "la") -> float:
    """Write in letters that the font has, ASCII only, and return the width."""
    plain = text.translate(_SIGNS).encode("ascii", "replace").decode()
    font = ImageFont.load_default(13)
    draw.text(place, plain, color, font, anchor)
    return draw.textlength(plain, font)
