"""Encoded pixels: other readers find the same values, and the same values give the same bytes."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from segpaste.datasets.formats.pixel_bytes import palette_bytes, picture_bytes

SHAPES = [(1, 1), (1, 9), (9, 1), (16, 24), (37, 53)]
KINDS: dict[str, tuple[type, tuple[int, ...], str]] = {
    "colours": (np.uint8, (3,), "RGB"),
    "grey": (np.uint8, (), "L"),
    "16 bits": (np.uint16, (), "I;16"),
}


def noise(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def decoded(content: bytes) -> tuple[str, NDArray[Any]]:
    with Image.open(BytesIO(content)) as picture:
        picture.verify()  # checksums of all chunks
    with Image.open(BytesIO(content)) as picture:
        return picture.mode, np.asarray(picture)


@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_other_readers_find_the_values(kind: str, size: tuple[int, int]) -> None:
    dtype, channels, mode = KINDS[kind]
    pixels = noise((*size, *channels), dtype)
    for given in (pixels, np.asfortranarray(pixels), np.repeat(pixels, 2, 1)[:, ::2]):
        found, values = decoded(picture_bytes(given))
        assert (found, values.dtype) == (mode, pixels.dtype)
        assert np.array_equal(values, pixels)
        assert picture_bytes(given) == picture_bytes(pixels)


@pytest.mark.parametrize("size", SHAPES)
def test_indices_and_their_palette(size: tuple[int, int]) -> None:
    indices, palette = noise(size, np.uint8), noise((256, 3), np.uint8, 1)
    content = palette_bytes(indices, palette)
    assert decoded(content)[0] == "P"
    assert np.array_equal(decoded(content)[1], indices)
    with Image.open(BytesIO(content)) as picture:
        assert picture.getpalette() == palette.ravel().tolist()


def test_files_are_small() -> None:
    """Smooth colours and depth are filtered, and rows that repeat are found."""
    y, x = np.mgrid[:120, :160]
    smooth = np.stack([x, y, (x + y) // 2], -1).astype(np.uint8)
    assert len(picture_bytes(smooth)) < smooth.size / 50
    assert len(picture_bytes((1000 + 3 * y + x).astype(np.uint16))) < x.size / 20
    assert len(palette_bytes((x // 40).astype(np.uint8), np.zeros((256, 3), np.uint8))) < 1400


def test_the_stream_ends_where_its_chunk_says() -> None:
    content, place, names = picture_bytes(noise((5, 7, 3), np.uint8)), 8, []
    while place < len(content):
        (length,), name = struct.unpack(">I", content[place : place + 4]), content[place + 4 : place + 8]
        body = content[place + 8 : place + 8 + length]
        assert content[place + 8 + length : place + 12 + length] == struct.pack(">I", zlib.crc32(name + body))
        names.append(name)
        place += 12 + length
    assert names == [b"IHDR", b"IDAT", b"IEND"]
