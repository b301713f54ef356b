"""Parts of plain JPEG files, decoded only down to their last row.

A file is plain if it is baseline, grey or of three components of 8 bits, without an orientation, a single picture, and
complete to its end mark. For any other file, and if anything is wrong with it, there is no part; then
`segpaste.datasets.formats.image_files` decodes it whole, and its errors tell what is wrong.

The header is changed to fewer rows, so that Pillow's decoder stops below the part. The colours of a row are
interpolated from those of the next two rows at most, so a few rows more are decoded.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from torch import Tensor

from segpaste._pixels import Size
from segpaste.datasets.formats.pillow_pixels import pixels_of

_BASELINE, _START_OF_SCAN, _END_OF_IMAGE = 0xC0, 0xDA, b"\xff\xd9"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_METADATA, _MORE_METADATA = 0xE1, 0xE2
_ROWS_BELOW = 8
"""Rows that are decoded below a part."""


class _Plain(NamedTuple):
    """Content of a plain file, the position of the height in it, and its size (H, W)."""

    content: bytes
    place: int
    size: Size


def read_plain_part(path: Path, size: Size, part: tuple[int, int, int, int]) -> Tensor | None:
    """Return a part of the image of a plain file.

    Args:
        path: the file.
        size: expected (H, W).
        part: box in the image, xyxy, pixels, not empty.

    Returns:
        [3, h, w] uint8, whose channels of a pixel are adjacent in memory; or None.
    """
    if (found := _plain(path, size)) is None:
        return None
    height = min(part[3] + _ROWS_BELOW, size[0]).to_bytes(2)
    content = b"".join((found.content[: found.place], height, found.content[found.place + 2 :]))
    try:
        with Image.open(BytesIO(content), formats=("JPEG",)) as image:
            image.load()
            return pixels_of(image.crop(part).convert("RGB"))
    except Exception:
        return None


def _plain(path: Path, size: Size) -> _Plain | None:
    """Read a file, if it is plain and of this size."""
    try:
        content = path.read_bytes() if path.is_file() else b""
    except OSError:
        return None
    found = _parsed(content) if content.endswith(_END_OF_IMAGE) else None
    if found is None or size != found.size:
        return None
    most = Image.MAX_IMAGE_PIXELS  # of which Pillow warns
    return found if most is None or found.size[0] * found.size[1] <= most else None


def _parsed(content: bytes) -> _Plain | None:
    """Read the segments of a JPEG up to its frame; None if it is not plain."""
    place = 2 if content[:3] == b"\xff\xd8\xff" else len(content)
    while place + 10 <= len(content) and content[place] == 0xFF:
        marker, end = content[place + 1], place + 2 + int.from_bytes(content[place + 2 : place + 4])
        if marker in _FRAMES:
            size = int.from_bytes(content[place + 5 : place + 7]), int.from_bytes(content[place + 7 : place + 9])
            is_plain = (
                marker == _BASELINE and content[place + 4] == 8 and content[place + 9] in (1, 3) and min(size) > 0
            )
            return _Plain(content, place + 5, size) if is_plain else None
        if marker in (_START_OF_SCAN, 0xFF):
            return None
        if marker == _METADATA and _may_turn(content[place + 4 : end]):
            return None
        if marker == _MORE_METADATA and content[place + 4 : place + 8] == b"MPF\0":  # several pictures
            return None
        place = end
    return None


def _may_turn(metadata: bytes) -> bool:
    """Return whether EXIF or XMP may have an orientation."""
    return metadata.startswith(b"Exif") or b"Orientation" in metadata
