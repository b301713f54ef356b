"""Plain PNG files of maps: the values and errors are those that Pillow alone gives, and plain files do not need it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from segpaste.datasets.formats import stored_pixels
from segpaste.datasets.formats.pixel_bytes import palette_bytes, picture_bytes
from segpaste.datasets.formats.plain_png import plain_png
from segpaste.datasets.formats.stored_pixels import distinct, read_stored
from stored_files import chunk, png

SIZES = [(1, 1), (1, 9), (9, 1), (17, 11), (37, 53)]
VALUES = np.arange(15, dtype=np.uint8).reshape(3, 5)
PALETTE = np.random.default_rng(1).integers(0, 256, (256, 3), np.uint8)
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def blocks(shape: tuple[int, int], seed: int = 0) -> Any:
    """A map of rectangles of equal values."""
    rng = np.random.default_rng(seed)
    return np.kron(rng.integers(0, 256, shape, np.uint8), np.ones((3, 5), np.uint8))[: shape[0], : shape[1]]


def by_pillow(path: Path, content: bytes | None = None) -> Any:
    """What `read_stored` returns without the decoder of plain files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_pixels, "plain_png", lambda content: None)
        return read_stored(path, content)


def outcome(read: Any, content: bytes) -> Any:
    """Values and palette in comparable form, or the text of the error."""
    try:
        values, palette = read(Path("map.png"), content)
    except ValueError as error:
        return str(error)
    return values.dtype, values.shape, values.tobytes(), None if palette is None else palette.tolist()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["indices", "few colours", "grey", "of Pillow"])
def test_values_are_those_of_pillow(tmp_path: Path, kind: str, size: tuple[int, int]) -> None:
    values, path = blocks(size), tmp_path / "map.png"
    if kind == "of Pillow":
        picture = Image.fromarray(values)
        picture.putpalette(PALETTE.tobytes())
        picture.save(path)
    else:
        values = values % 7 if kind == "few colours" else values
        palette = PALETTE[:7] if kind == "few colours" else PALETTE
        path.write_bytes(picture_bytes(values) if kind == "grey" else palette_bytes(values, palette))
    plain, expected = plain_png(path.read_bytes()), by_pillow(path)
    assert plain is not None
    assert plain[0].dtype == expected.values.dtype
    assert plain[0].flags.writeable
    assert plain[0].flags.c_contiguous
    assert np.array_equal(plain[0], expected.values)
    assert np.array_equal(plain[0], values)
    assert (plain[1] is None) == (expected.palette is None)
    if plain[1] is not None:
        assert np.array_equal(plain[1], expected.palette)
    assert np.array_equal(read_stored(path).values, values)


def test_pixels_in_several_chunks() -> None:
    content = palette_bytes(VALUES, PALETTE)
    at = content.index(b"IDAT")
    data = content[at + 4 : -16]
    split = content[: at - 4] + b"".join(chunk(b"IDAT", data[i : i + 5]) for i in range(0, len(data), 5))
    plain = plain_png(split + content[-12:])
    assert plain is not None
    assert np.array_equal(plain[0], VALUES)


def of_chunks(head: bytes, *parts: tuple[bytes, bytes], lines: bytes = bytes(18)) -> bytes:
    every = [(b"IHDR", head), *parts, (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    return SIGNATURE + b"".join(chunk(name, content) for name, content in every)


def head(width: int = 5, height: int = 3, *others: int) -> bytes:
    return struct.pack(">IIBBBBB", width, height, *(others or (8, 0, 0, 0, 0)))


COLOURS = (b"PLTE", PALETTE[:4].tobytes())
OTHERS = {
    **{f"{bits} bits": png(VALUES & ((1 << bits) - 1), bits) for bits in (1, 2, 4)},
    "16 bits": png(VALUES.astype(np.int64) * 4000, 16),
    "gamma": png(VALUES, 8, more=chunk(b"gAMA", (45455).to_bytes(4))),
    "transparency": of_chunks(head(5, 3, 8, 3, 0, 0, 0), COLOURS, (b"tRNS", b"\0\1")),
    "colours": picture_bytes(np.stack([VALUES] * 3, -1)),
    "a filter": of_chunks(head(), lines=b"\1" + bytes(17)),
    "an unknown filter": of_chunks(head(), lines=b"\7" + bytes(17)),
    "interlaced": of_chunks(head(5, 3, 8, 0, 0, 0, 1)),
    "other compression": of_chunks(head(5, 3, 8, 0, 1, 0, 0)),
    "grey with a palette": of_chunks(head(), COLOURS),
    "indices without a palette": of_chunks(head(5, 3, 8, 3, 0, 0, 0)),
    "an empty palette": of_chunks(head(5, 3, 8, 3, 0, 0, 0), (b"PLTE", b"")),
    "part of a colour": of_chunks(head(5, 3, 8, 3, 0, 0, 0), (b"PLTE", bytes(5))),
    "too many colours": of_chunks(head(5, 3, 8, 3, 0, 0, 0), (b"PLTE", bytes(900))),
    "two palettes": of_chunks(head(5, 3, 8, 3, 0, 0, 0), COLOURS, COLOURS),
    "too few rows": of_chunks(head(), lines=bytes(12)),
    "too many rows": of_chunks(head(), lines=bytes(24)),
    "no width": of_chunks(head(0, 3)),
    "a short head": of_chunks(head()[:9]),
    "more after the end": palette_bytes(VALUES, PALETTE) + b"more",
    "another format": b"P5 5 3 255\n" + VALUES.tobytes(),
    "no bytes": b"",
    "a signature": SIGNATURE,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_files_are_left_to_pillow(kind: str) -> None:
    assert plain_png(OTHERS[kind]) is None
    if OTHERS[kind]:  # read_stored reads the path of an empty content
        assert outcome(read_stored, OTHERS[kind]) == outcome(by_pillow, OTHERS[kind])


def damaged() -> Iterator[bytes]:
    """A small file with each byte changed, cut after each byte, and with changed bytes in chunks of right checksums."""
    for content in (palette_bytes(VALUES, PALETTE[:5]), picture_bytes(VALUES)):
        for place in range(len(content)):
            for change in (1, 128, 255):
                yield content[:place] + bytes([content[place] ^ change]) + content[place + 1 :]
            yield content[:place]
        for name in (b"IHDR", b"PLTE", b"IDAT"):
            if (at := content.find(name)) < 0:
                continue
            end = at + 4 + int.from_bytes(content[at - 4 : at])
            upper = [*range(at + 4, at + 7), *range(at + 8, at + 11)] if name == b"IHDR" else []  # of very large images
            for place in sorted({*range(at + 4, end)} - {*upper}):
                for change in (1, 2, 128):
                    part = content[at + 4 : place] + bytes([content[place] ^ change]) + content[place + 1 : end]
                    yield content[: at - 4] + chunk(name, part) + content[end + 4 :]


def test_damaged_files_have_the_errors_of_pillow() -> None:
    contents = [content for content in damaged() if content]
    outcomes = [(outcome(read_stored, content), outcome(by_pillow, content)) for content in contents]
    assert [pair for pair in outcomes if pair[0] != pair[1]] == []
    assert sum(isinstance(found, str) for found, _ in outcomes) > len(outcomes) / 2


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint16])
@pytest.mark.parametrize("order", ["C", "F"])
def test_distinct_values(dtype: Any, order: Any) -> None:
    for seed, size in enumerate([(0, 3), *SIZES]):
        values = np.array(blocks(size, seed), dtype, order=order) if 0 not in size else np.zeros(size, dtype)
        assert distinct(values) == sorted({*values.ravel().tolist()})
    noise = np.random.default_rng(0).integers(0, 100, (17, 11)).astype(dtype)
    assert distinct(noise[::2, ::3]) == sorted({*noise[::2, ::3].ravel().tolist()})
    if dtype == np.int64:
        assert distinct(np.array([[5, -(1 << 40), 5]])) == [-(1 << 40), 5]
