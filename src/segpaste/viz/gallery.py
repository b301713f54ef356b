"""Pictures side by side on one page: a sheet of one sample before and after, and grids as PNG files.

Rows are streamed and shrunk one by one, so a gallery needs only the memory of its own pixels. For thousands of images
make several galleries: viewers decode a PNG as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import accumulate, zip_longest
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from segpaste.types import DenseSample
from segpaste.viz._text import ClassNames, fitted, font
from segpaste.viz.comparison import compare
from segpaste.viz.overlay import Range
from segpaste.viz.palette import HIGHLIGHT, INK, MUTED, PAPER, UInt8Image
from segpaste.workspace import write_whole

_GAP_PX, _LETTER_PX = 10, 13
PASTED_NOTE = "pasted objects"


@dataclass(frozen=True, slots=True)
class Tile:
    """Picture of a grid.

    Attributes:
        picture: uint8 [h, w, 3].
        caption: line under the picture, or an empty text.
    """

    picture: UInt8Image
    caption: str = ""


def before_after_sheet(
    before: DenseSample,
    after: DenseSample,
    pasted: Tensor | None = None,
    class_names: ClassNames | None = None,
    *,
    value_range: Range = (0.0, 1.0),
    tile_px: int = 400,
) -> UInt8Image:
    """Draw two rows, before and after, with a column for every modality that either sample has: [h, w, 3] uint8.

    The arguments are those of `compare`; the longer side of a picture on the sheet has ``tile_px`` pixels.
    """
    views = compare(before, after, pasted, class_names, value_range=value_range, tile_px=tile_px)
    rows = [[Tile(view.before) for view in views], [Tile(view.after) for view in views]]
    note = PASTED_NOTE if pasted is not None and bool(pasted.any()) else ""
    return grid(rows, columns=[v.title for v in views], names=("before", "after"), note=note, tile_px=tile_px)


def grid(
    rows: Iterable[Sequence[Tile | UInt8Image]],
    *,
    columns: Sequence[str] = (),
    names: Sequence[str] = (),
    note: str = "",
    tile_px: int = 400,
) -> UInt8Image:
    """Draw pictures on a light page in rows and columns, with even margins.

    Args:
        rows: pictures; rows may differ in length. They are shrunk to ``tile_px`` and never enlarged.
        columns: headings above the columns.
        names: headings beside the rows, rotated by 90 degrees.
        note: line at the bottom, beside a mark in the colour of pasted objects.
        tile_px: maximum length of the longer side of a picture, pixels.

    Returns:
        uint8 [h, w, 3].
    """
    tiles = [[_shrunk(t if isinstance(t, Tile) else Tile(t), tile_px) for t in row] for row in rows]
    widths = [max(t.picture.shape[1] for t in column if t) for column in zip_longest(*tiles)]
    heights = [max((t.picture.shape[0] + _line_h(t.caption) for t in row), default=0) for row in tiles]
    left, top = _GAP_PX + _line_h(*names), _GAP_PX + _line_h(*columns)
    xs = list(accumulate((w + _GAP_PX for w in widths), initial=left))
    ys = list(accumulate((h + _GAP_PX for h in heights), initial=top))
    canvas = Image.new("RGB", (max(xs[-1], 2 * _GAP_PX), ys[-1] + _line_h(note)), PAPER)
    for text, x, width in zip(columns, xs, widths, strict=False):
        _draw_text(canvas, text, (x, _GAP_PX), width)
    for text, y, height in zip(names, ys, heights, strict=False):
        _draw_text(canvas, text, (_GAP_PX, y), height, upright=True)
    for y, row in zip(ys, tiles, strict=False):
        for x, width, tile in zip(xs, widths, row, strict=False):
            h, w = tile.picture.shape[:2]
            canvas.paste(Image.fromarray(tile.picture), (x + (width - w) // 2, y))
            _draw_text(canvas, tile.caption, (x, y + h), width)
    if note:
        _draw_note(canvas, note)
    return np.array(canvas)


def gallery_png(
    path: str | os.PathLike[str],
    rows: Iterable[Sequence[Tile | UInt8Image]],
    *,
    columns: Sequence[str] = (),
    names: Sequence[str] = (),
    note: str = "",
    tile_px: int = 400,
) -> Path:
    """Write a `grid` of these rows and options as a PNG file, and return its path; missing folders are made.

    The file appears only when it is complete.

    Raises:
        OSError: the file cannot be written; no partial file remains.
    """
    return write_whole(path, png_bytes(grid(rows, columns=columns, names=names, note=note, tile_px=tile_px)))


def png_bytes(picture: UInt8Image) -> bytes:
    """Return a picture [h, w, 3] as a PNG file; the same pixels give the same bytes."""
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, format="PNG", compress_level=3)
    return buffer.getvalue()


def shrunk(picture: UInt8Image, longest_px: int) -> UInt8Image:
    """Return the picture [h, w, 3] with its longer side at most ``longest_px``, filtered."""
    scale = longest_px / max(1, *picture.shape[:2])
    if scale >= 1:
        return picture
    size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
    return np.array(Image.fromarray(picture).resize(size, Image.Resampling.LANCZOS))


def _line_h(*texts: str) -> int:
    return _LETTER_PX + 7 if any(texts) else 0


def _draw_text(canvas: Image.Image, text: str, corner: tuple[int, int], length: int, *, upright: bool = False) -> None:
    """Draw a line of text, centred in a strip of a length from a corner (x, y) on, horizontal or upright."""
    if not text or not length:
        return
    strip = Image.new("RGB", (length, _line_h(text)), PAPER)
    line = fitted(text, length, _LETTER_PX)
    middle = (length / 2, strip.height / 2)
    ImageDraw.Draw(strip).text(middle, line, font=font(_LETTER_PX), fill=MUTED, anchor="mm")
    canvas.paste(strip.transpose(Image.Transpose.ROTATE_90) if upright else strip, corner)


def _draw_note(canvas: Image.Image, note: str) -> None:
    pen = ImageDraw.Draw(canvas)
    y, side = canvas.height - _GAP_PX - _line_h(note) // 2, _LETTER_PX - 1
    box = (_GAP_PX, y - side // 2, _GAP_PX + side, y - side // 2 + side)
    pen.rectangle(box, fill=PAPER, outline=INK, width=4)
    pen.rectangle(tuple(v + d for v, d in zip(box, (1, 1, -1, -1), strict=True)), outline=HIGHLIGHT, width=2)
    line = fitted(note, canvas.width - 2 * _GAP_PX - 2 * side, _LETTER_PX)
    pen.text((_GAP_PX + 2 * side, y), line, font=font(_LETTER_PX), fill=MUTED, anchor="lm")


def _shrunk(tile: Tile, longest_px: int) -> Tile:
    return replace(tile, picture=shrunk(tile.picture, longest_px))
