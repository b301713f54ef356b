"""Check that a map is stored without losses, by the content of its file.

A codec with losses changes values a little, and so makes other classes, objects and distances along every edge. Not for
images, which may be JPEGs.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from PIL import Image

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_files import open_image

_ALWAYS = {"JPEG": "JPEG", "MPO": "JPEG", "AVIF": "AVIF", "JPEG2000": "JPEG 2000"}
"""Formats that have losses, or whose files do not say that they have none: JPEG 2000 may leave out any of its bits."""
_IN_TIFF = frozenset({"jpeg", "tiff_jpeg", "webp"})


def expect_lossless_file(path: Path) -> None:
    """Raise `DatasetError` if a map that is copied is stored with losses; other faults are found where it is read."""
    with contextlib.suppress(OSError), open_image(path) as picture:
        expect_lossless(path, picture, None)


def expect_lossless(path: Path, picture: Image.Image, content: bytes | None) -> None:
    """Raise `DatasetError` if the pixels of an open file are stored with losses, whatever the file is called.

    Args:
        path: path of the file.
        picture: the open file.
        content: its bytes; None if they are at the path.
    """
    if (kind := _lossy(path, picture, content)) is not None:
        raise DatasetError(
            f"{path}: expected a map in a lossless format, such as PNG, got {kind}, which may change values along "
            "edges; export the map as PNG from the tool that made it",
            kind="broken_map",
        )


def _lossy(path: Path, picture: Image.Image, content: bytes | None) -> str | None:
    """Return the name of the codec of a file if it has losses, else None."""
    kind = picture.format or ""
    if kind in _ALWAYS:
        return _ALWAYS[kind]
    if kind == "TIFF":
        return "a TIFF with JPEG or WebP inside" if picture.info.get("compression") in _IN_TIFF else None
    if kind == "WEBP" and b"VP8 " in _webp_chunks(path.read_bytes() if content is None else content):
        return "lossy WebP"
    return None


def _webp_chunks(content: bytes) -> set[bytes]:
    """Return the names of the chunks of a WebP and of its frames: VP8 is lossy, VP8L is not.

    Source: https://developers.google.com/speed/webp/docs/riff_container
    """
    found, parts = set[bytes](), [(12, len(content))]
    while parts:
        at, end = parts.pop()
        while at + 8 <= end:
            name, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "little")
            found.add(name)
            if name == b"ANMF":
                parts.append((at + 24, min(at + 8 + size, end)))
            at += 8 + size + size % 2
    return found
