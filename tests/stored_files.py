"""Image files of any bit depth, written byte by byte, since Pillow does not write them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def png(values: Array, bits: int, palette: Sequence[tuple[int, int, int]] | None = None, more: bytes = b"") -> bytes:
    """A PNG of [H, W] with this many bits per pixel, in grey or with a palette, after chunks ``more``."""
    height, width = values.shape
    head = struct.pack(">IIBBBBB", width, height, bits, 0 if palette is None else 3, 0, 0, 0)
    colors = b"" if palette is None else chunk(b"PLTE", bytes(c for color in palette for c in color))
    rows = b"".join(b"\0" + packed(row, bits) for row in values)
    end = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + more + colors + end


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(row: Array, bits: int) -> bytes:
    """The values of a row, the first in the upper bits."""
    if bits == 16:
        return row.astype(">u2").tobytes()
    places = np.unpackbits(row.astype(np.uint8)[:, None], axis=1)[:, 8 - bits :]
    return np.packbits(places.ravel()).tobytes()


def tiff(
    pages: Sequence[Array],
    bits: int = 8,
    *,
    order: str = "<",
    photometric: int = 1,
    sample_format: int = 1,
    extra: Sequence[int] = (),
    subfile: int = 0,
) -> bytes:
    """An uncompressed TIFF of pages [H, W] or [H, W, C]; ``subfile`` is the kind of the second and later pages."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    body, at = bytearray(mark + b"\0\0\0\0"), 4
    for number, page in enumerate(pages):
        wide = page[..., None] if page.ndim == 2 else page
        height, width, samples = wide.shape
        if bits < 8:
            strip = b"".join(packed(row, bits) for row in wide[..., 0])
        else:
            strip = wide.astype(wide.dtype.newbyteorder(order)).tobytes()
        strip_at = len(body)
        body += strip + b"\0" * (len(strip) % 2)
        long_at = len(body)
        body += b"".join(struct.pack(order + "H", bits) for _ in range(samples))
        rows = {
            254: (4, 1, subfile if number else 0),
            256: (4, 1, width),
            257: (4, 1, height),
            258: (3, samples, bits if samples == 1 else (bits | bits << 16 if samples == 2 else long_at)),
            259: (3, 1, 1),
            262: (3, 1, photometric),
            273: (4, 1, strip_at),
            277: (3, 1, samples),
            278: (4, 1, height),
            279: (4, 1, len(strip)),
            339: (3, 1, sample_format),
        }
        if extra:
            rows[338] = (3, len(extra), extra[0] | extra[-1] << 16 if len(extra) > 1 else extra[0])
        body[at : at + 4] = struct.pack(order + "I", len(body))
        body += struct.pack(order + "H", len(rows))
        for tag, (kind, count, value) in sorted(rows.items()):
            is_short = kind == 3 and count == 1
            body += struct.pack(order + "HHI", tag, kind, count)
            body += struct.pack(order + "HH", value, 0) if is_short else struct.pack(order + "I", value)
        at = len(body)
        body += b"\0\0\0\0"
    return bytes(body)
