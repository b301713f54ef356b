"""Cut-outs on disk for the tests: pictures of one object with transparency, in folders by class."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

RGBA = NDArray[np.uint8]


def cutout(size: tuple[int, int] = (23, 31), box: tuple[int, int, int, int] = (4, 6, 20, 17), seed: int = 0) -> RGBA:
    """[H, W, 4]: a rectangle (x1, y1, x2, y2) of noise from 100, about it a soft edge of black, elsewhere nothing."""
    picture = np.zeros((*size, 4), np.uint8)
    x1, y1, x2, y2 = box
    picture[y1 - 1 : y2 + 1, x1 - 1 : x2 + 1, 3] = 90
    picture[y1:y2, x1:x2, :3] = np.random.default_rng(seed).integers(100, 256, (y2 - y1, x2 - x1, 3), dtype=np.uint8)
    picture[y1:y2, x1:x2, 3] = 255
    return picture


def write(path: Path, picture: RGBA, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path, **options)
    return path


def write_cutouts(folder: Path, num: int = 3) -> Path:
    """``num`` pictures of a cup and of a zebra, of different sizes."""
    for i in range(num):
        write(folder / "cup" / f"{i}.png", cutout((23 + i, 31), seed=i))
        write(folder / "zebra" / "side" / f"{i}.webp", cutout((31, 40 + i), (3, 2, 35, 12), seed=9 + i), lossless=True)
    return folder


def write_backgrounds(folder: Path, num: int = 3, size: tuple[int, int] = (33, 47)) -> Path:
    folder.mkdir(parents=True)
    for i in range(num):
        pixels = np.random.default_rng(i).integers(0, 256, (size[0] + i, size[1], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    return folder


def png_of_16_bits(values: NDArray[np.uint16]) -> bytes:
    """A PNG of RGBA [H, W, 4] with 16 bits per channel, which Pillow does not write."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width = values.shape[:2]
    head = struct.pack(">IIBBBBB", width, height, 16, 6, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
