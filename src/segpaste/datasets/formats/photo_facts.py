"""Checked facts of labelling tools about an image and its classes: file, size, class names in order."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.errors import DatasetError
from segpaste.types.sampling import Size


def find_photo(images_dir: Path, places: Iterable[str]) -> str:
    """Return the first path, relative to a folder, at which a file exists; the first path if none exists."""
    names = [name for name in places if name]
    for name in names:
        with contextlib.suppress(OSError):  # the name is too long
            if (images_dir / name).is_file():
                return name
    return names[0]


def photo_size(where: str, height: object, width: object) -> Size:
    """Return (H, W) of an image from its annotations.

    Raises:
        DatasetError: a side is not a positive integer, or the image has more than 2^29 pixels.
    """
    if type(height) is int and type(width) is int and min(height, width) > 0 and height * width <= 1 << 29:
        return height, width
    raise DatasetError(
        f"{where}: expected the size of the image in pixels, got {width!r:.20} x {height!r:.20}; correct it"
    )


def class_rows(path: Path, found: Sequence[str], listed: Sequence[str] | None) -> list[JsonRow]:
    """Return the classes: listed ones in their order, then found ones that are not listed, by name.

    Found names that are missing in a given list cause one warning.
    """
    more = sorted({*found} - {*(listed or ())})
    if listed is not None and more:
        warnings.warn(
            f"{path}: expected every class in the list of classes, found others: {', '.join(more[:5])}; they come "
            "after the listed ones",
            stacklevel=2,
        )
    return [{"name": name} for name in [*dict.fromkeys(listed or ()), *more]]
