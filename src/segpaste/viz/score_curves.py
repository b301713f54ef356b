"""Plots of scored pairs, drawn with Pillow: DET curves, and Tippett curves of likelihood ratios.

A DET curve (Martin et al., "The DET curve in assessment of detection task performance", Eurospeech 1997) has the miss
rate over the false alarm rate, both on the scale of the normal quantile, so that normal scores give a straight line. A
Tippett curve has the share of pairs whose likelihood ratio is at least x, over log10 x, for each kind of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from segpaste.viz._text import font
from segpaste.viz.palette import INK, MUTED, PAPER, RGB

Numbers = NDArray[np.float64]

COLORS: tuple[RGB, ...] = ((34, 94, 168), (204, 76, 2))
"""Colours of the first and the second curve."""

SIZE, LEFT, TOP, RIGHT, BOTTOM = (640, 640), 76, 70, 620, 570
"""Size of a plot, and the edges of its panel, pixels."""

_FRAME: RGB = (205, 205, 200)
_SCALE = 2  # it is drawn larger and made smaller, which smooths lines
_LETTERS_PX = 14
_LOWEST, _HIGHEST = 5e-4, 0.9
_RATES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
_MOST_TICKS, _FEWEST_DECADES = 11, 2


class Rates(NamedTuple):
    """Error rates at each threshold, as `segpaste.encoder.det_curve` returns them.

    Attributes:
        misses, false_alarms: from 0 to 1, [n].
    """

    misses: Numbers
    false_alarms: Numbers


@dataclass(frozen=True)
class Axis:
    """Axis of a plot.

    Attributes:
        label: text beside the axis.
        ticks: values with a line, and their texts.
        scale: monotonic function of the values that are drawn; by default the values themselves.
        low, high: values at both ends; others are drawn there.
    """

    label: str
    ticks: Mapping[float, str]
    low: float
    high: float
    scale: Callable[[Numbers], Numbers] = np.asarray

    def positions(self, values: Numbers | Sequence[float]) -> Numbers:
        """Return the positions of values, 0 at ``low`` and 1 at ``high``."""
        ends = self.scale(np.array([self.low, self.high]))
        inside = np.clip(np.asarray(values, np.float64), self.low, self.high)
        return np.asarray((self.scale(inside) - ends[0]) / (ends[1] - ends[0]))


def rate_axis(label: str) -> Axis:
    """Return an axis of error rates on the scale of the normal quantile."""
    ticks = {rate: f"{100 * rate:g}" for rate in _RATES}
    return Axis(label, ticks, _LOWEST, _HIGHEST, lambda rates: torch.special.ndtri(torch.from_numpy(rates)).numpy())


def ratio_axis(log_ratios: Numbers) -> Axis:
    """Return an axis of log10 likelihood ratios with room for these, [n]."""
    low, high = (min(float(np.floor(log_ratios.min())), -1.0), max(float(np.ceil(log_ratios.max())), 1.0))
    step = max(1, -(-int(high - low) // (_MOST_TICKS - 1)))
    ticks = {float(value): f"{value:g}" for value in range(int(low), int(high) + 1) if value % step == 0}
    return Axis("log10 likelihood ratio", ticks, low, high)


def draw_det(curves: Mapping[str, Rates]) -> Image.Image:
    """Draw DET curves, one or two; the keys are the texts of the legend."""
    axes = rate_axis("false alarms, %"), rate_axis("misses, %")
    lines = {text: (rates.false_alarms, rates.misses) for text, rates in curves.items()}
    return _plot("DET curve", axes, lines)


def draw_tippett(curves: Mapping[str, Numbers]) -> Image.Image:
    """Draw Tippett curves of natural logarithms of likelihood ratios, [n] each; the keys are the texts of the legend.

    The ratio of 1, which is no evidence, has a dark line.
    """
    logs = {text: np.sort(ratios) / np.log(10) for text, ratios in curves.items()}
    along = ratio_axis(np.concatenate(list(logs.values())))
    share = Axis("pairs with at least this ratio, %", {part / 10: f"{10 * part}" for part in range(0, 11, 2)}, 0, 1)
    lines = {text: shares_at_least(values, along) for text, values in logs.items()}
    return _plot("Tippett plot", (along, share), lines, dark=0.0)


def shares_at_least(values: Numbers, axis: Axis) -> tuple[Numbers, Numbers]:
    """Return the corners (x, share of values that are at least x) of the steps over an axis; values are ascending."""
    steps = np.arange(len(values), -1, -1) / len(values)
    return np.concatenate([[axis.low], np.repeat(values, 2), [axis.high]]), np.repeat(steps, 2)


def _plot(
    title: str, axes: tuple[Axis, Axis], lines: Mapping[str, tuple[Numbers, Numbers]], dark: float | None = None
) -> Image.Image:
    """Draw lines over a grid; the horizontal tick ``dark`` is in the colour of the text."""
    canvas = Image.new("RGB", (SIZE[0] * _SCALE, SIZE[1] * _SCALE), PAPER)
    pen = ImageDraw.Draw(canvas)
    along, up = axes
    for value, text in along.ticks.items():
        x = LEFT + (RIGHT - LEFT) * float(along.positions([value])[0])
        _line(pen, [(x, TOP), (x, BOTTOM)], INK if value == dark else _FRAME, 1)
        _write(pen, (x, BOTTOM + 6), text, MUTED, "ma")
    for value, text in up.ticks.items():
        y = BOTTOM - (BOTTOM - TOP) * float(up.positions([value])[0])
        _line(pen, [(LEFT, y), (RIGHT, y)], _FRAME, 1)
        _write(pen, (LEFT - 8, y), text, MUTED, "rm")
    _line(pen, [(LEFT, TOP), (RIGHT, TOP), (RIGHT, BOTTOM), (LEFT, BOTTOM), (LEFT, TOP)], MUTED, 1)
    _write(pen, (LEFT, TOP - 44), f"{title}: {up.label}", INK, "la")
    _write(pen, ((LEFT + RIGHT) / 2, BOTTOM + 28), along.label, INK, "ma")
    for index, (text, (xs, ys)) in enumerate(lines.items()):
        color = COLORS[index]
        places = np.stack([LEFT + (RIGHT - LEFT) * along.positions(xs), BOTTOM - (BOTTOM - TOP) * up.positions(ys)], 1)
        _line(pen, _distinct(places), color, 2)
        _write(pen, (LEFT + index * (RIGHT - LEFT) / 2, TOP - 22), text, color, "la")
    return canvas.resize(SIZE, Image.Resampling.BOX)


def _distinct(places: Numbers) -> list[tuple[float, float]]:
    """Return the points [n, 2] without those that are on the pixel of the point before."""
    pixels = np.round(places * _SCALE)
    is_new = np.concatenate([[True], (pixels[1:] != pixels[:-1]).any(1)])
    return [(float(x), float(y)) for x, y in places[is_new].tolist()]


def _line(pen: ImageDraw.ImageDraw, points: Sequence[tuple[float, float]], color: RGB, width: int) -> None:
    scaled = [(x * _SCALE, y * _SCALE) for x, y in points]
    pen.line(scaled if len(scaled) > 1 else scaled * 2, color, width * _SCALE, "curve")


def _write(pen: ImageDraw.ImageDraw, place: tuple[float, float], text: str, color: RGB, anchor: str) -> None:
    pen.text((place[0] * _SCALE, place[1] * _SCALE), text, color, font(_LETTERS_PX * _SCALE), anchor)
