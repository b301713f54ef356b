"""Plots of results, drawn with Pillow: every run of each arm with its interval, and curves over the steps.

All runs are drawn, not only their means. Both axes are linear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.plots import write_text
from PIL import Image, ImageDraw

from segpaste.tuning.statistics import Interval, paired_bootstrap
from segpaste.viz.palette import INK, MUTED, PAPER, RGB

Values = Mapping[str, Sequence[float]]
Point = tuple[float, float]
IntervalOf = Callable[[Sequence[float]], Interval]

_OURS: RGB = (34, 94, 168)
_OTHERS: RGB = (150, 140, 125)
_FRAME: RGB = (215, 215, 210)
_COLORS: tuple[RGB, ...] = (
    (120, 120, 120),
    (200, 120, 20),
    (170, 60, 60),
    (120, 80, 160),
    (90, 170, 200),
    (60, 130, 190),
    (34, 94, 168),
    (35, 139, 69),
)
_LABELS, _PANEL, _ROW, _MARGIN, _GAP = 215, 360, 26, 24, 60
_CURVES = (520, 320)


def runs_by_arm(panels: Mapping[str, Values], ours: str, interval_of: IntervalOf = paired_bootstrap) -> Image.Image:
    """Return a panel for each measure: a row for each arm with a dot for each run, and the interval.

    Args:
        panels: by title, by arm, the values of the runs.
        ours: the arm that is drawn in colour.
        interval_of: gives the interval of an arm's values, by default that of their mean.
    """
    arms = list(next(iter(panels.values())))
    width = _LABELS + len(panels) * (_PANEL + _GAP)
    canvas = Image.new("RGB", (width, 3 * _MARGIN + _ROW * (len(arms) + 1)), PAPER)
    draw = ImageDraw.Draw(canvas)
    top = 2 * _MARGIN
    for row, arm in enumerate(arms):
        write_text(draw, (_LABELS - 10, top + _ROW * (row + 0.5)), arm, INK, "rm")
    for number, (title, values) in enumerate(panels.items()):
        left = _LABELS + number * (_PANEL + _GAP)
        _dots(draw, title, values, (left, top), ours, interval_of)
    return canvas


def curves(
    panels: Mapping[str, Mapping[str, Sequence[Point]]], x_title: str, legend: Sequence[str] | None = None
) -> Image.Image:
    """Return a panel for each measure with a line for each arm, through (step, value); the legend is below.

    Args:
        panels: by title, by arm, the points; the arms in the same order.
        x_title: what the first number of a point is.
        legend: names of the arms, by default those of the first panel.
    """
    width, height = _CURVES
    names = legend or list(next(iter(panels.values())))
    rows = -(-len(names) // 4)
    canvas = Image.new("RGB", (width * len(panels), height + _ROW * rows + _MARGIN), PAPER)
    draw = ImageDraw.Draw(canvas)
    for number, (title, lines) in enumerate(panels.items()):
        _lines(draw, f"{title} over {x_title}", lines, (number * width, 0))
    for number, name in enumerate(names):
        x, y = _MARGIN + number % 4 * 190, height + _ROW * (number // 4)
        draw.line([(x, y + 8), (x + 20, y + 8)], _COLORS[number % len(_COLORS)], 3)
        write_text(draw, (x + 26, y), name, INK)
    return canvas


def _dots(
    draw: ImageDraw.ImageDraw, title: str, values: Values, corner: Point, ours: str, interval_of: IntervalOf
) -> None:
    """One panel of `runs_by_arm`."""
    left, top = corner
    low, high = _limits([value for runs in values.values() for value in runs])
    bottom = top + _ROW * len(values)

    def x_of(value: float) -> float:
        return left + _PANEL * (value - low) / (high - low)

    write_text(draw, (left, top - _MARGIN - 6), title, INK)
    for tick in _ticks(low, high):
        draw.line([(x_of(tick), top), (x_of(tick), bottom)], _FRAME)
        write_text(draw, (x_of(tick), bottom + 4), f"{tick:.2f}", MUTED, "ma")
    for row, (arm, runs) in enumerate(values.items()):
        y, color = top + _ROW * (row + 0.5), _OURS if arm == ours else _OTHERS
        middle, first, last = interval_of(runs)
        draw.line([(x_of(first), y), (x_of(last), y)], color, 5)
        for value in runs:
            draw.ellipse([x_of(value) - 2, y - 9, x_of(value) + 2, y - 5], outline=color)
        draw.line([(x_of(middle), y - 7), (x_of(middle), y + 7)], INK, 2)


def _lines(draw: ImageDraw.ImageDraw, title: str, lines: Mapping[str, Sequence[Point]], corner: Point) -> None:
    """One panel of `curves`."""
    left, top = corner[0] + 50, corner[1] + 40
    right, bottom = corner[0] + _CURVES[0] - 30, corner[1] + _CURVES[1] - 40
    points = [point for line in lines.values() for point in line]
    low, high = _limits([y for _, y in points])
    last = max(x for x, _ in points)

    def place(point: Point) -> Point:
        return left + (right - left) * point[0] / last, bottom - (bottom - top) * (point[1] - low) / (high - low)

    write_text(draw, (left, corner[1] + 12), title, INK)
    for tick in _ticks(low, high):
        y = place((0, tick))[1]
        draw.line([(left, y), (right, y)], _FRAME)
        write_text(draw, (left - 6, y), f"{tick:.2f}", MUTED, "rm")
    for x in sorted({x for x, _ in points}):
        write_text(draw, (place((x, low))[0], bottom + 4), f"{x:,.0f}", MUTED, "ma")
    for number, line in enumerate(lines.values()):
        draw.line([place(point) for point in line], _COLORS[number % len(_COLORS)], 2)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Return multiples of 0.05 around all values, two different ones."""
    low, high = int(min(values) // 0.05), int(-(-max(values) // 0.05))
    return low * 0.05, max(high, low + 1) * 0.05


def _ticks(low: float, high: float) -> list[float]:
    """Return at most nine multiples of 0.05 from one to another."""
    num = round((high - low) / 0.05)
    every = -(-num // 8)
    return [low + 0.05 * i for i in range(0, num + 1, every)]
