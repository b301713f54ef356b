"""Parts of an image file as RGB, equal to those of the whole image, without decoding the rows below them.

Only a plain JPEG is decoded in part: baseline, grey or YCbCr of 8 bits, upright, and complete to its end mark. Its
header is changed to fewer rows, so a decoder stops below them. Whatever else a file may be is decoded whole, and so are
files with faults, whose errors are those of `segpaste.datasets.formats.image_files.read_pixels`.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import ExifTags, Image
from torch import Tensor

from segpaste.datasets.formats.image_files import read_pixels
from segpaste.types.sampling import Size

_BASELINE, _END_OF_IMAGE, _START_OF_SCAN = 0xC0, b"\xff\xd9", 0xDA
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_ROWS_BELOW = 8
"""Rows that are decoded below a part. The colours of a row are interpolated from those of the next two."""


class _Frame(NamedTuple):
    """Header of a JPEG's frame: the position of its height in the file, its size (H, W) and number of components."""

    place: int
    size: Size
    num_components: int


def read_part(path: Path, size: Size, part: tuple[int, int, int, int], *, drawn_upright: bool = False) -> Tensor:
    """Return a part of an image, the same pixels as of `read_pixels`.

    Args:
        path: an image file that Pillow reads.
        size: (H, W) in the annotation file.
        part: box in the image, xyxy, pixels, not empty.
        drawn_upright: see `read_pixels`.

    Returns:
        [3, h, w] uint8; the channels of a pixel are adjacent in memory.

    Raises:
        DatasetError: see `read_pixels`. A plain JPEG whose broken data lies below the part is not noticed.
    """
    left, top, right, bottom = part
    if bottom + _ROWS_BELOW < size[0] and (found := _plain_part(path, size, part)) is not None:
        return found
    return read_pixels(path, size, drawn_upright=drawn_upright)[:, top:bottom, left:right]


def _plain_part(path: Path, size: Size, part: tuple[int, int, int, int]) -> Tensor | None:
    """Return a part of a plain JPEG; None for any other file, and if anything is wrong with it."""
    try:
        if not path.is_file():
            return None
        content = path.read_bytes()
        frame = _baseline_frame(content)
        if frame is None or frame.size != size or not content.endswith(_END_OF_IMAGE) or _is_huge(size):
            return None
        height = (part[3] + _ROWS_BELOW).to_bytes(2)
        shortened = b"".join((content[: frame.place], height, content[frame.place + 2 :]))
        with Image.open(BytesIO(shortened), formats=("JPEG",)) as image:
            is_upright = image.getexif().get(ExifTags.Base.Orientation, 1) == 1
            if image.format != "JPEG" or image.mode not in ("L", "RGB") or not is_upright:
                return None
            image.load()
            pixels = np.array(image.crop(part).convert("RGB"))
    except Exception:  # the whole image is decoded, which tells what is wrong
        return None
    return torch.from_numpy(pixels).permute(2, 0, 1)


def _is_huge(size: Size) -> bool:
    """Return whether Pillow warns of an image of (H, W)."""
    return Image.MAX_IMAGE_PIXELS is not None and size[0] * size[1] > Image.MAX_IMAGE_PIXELS


def _baseline_frame(content: bytes) -> _Frame | None:
    """Return the frame of a baseline JPEG of 8 bits and 1 or 3 components; None for any other file."""
    place = 2 if content[:3] == b"\xff\xd8\xff" else len(content)
    while place + 10 <= len(content) and content[place] == 0xFF:
        marker = content[place + 1]
        if marker in _FRAMES:
            size = int.from_bytes(content[place + 5 : place + 7]), int.from_bytes(content[place + 7 : place + 9])
            is_plain = marker == _BASELINE and content[place + 4] == 8 and content[place + 9] in (1, 3)
            return _Frame(place + 5, size, content[place + 9]) if is_plain else None
        if marker == _START_OF_SCAN:
            return None
        place += 2 + int.from_bytes(content[place + 2 : place + 4])
    return None
