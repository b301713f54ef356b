"""Masks of Label Studio: packed brush strokes, and bitmasks as PNG.

Brush strokes are RGBA images packed into bits, whose opaque pixels are the mask. The packing is that of the JavaScript
package ``rle-pack``. The header has the number of values in 32 bits, the width of a value less 1 in 5 bits, and four
times the width of a length less 1 in 4 bits. Blocks follow. A block has 1 bit that is set if one value is repeated;
2 bits that select one of the four widths for its length; its length less 1; and then one value, or as many as its
length. Values go along the rows, four for each pixel.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from segpaste._pixels import Size

_CHANNELS = 4


def read_bitmask(text: str, size: Size) -> NDArray[np.bool_]:
    """Return the mask of a bitmask region: pixels that are not transparent, or without transparency, not black.

    Args:
        text: a PNG as a data URL, from the key ``imageDataURL``.
        size: (H, W) of the image.

    Returns:
        [H, W] bool.

    Raises:
        ValueError: it is no such image, or its size differs; the message does not name the file.
    """
    try:
        with Image.open(io.BytesIO(base64.b64decode(text.rpartition(",")[2], validate=True))) as picture:
            pixels = np.array(picture.convert("RGBA"))
    except (binascii.Error, OSError, ValueError) as error:
        raise ValueError(f"expected a mask, a PNG as a data URL, got something else ({error})") from error
    if pixels.shape[:2] != size:
        raise ValueError(f"expected a mask of {size[1]} x {size[0]} pixels, got {pixels.shape[1]} x {pixels.shape[0]}")
    is_opaque = pixels[..., 3] > 0
    return is_opaque & (pixels[..., :3] > 0).any(-1) if is_opaque.all() else is_opaque


class _Bits:
    """Reader of numbers from consecutive bits."""

    def __init__(self, packed: NDArray[np.uint8]) -> None:
        self._bits = np.unpackbits(packed)
        self._at = 0

    def take(self, width: int, num: int = 1) -> NDArray[np.int64]:
        """Return the next ``num`` numbers of ``width`` bits."""
        end = self._at + width * num
        if end > len(self._bits):
            raise ValueError("expected packed brush strokes, got truncated ones")
        bits = self._bits[self._at : end].reshape(num, width).astype(np.int64)
        self._at = end
        return bits @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64))

    def one(self, width: int) -> int:
        """Return the next number of ``width`` bits."""
        return int(self.take(width)[0])


def unpack_brush(packed: Sequence[object], size: Size) -> NDArray[np.bool_]:
    """Return the mask of brush strokes.

    Args:
        packed: bytes as numbers, from the key ``rle``.
        size: (H, W) of the image.

    Returns:
        [H, W] bool.

    Raises:
        ValueError: they are not a packed image, or its size differs; the message does not name the file.
    """
    if not all(type(value) is int and 0 <= value <= 255 for value in packed):
        raise ValueError("expected packed brush strokes, a list of bytes, got other values")
    bits = _Bits(np.array(packed, np.uint8))
    num, value_bits = bits.one(32), bits.one(5) + 1
    if num != _CHANNELS * size[0] * size[1]:
        raise ValueError(
            f"expected brush strokes on {size[1]} x {size[0]} pixels, {_CHANNELS * size[0] * size[1]} values, got {num}"
        )
    length_bits = [bits.one(4) + 1 for _ in range(4)]
    values = np.zeros(num, np.int64)
    done = 0
    while done < num:
        is_repeated = bits.one(1)
        end = done + 1 + bits.one(length_bits[bits.one(2)])
        if end > num:
            raise ValueError(f"expected brush strokes of {num} values, got more")
        values[done:end] = bits.take(value_bits, 1 if is_repeated else end - done)
        done = end
    return values.reshape(*size, _CHANNELS)[..., 3] > 0
